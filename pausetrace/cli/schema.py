"""`pausetrace schema`: what every field on every topic means, for people and for programs in other languages."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_group, add_verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs

SCHEMA_NAMES = ("cascade", "device", "link", "flow", "idle", "roster", "health", "topology")


def register(verbs: Verbs) -> None:
    """Adds the group."""
    group = add_group(verbs, "schema", "what every field on every topic means")
    add_verb(group, "c-header", "the record as a C header", run_c_header)
    json_schema = add_verb(group, "json", "the JSON Schema of a JSON topic or file", run_json)
    json_schema.add_argument("name", metavar="NAME", choices=SCHEMA_NAMES, help=", ".join(SCHEMA_NAMES))
    add_verb(group, "docs", "the record, its kinds and the topics as a page of Markdown", run_docs)


def run_c_header(_args: argparse.Namespace) -> int:
    """Prints the C header."""
    from stream.record import c_header

    sys.stdout.write(c_header())
    return 0


def run_json(args: argparse.Namespace) -> int:
    """Prints a JSON Schema."""
    from pausetrace.schemas import schema_text

    sys.stdout.write(schema_text(args.name))
    return 0


def run_docs(_args: argparse.Namespace) -> int:
    """Prints docs/record.md."""
    from pausetrace.record_page import record_page

    sys.stdout.write(record_page())
    return 0
