"""A collector: sessions with its targets, the pump that turns what they say into rows, and the watchdogs over both.

In: targets, which may change while it runs. Out: rows and facts to an outlet; statuses for metrics. One event loop
reads, one thread decodes and publishes; between them lies an inbox whose bytes are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from collectors.budget import MESSAGE_OVERHEAD_BYTES, Budget
from collectors.failures import Failure
from collectors.gate import Gate
from collectors.grpc_transport import GrpcTransport
from collectors.inbox import Inbox, Taken
from collectors.one_core import OneCore
from collectors.outlet import Outlet
from collectors.paths import PathTable
from collectors.plan import Plan
from collectors.profile import Profile
from collectors.profile_choice import ProfileChoice, choice_of
from collectors.pump import Found, Pump, Wanted
from collectors.request import longest_ms, shortest_ms
from collectors.session import Hub, Session
from collectors.target import Target
from collectors.target_status import TargetStatus
from collectors.transport import Endpoint, Transport
from collectors.warm_up import warm_up
from stream.sampled_log import SampledLog

_log = logging.getLogger(__name__)

BUDGET_BYTES = 128 << 20
TURN_BYTES = 16 << 20
"""Decoded at once: more makes no message cheaper."""
LEAST_TURN_S = 0.05
MOST_TURN_S = 0.5
TURN_S_A_TARGET = 0.0005
"""Rows of many targets leave in fewer, larger values: a value a target, topic and turn."""
WATCH_S = 0.5
BAD_MESSAGES = 50
"""So many messages that do not decode, less those that do, end a session."""
STOP_DEADLINE_S = 45.0


class Collector:
    """Of one process. All methods but `statuses` and `counters` are called in the event loop's thread."""

    def __init__(
        self,
        fabric: str,
        outlet: Outlet,
        *,
        budget_bytes: int = BUDGET_BYTES,
        seed: int = 0,
        make_transport: Callable[[Endpoint], Transport] = GrpcTransport,
        choice: ProfileChoice | None = None,
        gate: Gate | None = None,
        time_scale: float = 1.0,
        down_after_s: float = 3.0,
    ) -> None:
        choice = choice or choice_of()
        self.pump = Pump(fabric, outlet, PathTable(list_keys=choice.list_keys), down_after_s=down_after_s)
        self.budget = Budget(budget_bytes)
        self.inbox = Inbox()
        self._seed = seed
        self._hub = Hub(
            make_transport,
            self.inbox,
            self.budget,
            gate or Gate(),
            choice,
            self._chosen,
            time_scale,
        )
        self._sessions: dict[int, Session] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._numbers: dict[str, int] = {}
        """Targets by name."""
        self._free: list[int] = []
        self._leaving: dict[int, asyncio.Task[None] | None] = {}
        """Numbers that the pump has forgotten, with the sessions that bore them."""
        self._next = 0
        self._orders: list[Callable[[], None]] = []
        """What the pump's thread has to do before the next turn."""
        self._bad: Counter[int] = Counter()
        self._counted: Counter[str] = Counter()
        self._thread = ThreadPoolExecutor(1, "pump")
        self._running = False
        self._turns_done = 0
        self._log = SampledLog(_log)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """By number."""
        return tuple(self._sessions.values())

    def session(self, name: str) -> Session:
        """The session with a target; raises KeyError."""
        return self._sessions[self._numbers[name]]

    def statuses(self) -> list[TargetStatus]:
        """Where each target stands, from the moment on that it is wanted."""
        return [session.status for session in list(self._sessions.values())]

    def counters(self) -> Counter[str]:
        """Everything counted so far."""
        counted = self.pump.counters() + self._counted
        counted["budget_waits"] = self.budget.waits
        return counted

    def assign(self, targets: Iterable[Target]) -> tuple[int, int, int]:
        """These targets are to be followed, and no others: sessions whose target has not changed go on undisturbed.

        Returns how many targets came, went and changed.
        """
        wanted = {target.name: target for target in targets}
        gone = [name for name in self._numbers if name not in wanted]
        changed = [name for name in self._numbers if name in wanted and self.session(name).target != wanted[name]]
        new = [name for name in wanted if name not in self._numbers]
        for name in (*gone, *changed):
            self._release(name)
        for name in (*changed, *new):
            self._begin(wanted[name])
        return len(new), len(gone), len(changed)

    async def settled(self) -> None:
        """Waits until the last assignment holds: sessions that are not wanted are closed and the roster is told."""
        turn = self._turns_done
        while self._running and (self._orders or self._turns_done < turn + 2):
            await asyncio.sleep(LEAST_TURN_S / 2)

    async def run(self, stop: asyncio.Event) -> None:
        """Follows its targets until `stop`; then everything is told and closed in order."""
        _raise_file_limit()
        await asyncio.get_running_loop().run_in_executor(self._thread, warm_up)
        # The pump's thread, which is there already, may run on any core.
        with OneCore() as core:
            await self._follow(stop, core)

    async def _follow(self, stop: asyncio.Event, core: OneCore) -> None:
        self._running = True
        for number, session in self._sessions.items():
            self._start(number, session)
        watching = asyncio.create_task(self._watch(core))
        try:
            await self._turns(stop)
        finally:
            self._running = False
            watching.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(watching, *self._tasks.values(), return_exceptions=True)
            async with asyncio.timeout(STOP_DEADLINE_S):
                while len(self.inbox):
                    await self._turn()
                await asyncio.get_running_loop().run_in_executor(self._thread, self.pump.close)
            self._thread.shutdown(wait=False)

    def turn_s(self) -> float:
        """Between two turns of the pump."""
        return min(max(len(self._sessions) * TURN_S_A_TARGET, LEAST_TURN_S), MOST_TURN_S)

    def _begin(self, target: Target) -> None:
        if self._free:
            number = self._free.pop()
        else:
            number, self._next = self._next, self._next + 1
        session = Session(number, target, self._hub, self._seed + number)
        self._sessions[number] = session
        self._numbers[target.name] = number
        wanted = Wanted(target.device, target.role, target.aliases)
        self._orders.append(lambda: self.pump.want(number, wanted))
        if self._running:
            self._start(number, session)

    def _start(self, number: int, session: Session) -> None:
        task = asyncio.create_task(session.run(), name=f"session {session.target.name}")
        task.add_done_callback(self._ended)
        self._tasks[number] = task

    def _release(self, name: str) -> None:
        number = self._numbers.pop(name)
        self._sessions.pop(number)
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()
        self._bad.pop(number, None)

        def forget() -> None:
            self.pump.forget(number)
            self._leaving[number] = task

        self._orders.append(forget)

    def _chosen(self, number: int, profile: Profile, plan: Plan) -> None:
        """A session knows what it asks for."""
        periods_ms = {topic: longest_ms(plan.rpcs, topic) for topic in profile.topics()}
        period_ms, silence_ms = longest_ms(plan.rpcs), shortest_ms(plan.rpcs)
        self._orders.append(lambda: self.pump.profile(number, profile, period_ms, periods_ms, silence_ms))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (err := task.exception()) is not None:
            self._counted["sessions_crashed"] += 1
            _log.error("%s ended by a fault of ours: %r", task.get_name(), err)

    async def _watch(self, core: OneCore) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            core.look()
            now_s = asyncio.get_running_loop().time()
            for number, session in self._sessions.items():
                session.check(now_s)
                skew_ns = self.pump.clocks.skew_ns(number)
                session.status.skew_known = skew_ns is not None
                session.status.skew_ns = skew_ns or 0

    async def _turns(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                async with asyncio.timeout(self.turn_s()):
                    await stop.wait()
            except TimeoutError:
                pass
            await self._turn()

    async def _turn(self) -> None:
        unread = frozenset(number for number, session in self._sessions.items() if session.blocked)
        self._turns_done += 1
        taken = self.inbox.take(TURN_BYTES, time.time_ns(), unread)
        orders, self._orders = self._orders, []
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, self._work, orders, taken)
        except OSError:
            # The outlet's file: full, closed, or read by somebody, such as `head`, who has seen enough.
            raise
        except Exception as err:  # noqa: BLE001 - one message too odd must not end the others' collection
            self._counted["turns_failed"] += 1
            self._counted["messages_lost_in_turns"] += len(taken.messages)
            self._log.warning("a turn failed, %d messages are lost: %r", len(taken.messages), err)
            _log.debug("a turn failed", exc_info=True)
            self.budget.gave_back(_costs(taken))
            self._orders.insert(0, lambda: self.pump.tell_turn_lost(taken))
            return
        self.budget.gave_back(_costs(taken))
        self._apply(found)
        self._free_numbers()

    def _free_numbers(self) -> None:
        """Another target may bear a number once nothing of the old one can come any more."""
        for number, task in list(self._leaving.items()):
            if (task is None or task.done()) and not self.inbox.holds(number):
                del self._leaving[number]
                self._free.append(number)

    def _work(self, orders: list[Callable[[], None]], taken: Taken) -> Found:
        for order in orders:
            try:
                order()
            except (ValueError, TypeError, ArithmeticError) as err:
                # A setting of one target that the tables cannot hold: the others' messages are not to blame.
                self._counted["orders_failed"] += 1
                self._log.warning("a change of a target failed: %r", err)
                _log.debug("a change of a target failed", exc_info=True)
        return self.pump.turn(taken)

    def _apply(self, found: Found) -> None:
        now_s = time.time()
        for number in found.messages.nonzero()[0].tolist():
            session = self._sessions.get(number)
            if session is None:
                continue
            status = session.status
            updates, malformed = int(found.updates[number]), int(found.malformed[number])
            if updates:
                status.updates += updates
                status.last_update_s = now_s
            status.dropped("malformed", malformed)
            status.dropped("too_large", int(found.too_large[number]))
            status.dropped("error_message", int(found.errors[number]))
            status.dropped("path_table_full", int(found.refused[number]))
            self._judge(session, int(found.messages[number]) - malformed, malformed)
        for (number, reason), count in found.left_out.items():
            if number in self._sessions:
                self._sessions[number].status.dropped(reason, count)
        for number in found.synced:
            if number in self._sessions:
                self._sessions[number].synced()

    def _judge(self, session: Session, good: int, bad: int) -> None:
        left = max(self._bad[session.number] - good, 0) + bad
        if left >= BAD_MESSAGES:
            session.abort(Failure("garbage", f"{left} messages do not decode"))
            left = 0
        self._bad[session.number] = left


def _costs(taken: Taken) -> dict[int, int]:
    costs: Counter[int] = Counter()
    for target, message in zip(taken.targets, taken.messages, strict=True):
        costs[target] += len(message) + MESSAGE_OVERHEAD_BYTES
    return dict(costs)


def _raise_file_limit() -> None:
    """A connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
        if wanted > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
