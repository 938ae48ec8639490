"""Rows chosen by time, device, port, priority, kind and flow are those that plain Python would choose."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from stream import wire
from stream.batch import Batch
from stream.capture_blocks import blocks
from stream.capture_reader import CaptureFolder
from stream.capture_streams import captured_streams
from stream.kinds import BY_CODE
from stream.replay_plan import Options, Plan
from stream.replay_rewrite import rewritten
from tests.stream.capture_samples import START_NS
from tests.stream.chosen_rows import SPAN_NS, WISHES, PlainRow, Wish, plain_rows, random_messages
from tests.stream.listed_source import capture_listed

MESSAGES = random_messages(seed=7)
ROWS = list(plain_rows(MESSAGES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CaptureFolder:
    path = tmp_path_factory.mktemp("chosen") / "c"
    capture_listed(MESSAGES, path)
    return CaptureFolder(path)


def chosen(wish: Wish) -> list[PlainRow]:
    return sorted(row for row in ROWS if wish.is_met(row))


def test_the_sample_has_every_sort_of_row() -> None:
    assert len(ROWS) > 200
    for field, least in (("device", 3), ("port", 3), ("kind", 5), ("priority", 3), ("flow", 3)):
        assert len(Counter(getattr(row, field) for row in ROWS)) == least
    assert any(row.text for row in ROWS)


@settings(max_examples=40, deadline=None)
@given(WISHES)
def test_replay_sends_the_rows_that_are_wanted_and_no_other(folder: CaptureFolder, wish: Wish) -> None:
    wanted = wish.row_filter()
    sent = [rewritten(due.message, 0, wanted) for due in Plan.of(folder, Options(wanted=wanted)).due()]
    assert sorted(plain_rows(sent)) == chosen(wish)


@settings(max_examples=40, deadline=None)
@given(WISHES)
def test_analyze_is_given_the_rows_that_are_wanted_and_no_other(folder: CaptureFolder, wish: Wish) -> None:
    wanted = wish.row_filter()
    streams = captured_streams(folder, ("pfc", "queue"), wanted)
    partitions = sorted({partition for partition, _ in streams.spans})
    given_rows = [
        row
        for block in blocks(folder, partitions, streams, wanted)
        for batch in block.batches
        for row in rows_of(batch)
    ]
    # Texts do not reach the steps.
    assert sorted(given_rows) == sorted(row._replace(text="") for row in chosen(wish))


def rows_of(batch: Batch) -> list[PlainRow]:
    return [
        PlainRow(
            batch.stream.topic, batch.stream.device, int(seq), int(row["time_ns"]), batch.ports[row["port"]],
            BY_CODE[int(row["kind"])].name, int(row["priority"]), int(row["flow"]), int(row["value"]), "",
        )
        for seq, row in zip(batch.row_seqs(), batch.events, strict=True)
    ]  # fmt: skip


def test_rows_left_out_leave_no_hole_in_their_stream(folder: CaptureFolder) -> None:
    wish = Wish(START_NS + SPAN_NS // 3, START_NS + SPAN_NS // 2, kinds=frozenset({"PFC_XOFF"}))
    wanted = wish.row_filter()
    next_seq: dict[object, int] = {}
    for due in Plan.of(folder, Options(wanted=wanted)).due():
        message = rewritten(due.message, 0, wanted)
        batch = wire.decode(message.topic, message.value or b"", message.key)
        assert next_seq.setdefault(batch.stream, batch.seq) == batch.seq
        next_seq[batch.stream] = batch.next_seq
    assert next_seq
