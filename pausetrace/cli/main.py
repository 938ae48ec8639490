"""Entry point of the `pausetrace` command: the groups of verbs, and what an error looks like.

Each verb imports the room that it needs when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pausetrace.cli import capture, config, demo, inventory, observe, replay, schema, steps, topics, traces
from pausetrace.cli.options import HelpFormatter, Parser
from stream.errors import EXIT_INTERRUPTED, EXIT_USAGE, MissingDependencyError, PausetraceError

GROUPS = (demo, traces, observe, inventory, steps, topics, capture, replay, schema, config)
"""One file a group of verbs; each has `register`."""

EXTRAS = {
    "numba": "analytics",
    "llvmlite": "analytics",
    "pyarrow": "analytics",
    "grpc": "collectors",
    "pygnmi": "collectors",
}
"""Which extra of the distribution brings a package that not every installation has."""


class VersionAction(argparse.Action):
    """Prints the installed version; reads the distribution's metadata only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_args: object) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} {version('pausetrace')}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, without importing any room."""
    parser = Parser(
        prog="pausetrace",
        description="Names who paused whom in a lossless AI fabric, where it began, why, and which flows suffered.",
        epilog="`pausetrace VERB --help` says more. Data goes to stdout, everything else to stderr.\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 something to install, 130 interrupted.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=VersionAction)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")
    for group in GROUPS:
        group.register(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; the value is the process's exit status."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if "run" not in args:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    start_log()
    try:
        status = int(args.run(args))
        sys.stdout.flush()
    except PausetraceError as err:
        return complain(err)
    except ModuleNotFoundError as err:
        package = (err.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        return complain(missing_package(package))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def start_log() -> None:
    """Warnings of the rooms go to stderr like everything that is not data."""
    import logging

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="pausetrace: %(message)s")


def missing_package(package: str) -> MissingDependencyError:
    """The error for a package that an extra brings."""
    return MissingDependencyError(
        f"{package} is not installed", f"install it: python -m pip install 'pausetrace[{EXTRAS[package]}]'"
    )


def complain(err: PausetraceError) -> int:
    """One line on stderr; returns the exit status."""
    from pausetrace.plain_text import printable

    print(f"pausetrace: error: {printable(' '.join(str(err).split()))}", file=sys.stderr)
    return err.exit_status


if __name__ == "__main__":
    sys.exit(main())
