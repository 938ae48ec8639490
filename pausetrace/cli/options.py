"""What the verbs have in common: how their help looks, and the options that say where Kafka is.

Imports argparse alone, since it is read for every `--help`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from pausetrace.config import Loaded
    from stream.kafka_settings import KafkaSettings

    Verbs = argparse._SubParsersAction["Parser"]

Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser; a group may have a verb that is meant where none is named, such as `capture DIR`."""

    default_verb = ""
    _splits = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever, with the default verb put in; any number of names may stand between options and behind them."""
        if not self._splits and any(a.nargs == "*" and not a.option_strings for a in self._actions):
            # Else argparse takes those before the first option alone. It calls this for options, then for names.
            self._splits = True
            try:
                return self.parse_known_intermixed_args(args, namespace)
            finally:
                self._splits = False
        if self.default_verb and args and args[0] not in (*self._verbs(), "-h", "--help"):
            args = [self.default_verb, *args]
        return super().parse_known_args(args, namespace)

    def _verbs(self) -> list[str]:
        actions = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return [verb for action in actions for verb in action.choices]


ENDINGS = ("SIGTERM", "SIGHUP")
"""Signals that end a verb as Ctrl-C does; a terminal that is closed sends the second."""


def end_in_order() -> None:
    """For a verb that has something to put in order before it ends: a signal to end unwinds everything."""
    import signal

    for name in ENDINGS:
        # nohup has the second one ignored.
        if signal.getsignal(number := signal.Signals[name]) != signal.SIG_IGN:
            signal.signal(number, _terminated)


def _terminated(number: int, _frame: FrameType | None) -> None:
    import signal

    # A second signal, such as the shell's after the terminal's, must not interrupt what is being put in order.
    for name in ENDINGS:
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    raise SystemExit(128 + number)


def add_parent_option(parser: argparse.ArgumentParser) -> None:
    """`--with-parent`, for a verb that another process of ours runs and that must not outlive it."""
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)


def end_with_parent(args: argparse.Namespace) -> None:
    """Ends this process in order when stdin ends, which it does when the parent dies in whatever way."""
    if not args.with_parent:
        return
    import signal
    import sys
    import threading

    def wait() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="parent").start()


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows `-o, --output FORMAT` once, the same on every version of Python."""

    def __init__(self, prog: str, *args: object, **kwargs: object) -> None:
        super().__init__(prog, max_help_position=30)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            # The verbs alone, without a line for the argument that chooses among them.
            return "".join(self._format_action(verb) for verb in action._get_subactions())
        return super()._format_action(action)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def add_verb(
    verbs: Verbs, name: str, summary: str, run: Run | None = None, description: str = "", epilog: str = ""
) -> Parser:
    """A verb whose work is `run`, or (None) a group of verbs."""
    parser = verbs.add_parser(
        name,
        help=summary,
        description=description or f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog or None,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_group(verbs: Verbs, name: str, summary: str, description: str = "", default: str = "") -> Verbs:
    """A group of verbs, such as `topics`; `default` is meant where the next word is none of them."""
    parser = add_verb(verbs, name, summary, None, description)
    parser.default_verb = default
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def add_kafka_options(
    parser: argparse.ArgumentParser, servers: str = "localhost:9092", prefix: str | None = "fabric"
) -> None:
    """The options that every verb with Kafka has; `servers` and `prefix` say the verb's defaults.

    With prefix None the verb has another option for it, and sets `prefix` itself.
    """
    group = parser.add_argument_group("Kafka")
    group.add_argument("--bootstrap-servers", metavar="HOST:PORT", help=f"where Kafka is (default: {servers})")
    if prefix is not None:
        group.add_argument("--prefix", metavar="NAME", help=f"what the topics' names begin with (default: {prefix})")
    group.add_argument(
        "-X", dest="librdkafka", metavar="KEY=VALUE", action="append", default=[], help="a setting of librdkafka"
    )
    group.add_argument(
        "--config", metavar="FILE", help="a configuration file (default: ./pausetrace.toml if it exists)"
    )


MINUTE_NS, DAY_NS = 60 * 10**9, 86_400 * 10**9


def duration_ns(option: str, text: str, least_ns: int = 1, most_ns: int = DAY_NS) -> int:
    """The ns of an option's time; raises ConfigError for none, and for one below `least_ns` or above `most_ns`."""
    from pausetrace.units import duration_words, parse_duration
    from stream.errors import ConfigError

    try:
        found = parse_duration(text)
    except ValueError as err:
        raise ConfigError(f"{option} {text} {err}") from None
    if found < least_ns:
        raise ConfigError(f"{option} {text} is too short", f"give {duration_words(least_ns)} or more")
    if found > most_ns:
        raise ConfigError(f"{option} {text} is too long", f"give {duration_words(most_ns)} or less")
    return found


def fabric_name(name: str | None) -> str | None:
    """The name that `--fabric` gives, checked before anything is read or published; raises ConfigError."""
    import msgspec

    from stream.errors import ConfigError
    from stream.ranges import MAX_NAME_CHARS, FabricName

    try:
        return msgspec.convert(name, FabricName | None)
    except msgspec.ValidationError:
        raise ConfigError(
            f"--fabric {name!r} cannot be a fabric's name",
            f"give 1 to {MAX_NAME_CHARS} characters without '/', which ends the name in a Kafka key",
        ) from None


def add_output_option(parser: argparse.ArgumentParser, *formats: str) -> None:
    """`-o`; the first format is the default."""
    parser.add_argument(
        "-o", "--output", metavar="FORMAT", choices=formats, default=formats[0],
        help=f"{', '.join(formats)} (default: {formats[0]})",
    )  # fmt: skip


def load_config(args: argparse.Namespace, more: Mapping[str, str | bool | None] | None = None) -> Loaded:
    """The configuration for a verb with Kafka options, and `more` flags by dotted keys; raises ConfigError."""
    from pausetrace.config import load, refuse_secret
    from stream.errors import ConfigError

    flags: dict[str, str | bool | None] = {
        "kafka.bootstrap_servers": args.bootstrap_servers, "kafka.prefix": args.prefix, **(more or {})
    }  # fmt: skip
    for text in args.librdkafka:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"-X {key}: not KEY=VALUE", "write it like -X security.protocol=SSL")
        refuse_secret(f"kafka.librdkafka.{key}", value, f"flag -X {key}", "everybody here can read a command line")
        flags[f"kafka.librdkafka.{key}"] = value
    return load(flags, os.environ, args.config)


def kafka_settings(args: argparse.Namespace) -> KafkaSettings:
    """Where Kafka is, for a verb with Kafka options; raises ConfigError."""
    from pausetrace.kafka_access import settings_of

    return settings_of(load_config(args).config.kafka)
