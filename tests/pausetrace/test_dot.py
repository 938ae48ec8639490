"""Cascades as a graph in the DOT language: read back by a reader of the grammar, and by Graphviz where it is there."""

import shutil
import subprocess

import pytest
from msgspec.structs import replace

from pausetrace.class_names import CLASSES
from pausetrace.dot import COLOURS, MAX_PEN, MIN_PEN, dot_graph
from stream.cascade import Cascade, PausedQueue
from tests.pausetrace.dot_grammar import Graph, label_lines, read
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS

HOSTILE = [
    '"',
    "\\",
    'a"b\\',
    "\\n",
    "a\nb",
    "x -> y",
    "]; }",
    "<b>x</b>",
    "&lt;",
    "/* x */",
    "# x",
    "graph",
    "é世",
    "\x1b[2J",
]


def by_name(graph: Graph) -> dict[str, str]:
    """The id of each node by the first line of its label."""
    return {label_lines(attributes["label"])[0]: number for number, attributes in graph.nodes.items()}


def arrows(cascade: Cascade) -> set[tuple[str, str]]:
    graph = read(dot_graph([cascade]))
    names = {
        number: label_lines(attributes["label"])[0].partition(" priority")[0]
        for number, attributes in graph.nodes.items()
    }
    return {(names[tail], names[head]) for tail, head, _ in graph.edges}


def test_every_stopped_queue_points_at_what_stopped_it() -> None:
    assert arrows(SLOW_RECEIVER) == {
        ("tor4:p2", "h9"), ("agg5:p1", "tor4:p2"), ("core2:p3", "agg5:p1"), ("core3:p3", "agg5:p1"),
        ("agg3:p3", "core2:p3"), ("tor3:p4", "agg3:p3"), ("h6:eth0", "tor3:p4"), ("h7:eth0", "tor3:p4"),
    }  # fmt: skip


def test_roots_bear_class_and_share_and_hosts_are_boxes() -> None:
    graph = read(dot_graph([SLOW_RECEIVER]))
    ids = by_name(graph)
    root = graph.nodes[ids["h9"]]
    assert label_lines(root["label"]) == ["h9", "slow receiver (PCIe)", "88.3 % of the blame"]
    assert root["shape"] == "box"
    assert root["style"] == "filled"
    assert graph.nodes[ids["h6:eth0 priority 3"]]["shape"] == "box"
    assert "shape" not in graph.nodes[ids["tor4:p2 priority 3"]]


def test_arrows_are_as_thick_as_the_pause_time_that_they_stand_for() -> None:
    graph = read(dot_graph([SLOW_RECEIVER]))
    pens = {label_lines(graph.nodes[tail]["label"])[0]: float(seen["penwidth"]) for tail, _, seen in graph.edges}
    assert pens["tor4:p2 priority 3"] == MAX_PEN
    assert MIN_PEN < pens["core3:p3 priority 3"] < pens["h7:eth0 priority 3"] < pens["agg5:p1 priority 3"] < MAX_PEN


def test_a_loop_is_drawn_as_a_loop() -> None:
    loop = tuple(
        PausedQueue(device, "p1", 3, by, "p2", 1, 100, 300_000, 1, (f"{by}:p1",))
        for device, by in (("a", "b"), ("b", "c"), ("c", "a"))
    )
    cascade = replace(SLOW_RECEIVER, roots=(), queues=loop, edges=())
    assert arrows(cascade) == {("a:p1", "b:p1"), ("b:p1", "c:p1"), ("c:p1", "a:p1")}


def test_a_pauser_without_a_known_cause_is_a_node_of_its_own() -> None:
    queue = replace(SLOW_RECEIVER.queues[0], paused_by_device="", caused_by=())
    assert arrows(replace(SLOW_RECEIVER, roots=(), queues=(queue,), edges=())) == {("tor4:p2", "unknown")}


def test_several_cascades_are_clusters_without_a_common_node() -> None:
    graph = read(dot_graph([SLOW_RECEIVER, replace(SUSPECTS, id="0b"), replace(SUSPECTS, id="0c", merged_into="0b")]))
    assert [label_lines(label)[0] for label in graph.clusters.values()] == [
        "8a3f52c19b0d44e7 (critical)",
        "0b (suspects)",
    ]
    assert len(graph.nodes) == 2 * len(read(dot_graph([SLOW_RECEIVER])).nodes)
    assert all(tail in graph.nodes and head in graph.nodes for tail, head, _ in graph.edges)


def test_no_cascade_is_an_empty_graph() -> None:
    assert read(dot_graph([])) == Graph()


def hostile(name: str) -> Cascade:
    queues = tuple(replace(queue, device=name, caused_by=()) for queue in SLOW_RECEIVER.queues[:1])
    return replace(SLOW_RECEIVER, id=name, queues=queues, roots=(replace(SLOW_RECEIVER.roots[0], device=name),))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_and_never_read(name: str) -> None:
    graph = read(dot_graph([hostile(name)]))
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
    assert len(graph.edges) == 1
    assert f"{shown}:p2 priority 3" in by_name(graph)
    assert next(iter(graph.clusters.values())).startswith(graph_label(shown))


def graph_label(text: str) -> str:
    """A text as it stands inside a label's string, whose quotes are gone."""
    return text.replace("\\", "\\\\").replace("&", "&amp;")


def test_every_colour_of_a_class_can_be_read_on_paper() -> None:
    assert {named.colour for named in CLASSES.values()} <= COLOURS.keys()


@pytest.mark.graphviz
@pytest.mark.parametrize("name", HOSTILE)
def test_graphviz_reads_it(name: str) -> None:
    dot = shutil.which("dot")
    assert dot
    text = dot_graph([hostile(name)])
    done = subprocess.run([dot, "-Tplain"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    graph = read(text)
    parts = ["graph", *["node"] * len(graph.nodes), *["edge"] * len(graph.edges), "stop"]
    assert [line.split()[0] for line in done.stdout.splitlines()] == parts
