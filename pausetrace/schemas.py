"""The published JSON Schemas, made from the structs that are encoded and decoded."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pausetrace.topology_file import Topology
from stream.cascade import Cascade
from stream.facts import Device, Flow, Idle, Link
from stream.roster import RosterChange
from stream.source_health import Health

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES: dict[str, Any] = {
    "cascade": Cascade, "device": Device, "link": Link, "flow": Flow, "idle": Idle, "roster": RosterChange,
    "health": Health, "topology": Topology,
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of what is on a JSON topic (`roster`: on control; `idle`: on those of facts).

    Or in a file (`topology`).
    """
    return {"$schema": DIALECT, "title": name} | msgspec.json.schema(TYPES[name])


def schema_text(name: str) -> str:
    """The schema as it is published in docs/schemas."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"
