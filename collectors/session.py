"""A session with one target, for as long as it is wanted: connect, subscribe, read, and begin anew after a failure.

In: a `Target`. Out: raw messages into the `Inbox`, and where it stands in a `TargetStatus`. No wait is without an end:
connecting and the first answer have deadlines, and a watchdog (`check`) ends a silence.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from collectors import capabilities as told
from collectors.backoff import Backoff
from collectors.breaker import Breaker
from collectors.budget import Budget
from collectors.capabilities import Capabilities
from collectors.failures import REFUSALS, Failure
from collectors.gate import Gate
from collectors.inbox import Inbox
from collectors.plan import Plan, make_plan, named_in, without
from collectors.profile import Profile
from collectors.profile_choice import ProfileChoice
from collectors.profile_intervals import with_intervals
from collectors.request import Asked, Rpc, shortest_ms, subscribe_request
from collectors.target import AUTO, Target
from collectors.target_status import Phase, TargetStatus
from collectors.transport import Endpoint, RawStream, Transport
from stream.errors import PausetraceError
from stream.sampled_log import SampledLog

_log = logging.getLogger(__name__)

LEAST_STALL_S = 10.0
STALL_INTERVALS = 3.0
"""Intervals without any message after which a target is taken to hang."""
BEATS = 4
HELD_S = 60.0
"""A session that held for so long forgets the failures before it."""
TRIAL_S = 3.0
"""A part of a subscription that is not refused within this time is taken to be accepted."""
MAX_PLANS = 64
_TOLD_ALL = b"\x18\x01"
"""A SubscribeResponse that is a sync_response and no more."""


class Hub(NamedTuple):
    """What all sessions of a process share. `time_scale` shortens backoffs and breakers, for tests."""

    make_transport: Callable[[Endpoint], Transport]
    inbox: Inbox
    budget: Budget
    gate: Gate
    profiles: ProfileChoice
    on_profile: Callable[[int, Profile, Plan], None]
    time_scale: float = 1.0


@dataclass(slots=True)
class _Reading:
    """One RPC as the watchdog sees it: `period_ms` is within which it has to say something, 0 = it has not to."""

    period_ms: int
    quiet_since_s: float
    beats: int = 0
    """Periods in a row in which it said something; of a path that a target does not have nothing comes."""
    beat_s: float = 0.0

    @property
    def regular(self) -> bool:
        """Whether it has kept its period once, so that its silence means something."""
        return self.beats >= BEATS

    def heard(self, now_s: float) -> None:
        """It has said more than that it has told all."""
        since_s, period_s = now_s - self.beat_s, self.period_ms / 1000
        if self.regular or not self.period_ms or since_s < period_s / 2:
            return
        self.beats = self.beats + 1 if since_s <= STALL_INTERVALS * period_s else 1
        self.beat_s = now_s


class Session:
    """Of one target; `number` is what its messages are known by."""

    def __init__(self, number: int, target: Target, hub: Hub, seed: int) -> None:
        self.number = number
        self.target = target
        self.status = TargetStatus(target.name, target.device, target.endpoint.address)
        self.breaker = Breaker(open_s=60.0 * hub.time_scale, max_open_s=600.0 * hub.time_scale)
        self.plan: Plan | None = None
        self.period_ms = 0
        """Within this time something has to come; 0: nothing has to."""
        self._hub = hub
        self._backoff = Backoff(random.Random(seed), hub.time_scale)
        self._profile: Profile | None = None
        self._streams: list[RawStream] = []
        self._readings: list[_Reading] = []
        self._tasks: list[asyncio.Future[None]] = []
        """One reads each stream, or waits for room to do so."""
        self._abort: Failure | None = None
        self._quiet_since_s = 0.0
        """On the loop's clock: when something came last, or a subscription began."""
        self._blocked = 0
        """Streams that wait for room in the budget: their silence is ours."""
        self._log = SampledLog(_log)

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if (wait_s := self.breaker.wait_s(loop.time())) > 0:
                    await self._wait(wait_s)
                    continue
                began_s = loop.time()
                failure = await self._live()
                if loop.time() - began_s >= HELD_S * self._hub.time_scale:
                    self._backoff.held()
                self.breaker.failed(failure.sort, loop.time())
                self.status.failed(failure.sort.name, failure.text)
                self._log.warning("%s (%s): %s", self.target.name, self.target.endpoint.address, failure)
                if failure.sort.opens:
                    self.plan = None
                await self._wait(self._backoff.next_s(failure.sort))
        finally:
            self.status.phase = Phase.STOPPED
            self.status.synced = False

    def check(self, now_s: float) -> None:
        """The watchdog: ends a subscription that has been silent for too long; called once a second or so."""
        if self.status.phase not in (Phase.SUBSCRIBING, Phase.RECEIVING) or self._blocked:
            return
        allowed_s = self.target.first_deadline_s if self.status.phase is Phase.SUBSCRIBING else self.stall_s()
        silent_s = now_s - self._quiet_since_s
        if allowed_s and silent_s > allowed_s:
            self.abort(Failure("stalled", f"nothing for {silent_s:.3g} s"))
            return
        for number, reading in enumerate(self._readings, 1):
            silent_s = now_s - reading.quiet_since_s
            if reading.regular and silent_s > self._stall_s_of(reading):
                of = f"subscription {number} of {len(self._readings)}"
                self.abort(Failure("stalled", f"nothing for {silent_s:.3g} s of {of}, which others hide"))
                return

    def stall_s(self) -> float:
        """The longest silence that is allowed; 0 allows any."""
        if self.target.stall_s:
            return self.target.stall_s
        return max(STALL_INTERVALS * self.period_ms / 1000, LEAST_STALL_S) if self.period_ms else 0.0

    def _stall_s_of(self, reading: _Reading) -> float:
        """The same of one RPC, whose silence the others' messages must not hide."""
        return max(STALL_INTERVALS * reading.period_ms / 1000, self.target.stall_s or LEAST_STALL_S)

    def abort(self, failure: Failure) -> None:
        """Ends the present subscription with this failure."""
        self._abort = failure
        for stream in self._streams:
            stream.cancel()
        for task in self._tasks:
            task.cancel()

    @property
    def blocked(self) -> bool:
        """Whether it waits for room in the budget, so that more may have arrived than was read."""
        return self._blocked > 0

    def synced(self) -> None:
        """The decoder has seen the target's sync_response."""
        if self.status.phase is Phase.RECEIVING:
            self.status.synced = True

    async def _wait(self, wait_s: float) -> None:
        self.status.phase = Phase.WAITING
        self.status.breaker = self.breaker.state
        await asyncio.sleep(wait_s)

    async def _live(self) -> Failure:
        """One connection from its beginning to its end; returns why it ended."""
        status = self.status
        status.attempts += 1
        status.breaker = self.breaker.state
        transport = self._hub.make_transport(self.target.endpoint)
        self._abort = None
        try:
            async with self._hub.gate():
                status.phase = Phase.CONNECTING
                self._warn_of_trust()
                await transport.open()
            await self._choose(transport)
            for _ in range(MAX_PLANS):
                await self._follow(transport)
            return Failure("invalid_argument", "the target refuses one plan after another")
        except Failure as failure:
            return failure
        except PausetraceError as err:
            return Failure("not_supported", str(err))
        except Exception as err:  # noqa: BLE001 - whatever a target does to its session must not end the others
            _log.debug("%s: a session failed", self.target.name, exc_info=True)
            return Failure("internal", f"{type(err).__name__}: {err}")
        finally:
            self._streams = []
            if status.phase is Phase.RECEIVING:
                self._hub.inbox.ended(self.number)
            status.phase = Phase.WAITING
            status.synced = False
            await transport.close()

    def _warn_of_trust(self) -> None:
        tls = self.target.endpoint.tls
        if tls is not None and tls.skip_verify:
            _log.warning(
                "%s (%s): insecure_skip_verify: whoever answers there is trusted",
                self.target.name, self.target.endpoint.address,
            )  # fmt: skip

    async def _choose(self, transport: Transport) -> None:
        """Finds the profile and the plan, if there is none from before."""
        if self.plan is not None:
            return
        target, profiles = self.target, self._hub.profiles
        try:
            answer = await transport.capabilities(target.endpoint.connect_deadline_s)
            found = told.read(answer)
        except Failure as failure:
            if failure.sort.name != "unimplemented" or target.profile == AUTO:
                raise
            found = Capabilities()
        name: str | None = target.profile
        if target.profile == AUTO:
            name = profiles.detect(found)
            if name is None:
                models = ", ".join(sorted({model.organization or model.name for model in found.models})[:5])
                raise Failure(
                    "not_supported", f"no profile fits what the target says of itself ({models or 'no model'})"
                )
        self._profile = with_intervals(profiles.load(name or ""), target.intervals)
        self.status.profile = self._profile.name
        self._use(make_plan(target, found, self._profile))

    def _use(self, plan: Plan) -> None:
        self.plan = plan
        self.period_ms = shortest_ms(plan.rpcs)
        self.status.refused_paths = tuple(path for path, _ in plan.refused)
        assert self._profile is not None
        self._hub.on_profile(self.number, self._profile, plan)

    async def _follow(self, transport: Transport) -> None:
        """Subscribes and reads until the end, which it raises; returns if the plan changed and is to be tried again."""
        plan = self.plan
        assert plan is not None
        self._streams = []
        for rpc in plan.rpcs:
            self._streams.append(await transport.subscribe(subscribe_request(rpc)))
        self.status.phase = Phase.SUBSCRIBING
        self._quiet_since_s = asyncio.get_running_loop().time()
        self._readings = [_Reading(shortest_ms((rpc,)), self._quiet_since_s) for rpc in plan.rpcs]
        reading = self._tasks = [
            asyncio.ensure_future(self._read(stream, of))
            for stream, of in zip(self._streams, self._readings, strict=True)
        ]
        try:
            done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for stream in self._streams:
                stream.cancel()
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
            self._tasks = []
        if self._abort is not None:
            raise self._abort
        # Of several that end at once, a refusal says more than the others' echo of it.
        failures = [(number, task.exception()) for number, task in enumerate(reading) if task in done]
        for number, failure in failures:
            if (
                isinstance(failure, Failure)
                and failure.sort.name in REFUSALS
                and self.status.phase is Phase.SUBSCRIBING
            ):
                self._use(await self._next_plan(transport, plan, number, failure))
                return
        for _, failure in failures:
            if failure is not None:
                raise failure
        raise Failure("ended", "")

    async def _read(self, stream: RawStream, reading: _Reading) -> None:
        status, budget, inbox, number = self.status, self._hub.budget, self._hub.inbox, self.number
        now_s = asyncio.get_running_loop().time
        while True:
            if not budget.may_read(number):
                self._blocked += 1
                try:
                    await budget.room(number)
                finally:
                    self._blocked -= 1
                self._quiet_since_s = reading.quiet_since_s = now_s()
            messages = await stream.read()
            if not messages:
                raise Failure("ended", "")
            seen_ns = time.time_ns()
            self._quiet_since_s = reading.quiet_since_s = now_s()
            if any(message != _TOLD_ALL for message in messages):
                reading.heard(self._quiet_since_s)
            if status.phase is not Phase.RECEIVING:
                self._begins()
            for message in messages:
                inbox.put(number, message, seen_ns)
                budget.took(number, len(message))
                status.bytes_read += len(message)
            status.messages += len(messages)
            status.last_message_s = seen_ns * 1e-9

    def _begins(self) -> None:
        """The first message of a subscription has come."""
        self.status.phase = Phase.RECEIVING
        self.breaker.succeeded()
        self.status.breaker = self.breaker.state
        self._hub.inbox.began(self.number)

    async def _next_plan(self, transport: Transport, plan: Plan, number: int, failure: Failure) -> Plan:
        """The plan after a refusal: finds out which subscriptions are meant, by the text or by trying parts."""
        rpc = plan.rpcs[number]
        named = named_in(failure.text, rpc)
        refused = dict.fromkeys(named, failure) if named else await self._refused(transport, rpc, failure)
        if not refused:
            # Each part by itself is taken: the target bounds how much may be asked at once.
            raise Failure("resource_exhausted", failure.text, failure.status)
        return without(plan, number, refused)

    async def _refused(self, transport: Transport, rpc: Rpc, failure: Failure) -> dict[Asked, Failure]:
        if len(rpc.asked) == 1:
            return {rpc.asked[0]: failure}
        found: dict[Asked, Failure] = {}
        middle = len(rpc.asked) // 2
        for part in (rpc.asked[:middle], rpc.asked[middle:]):
            half = Rpc(part, rpc.encoding, rpc.origin, rpc.target, rpc.updates_only)
            answer = await self._try(transport, half)
            if answer is not None:
                found |= await self._refused(transport, half, answer)
        return found

    async def _try(self, transport: Transport, rpc: Rpc) -> Failure | None:
        """Subscribes for a moment; returns the refusal, or None if there was none."""
        stream = await transport.subscribe(subscribe_request(rpc))
        try:
            async with asyncio.timeout(TRIAL_S):
                await stream.read()
        except TimeoutError:
            return None
        except Failure as failure:
            if failure.sort.name not in REFUSALS:
                raise
            return failure
        finally:
            stream.cancel()
        return None
