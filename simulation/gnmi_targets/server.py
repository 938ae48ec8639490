"""A fake gNMI target that knows the protocol: Capabilities and Subscribe by grpc.aio, over leaves of functions of time.

In: `Leaves`, a `Behaviour`, a clock. Out: a listening port. For bytes that no honest server sends, see raw_target.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from pygnmi.spec.v080 import gnmi_pb2

from simulation.gnmi_targets.behaviour import Behaviour
from simulation.gnmi_targets.clocks import Clock, RealClock
from simulation.gnmi_targets.leaves import Change, Leaves
from simulation.gnmi_targets.messages import Elem, Value, elems_of, notification, sync

_SAMPLE, _ON_CHANGE = 2, 1
_ENCODINGS = {0: "JSON", 1: "BYTES", 2: "PROTO", 3: "ASCII", 4: "JSON_IETF"}
DEFAULT_INTERVAL_NS = 1_000_000_000
FAR_NS = 1 << 62


@dataclass
class _Wanted:
    """One subscription of an RPC."""

    paths: list[str]
    on_change: bool
    interval_ns: int
    heartbeat_ns: int
    suppress: bool
    due_ns: int = 0
    heartbeat_due_ns: int = FAR_NS
    told_ns: int = 0
    last: dict[str, Value] = field(default_factory=dict)


class FakeTarget:
    """`async with FakeTarget(leaves) as target:` listens on `target.address`."""

    def __init__(
        self,
        leaves: Leaves,
        behaviour: Behaviour | None = None,
        clock: Clock | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.leaves = leaves
        self.behaviour = behaviour or Behaviour()
        self.port = 0
        self.requests: list[Any] = []
        """Every SubscribeRequest."""
        self.peers: list[dict[str, str]] = []
        """The metadata of every RPC."""
        self.open_streams = 0
        self._clock = clock or RealClock()
        self._credentials = credentials
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"localhost:{self.port}" if self._credentials is not None else f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; after a `stop` on the same port."""
        server = self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Capabilities": grpc.unary_unary_rpc_method_handler(self._capabilities),
            "Subscribe": grpc.stream_stream_rpc_method_handler(self._subscribe),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gnmi.gNMI", handlers),))
        address = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            self.port = server.add_insecure_port(address)
        else:
            self.port = server.add_secure_port(address, self._credentials)
        await server.start()

    async def stop(self) -> None:
        """Ends every RPC and closes the port."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def _check(self, context: Any) -> None:
        told = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        self.peers.append(told)
        wanted = self.behaviour
        if wanted.username and (told.get("username"), told.get("password")) != (wanted.username, wanted.password):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong username or password")

    async def _capabilities(self, _request: bytes, context: Any) -> bytes:
        await self._check(context)
        if self.behaviour.capabilities_status:
            await context.abort(grpc.StatusCode[self.behaviour.capabilities_status], "no Capabilities here")
        return self.behaviour.answer

    async def _subscribe(self, requests: AsyncIterator[bytes], context: Any) -> None:
        await self._check(context)
        behaviour = self.behaviour
        request = None
        async for raw in requests:
            request = gnmi_pb2.SubscribeRequest.FromString(raw)
            break
        if request is None:
            return
        self.requests.append(request)
        if self.open_streams >= behaviour.streams:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        if behaviour.gzip:
            context.set_compression(grpc.Compression.Gzip)
        self.open_streams += 1
        try:
            await self._answer(request.subscribe, context)
        finally:
            self.open_streams -= 1

    async def _answer(self, asked: Any, context: Any) -> None:
        behaviour = self.behaviour
        writer = _Writer(context, behaviour, self._clock, _ENCODINGS[asked.encoding], asked.prefix.target)
        prefix = _elems(asked.prefix)
        wanted = [await self._wanted(subscription, prefix, asked.mode, context) for subscription in asked.subscription]
        now_ns = self._clock.now_ns()
        if asked.mode == 1 and not behaviour.once:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ONCE is not supported")
        if not asked.updates_only:
            for each in wanted:
                await self._tell_all(writer, each, now_ns, first=True)
        for each in wanted:
            each.told_ns = now_ns
            each.due_ns = now_ns + each.interval_ns if not each.on_change else FAR_NS
            each.heartbeat_due_ns = now_ns + each.heartbeat_ns if each.heartbeat_ns else FAR_NS
        if behaviour.sync in ("present", "repeated"):
            await writer.write(sync())
        if asked.mode == 1:
            return
        late = behaviour.sync == "late"
        while not writer.over:
            await self._wait(wanted)
            now_ns = self._clock.now_ns()
            for each in wanted:
                await self._tell_due(writer, each, now_ns)
            if late or behaviour.sync == "repeated":
                late = False
                await writer.write(sync())
            if behaviour.keepalives:
                await writer.write(b"")
        if behaviour.end_status != "OK":
            await context.abort(grpc.StatusCode[behaviour.end_status], "as it was scripted")

    async def _wanted(self, subscription: Any, prefix: list[Elem], mode: int, context: Any) -> _Wanted:
        behaviour = self.behaviour
        elems = prefix + _elems(subscription.path)
        text = _text(elems)
        for refusal in behaviour.refusals:
            if refusal.path in ("", text):
                await context.abort(grpc.StatusCode[refusal.status], refusal.text or f"{text} is refused")
        interval_ns = subscription.sample_interval
        sampled = subscription.mode == _SAMPLE
        if mode == 0 and sampled and interval_ns and interval_ns < behaviour.least_interval_ns:
            least_ms = behaviour.least_interval_ns // 1_000_000
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"invalid interval: less than {least_ms} ms")
        on_change = subscription.mode == _ON_CHANGE or (subscription.mode == 0 and behaviour.on_change)
        if mode == 0 and subscription.mode == _ON_CHANGE and not behaviour.on_change:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ON_CHANGE is not supported")
        return _Wanted(
            self.leaves.matching(elems),
            on_change and not sampled,
            interval_ns or max(behaviour.least_interval_ns, DEFAULT_INTERVAL_NS),
            subscription.heartbeat_interval,
            subscription.suppress_redundant,
        )

    async def _wait(self, wanted: Sequence[_Wanted]) -> None:
        """Until something is due: a sample, a heartbeat or a change."""
        times = [min(each.due_ns, each.heartbeat_due_ns) for each in wanted]
        changing = [each for each in wanted if each.on_change]
        changes = [self.leaves.next_change_ns(each.paths, each.told_ns) for each in changing]
        times += [change for change in changes if change is not None]
        await self._clock.sleep_until(min([*times, self._clock.now_ns() + DEFAULT_INTERVAL_NS]))

    async def _tell_due(self, writer: _Writer, each: _Wanted, now_ns: int) -> None:
        if each.on_change:
            for change in self.leaves.changes(each.paths, each.told_ns, now_ns):
                await writer.change(change)
            each.told_ns = now_ns
        if now_ns >= each.due_ns:
            each.due_ns += each.interval_ns * max((now_ns - each.due_ns) // each.interval_ns + 1, 1)
            await self._tell_all(writer, each, now_ns)
        if now_ns >= each.heartbeat_due_ns:
            each.heartbeat_due_ns += each.heartbeat_ns
            await self._tell_all(writer, each, now_ns, first=True)

    async def _tell_all(self, writer: _Writer, each: _Wanted, now_ns: int, *, first: bool = False) -> None:
        values = {path: self.leaves.at(path, now_ns) for path in each.paths}
        told = {path: value for path, value in values.items() if value is not None}
        if each.suppress and not first:
            told = {path: value for path, value in told.items() if each.last.get(path) != value}
        each.last |= told
        await writer.updates(now_ns, list(told.items()))


class _Writer:
    """Writes notifications as the behaviour wants them."""

    def __init__(self, context: Any, behaviour: Behaviour, clock: Clock, encoding: str, target: str) -> None:
        self.over = False
        self._context = context
        self._behaviour = behaviour
        self._encoding = encoding
        self._target = behaviour.target or target
        self._start_ns = clock.now_ns()
        self._written = 0
        self._held: bytes | None = None
        self._order = 0

    async def updates(self, now_ns: int, updates: Sequence[tuple[str, Value]]) -> None:
        """A sample, in messages of at most so many updates."""
        size = self._behaviour.updates_a_message
        for at in range(0, len(updates), size):
            message = self._message(now_ns, updates[at : at + size])
            if self._behaviour.out_of_order:
                # 1 3 2 5 4 ...: each second one waits for its successor.
                self._order += 1
                if self._order > 1 and self._held is None:
                    self._held = message
                    continue
            await self.write(message)
            if self._held is not None:
                held, self._held = self._held, None
                await self.write(held)

    async def change(self, change: Change) -> None:
        """A change at its own time."""
        if change.value is None:
            await self.write(notification(self._time(change.time_ns), (), deletes=[change.path], target=self._target))
        else:
            await self.write(self._message(change.time_ns, [(change.path, change.value)]))

    async def write(self, message: bytes) -> None:
        """One SubscribeResponse."""
        behaviour = self._behaviour
        for _ in range(2 if behaviour.duplicates and message else 1):
            if behaviour.end_after and self._written >= behaviour.end_after:
                self.over = True
                return
            self._written += 1
            await self._context.write(message)

    def _message(self, now_ns: int, updates: Sequence[tuple[str, Value]]) -> bytes:
        behaviour = self._behaviour
        elems = [elems_of(path) for path, _ in updates]
        shared = _shared(elems) if behaviour.prefix == "common" and len(updates) > 1 else 0
        prefix = _text(elems[0][:shared]) if shared else ""
        made = [
            (_text(each[shared:], backwards=behaviour.keys_reversed), value)
            for each, (_, value) in zip(elems, updates, strict=True)
        ]
        named = behaviour.prefix != "none"
        return notification(
            self._time(now_ns),
            made,
            prefix=prefix,
            target=self._target if named else "",
            origin=behaviour.origin if named else "",
            encoding=self._encoding,
            old_elements=behaviour.old_elements,
            extension=behaviour.extension,
        )

    def _time(self, now_ns: int) -> int:
        behaviour = self._behaviour
        if behaviour.time_zero:
            return 0
        drift_ns = (now_ns - self._start_ns) * behaviour.clock_drift_ppm // 1_000_000
        time_ns = now_ns + behaviour.clock_offset_ns + drift_ns
        return time_ns // 1_000_000_000 if behaviour.time_in_seconds else time_ns


def _elems(path: Any) -> list[Elem]:
    return [(elem.name, dict(elem.key)) for elem in path.elem]


def _shared(paths: Sequence[Sequence[Elem]]) -> int:
    """How many elements all paths begin with, without the last of any."""
    least = min(len(path) for path in paths) - 1
    return next((at for at in range(least) if any(path[at] != paths[0][at] for path in paths)), least)


def _text(elems: Sequence[Elem], *, backwards: bool = False) -> str:
    text = ""
    for name, keys in elems:
        text += f"/{name}"
        for key, value in sorted(keys.items(), reverse=backwards):
            escaped = value.replace("\\", "\\\\").replace("]", "\\]")
            text += f"[{key}={escaped}]"
    return text
