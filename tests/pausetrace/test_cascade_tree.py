"""Which queue hangs from which in the picture of a cascade."""

from typing import Any

from msgspec.structs import replace

from pausetrace.cascade_tree import Node, Tree, build_trees, place_name
from stream.cascade import PausedQueue
from tests.pausetrace.sample_cascades import CHAIN, SLOW_RECEIVER


def outline(children: list[Node]) -> dict[str, Any]:
    return {place_name(node.queue.device, node.queue.port): outline(node.children) for node in children}


def count(trees: list[Tree]) -> int:
    nodes = [node for tree in trees for node in tree.children]
    for node in nodes:
        nodes += node.children
    return len(nodes)


def test_a_chain_hangs_from_the_host_that_began_it() -> None:
    slow, collision = build_trees(SLOW_RECEIVER)
    assert slow.root == SLOW_RECEIVER.roots[0]
    assert outline(slow.children) == {
        "tor4:p2": {"agg5:p1": {"core2:p3": {"agg3:p3": {"tor3:p4": {"h6:eth0": {}}}}, "core3:p3": {}}}
    }
    assert outline(collision.children) == {"h7:eth0": {}}


def test_further_causes_are_named() -> None:
    slow, collision = build_trees(SLOW_RECEIVER)
    node = slow.children[0]
    while node.children:
        node = node.children[0]
    assert node.queue.device == "h6"
    assert collision.elsewhere == ["h6:eth0"]


def test_a_cause_that_names_its_priority_is_found() -> None:
    queues = tuple(
        replace(queue, caused_by=tuple(f"{name}:3" for name in queue.caused_by)) for queue in SLOW_RECEIVER.queues
    )
    assert outline(build_trees(replace(SLOW_RECEIVER, queues=queues))[0].children) == outline(
        build_trees(SLOW_RECEIVER)[0].children
    )


def test_every_queue_is_drawn_once_even_without_a_root() -> None:
    trees = build_trees(replace(SLOW_RECEIVER, roots=()))
    assert [tree.root for tree in trees] == [None]
    assert count(trees) == len(CHAIN)


def test_a_loop_of_pauses_is_cut_at_its_first_queue() -> None:
    loop = tuple(
        PausedQueue(device, "p1", 3, by, "p2", 1, pause_ns, 300_000, 1, (f"{by}:p1",))
        for device, by, pause_ns in (("a", "b", 100), ("b", "c", 300), ("c", "a", 200))
    )
    trees = build_trees(replace(SLOW_RECEIVER, roots=(), queues=loop, edges=()))
    assert [outline(tree.children) for tree in trees] == [{"b:p1": {"a:p1": {"c:p1": {}}}}]


def test_a_large_cascade_is_built_in_one_piece() -> None:
    chain = tuple(
        PausedQueue(f"s{i}", "p1", 3, f"s{i + 1}", "p2", 1, 100, 1_000, 1, (f"s{i + 1}:p1",)) for i in range(2_000)
    )
    assert count(build_trees(replace(SLOW_RECEIVER, roots=(), queues=chain, edges=()))) == 2_000


def test_queues_of_another_priority_do_not_mix() -> None:
    other = replace(SLOW_RECEIVER.queues[1], priority=4)
    trees = build_trees(replace(SLOW_RECEIVER, queues=(SLOW_RECEIVER.queues[0], other)))
    assert trees[-1].root is None
    assert outline(trees[-1].children) == {"agg5:p1": {}}
