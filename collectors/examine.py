"""One look at a target: what it supports, which of our metrics it can give, and what it says right now.

In: a `Target`. Out: an `Examination`, or a snapshot of its leaves. Nothing stays open and nothing is published.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from collectors import capabilities as told
from collectors.capabilities import Capabilities
from collectors.failures import REFUSALS, Failure
from collectors.grpc_transport import GrpcTransport
from collectors.paths import PathTable
from collectors.plan import Plan, make_plan, mend
from collectors.profile import Profile
from collectors.profile_choice import ProfileChoice
from collectors.profile_intervals import with_intervals
from collectors.request import Asked, Rpc, subscribe_request
from collectors.target import AUTO, Target
from collectors.transport import Transport
from collectors.wire import (
    BOOL,
    BYTES,
    DELETE,
    FLOAT,
    INT,
    JSON,
    LEAFLIST,
    MALFORMED,
    NONE,
    OK,
    SYNC,
    TEXT,
    UINT,
    Decoder,
)
from stream.errors import PausetraceError

TRIAL_S = 5.0
MAX_ROUNDS = 8
SNAPSHOT_DEADLINE_S = 60.0
SNAPSHOT_MAX_BYTES = 256 << 20
SNAPSHOTS_AT_ONCE = 16
DECODED, UNDECODED = True, False


class Answer(NamedTuple):
    """What a target answered to one subscription: `result` is data, silence, garbage (nothing decodes) or refused."""

    metric: str
    asked: Asked
    result: str
    updates: int
    text: str


class Examination(NamedTuple):
    """What one look has found; `failure` says where it ended before its end."""

    target: Target
    capabilities: Capabilities | None
    profile: Profile | None
    encoding: str
    answers: tuple[Answer, ...]
    failure: PausetraceError | None


class Leaf(NamedTuple):
    """One leaf of a snapshot, as it was told."""

    time_ns: int
    path: str
    value: Any


async def examine(target: Target, choice: ProfileChoice) -> Examination:
    """Looks at everything that the profile would subscribe to, one subscription after another."""
    transport = GrpcTransport(target.endpoint)
    found: Capabilities | None = None
    profile: Profile | None = None
    encoding = ""
    answers: list[Answer] = []
    try:
        await transport.open()
        found, profile, plan = await _plan(target, choice, transport)
        encoding = plan.rpcs[0].encoding
        decoder = Decoder(PathTable(list_keys=choice.list_keys))
        pairs = [(rpc, asked) for rpc in plan.rpcs for asked in rpc.asked]
        for rpc, asked in pairs:
            answers += [await _ask(transport, decoder, rpc, asked)]
    except PausetraceError as err:
        return Examination(target, found, profile, encoding, tuple(answers), err)
    except Exception as err:  # noqa: BLE001 - whatever a target or gRPC does is told, with what was found before
        failure = Failure("internal", f"{type(err).__name__}: {err}")
        return Examination(target, found, profile, encoding, tuple(answers), failure)
    finally:
        await transport.close()
    return Examination(target, found, profile, encoding, tuple(answers), None)


async def snapshot(target: Target, choice: ProfileChoice, deadline_s: float = SNAPSHOT_DEADLINE_S) -> list[Leaf]:
    """All leaves that the profile subscribes to, once. Raises Failure."""
    transport = GrpcTransport(target.endpoint)
    decoder = Decoder(paths := PathTable(list_keys=choice.list_keys))
    leaves: list[Leaf] = []
    heard: Counter[bool] = Counter()
    try:
        await transport.open()
        _, _, plan = await _plan(target, choice, transport)
        async with asyncio.timeout(deadline_s):
            for rpc in plan.rpcs:
                for message in await _once(transport, decoder, rpc, heard):
                    leaves += _leaves(decoder, paths, message)
    except TimeoutError as err:
        if heard[UNDECODED] > heard[DECODED]:
            raise _garbage(heard) from err
        raise Failure(
            "unsynced" if heard[DECODED] else "stalled", f"no whole snapshot within {deadline_s:g} s"
        ) from err
    except PausetraceError:
        raise
    except Exception as err:
        raise Failure("internal", f"{type(err).__name__}: {err}") from err
    finally:
        await transport.close()
    if not leaves:
        raise _garbage(heard) if heard[UNDECODED] else Failure("silent", "")
    return leaves


def _garbage(heard: Counter[bool]) -> Failure:
    return Failure("garbage", f"{heard[UNDECODED]:,} of {heard.total():,}")


async def snapshots(
    targets: Sequence[Target], choice: ProfileChoice
) -> AsyncIterator[tuple[Target, list[Leaf] | PausetraceError]]:
    """The snapshot of each, or why there is none, in the order in which they come: one that hangs holds up few."""
    waiting = iter(targets)
    looks: dict[asyncio.Task[list[Leaf]], Target] = {}
    try:
        while True:
            for target in itertools.islice(waiting, SNAPSHOTS_AT_ONCE - len(looks)):
                looks[asyncio.create_task(snapshot(target, choice))] = target
            if not looks:
                return
            done, _ = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            for look in done:
                target = looks.pop(look)
                try:
                    yield target, look.result()
                except PausetraceError as err:
                    yield target, err
    finally:
        for look in looks:
            look.cancel()


async def _plan(target: Target, choice: ProfileChoice, transport: Transport) -> tuple[Capabilities, Profile, Plan]:
    try:
        found = told.read(await transport.capabilities(target.endpoint.connect_deadline_s))
    except Failure as failure:
        if failure.sort.name != "unimplemented" or target.profile == AUTO:
            raise
        found = Capabilities()
    name = choice.detect(found) if target.profile == AUTO else target.profile
    if name is None:
        raise Failure("not_supported", "no profile fits what the target says of itself")
    profile = with_intervals(choice.load(name), target.intervals)
    return found, profile, make_plan(target, found, profile)


async def _ask(transport: Transport, decoder: Decoder, rpc: Rpc, asked: Asked) -> Answer:
    """One subscription by itself, mended for as long as the target's words say how."""
    text, wanted = "", asked
    for _ in range(MAX_ROUNDS):
        stream = await transport.subscribe(subscribe_request(Rpc((wanted,), rpc.encoding, rpc.origin, rpc.target)))
        updates = 0
        heard: Counter[bool] = Counter()
        try:
            async with asyncio.timeout(TRIAL_S):
                while not updates:
                    messages = await stream.read()
                    if not messages:
                        break
                    columns = decoder.decode(list(messages), np.zeros(len(messages), np.int32))
                    heard.update((np.asarray(columns.status) != MALFORMED).tolist())
                    updates += len(columns.path_id)
        except TimeoutError:
            pass
        except Failure as failure:
            if failure.sort.name not in REFUSALS:
                raise
            text = failure.text
            following = mend(wanted, text)
            if following is None:
                return Answer(asked.metric, wanted, "refused", 0, text)
            wanted = following
            continue
        finally:
            stream.cancel()
        result = "data" if updates else "garbage" if heard[UNDECODED] else "silence"
        return Answer(asked.metric, wanted, result, updates, text)
    return Answer(asked.metric, wanted, "refused", 0, text)


async def _once(transport: Transport, decoder: Decoder, rpc: Rpc, heard: Counter[bool]) -> list[bytes]:
    """The messages of a ONCE; where the target has none, those of a STREAM up to its sync_response.

    `heard` gets how many came that decode, and that do not.
    """
    refused: Failure | None = None
    for mode in ("ONCE", "STREAM"):
        stream = await transport.subscribe(subscribe_request(rpc, mode), once=mode == "ONCE")
        gathered: list[bytes] = []
        held_bytes = 0
        try:
            while messages := await stream.read():
                gathered += messages
                held_bytes += sum(map(len, messages))
                if held_bytes > SNAPSHOT_MAX_BYTES:
                    raise Failure("oversize", f"a snapshot of more than {SNAPSHOT_MAX_BYTES >> 20} MiB")
                columns = decoder.decode(list(messages), np.zeros(len(messages), np.int32))
                status = np.asarray(columns.status)
                heard.update(np.isin(status, (OK, SYNC)).tolist())
                if (status == SYNC).any():
                    break
            return gathered
        except Failure as failure:
            if failure.sort.name not in REFUSALS or gathered:
                raise
            refused = failure
        finally:
            stream.cancel()
    assert refused is not None
    raise refused


def _leaves(decoder: Decoder, paths: PathTable, message: bytes) -> list[Leaf]:
    columns = decoder.decode([message], np.zeros(1, np.int32))
    time_ns = int(columns.time_ns[0])
    found = []
    for row in range(len(columns.path_id)):
        path_id = int(columns.path_id[row])
        if path_id < 0 or columns.op[row] == DELETE:
            continue
        found.append(Leaf(time_ns, paths.text(path_id), _value(columns, row)))
    return found


def _value(columns: Any, row: int) -> Any:
    sort = int(columns.sort[row])
    if sort == INT:
        return int(columns.ival[row])
    if sort == UINT:
        return int(columns.ival[row]) & ((1 << 64) - 1)
    if sort == BOOL:
        return bool(columns.ival[row])
    if sort == FLOAT:
        return float(columns.fval[row])
    if sort == TEXT:
        return columns.text(row)
    if sort in (LEAFLIST, JSON):
        return columns.values(row)
    if sort == BYTES:
        return columns.raw(row).hex()
    return None if sort == NONE else columns.raw(row).decode(errors="replace")
