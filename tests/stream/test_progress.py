"""Progress follows marks and the roster, fabric by fabric, in bounded memory."""

from collections.abc import Mapping

from msgspec.structs import replace

from stream.batch import MARK_END, Batch, StreamKey
from stream.progress import MAX_FABRICS, OTHER_FABRICS, FabricProgress, Progress, Settled
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.stream.sample_items import LINK


class Waiting:
    """A step that tells how far it is."""

    def __init__(self, settled: Mapping[str, Settled]) -> None:
        self._settled = settled

    def settled(self) -> Mapping[str, Settled]:
        """As given."""
        return self._settled


def batch(fabric: str, mark_ns: int) -> Batch:
    return Batch(StreamKey(fabric, "s", "e", "pfc", "leaf1"), 0, mark_ns, (), empty_events(0))


def test_the_newest_mark_is_that_of_any_stream_and_never_the_mark_of_an_end() -> None:
    progress = Progress()
    progress.took([batch("a", 5), batch("a", 3), batch("a", MARK_END), batch("b", 9)])
    assert progress.fabrics(None) == {"a": FabricProgress(5), "b": FabricProgress(9)}


def test_facts_move_the_mark_too() -> None:
    progress = Progress()
    progress.took([replace(LINK, fabric="a", stream=replace(LINK.stream, mark_ns=77))])
    assert progress.fabrics(None)["a"].newest_mark_ns == 77


def test_streams_are_up_from_their_source_up_to_its_down() -> None:
    progress = Progress()
    up = SourceUp("a", "s", "e", 0, (StreamUp("pfc", "leaf1"), StreamUp("queue", "leaf1")))
    progress.took([up, up])
    assert progress.fabrics(None)["a"].streams_up == 2
    progress.took([SourceDown("a", "s", "e", 1, (StreamDown("pfc", "leaf1"),))])
    assert progress.fabrics(None)["a"].streams_up == 1


def test_a_step_that_waits_for_streams_knows_better_which_are_up() -> None:
    progress = Progress()
    progress.took([batch("a", 5), SourceUp("a", "s", "e", 0, (StreamUp("pfc", "leaf1"),))])
    step = Waiting({"a": Settled(3, 4), "restored": Settled(2, 1)})
    assert progress.fabrics(step) == {"a": FabricProgress(5, 3, 4), "restored": FabricProgress(0, 2, 1)}
    assert progress.fabrics(Waiting({"a": Settled(MARK_END, 0)})) == {"a": FabricProgress(5, 0, 0)}


def test_more_fabrics_than_anybody_has_are_told_as_one() -> None:
    progress = Progress()
    progress.took([batch(f"f{number}", number) for number in range(MAX_FABRICS + 50)])
    fabrics = progress.fabrics(Waiting({"new": Settled(8, 1), "newer": Settled(7, 1)}))
    assert len(fabrics) == MAX_FABRICS + 1
    assert fabrics[OTHER_FABRICS] == FabricProgress(MAX_FABRICS + 49, 7, 2)
