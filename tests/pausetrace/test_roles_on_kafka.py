"""The whole way from a trace to a cascade, each program as its own role: by SCRAM over TLS, and by certificates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream.kafka_settings import KafkaSettings
from tests.secure_kafka import ADMIN, PASSWORD, SecureKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
TRACE = str(ROOT / "tests/data/ns3/slow_receiver-ft4-s1")
PREFIX = "walk"


def pausetrace(config: Path, *arguments: str, password: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PAUSETRACE_CONFIG": str(config)}
    if password:
        environment["PAUSETRACE_KAFKA_PASSWORD"] = password
    done = subprocess.run(
        [sys.executable, "-m", "pausetrace.cli.main", *arguments],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done


def write_config(folder: Path, settings: KafkaSettings, password_file: Path | None = None) -> Path:
    """A configuration as a user would write it: without the password."""
    lines = [f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{settings.prefix}"']
    if password_file is not None:
        lines.append(f'password_file = "{password_file}"')
    lines.append("[kafka.librdkafka]")
    lines += [f'{key} = "{value}"' for key, value in settings.librdkafka.items() if key != "sasl.password"]
    file = folder / f"{settings.librdkafka.get('sasl.username', 'certificate')}.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_demo_hands_a_password_to_its_processes(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    secure_kafka.add_users([ADMIN])
    config = write_config(tmp_path, secure_kafka.scram(ADMIN))
    demo = ("demo", "--seconds", "1", "--bootstrap-servers", secure_kafka.scram_servers)
    assert "h9 is a slow receiver" in pausetrace(config, *demo, password=PASSWORD).stdout


def test_every_role_can_do_its_work_and_no_secret_is_shown(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    admin = write_config(tmp_path, secure_kafka.mtls(ADMIN, PREFIX))
    pausetrace(admin, "topics", "create", "--partitions", "2")
    roles = ("collector", "detect", "correlate", "viewer", "capture", "replay")
    secure_kafka.add_users(roles)
    for role in roles:
        said = pausetrace(admin, "topics", "acls", "--role", role, "--apply")
        assert f"ACLs of User:{role} are in force" in said.stderr

    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    by_file = {role: write_config(tmp_path, secure_kafka.scram(role, PREFIX), password) for role in roles}
    pausetrace(by_file["collector"], "import", "csv", TRACE, "--time", "keep")
    assert "exactly once" in pausetrace(by_file["detect"], "detect", "--no-follow").stderr
    pausetrace(by_file["correlate"], "correlate", "--no-follow", "--final-only")
    # The same user, with the password in the environment.
    viewer = write_config(tmp_path, secure_kafka.scram("viewer", PREFIX))
    seen = pausetrace(
        viewer, "observe", "cascade", "--from", "earliest", "--no-follow", password=PASSWORD
    ).stdout.splitlines()
    analyzed = pausetrace(admin, "analyze", TRACE, "-o", "jsonl").stdout.splitlines()
    assert sorted(seen) == sorted(analyzed)

    # A replay writes to replay.* and nowhere else.
    capture = str(tmp_path / "capture")
    pausetrace(by_file["capture"], "capture", "run", capture)
    pausetrace(by_file["replay"], "replay", capture, "--speed", "max")
    onto_the_live_topics = (
        "--to-prefix", PREFIX, "--any-prefix", "--into-source", "--journal", str(tmp_path / "journal"),
    )  # fmt: skip
    refused = pausetrace(by_file["replay"], "replay", capture, "--speed", "max", *onto_the_live_topics, status=1).stderr
    assert "User:replay has no right to" in refused.splitlines()[-1]

    refused = pausetrace(viewer, "observe", "cascade", "--no-follow", password="other", status=1).stderr
    assert refused.count("\n") == 1
    assert "does not let User:viewer in by SCRAM-SHA-512: wrong user or password" in refused
    refused = pausetrace(viewer, "observe", "cascade", "--no-follow", status=2).stderr
    assert "kafka.password_file or PAUSETRACE_KAFKA_PASSWORD" in refused
    refused = pausetrace(viewer, "import", "csv", TRACE, password=PASSWORD, status=1).stderr
    assert refused.splitlines()[-1].startswith("pausetrace: error: User:viewer has no right to Write")
    shown = pausetrace(viewer, "config", "show", password=PASSWORD).stdout
    assert "kafka.password" in shown
    assert "********" in shown
