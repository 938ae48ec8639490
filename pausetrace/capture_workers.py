"""detect over a capture, in this process or spread over several: each has partitions of its own and sends episodes.

In: a capture's partitions. Out: `Detected` blocks in the order of Kafka's time, whatever the number of processes.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analytics.detect import Detect
from stream.batch import Batch, StreamKey
from stream.capture_blocks import blocks
from stream.capture_reader import CaptureFolder
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context
from stream.errors import CaptureError, PausetraceError
from stream.messages import Item
from stream.offset_gaps import PartitionId
from stream.record import EVENT, joined

_END_S = 5.0


class Detected(NamedTuple):
    """Episodes of what Kafka got up to until_ms; `at_the_end` they come from ending what was still alive."""

    until_ms: int
    messages: int
    episodes: list[Batch]
    at_the_end: bool = False


def detect_blocks(
    detect: Detect,
    folder: CaptureFolder,
    partitions: Sequence[PartitionId],
    streams: CapturedStreams,
    context: Context,
    wanted: RowFilter,
) -> Iterator[Detected]:
    """What detect makes of these partitions."""
    # It ends a stream when it has read the last row, so it may know of the end before.
    detect.process(context.roster)
    for block in blocks(folder, partitions, streams, wanted, ends=context.ends):
        yield Detected(block.until_ms, block.messages, _episodes(detect.process(block.batches)))
    yield Detected(0, 0, _episodes(detect.process(context.cut)), True)


def detect_in_processes(
    workers: int,
    folder: CaptureFolder,
    partitions: Sequence[PartitionId],
    streams: CapturedStreams,
    context: Context,
    wanted: RowFilter,
) -> Iterator[Detected]:
    """What detect makes of these partitions in so many processes, which end with this iterator."""
    shares = _shares(folder, partitions, workers)
    processes: list[tuple[SpawnProcess, Connection]] = []
    spawn = multiprocessing.get_context("spawn")
    try:
        for share in shares:
            ours, theirs = spawn.Pipe(duplex=False)
            own = CapturedStreams({key: span for key, span in streams.spans.items() if key[0] in share})
            job = _Job(folder.path, tuple(share), own, context, wanted)
            process = spawn.Process(target=_work, args=(job, theirs), daemon=True, name="detect")
            process.start()
            # With our copy of their end closed, a process that dies ends the pipe.
            theirs.close()
            processes.append((process, ours))
        yield from _in_order([_received(process, pipe) for process, pipe in processes])
    finally:
        for process, pipe in processes:
            pipe.close()
            process.terminate()
            process.join(_END_S)


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


class _Failure(NamedTuple):
    message: str
    next_step: str


def _work(job: _Job, pipe: Connection) -> None:
    """What a worker's process does."""
    try:
        found = detect_blocks(
            Detect(), CaptureFolder(job.path), sorted(job.partitions), job.streams, job.context, job.wanted
        )
        for block in found:
            _send(pipe, block)
        pipe.send(None)
    except PausetraceError as err:
        pipe.send(_Failure(err.message, err.next_step))
    except BrokenPipeError:
        return


def _send(pipe: Connection, block: Detected) -> None:
    """A block as names and one run of rows, which is much quicker than batch by batch."""
    names = [
        (tuple(batch.stream), batch.seq, batch.mark_ns, batch.ports, len(batch.events), batch.lost)
        for batch in block.episodes
    ]
    pipe.send((block.until_ms, block.messages, block.at_the_end, names))
    if names:
        rows = joined([batch.events for batch in block.episodes])
        pipe.send_bytes(rows.view(np.uint8).data if len(rows) else b"")


def _received(process: SpawnProcess, pipe: Connection) -> Iterator[Detected]:
    while True:
        try:
            told = pipe.recv()
            if told is None:
                return
            if isinstance(told, _Failure):
                raise CaptureError(*told)
            until_ms, messages, at_the_end, names = told
            rows = np.frombuffer(pipe.recv_bytes(), EVENT) if names else np.zeros(0, EVENT)
        except (EOFError, OSError, pickle.UnpicklingError) as err:
            process.join(_END_S)
            raise PausetraceError(
                f"a worker ended before its work was done (exit status {process.exitcode})",
                "see whether memory is short; try fewer --workers",
            ) from err
        episodes, begin = [], 0
        for stream, seq, mark_ns, ports, count, lost in names:
            events = rows[begin : begin + count]
            episodes.append(Batch(StreamKey(*stream), seq, mark_ns, ports, events, lost))
            begin += count
        yield Detected(until_ms, messages, episodes, at_the_end)


def _episodes(items: Sequence[Item]) -> list[Batch]:
    return [item for item in items if isinstance(item, Batch)]
