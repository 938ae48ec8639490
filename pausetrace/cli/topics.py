"""`pausetrace topics`: makes, lists and describes the topics of a fabric, and says who needs which rights on them."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_group, add_kafka_options, add_output_option, add_verb, kafka_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pausetrace.cli.options import Verbs

ROLES = ("probe", "collector", "detect", "correlate", "viewer", "capture", "replay", "admin")
"""Those of stream/acls.py, which the help must not import."""


def register(verbs: Verbs) -> None:
    """Adds the group."""
    group = add_group(verbs, "topics", "make, list, describe and guard the topics of a fabric")
    create = add_verb(
        group, "create", "make the topics that are missing", run_create,
        "Makes the topics that Kafka does not have, each with its partitions and retention. What exists is never\n"
        "changed: where it differs from the table, that is said.",
    )  # fmt: skip
    create.add_argument(
        "--partitions", metavar="N", type=int, help="partitions of those that have several (default: 4)"
    )
    create.add_argument("--replication", metavar="N", type=int, help="replicas (default: the broker's)")
    add_kafka_options(create)
    listing = add_verb(group, "list", "list the topics and whether Kafka has them", run_list)
    add_output_option(listing, "table", "json")
    add_kafka_options(listing)
    describe = add_verb(group, "describe", "show topics' settings, and where they differ from the table", run_describe)
    describe.add_argument("topics", metavar="TOPIC", nargs="*", help="names of topics (default: all)")
    add_output_option(describe, "table", "json")
    add_kafka_options(describe)
    acls = add_verb(
        group, "acls", "print or make the rights that a role needs", run_acls,
        "Prints the rights that a role needs, each as a command of Kafka's own kafka-acls.sh, and connects to\n"
        "nothing; with --apply it makes them. docs/security.md has the table.",
    )  # fmt: skip
    acls.add_argument("--role", metavar="ROLE", required=True, choices=ROLES, help=", ".join(ROLES))
    acls.add_argument("--principal", metavar="NAME", help="who gets them (default: User:ROLE)")
    acls.add_argument("--apply", action="store_true", help="make them on Kafka, as an administrator of it")
    add_output_option(acls, "lines", "json")
    add_kafka_options(acls)


def run_create(args: argparse.Namespace) -> int:
    """Makes topics."""
    from stream.errors import ConfigError
    from stream.topic_admin import BROKER_DEFAULT, create_topics

    for flag, number in (("--partitions", args.partitions), ("--replication", args.replication)):
        if number is not None and number < 1:
            raise ConfigError(f"{flag} {number} is not a number from 1", "leave it out for the default")
    replication = BROKER_DEFAULT if args.replication is None else args.replication
    for done in create_topics(kafka_settings(args), partitions=args.partitions, replication=replication):
        said = (
            "made" if done.created else f"exists, but {'; '.join(done.differences)}" if done.differences else "exists"
        )
        print(f"{done.topic}: {said}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Lists topics."""
    from stream.topic_admin import list_topics

    listing = list_topics(kafka_settings(args))
    if args.output == "json":
        _print_json(listing)
        return 0
    rows = ((t.topic, str(t.partitions) if t.partitions else "missing", t.meaning) for t in listing)
    _print_table(("topic", "partitions", "what is on it"), rows)
    return 0


def run_describe(args: argparse.Namespace) -> int:
    """Describes topics."""
    from stream.topic_admin import describe_topics
    from stream.topics import TOPICS, bare_name

    settings = kafka_settings(args)
    names = [bare_name(settings.prefix, topic) for topic in args.topics] or [topic.name for topic in TOPICS]
    described = describe_topics(settings, names)
    if args.output == "json":
        _print_json(described)
        return 0
    rows = (
        (
            topic.topic,
            str(topic.partitions),
            str(topic.replication),
            ", ".join(f"{key}={value}" for key, value in sorted(topic.configs.items())),
            "; ".join(topic.differences),
        )
        for topic in described
    )
    _print_table(("topic", "partitions", "replicas", "settings", "differs"), rows)
    return 0


def run_acls(args: argparse.Namespace) -> int:
    """Prints the ACLs of a role, and makes them if asked to."""
    from stream.acls import acls_of, apply_acls
    from stream.errors import ConfigError

    settings = kafka_settings(args)
    principal = args.principal or f"User:{args.role}"
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ConfigError(f"--principal {principal} has no type", f"write it like User:{principal}")
    acls = acls_of(args.role, settings.prefix, principal)
    if args.apply:
        apply_acls(settings, acls)
        print(f"pausetrace: {len(acls)} ACLs of {principal} are in force", file=sys.stderr)
    if args.output == "json":
        _print_json(acls)
    else:
        command = f"kafka-acls.sh --bootstrap-server {settings.bootstrap_servers} --add"
        sys.stdout.writelines(f"{command} {acl.line}\n" for acl in acls)
    return 0


def _print_json(found: Iterable[object]) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(list(found)), indent=2).decode() + "\n")


def _print_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pausetrace.plain_text import printable
    from pausetrace.terminal import make_console

    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    make_console(sys.stdout).print(table)
