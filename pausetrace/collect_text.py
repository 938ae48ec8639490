"""What `collect` says of targets: the plan of a dry run, what a check has found, and the leaves of a snapshot.

In: the inventory, an `Examination`, leaves. Out: text or JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from collectors.assignment import worker_of
from collectors.examine import Answer, Examination, Leaf
from collectors.inventory import Inventory
from collectors.transport import Endpoint
from pausetrace.plain_text import printable
from pausetrace.units import duration_words, time_text

_RESULTS = {
    "data": "gives data",
    "silence": "accepted, nothing came",
    "garbage": "accepted, sends no gNMI",
    "refused": "refused",
}


def plan_text(inventory: Inventory, workers: int) -> str:
    """What `collect` would do, target by target."""
    names = [str(number) for number in range(workers)]
    lines = [f"fabric {inventory.fabric}: {len(inventory.targets):,} targets, {workers} processes"]
    if inventory.targets:
        lines.append(_columns(("target", "device", "address", "security", "profile", "process")))
    lines += [
        _columns((
            target.name, target.device, target.endpoint.address, security(target.endpoint), target.profile,
            worker_of(target.name, names),
        ))
        for target in inventory.targets
    ]  # fmt: skip
    return printable_lines(lines)


def security(endpoint: Endpoint) -> str:
    """How a connection is protected, in a few words."""
    tls = endpoint.tls
    if tls is None:
        return "PLAIN TEXT"
    if tls.skip_verify:
        return "TLS, NOT VERIFIED"
    return "mTLS" if tls.certificate else "TLS"


def examination_text(found: Examination) -> str:
    """What a look at a target has found."""
    lines = [f"{found.target.name} at {found.target.endpoint.address} ({security(found.target.endpoint)})"]
    if (told := found.capabilities) is not None:
        lines.append(f"gNMI {told.gnmi_version or '?'}, encodings {', '.join(told.encodings) or 'not told'}, "
                     f"{len(told.models)} models")  # fmt: skip
    if found.profile is not None:
        lines.append(f"profile {found.profile.name}: {found.profile.title}; encoding {found.encoding}")
    lines += [
        f"  {_RESULTS[a.result]:<24} {_how_often(a):>9} {a.metric or '-':<26} {a.asked.path}" for a in found.answers
    ]
    lines += [f"    {a.asked.path}: {a.text}" for a in found.answers if a.text]
    if found.profile is not None and found.answers:
        given = {answer.metric for answer in found.answers if answer.result == "data"}
        missing = sorted({answer.metric for answer in found.answers if answer.metric} - given)
        lines.append(f"gives: {', '.join(sorted(filter(None, given))) or 'none of the metrics'}")
        if missing:
            lines.append(f"does not give: {', '.join(missing)}")
    if found.failure is not None:
        lines.append(f"ended: {found.failure}")
    return printable_lines(lines)


def _how_often(answer: Answer) -> str:
    """The interval that was asked for, or that changes were."""
    if answer.asked.mode != "SAMPLE":
        return "changes"
    return f"every {duration_words(answer.asked.interval_ms * 1_000_000)}"


def examination_json(found: Examination) -> str:
    """The same for programs."""
    told = found.capabilities
    made: dict[str, Any] = {
        "target": found.target.name,
        "device": found.target.device,
        "address": found.target.endpoint.address,
        "security": security(found.target.endpoint),
        "gnmi_version": told.gnmi_version if told else None,
        "encodings": told.encodings if told else None,
        "models": [msgspec.to_builtins(model) for model in told.models] if told else None,
        "profile": found.profile.name if found.profile else None,
        "encoding": found.encoding or None,
        "subscriptions": [
            {
                "metric": answer.metric, "path": answer.asked.path, "mode": answer.asked.mode, "result": answer.result,
                "interval_ms": answer.asked.interval_ms, "text": answer.text,
            }
            for answer in found.answers
        ],
        "error": str(found.failure) if found.failure is not None else None,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def leaf_lines(device: str, leaves: Sequence[Leaf], *, json_lines: bool) -> Iterator[str]:
    """One line a leaf."""
    for leaf in leaves:
        if json_lines:
            told = {"device": device, "time_ns": leaf.time_ns, "path": leaf.path, "value": leaf.value}
            yield msgspec.json.encode(told).decode()
        else:
            yield printable(f"{time_text(leaf.time_ns)} {device:<14} {leaf.path} = {leaf.value}")


def printable_lines(lines: Sequence[str]) -> str:
    """Lines whose characters do nothing to a terminal."""
    return "\n".join(printable(line).rstrip() for line in lines)


def _columns(cells: Sequence[str]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, (16, 16, 24, 18, 14, 7), strict=True))
