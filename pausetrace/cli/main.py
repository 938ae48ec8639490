"""Entry point of the `pausetrace` command.

Each verb imports the room that it needs when it runs, so that `--help` stays quick.
"""

import argparse
import sys
from collections.abc import Sequence


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
    parser = argparse.ArgumentParser(
        prog="pausetrace",
        description="Names who paused whom in a lossless AI fabric, where it began, why, and which flows suffered.",
    )
    parser.add_argument("--version", action=VersionAction)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the value is the process's exit status."""
    parser = build_parser()
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return 2
