"""Entry point of the `pausetrace` command: the groups of verbs, and what an error looks like.

Each verb imports the room that it needs when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pausetrace.cli import (
    capture,
    collect,
    config,
    demo,
    doctor,
    explain,
    inventory,
    observe,
    play,
    probe,
    replay,
    schema,
    status,
    steps,
    tails,
    topics,
    traces,
)  # fmt: skip
from pausetrace.cli.options import HelpFormatter, Parser
from stream.errors import EXIT_INTERRUPTED, EXIT_USAGE, MissingDependencyError, PausetraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

GROUPS = (
    demo,
    traces,
    explain,
    tails,
    observe,
    probe,
    doctor,
    inventory,
    collect,
    steps,
    status,
    topics,
    capture,
    replay,
    play,
    schema,
    config,
)
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
    replace_closed_streams()
    escape_what_stdout_cannot_show()
    try:
        try:
            return run(argv)
        finally:
            # Here, where a failure can be told: Python would flush at exit and print a traceback.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        silence(sys.stdout)
        return 0
    except OSError as err:
        if err.filename is not None:
            raise
        silence(sys.stdout)
        return complain(OutputError(f"output cannot be written: {err.strerror or 'it is closed'}"))


def run(argv: Sequence[str] | None) -> int:
    """Parses the arguments and does what they say; what goes wrong is told on stderr."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if "run" not in args:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    start_log()
    try:
        from pausetrace.kernel_cache import choose_kernel_cache

        choose_kernel_cache(os.environ)
        return int(args.run(args))
    except PausetraceError as err:
        return complain(err)
    except ModuleNotFoundError as err:
        package = (err.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        return complain(missing_package(package))
    except RuntimeError as err:
        if "cannot cache function" not in str(err):
            raise
        return complain(
            PausetraceError("no folder can be written for compiled kernels", "set NUMBA_CACHE_DIR to one that can")
        )
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


class OutputError(PausetraceError):
    """What was asked for cannot be written to stdout: a full disk, or closed from the start."""


def replace_closed_streams() -> None:
    """Gives a stream that was closed (`>&-`) its number back, so that no file or socket that is opened gets it."""
    # Opened for reading, so that who writes to it learns that nobody gets it.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull)  # noqa: PTH123, SIM115
    # print(file=None) would write to stdout, which is data.
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115


def escape_what_stdout_cannot_show() -> None:
    """Writes letters that stdout's encoding lacks, such as ASCII's, with the escapes of JSON, whatever the output."""
    import codecs
    import io

    def escaped(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end

    codecs.register_error("pausetrace.json_escape", escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="pausetrace.json_escape")


def silence(stream: TextIO) -> None:
    """Sends what is left to nowhere, since Python flushes once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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
