"""Events as columns, and the choice of rows."""

import numpy as np
import pytest

from pausetrace.columns import Columns, Selection, select
from stream import kinds, wire
from stream.batch import Batch
from tests.pausetrace.sample_batches import PAUSES, QUEUES


def test_names_are_decoded() -> None:
    columns = Columns.of([PAUSES, QUEUES])
    assert columns.device.tolist() == ["h9", "h9", "h9", "tor4"]
    assert columns.port.tolist() == ["eth0", "eth0", "eth1", "p2"]
    assert columns.kind.tolist() == ["PFC_XOFF", "PFC_XON", "PFC_PAUSED", "QUEUE_DEPTH"]
    assert columns.side.tolist() == ["rx", "rx", "rx", "tx"]
    assert columns.source.tolist() == ["probe-h9"] * 3 + ["gnmi"]
    assert columns.seq.tolist() == [7, 8, 9, 0]


def test_a_measure_is_found_by_name_and_masked_elsewhere() -> None:
    columns = Columns.of([PAUSES, QUEUES])
    paused = columns.measure("paused_ns")
    assert paused.dtype == np.int64
    assert paused.tolist() == [None, None, 412_000, None]
    assert columns.measure("peak_bytes").tolist() == [None, None, None, 240_000]
    assert columns.measure("mean_bytes").tolist() == [None] * 4  # unknown in this row


def test_a_measure_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError, match="no kind has a measure 'pause_ns'"):
        Columns.of([PAUSES]).measure("pause_ns")


def test_columns_of_nothing_are_empty() -> None:
    columns = Columns.of([])
    assert len(columns) == 0
    assert all(len(column) == 0 for column in columns.to_dict().values())


def test_to_dict_has_every_column_at_one_length() -> None:
    columns = Columns.of([PAUSES, QUEUES]).to_dict()
    assert {len(column) for column in columns.values()} == {4}
    assert {"time_ns", "device", "port", "kind", "value"} <= columns.keys()


def test_what_travels_over_the_wire_has_the_same_columns() -> None:
    read = wire.decode("pfc", wire.encode(PAUSES), PAUSES.key)
    before, after = Columns.of([PAUSES]).to_dict(), Columns.of([read]).to_dict()
    assert all((before[name] == after[name]).all() for name in before)


def test_texts_stay_with_their_rows_where_unknown_kinds_were_left_out() -> None:
    events = PAUSES.events.copy()
    events["kind"][1] = 255
    sent = Batch(PAUSES.stream, 7, PAUSES.mark_ns, PAUSES.ports, events, texts=((1, "lost"), (2, "kept")))
    read = wire.decode("pfc", _unchecked(sent), PAUSES.key)
    columns = Columns.of([read])
    assert columns.text.tolist() == ["", "kept"]
    assert columns.seq.tolist() == [7, 9]


def _unchecked(batch: Batch) -> bytes:
    """A value as a later version would send it: a kind that this one does not know."""
    known = batch.events.copy()
    known["kind"][1] = kinds.PFC_XON
    value = bytearray(wire.encode(Batch(batch.stream, batch.seq, batch.mark_ns, batch.ports, known, texts=batch.texts)))
    value[len(value) - 56 * 2 + 52] = 255
    return bytes(value)


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(), [True, True, True]),
        (Selection(devices=frozenset({"h9"})), [True, True, True]),
        (Selection(devices=frozenset({"h8"})), [False, False, False]),
        (Selection(ports=frozenset({"eth1", "p7"})), [False, False, True]),
        (Selection(priorities=frozenset({3})), [True, True, False]),
        (Selection(kinds=frozenset({kinds.PFC_XOFF, kinds.PFC_PAUSED})), [True, False, True]),
        (Selection(ports=frozenset({"eth0"}), kinds=frozenset({kinds.PFC_XON})), [False, True, False]),
    ],
)
def test_rows_are_chosen_by_all_conditions(selection: Selection, wanted: list[bool]) -> None:
    assert selection.rows(PAUSES).tolist() == wanted


def test_select_keeps_the_wanted_rows() -> None:
    columns = select(Columns.of([PAUSES]), np.array([False, True, True]))
    assert columns.kind.tolist() == ["PFC_XON", "PFC_PAUSED"]
