"""`pausetrace config`: what is set, and where it was said."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_group, add_kafka_options, add_output_option, add_verb, load_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs


def register(verbs: Verbs) -> None:
    """Adds the group."""
    group = add_group(verbs, "config", "look at the configuration")
    show = add_verb(
        group, "show", "every setting, its value and where it comes from", run_show,
        "Every setting, its value and where it comes from: flags before PAUSETRACE_* variables, those before the "
        "file,\nthe file before defaults. Secrets are masked.",
    )  # fmt: skip
    add_output_option(show, "table", "json")
    add_kafka_options(show)


def run_show(args: argparse.Namespace) -> int:
    """Prints the settings."""
    settings = load_config(args).settings
    if args.output == "json":
        import json

        json.dump([{"key": s.key, "value": s.shown, "origin": s.origin} for s in settings], sys.stdout, indent=2)
        print()
        return 0
    from rich.table import Table
    from rich.text import Text

    from pausetrace.plain_text import printable
    from pausetrace.terminal import make_console

    table = Table("setting", "value", "origin", box=None, pad_edge=False, header_style="dim")
    for setting in settings:
        table.add_row(*(Text(printable(str(cell))) for cell in (setting.key, setting.shown, setting.origin)))
    make_console(sys.stdout).print(table)
    return 0
