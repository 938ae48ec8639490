"""Last revisions of provisional cascades: of those that are told under another id by now, or that came to nothing.

In: a fabric's provisional cascades, and what is told now. Out: revisions that say so, each once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analytics.closed import Closed
from analytics.fabric import Fabric, Provisional
from stream.cascade import Cascade
from stream.messages import Item


def superseded(fabric: Fabric, polled: Sequence[Closed], met: set[str]) -> list[Item]:
    """The last revisions of provisional cascades of polled devices that are told under other ids by now.

    A poll that was read later may have begun sooner, or have been of another queue, than that which gave the name.
    They are remembered, so that one that comes again goes on with its revisions.
    """
    ended: list[Item] = []
    for name, provisional in fabric.provisional.items():
        said = provisional.said
        if name in met or said.merged_into is not None or said.mode == "exact":
            continue
        for closed in polled:
            tally = closed.ledger.queues.get(provisional.first_queue)
            shared = tally is not None and tally.first_ns <= said.end_ns and said.start_ns <= tally.last_ns
            if shared or name in closed.ledger.former_ids:
                revision = _next_revision(provisional)
                provisional.said = msgspec.structs.replace(said, revision=revision, merged_into=closed.id)
                ended.append(provisional.said)
                break
    return ended


def ended_by(fabric: Fabric, closed: Closed, final: Cascade) -> list[Cascade]:
    """The last revisions of provisional cascades that are part of a final one of another id."""
    fabric.provisional.pop(final.id, None)
    beginnings: set[tuple[int, int]] | None = None
    ended = []
    queues, former_ids = closed.ledger.queues, closed.ledger.former_ids
    # A thousand are looked at for each final one, of which all but a few have nothing in common with it.
    met = [
        (name, provisional)
        for name, provisional in fabric.provisional.items()
        if provisional.first_queue in queues or name in former_ids
    ]
    for name, provisional in met:
        start_ns = provisional.said.start_ns
        tally = queues.get(provisional.first_queue)
        inside = tally is not None and tally.first_ns <= start_ns <= tally.last_ns
        if inside and beginnings is None:
            beginnings = fabric.engine.beginnings()
        goes_on = beginnings is not None and (start_ns, provisional.first_queue) in beginnings
        if name in former_ids or (inside and not goes_on):
            del fabric.provisional[name]
            if provisional.said.merged_into == final.id:
                continue  # which has been told
            revision = _next_revision(provisional)
            ended.append(msgspec.structs.replace(provisional.said, revision=revision, merged_into=final.id))
    return ended


def withdrawn(fabric: Fabric, before_ns: int) -> list[Item]:
    """The last revisions of provisional cascades that ended before a time and became no final: they came to nothing.

    What was read later, a link or a source, explains their rows otherwise.
    """
    withdrawn: list[Item] = []
    for name in [name for name, told in fabric.provisional.items() if told.said.end_ns < before_ns]:
        provisional = fabric.provisional.pop(name)
        if provisional.said.merged_into is not None:
            continue
        withdrawn.append(
            msgspec.structs.replace(
                provisional.said, revision=_next_revision(provisional), confidence_ppm=0, suspect_set=True,
                severity="info", severity_reason="withdrawn: rows that came later explain it otherwise", pause_ns=0,
                pauses=0, roots=(), queues=(), edges=(),
            )
        )  # fmt: skip
    return withdrawn


def _next_revision(provisional: Provisional) -> int:
    return int(provisional.said.revision) + 1
