"""SubscribeResponses as devices spell them, made with the protobuf library, and what the collector makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from collectors import profiles
from collectors.messages import gnmi_pb2
from collectors.paths import PathTable, parse_path
from collectors.profile import Profile
from collectors.rows import Made, RowMaker
from collectors.wire import Decoder
from stream import wire
from stream.facts import Device, Link
from stream.kinds import BY_CODE, NO_PRIORITY, QUALITY_BITS, SIDES, UNKNOWN

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS
Value = int | str | float | bool | bytes | list[Any] | dict[str, Any]
Keys = tuple[tuple[str, str], ...]
Element = tuple[str, Keys]
Spelling = Callable[[str, Value], tuple[Sequence[Element], Value, str]]
"""Of a leaf's path and value: the elements, value and encoding of the update that the device sends."""


def elements_of(path: str) -> tuple[Element, ...]:
    """The elements of a path in text form."""
    return parse_path(path).elems


def plain(path: str, value: Value) -> tuple[Sequence[Element], Value, str]:
    """A leaf by itself, in PROTO."""
    return elements_of(path), value, "PROTO"


def sonic(path: str, value: Value) -> tuple[Sequence[Element], Value, str]:
    """An object of decimal strings; of a queue or group, within one by its name."""
    *above, (leaf, _) = elements_of(path)
    told: Value = {leaf: str(value)}
    if ":" in above[-1][0]:
        told = {above.pop()[0]: told}
    return above, told, "JSON_IETF"


def tree(path: str, value: Value) -> tuple[Sequence[Element], Value, str]:
    """NX-OS: everything below an interface as one tree, in JSON; OpenConfig leaves by themselves."""
    elements = list(elements_of(path))
    if elements[0][0] != "System":
        return elements, value, "PROTO"
    at = [name for name, _ in elements].index("If-list") + 1
    told: Value = str(value)
    for name, keys in reversed(elements[at:]):
        told = {name: [{**dict(keys), **told}] if keys and isinstance(told, dict) else told}
    return elements[:at], told, "JSON"


def split_keys(path: str, value: Value) -> tuple[Sequence[Element], Value, str]:
    """Junos: the keys of its own lists stand in elements without a name."""
    elements = elements_of(path)
    if elements[0][0] != "junos":
        return elements, value, "PROTO"
    spelled: list[Element] = []
    for name, keys in elements:
        spelled += [(name, ()), ("", keys)] if keys else [(name, ())]
    return spelled, value, "PROTO"


def quoted(path: str, value: Value) -> tuple[Sequence[Element], Value, str]:
    """SR Linux: the container as a JSON_IETF object, 64-bit numbers as strings, the module in front of names."""
    *above, (leaf, _) = elements_of(path)
    told = str(value) if isinstance(value, int) else value
    return above, {f"srl_nokia-qos:{leaf}": told}, "JSON_IETF"


SPELLINGS: dict[str, Spelling] = {
    "sonic": sonic, "cisco-nxos": tree, "juniper-junos": split_keys, "nokia-srlinux": quoted,
}  # fmt: skip


def notification(
    time_ns: int, updates: Iterable[tuple[Sequence[Element], Value, str]], deletes: Iterable[str] = (), prefix: str = ""
) -> bytes:
    """The bytes of one SubscribeResponse; `prefix` is the path of its prefix."""
    response = gnmi_pb2.SubscribeResponse()
    told = response.update
    told.timestamp = time_ns
    if prefix:
        _fill(told.prefix, elements_of(prefix))
    for elements, value, encoding in updates:
        update = told.update.add()
        _fill(update.path, elements)
        if encoding != "PROTO":
            setattr(update.val, f"{encoding.lower()}_val", json.dumps(value).encode())
        elif isinstance(value, bool):
            update.val.bool_val = value
        elif isinstance(value, int):
            update.val.uint_val = value
        elif isinstance(value, float):
            update.val.double_val = value
        elif isinstance(value, str):
            update.val.string_val = value
        elif isinstance(value, bytes):
            update.val.bytes_val = value
        else:
            for member in value:
                element = update.val.leaflist_val.element.add()
                if isinstance(member, int):
                    element.uint_val = member
                else:
                    element.string_val = member
    for path in deletes:
        _fill(told.delete.add(), elements_of(path))
    return bytes(response.SerializeToString())


def _fill(path: Any, elements: Iterable[Element]) -> None:
    for name, keys in elements:
        element = path.elem.add(name=name)
        for key, value in keys:
            element.key[key] = value


SYNC = bytes(gnmi_pb2.SubscribeResponse(sync_response=True).SerializeToString())


class Feed:
    """A decoder and a row maker over one or several targets; times are those of the messages."""

    def __init__(self, *told: str | Profile, period_ns: int = SECOND_NS) -> None:
        loaded = [profiles.load(each) if isinstance(each, str) else each for each in told]
        self.paths = PathTable(list_keys=profiles.list_keys(loaded))
        self.decoder = Decoder(self.paths)
        self.rows = RowMaker(self.paths, "fabric")
        for target, profile in enumerate(loaded):
            self.rows.add_target(target, f"leaf{target}", profile, period_ns)
        self.profile = loaded[0]
        self.facts: list[Device | Link] = []

    def send(self, *messages: bytes, target: int = 0, quality: int = 0) -> list[str]:
        """The rows that these messages make, as text; the facts are kept."""
        return self.take(messages, [target] * len(messages), quality)

    def take(self, messages: Sequence[bytes], targets: Sequence[int], quality: int = 0) -> list[str]:
        """The same for messages of several targets."""
        columns = self.decoder.decode(messages, targets)
        made = self.rows.take(
            columns,
            np.array(targets, np.int32),
            columns.time_ns,
            np.full(len(messages), quality, np.uint8),
            np.asarray(columns.time_ns) + 1,
        )
        return self.text(made)

    def flush(self, before_ns: int = 1 << 62) -> list[str]:
        """The rows of halves that waited."""
        return self.text(self.rows.flush(before_ns))

    def read(self, *leaves: tuple[str, Value], after_s: float = 0) -> list[str]:
        """One notification with these leaves, as the vendor spells them, so long after the start."""
        spelling = SPELLINGS.get(self.profile.name, plain)
        return self.send(notification(START_NS + round(after_s * SECOND_NS), [spelling(*leaf) for leaf in leaves]))

    def text(self, made: Made) -> list[str]:
        """`KIND PORT/PRIORITY SIDE VALUE EXTRA SPAN [QUALITY]` of each row."""
        self.facts += [fact for _, fact in made.facts]
        covered = 0
        lines = []
        for part in made.parts:
            assert part.first == covered
            covered = part.end
            events = made.events[part.first : part.end]
            # What no reader would take is refused here as it would be on its way out.
            wire.check_rows(part.topic, events, len(part.ports))
            assert part.mark_ns <= int(events["time_ns"].max())
            lines += [row_text(row, part.ports) for row in events]
        assert covered == len(made.events)
        return lines


def row_text(row: Any, ports: Sequence[str]) -> str:
    """One row as text."""
    priority = "-" if row["priority"] == NO_PRIORITY else row["priority"]
    measures = ["null" if row[name] == UNKNOWN else str(row[name]) for name in ("value", "extra")]
    bits = [name for bit, name in enumerate(QUALITY_BITS) if row["quality"] >> bit & 1]
    words = [
        BY_CODE[int(row["kind"])].name, f"{ports[row['port']]}/{priority}", SIDES[row["side"]], *measures,
        f"{row['span_ns'] / SECOND_NS:g}s", *bits,
    ]  # fmt: skip
    return " ".join(words)
