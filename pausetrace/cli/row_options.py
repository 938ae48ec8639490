"""The options that choose rows of a capture, for replay and analyze, and what they mean.

Imports argparse alone, since it is read for every `--help`.
"""

from __future__ import annotations

import argparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stream.capture_select import RowFilter


def add_time_options(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """`--from` and `--to`."""
    group.add_argument("--from", dest="from_time", metavar="TIME", help="from this time on, like 2026-11-30T22:10:00Z")
    group.add_argument("--to", dest="to_time", metavar="TIME", help="up to this time")


TIME = "give a time like 2026-11-30T22:10:00Z"


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """All of them."""
    group = parser.add_argument_group("rows of a capture")
    add_time_options(group)
    group.add_argument("--device", metavar="NAME", action="append", default=[], help="this device only (repeatable)")
    group.add_argument("--port", metavar="NAME", action="append", default=[], help="this port only (repeatable)")
    group.add_argument(
        "--priority", metavar="0-7|none", action="append", default=[], help="this priority only (repeatable)"
    )
    group.add_argument(
        "--kind", metavar="KIND", action="append", default=[], help="this kind only, such as PFC_XOFF (repeatable)"
    )
    group.add_argument(
        "--flow", metavar="ID|none", action="append", default=[], help="this flow only, 16 hex digits (repeatable)"
    )


def chooses_rows(args: argparse.Namespace) -> bool:
    """Whether one of the options was given."""
    return bool(args.from_time or args.to_time or args.device or args.port or args.priority or args.kind or args.flow)


def time_range(args: argparse.Namespace) -> tuple[int, int]:
    """The times of --from and --to, in ns; raises ConfigError."""
    from stream.capture_select import RowFilter
    from stream.errors import ConfigError

    whole = RowFilter()
    from_ns = whole.from_ns if args.from_time is None else parse_option_time("--from", args.from_time)
    to_ns = whole.to_ns if args.to_time is None else parse_option_time("--to", args.to_time)
    if from_ns >= whole.to_ns:
        raise ConfigError(f"--from {args.from_time} is later than any time of a record", "give an earlier one")
    if from_ns >= to_ns and args.from_time is None:
        raise ConfigError(f"nothing is before --to {args.to_time}", "give a later one")
    if from_ns >= to_ns:
        raise ConfigError(f"nothing is between --from {args.from_time} and --to {args.to_time}", "swap them")
    return from_ns, to_ns


def parse_option_time(option: str, text: str, next_step: str = TIME) -> int:
    """A time in ns; raises ConfigError."""
    from pausetrace.units import parse_time
    from stream.errors import ConfigError

    try:
        time_ns = parse_time(text)
    except ValueError as err:
        raise ConfigError(f"{option} {text}: {err}", next_step) from err
    if time_ns < 0:
        raise ConfigError(f"{option} {text} is before 1970", next_step)
    return time_ns


def parse_event_time(option: str, text: str, next_step: str = TIME) -> int:
    """A time in ns that an event may bear; raises ConfigError."""
    from stream.errors import ConfigError
    from stream.record import MAX_TIME_NS

    time_ns = parse_option_time(option, text, next_step)
    if time_ns > MAX_TIME_NS:
        raise ConfigError(f"{option} {text} is after 2116, later than any time of a record", next_step)
    return time_ns


def row_filter(args: argparse.Namespace) -> RowFilter:
    """The rows wanted; raises ConfigError for a word that is none."""
    from difflib import get_close_matches

    from stream.capture_select import RowFilter
    from stream.errors import ConfigError
    from stream.kinds import BY_NAME, NO_PRIORITY

    from_ns, to_ns = time_range(args)
    kinds, priorities, flows = set(), set(), set()
    for name in args.kind:
        if name.upper() not in BY_NAME:
            near = get_close_matches(name.upper(), BY_NAME, 1)
            raise ConfigError(
                f"no kind {name!r}", f"did you mean {near[0]}?" if near else "`pausetrace schema docs` lists them"
            )
        kinds.add(BY_NAME[name.upper()].code)
    for text in args.priority:
        if text != "none" and text not in tuple("01234567"):
            raise ConfigError(f"--priority {text} is no priority", "give 0 to 7, or none")
        priorities.add(NO_PRIORITY if text == "none" else int(text))
    for text in args.flow:
        try:
            flow = 0 if text == "none" else int(text, 16)
        except ValueError:
            flow = -1
        if not 0 <= flow < 1 << 64:
            raise ConfigError(f"--flow {text} is no flow id", "give 16 hex digits as in topic flow, or none")
        flows.add(flow)
    return RowFilter(
        from_ns, to_ns, frozenset(args.device), frozenset(args.port), frozenset(priorities), frozenset(kinds),
        frozenset(flows),
    )  # fmt: skip
