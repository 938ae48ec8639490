"""detect over a capture, in this process or in several beside it: each has partitions of its own and sends episodes.

In: a capture's partitions. Out: `Detected` blocks in the order of Kafka's time, whatever the number of processes.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pickle
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from analytics.detect import Detect
from analytics.rows import with_effect
from stream.batch import Batch, StreamKey
from stream.capture_blocks import BLOCK_EVENTS, LOOKAHEAD_EVENTS, blocks
from stream.capture_reader import CaptureFolder
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context
from stream.errors import EXIT_FAILURE, CaptureError, PausetraceError
from stream.messages import Item
from stream.offset_gaps import PartitionId
from stream.record import EVENT, Events, picked, words

# A fork of this process itself would have its threads' locks, and a fresh process would load Numba once more.
_context = multiprocessing.get_context("forkserver")
_END_S = 5.0
_AHEAD = 1
"""Blocks that a worker has made beside the one that it sends and the one that it makes."""
_NICENESS = 5
_PIPE_BYTES = 1 << 20
"""What Linux lets anybody have; with its usual 64 KiB, the two ends would wait for each other at each of them."""


class Detected(NamedTuple):
    """Episodes of what Kafka got up to until_ms, and how many messages and wanted rows that was.

    `at_the_end` they come from ending what was still alive.
    """

    until_ms: int
    messages: int
    rows: int
    episodes: list[Batch]
    at_the_end: bool = False


def detect_blocks(
    folder: CaptureFolder,
    partitions: Sequence[PartitionId],
    streams: CapturedStreams,
    context: Context,
    wanted: RowFilter,
    workers: int = 1,
) -> Generator[Detected, None, None]:
    """What detect makes of these partitions; one of several `workers` takes a share of the memory."""
    # No message of Kafka limits how many rows stand together here.
    detect = Detect(most_rows=BLOCK_EVENTS)
    # It ends a stream when it has read the last row, so it may know of the end before.
    detect.process(context.roster)
    found = blocks(
        folder, partitions, streams, wanted, ends=context.ends,
        lookahead_events=LOOKAHEAD_EVENTS // workers, block_events=BLOCK_EVENTS // workers,
    )  # fmt: skip
    for block in found:
        rows = sum(len(batch.events) for batch in block.batches)
        yield Detected(block.until_ms, block.messages, rows, _episodes(detect.process(block.batches)))
    yield Detected(0, 0, 0, _episodes(detect.process(context.cut)), True)


def prepare_processes() -> None:
    """Begins to load what workers need, in a process from which they then fork; it ends with this one."""
    _context.set_forkserver_preload(["pausetrace.worker_start"])
    forkserver.ensure_running()


@contextmanager
def detect_in_processes(
    workers: int,
    folder: CaptureFolder,
    partitions: Sequence[PartitionId],
    streams: CapturedStreams,
    context: Context,
    wanted: RowFilter,
) -> Iterator[Iterator[Detected]]:
    """What detect makes of these partitions in so many processes beside this one, begun here and ended at the exit.

    Whoever takes what is made has work of its own with it, so that the processes together keep `workers` cores busy
    whoever has more to do.
    """
    shares = _shares(folder, partitions, workers)
    processes: list[tuple[ForkServerProcess, Connection]] = []
    readers: list[_ReadAhead] = []
    try:
        for share in shares:
            ours, theirs = _context.Pipe(duplex=False)
            fcntl.fcntl(ours.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            own = CapturedStreams({key: span for key, span in streams.spans.items() if key[0] in share})
            job = _Job(folder.path, tuple(share), own, context, wanted, len(shares))
            process = _context.Process(target=_work, args=(job, theirs), daemon=True, name="detect")
            process.start()
            # With our copy of their end closed, a process that dies ends the pipe.
            theirs.close()
            processes.append((process, ours))
        readers += [_ReadAhead(_received(process, pipe)) for process, pipe in processes]
        yield _in_order([reader.blocks() for reader in readers])
    finally:
        for process, _ in processes:
            process.terminate()
        # Whoever still reads meets the end of the pipe.
        for reader in readers:
            reader.close()
        for process, pipe in processes:
            pipe.close()
            process.join(_END_S)


class _ReadAhead:
    """Reads a worker's next block while the one before is worked on: to copy it out of the pipe needs no Python."""

    def __init__(self, received: Iterator[Detected]) -> None:
        self._received = received
        self._read: Queue[Detected | Exception | None] = Queue(1)
        self._thread = Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    def blocks(self) -> Iterator[Detected]:
        """The blocks in order; raises what reading raised."""
        while (block := self._read.get()) is not None:
            if isinstance(block, Exception):
                raise block
            yield block

    def close(self) -> None:
        """Ends the thread, once the pipe has ended."""
        while self._thread.is_alive():
            with suppress(Empty):
                self._read.get(timeout=0.05)

    def _run(self) -> None:
        try:
            for block in self._received:
                self._read.put(block)
            self._read.put(None)
        except Exception as err:  # noqa: BLE001 - raised where the blocks are taken
            self._read.put(err)


def _in_order(workers: list[Iterator[Detected]]) -> Iterator[Detected]:
    """The blocks of all workers by Kafka's time, those of the end last; each worker computes ahead by one block."""
    heads = [(block, worker) for worker in workers if (block := next(worker, None)) is not None]
    while heads:
        least = min(range(len(heads)), key=lambda at: (heads[at][0].at_the_end, heads[at][0].until_ms))
        block, worker = heads[least]
        yield block
        following = next(worker, None)
        if following is None:
            del heads[least]
        else:
            heads[least] = (following, worker)


def _shares(folder: CaptureFolder, partitions: Sequence[PartitionId], workers: int) -> list[set[PartitionId]]:
    """The partitions dealt out so that each worker has about as many events; the largest first."""
    events = dict.fromkeys(partitions, 0)
    for part in folder.manifest.parts:
        if part.id in events:
            events[part.id] += part.events
    shares: list[set[PartitionId]] = [set() for _ in range(workers)]
    loads = [0] * workers
    for partition in sorted(partitions, key=lambda partition: (-events[partition], partition)):
        least = loads.index(min(loads))
        shares[least].add(partition)
        loads[least] += events[partition] + 1
    return [share for share in shares if share]


@dataclass(frozen=True, slots=True)
class _Job:
    path: Path
    partitions: tuple[PartitionId, ...]
    streams: CapturedStreams
    context: Context
    wanted: RowFilter
    workers: int


class _Failure(NamedTuple):
    message: str
    next_step: str


def _work(job: _Job, pipe: Connection) -> None:
    """What a worker's process does."""
    # What it makes must wait for correlate in the end, so that goes first where cores are few.
    os.nice(_NICENESS)
    outgoing: Queue[Detected | _Failure | None] = Queue(_AHEAD)
    # A daemon: where this thread fails otherwise, the process ends, and the end of the pipe tells of it.
    sender = Thread(target=_send_all, args=(pipe, outgoing), name="sender", daemon=True)
    sender.start()
    try:
        found = detect_blocks(
            CaptureFolder(job.path), sorted(job.partitions), job.streams, job.context, job.wanted, job.workers,
        )  # fmt: skip
        for block in found:
            outgoing.put(block)
        outgoing.put(None)
    except PausetraceError as err:
        outgoing.put(_Failure(err.message, err.next_step))
    sender.join()


def _send_all(pipe: Connection, outgoing: Queue[Detected | _Failure | None]) -> None:
    """Sends what the worker makes while it makes more."""
    try:
        while isinstance(block := outgoing.get(), Detected):
            _send(pipe, block)
        pipe.send(block)
    except OSError:
        # Nobody reads any more: what else this process could make is of no use.
        os._exit(EXIT_FAILURE)


def _send(pipe: Connection, block: Detected) -> None:
    """A block as names, and the rows of all batches behind: to pickle rows takes several times as long."""
    names = [
        (tuple(batch.stream), batch.seq, batch.mark_ns, batch.ports, len(batch.events), batch.lost, batch.skipped)
        for batch in block.episodes
    ]
    pipe.send((block.until_ms, block.messages, block.rows, block.at_the_end, names))
    for batch in block.episodes:
        rest = words(batch.events).view(np.uint8).ravel().data
        while len(rest):
            rest = rest[os.write(pipe.fileno(), rest) :]


def _received(process: ForkServerProcess, pipe: Connection) -> Iterator[Detected]:
    while True:
        try:
            told = pipe.recv()
            if told is None:
                return
            if isinstance(told, _Failure):
                raise CaptureError(*told)
            until_ms, messages, wanted_rows, at_the_end, names = told
            rows = _received_rows(pipe, sum(count for *_, count, _, _ in names))
        except (EOFError, OSError, pickle.UnpicklingError) as err:
            process.join(_END_S)
            raise PausetraceError(
                f"a worker ended before its work was done (exit status {process.exitcode})",
                "see whether memory is short; try fewer --workers",
            ) from err
        episodes, begin = [], 0
        for stream, seq, mark_ns, ports, count, lost, skipped in names:
            events = rows[begin : begin + count]
            episodes.append(Batch(StreamKey(*stream), seq, mark_ns, ports, events, lost, skipped=skipped))
            begin += count
        yield Detected(until_ms, messages, wanted_rows, episodes, at_the_end)


def _received_rows(pipe: Connection, count: int) -> Events:
    rows = np.empty(count, EVENT)
    rest = rows.view(np.uint8).data
    while len(rest):
        received = os.readv(pipe.fileno(), [rest])
        if not received:
            raise EOFError
        rest = rest[received:]
    return rows


def _episodes(items: Sequence[Item]) -> list[Batch]:
    return [without_rows_of_no_effect(item) for item in items if isinstance(item, Batch)]


def without_rows_of_no_effect(batch: Batch) -> Batch:
    """The batch without rows that make no difference to correlate, which it then need not be sent and sorted.

    Which numbers the others have is asked only where rows come twice, which those of detect never do.
    """
    events = batch.events
    keep = np.empty(len(events), bool)
    count = with_effect(words(events), keep, np.zeros(len(batch.ports), bool))
    if count == len(events):
        return batch
    return replace(batch, events=picked(events, keep), skipped=len(events) - count)
