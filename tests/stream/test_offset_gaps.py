"""A gap in the offsets is found, and named after what the broker and the topic make of it."""

from stream.offset_gaps import COMPACTED, RETENTION, TRUNCATED, OffsetGap, OffsetTracker, PartitionId

PFC = PartitionId("pfc", 0)
LINK = PartitionId("link", 0)


def test_offsets_without_a_hole_make_no_gap() -> None:
    tracker = OffsetTracker(embedded=True)
    tracker.begin(PFC, None)
    assert [tracker.saw(PFC, offset) for offset in range(3)] == [None] * 3
    assert tracker.next_offset(PFC) == 3


def test_everything_missing_on_the_embedded_broker_was_truncated() -> None:
    tracker = OffsetTracker(embedded=True)
    tracker.begin(PFC, None)
    assert tracker.saw(PFC, 10) == OffsetGap("pfc", 0, 0, 10, TRUNCATED, loss=True)
    gap = tracker.saw(PFC, 501)
    assert gap is not None
    assert (gap.missing, str(gap)) == (490, f"pfc[0]@11: 490 messages {TRUNCATED}")


def test_where_a_real_partition_begins_says_nothing_but_a_hole_does() -> None:
    tracker = OffsetTracker(embedded=False)
    tracker.begin(PFC, None)
    assert tracker.saw(PFC, 1000) is None
    assert tracker.saw(PFC, 1003) == OffsetGap("pfc", 0, 1001, 1003, RETENTION, loss=True)


def test_compaction_leaves_natural_gaps() -> None:
    tracker = OffsetTracker(embedded=False)
    tracker.begin(LINK, None)
    tracker.saw(LINK, 0)
    assert tracker.saw(LINK, 7) == OffsetGap("link", 0, 1, 7, COMPACTED, loss=False)


def test_a_partition_that_comes_back_is_read_anew() -> None:
    tracker = OffsetTracker(embedded=True)
    tracker.begin(PFC, None)
    tracker.saw(PFC, 0)
    tracker.forget(PFC)
    assert tracker.next_offset(PFC) is None
    tracker.begin(PFC, 5)
    assert tracker.saw(PFC, 5) is None


def test_an_offset_seen_twice_is_no_gap() -> None:
    tracker = OffsetTracker(embedded=True)
    tracker.begin(PFC, 4)
    tracker.saw(PFC, 4)
    assert tracker.saw(PFC, 4) is None
