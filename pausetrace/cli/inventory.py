"""`pausetrace devices`, `links` and `import topology`: what is known of a fabric, and files that tell it."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_kafka_options, add_output_option, add_verb, kafka_settings
from pausetrace.cli.row_options import parse_event_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pausetrace.cli.options import Verbs
    from pausetrace.inventory_view import Entry, View

EPILOG = "A name that two things claim means neither, and a name that no fact tells is unknown: docs/identity.md."


def register(verbs: Verbs) -> None:
    """Adds the verbs."""
    devices = add_verb(
        verbs, "devices", "list the devices that are known, and names that are not", run_devices,
        "Lists the devices that facts tell of, their other names, and names in use that are in conflict or unknown;\n"
        "with NAMEs, by whatever name, the ports of these devices.", EPILOG,
    )  # fmt: skip
    devices.add_argument("names", metavar="NAME", nargs="*", help="show the ports of this device")
    _add_options(devices)
    links = add_verb(
        verbs, "links", "list the links that are known, and what is wrong with them", run_links,
        "Lists the links in force. Marked are links of which one end alone is known, ends whose speeds differ, and\n"
        "ends whose names are in conflict, which join nothing.", EPILOG,
    )  # fmt: skip
    links.add_argument("names", metavar="NAME", nargs="*", help="only links of this device")
    _add_options(links)


def register_import(group: Verbs) -> None:
    """Adds `import topology` to the group `import`."""
    topology = add_verb(
        group, "topology", "publish devices and links from files", run_import_topology,
        "Publishes the devices and links in a JSON file or a folder of CSV files (docs/topology.md) as facts.",
    )  # fmt: skip
    topology.add_argument("path", metavar="PATH", help="the file, or the folder that holds devices.csv")
    topology.add_argument("--fabric", metavar="NAME", help="the fabric's name (default: the file's, or its own name)")
    topology.add_argument("--source", metavar="NAME", default="topology", help="who tells it (default: topology)")
    topology.add_argument(
        "--time", metavar="WHEN", default="now",
        help="from when on it holds: now (default), or a time like 2026-11-30T22:10:00Z",
    )  # fmt: skip
    add_kafka_options(topology)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--in", dest="path", metavar="PATH", help="a trace, capture or topology file to look in, instead of Kafka"
    )
    parser.add_argument("--at", metavar="TIME", help="as it was known to be at a time like 2026-11-30T22:10:00Z")
    parser.add_argument("--fabric", metavar="NAME", help="only this fabric")
    add_output_option(parser, "table", "json", "jsonl")
    add_kafka_options(parser)


def run_devices(args: argparse.Namespace) -> int:
    """Lists devices, or the ports of some."""
    views = _views(args)
    chosen = _chosen(args.names, views)
    if args.names:
        ports = [port for view in views for device in chosen.get(view, ()) for port in view.ports(device)]
        if args.output == "table":
            from pausetrace.inventory_tables import print_ports
            from pausetrace.terminal import make_console

            print_ports(ports, make_console(sys.stdout))
        else:
            _print_json(ports, args.output)
        return 0
    devices = [device for view in views for device in view.devices()]
    names = [name for view in views for name in view.names()]
    if args.output == "table":
        from pausetrace.inventory_tables import print_devices, print_names
        from pausetrace.terminal import make_console

        console = make_console(sys.stdout)
        print_devices(devices, console)
        print_names(names, console)
    else:
        _print_json([*devices, *names], args.output)
    return 0


def run_links(args: argparse.Namespace) -> int:
    """Lists links."""
    views = _views(args)
    chosen = _chosen(args.names, views)
    links = [
        link for view in views for link in view.links()
        if not args.names or {link.a_device, link.b_device} & chosen.get(view, set())
    ]  # fmt: skip
    if args.output == "table":
        from pausetrace.inventory_tables import print_links
        from pausetrace.terminal import make_console

        print_links(links, make_console(sys.stdout))
    else:
        _print_json(links, args.output)
    return 0


def run_import_topology(args: argparse.Namespace) -> int:
    """Publishes a topology."""
    import time
    from pathlib import Path

    from pausetrace.inventory_view import View
    from pausetrace.known_facts import known_facts
    from pausetrace.topology_file import read_topology
    from pausetrace.topology_import import import_topology
    from stream.facts import FactStream

    settings = kafka_settings(args)
    path = Path(args.path)
    topology = read_topology(path)
    fabric = args.fabric or topology.fabric or path.resolve().name.partition(".")[0]
    valid_from_ns = time.time_ns() if args.time == "now" else parse_event_time("--time", args.time)
    done = import_topology(topology, settings, fabric, args.source, valid_from_ns)
    print(
        f"pausetrace: published {done.devices:,} devices and {done.links:,} links of fabric {done.fabric}, "
        f"source {done.source}, epoch {done.epoch}",
        file=sys.stderr,
    )
    facts = topology.facts(fabric, valid_from_ns, FactStream(args.source, done.epoch, 0, 0))
    if wrong := View(fabric, known_facts(facts)[fabric]).names() if facts else []:
        from pausetrace.plain_text import printable

        first = wrong[0]
        name = f"{first.device}:{first.port}" if first.port else first.device
        print(
            f"pausetrace: note: {len(wrong):,} names in it do not resolve, such as {printable(name)} "
            f"({printable(first.why)}): see `pausetrace devices`",
            file=sys.stderr,
        )
    return 0


def _views(args: argparse.Namespace) -> list[View]:
    """What is known of each fabric asked for."""
    from pathlib import Path

    from pausetrace.inventory_view import View
    from pausetrace.known_facts import items_in, items_on_kafka, known_facts
    from stream.record import MAX_TIME_NS

    at_ns = MAX_TIME_NS if args.at is None else parse_event_time("--at", args.at)
    items = items_in(Path(args.path)) if args.path is not None else items_on_kafka(kafka_settings(args))
    found = known_facts(items, at_ns)
    if args.fabric is not None and args.fabric not in found:
        from pausetrace.plain_text import printable

        known = ", ".join(sorted(found)) or "none"
        print(printable(f"pausetrace: note: no fabric {args.fabric!r} is known; known: {known}"), file=sys.stderr)
    return [View(name, found[name]) for name in sorted(found) if args.fabric in (None, name)]


def _chosen(names: Sequence[str], views: Sequence[View]) -> dict[View, set[str]]:
    """The devices that names mean, by view; raises ConfigError for a name that means none anywhere."""
    from stream.errors import ConfigError

    chosen: dict[View, set[str]] = {}
    for name in names:
        places = {view: view.device(name) for view in views}
        known = {view: place for view, place in places.items() if place.known}
        if not known:
            why = next((place.why for place in places.values()), "no fabric is known")
            raise ConfigError(f"no device {name!r}: {why}", "`pausetrace devices` lists those that are known")
        for view, place in known.items():
            chosen.setdefault(view, set()).add(place.device)
    return chosen


def _print_json(entries: Iterable[Entry], output: str) -> None:
    import msgspec

    lines = [msgspec.json.encode(entry).decode() for entry in entries]
    sys.stdout.write("".join(f"{line}\n" for line in lines) if output == "jsonl" else f"[{','.join(lines)}]\n")
