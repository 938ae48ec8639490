#!/bin/sh
# Installs the probe agent on a Debian or Ubuntu host, as root; run again, it brings everything up to date and keeps the
# configuration. What it does and where: --dry-run.
set -eu

PREFIX=/opt/pausetrace
CONFIG=/etc/pausetrace/probes.toml
UNIT=/etc/systemd/system/pausetrace-probes.service
# bcc compiles the programs, against headers of the kernel's interface (not of the kernel); it is no package of an index.
PACKAGES='python3 python3-venv python3-bpfcc ca-certificates'

usage() {
  cat <<TEXT
usage: install-probes.sh [--dry-run] [--start] [--python FILE] [--bootstrap-servers HOST:PORT] [--fabric NAME]

Installs Pausetrace's probe agent from this checkout:
  Debian packages        $PACKAGES
  the agent              $PREFIX (a virtual environment with pinned packages)
  its configuration      $CONFIG (kept if it is there)
  its service            $UNIT

  --dry-run              say what would be done, and do nothing
  --start                start the service now and at every boot (needs --bootstrap-servers or a
                         configuration that names them)
  --python FILE          a Python from 3.11 on (default: python3)
  --bootstrap-servers    where Kafka is, for a new configuration
  --fabric               the fabric that this host belongs to, for a new configuration (default: fabric)
TEXT
}

say() { printf 'install-probes: %s\n' "$*"; }
fail() { printf 'install-probes: error: %s\n' "$*" >&2; exit 1; }

dry=0 start=0 python=python3 servers='' fabric=fabric
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=1 ;;
    --start) start=1 ;;
    --python | --bootstrap-servers | --fabric)
      [ $# -gt 1 ] || { usage >&2; exit 2; }
      case $1 in
        --python) python=$2 ;;
        --bootstrap-servers) servers=$2 ;;
        --fabric) fabric=$2 ;;
      esac
      shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
case $servers$fabric in *[\"\\]*) fail 'a name with a quote or a backslash' ;; esac

# Runs a command, or says that it would.
run() {
  if [ "$dry" = 1 ]; then say "would run: $*"; else "$@"; fi
}

root=$(cd "$(dirname "$0")/.." && pwd)
[ -f "$root/requirements/probes.txt" ] || fail "$root is no checkout of Pausetrace"
[ -f /etc/debian_version ] || fail 'this is neither Debian nor Ubuntu: docs/probes.md says what to install elsewhere'
[ "$(uname -s)" = Linux ] || fail 'probes watch Linux'
[ "$dry" = 1 ] || [ "$(id -u)" = 0 ] || fail 'run it as root (or look first: --dry-run)'

if [ "$start" = 1 ] && [ -z "$servers" ] && ! [ -e "$CONFIG" ]; then
  fail 'nobody said where Kafka is, so --start would start nothing: give --bootstrap-servers'
fi

missing=''
for package in $PACKAGES; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  say "installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  run apt-get update -qq
  # shellcheck disable=SC2086 # names of packages without blanks
  run apt-get install -y -qq --no-install-recommends $missing
else
  say 'all Debian packages are there'
fi

new_enough() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
if [ "$dry" = 0 ]; then
  new_enough "$python" || fail "$python is no Python from 3.11 on with venv: give another by --python"
fi

# An environment of another Python, or one that was left half made, is made anew.
if ! [ -x "$PREFIX/bin/python" ] || ! new_enough "$PREFIX/bin/python"; then
  say "making $PREFIX"
  run "$python" -m venv --clear "$PREFIX"
fi
pip_install() { run "$PREFIX/bin/python" -m pip --disable-pip-version-check --quiet install "$@"; }
say "installing the agent into $PREFIX"
pip_install --require-hashes -r "$root/requirements/probes.txt" -r "$root/requirements/build.txt"
# Built from a copy: the checkout may be another user's, or read-only.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run cp -R "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$root/pausetrace" "$root/simulation" "$root/probes" \
  "$root/collectors" "$root/analytics" "$root/stream" "$work"
pip_install --no-build-isolation --no-deps --force-reinstall "$work"

if [ -e "$CONFIG" ]; then
  say "keeping $CONFIG"
else
  say "writing $CONFIG"
  if [ "$dry" = 0 ]; then
    mkdir -p "$(dirname "$CONFIG")"
    umask 077
    {
      printf '[kafka]\n'
      if [ -n "$servers" ]; then
        printf 'bootstrap_servers = "%s"\n' "$servers"
      else
        printf '# bootstrap_servers = "kafka1:9092"\n'
      fi
      printf '\n[probes]\nfabric = "%s"\n' "$fabric"
      printf '# device = ""              # this host'"'"'s name in the fabric (default: its host name)\n'
      printf '# interfaces = "eth0,ens*"  # default: all with a device behind them\n'
    } >"$CONFIG.new"
    mv "$CONFIG.new" "$CONFIG"
  fi
fi
if [ "$dry" = 0 ]; then
  # The service has none of this shell's variables.
  shown=$(env -i "$PREFIX/bin/pausetrace" config show --config "$CONFIG") || fail "correct $CONFIG"
  if [ "$start" = 1 ] && printf '%s\n' "$shown" | grep -q '^kafka\.bootstrap_servers .* default *$'; then
    fail "nobody said where Kafka is, so nothing is started: set bootstrap_servers in [kafka] of $CONFIG"
  fi
fi

if cmp -s "$root/deploy/systemd/pausetrace-probes.service" "$UNIT"; then
  say "$UNIT is up to date"
else
  say "installing $UNIT"
  run mkdir -p "$(dirname "$UNIT")"
  run install -m 644 "$root/deploy/systemd/pausetrace-probes.service" "$UNIT"
fi
if [ -d /run/systemd/system ]; then
  run systemctl daemon-reload
  if [ "$start" = 1 ]; then
    run systemctl enable pausetrace-probes.service
    run systemctl restart pausetrace-probes.service
  elif [ "$dry" = 0 ] && systemctl is-active --quiet pausetrace-probes.service; then
    systemctl restart pausetrace-probes.service
  fi
elif [ "$start" = 1 ]; then
  say 'systemd does not run here: the service is installed and not started'
fi

say "done; try: $PREFIX/bin/pausetrace probe --list"
