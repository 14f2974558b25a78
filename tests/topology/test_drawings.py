"""The tree as lines, as a graph and as a picture."""

import re
from xml.etree import ElementTree as ET

import pytest

from muster.api import KubeObject
from muster.testing import node, pod
from muster.topology.drawings import MAX_NODES, MAX_SIDE, bar, dot_text, free_text, outline, text_lines
from muster.topology.svg import MAX_NAMED, Box, lay_out, svg_text
from muster.topology.view import Objects, make_view
from tests.topology.trees import hyper_node, two_racks

SVG = "{http://www.w3.org/2000/svg}"


def lines(things: list[KubeObject], *, everything: bool = False) -> list[str]:
    return list(text_lines(outline(make_view(Objects.of(things)), everything=everything)))


def rack(name: str, n_nodes: int) -> list[KubeObject]:
    return [hyper_node(name, 1, pattern=f"^{name}-"), *(node(f"{name}-{i}", gpu=8) for i in range(n_nodes))]


def test_the_tree() -> None:
    assert lines([*two_racks(), pod("p", gpu=4, node="n0")]) == [
        "<cluster-top-hypernode>  ■□□□□□□□  5 nodes, 36 of 40 GPUs free",
        "├── spine  ■□□□□□□□  tier 2, spine, 4 nodes, 28 of 32 GPUs free",
        "│   ├── rack-0  ■■□□□□□□  tier 1, rack, 2 nodes, 12 of 16 GPUs free",
        "│   │   ├── n0  ■■■■□□□□  4 of 8 GPUs free",
        "│   │   └── n1  □□□□□□□□  8 of 8 GPUs free",
        "│   └── rack-1  □□□□□□□□  tier 1, rack, 2 nodes, 16 of 16 GPUs free",
        "│       ├── n2  □□□□□□□□  8 of 8 GPUs free",
        "│       └── n3  □□□□□□□□  8 of 8 GPUs free",
        "└── n4  □□□□□□□□  8 of 8 GPUs free",
    ]


def test_faults_stand_on_their_hypernode() -> None:
    found = lines([node("n", unschedulable=True), hyper_node("rack", 1, nodes=["n"], domains=["nowhere"])])
    assert found[1:] == [
        "└── rack  □□□□□□□□  tier 1, 1 node, 96 of 96 CPUs free",
        "    ├── ! member HyperNode 'nowhere' does not exist",
        "    └── n  □□□□□□□□  96 of 96 CPUs free  cordoned",
    ]


def test_many_nodes_side_by_side_are_summed_up() -> None:
    running = [pod("a", gpu=8, node="r-0"), pod("b", gpu=1, node="r-1")]
    [_, _, folded] = lines([*rack("r", MAX_SIDE + 1), *running])
    assert folded == "    └── 21 nodes  ■□□□□□□□  19 free, 1 partly used, 1 full"
    assert len(lines([*rack("r", MAX_SIDE), *running])) == 2 + MAX_SIDE
    assert len(lines([*rack("r", MAX_SIDE + 1), *running], everything=True)) == 2 + MAX_SIDE + 1


def test_in_a_large_tree_all_nodes_are_summed_up() -> None:
    n_racks = MAX_NODES // 10
    small = [thing for i in range(n_racks) for thing in rack(f"r{i}", 10)]
    assert len(lines(small)) == 1 + n_racks * 11
    assert len(lines([*small, *rack("more", 1)])) == 1 + MAX_SIDE * 2 + 1


def test_many_domains_side_by_side_are_summed_up_after_the_first() -> None:
    found = lines([thing for i in range(MAX_SIDE + 3) for thing in rack(f"r{i}", 1)])
    assert found[-1] == "└── and 3 more domains  □□□□□□□□  3 nodes, 24 of 24 GPUs free"
    assert len(found) == 1 + 2 * MAX_SIDE + 1


@pytest.mark.parametrize(
    ("free", "total", "shown"),
    [
        (0, 0, ""),
        (1000, 1000, "□"),
        (0, 2000, "■■"),
        (500, 1000, "■"),
        (7999, 8000, "■□□□□□□□"),
        (1, 64_000, "■■■■■■■■"),
        (64_000, 64_000, "□□□□□□□□"),
        (250, 500, "■"),
    ],
)
def test_a_bar_is_free_only_where_all_of_a_cell_is(free: int, total: int, shown: str) -> None:
    assert bar(free, total) == shown


def test_amounts_in_words() -> None:
    assert free_text("nvidia.com/gpu", 500, 8000) == "500m of 8 GPUs free"
    assert free_text("memory", 2**30, 2**31) == "1Gi of 2Gi memory free"
    assert free_text("cpu", 0, 0) == "no CPUs"


def test_the_graph_has_a_statement_per_line_and_an_edge_to_each() -> None:
    text = dot_text(make_view(Objects.of([*two_racks(), node('quote"d')])))
    assert text.startswith("digraph topology {\n")
    assert text.endswith("}\n")
    assert len(re.findall(r"\[label=", text)) == 10
    assert len(re.findall(r" -> ", text)) == 9
    assert 'label="quote\\"d\\n' in text


def picture(things: list[KubeObject]) -> ET.Element:
    return ET.fromstring(svg_text(make_view(Objects.of(things))))


def test_the_picture_is_well_formed_and_self_contained() -> None:
    text = svg_text(make_view(Objects.of([*two_racks(), hyper_node("<&>", 7)])))
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert re.findall(r"https?://", text) == ["http://"]  # the name of the format itself
    assert "<script" not in text


def test_the_picture_names_domains_and_nodes_and_shows_each_device() -> None:
    root = picture([*two_racks(), pod("p", gpu=3, node="n0")])
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert {"whole cluster", "spine", "rack-0", "rack-1", "n0", "n4", "tier 1, rack"} <= texts
    legend = 1
    kinds = [element.get("class") for element in root.iter(f"{SVG}rect")]
    bars_with_something_used = 3
    assert kinds.count("used") == 3 + bars_with_something_used + legend
    assert kinds.count("free") == 5 * 8 - 3 + legend


def test_a_fault_is_drawn_in_its_box() -> None:
    root = picture([node("n"), hyper_node("rack", 1, nodes=["n"], domains=["nowhere"])])
    said = " ".join(str(element.text) for element in root.iter(f"{SVG}text") if element.get("class") == "bad")
    assert said == "member HyperNode 'nowhere' does not exist"
    assert [e.get("class") for e in root.iter(f"{SVG}rect") if "wrong" in str(e.get("class"))] == ["box t1 wrong"]


def test_large_clusters_are_drawn_as_squares_by_how_full_they_are() -> None:
    running = [pod("a", gpu=8, node="r-0"), pod("b", gpu=4, node="r-1"), pod("c", gpu="100m", node="r-2")]
    root = picture([*rack("r", MAX_NAMED + 1), *running])
    cells = [str(e.get("class")) for e in root.iter(f"{SVG}rect") if str(e.get("class")).startswith("cell")]
    in_legend = 1
    counts = [cells.count(f"cell u{level}") - in_legend for level in range(5)]
    assert counts == [MAX_NAMED - 2, 1, 1, 0, 1]
    assert all(element.text != "r-0" for element in root.iter(f"{SVG}text"))
    assert any(str(element.text).startswith("r-0: 0 of 8") for element in root.iter(f"{SVG}title"))


def inside(box: Box) -> list[tuple[int, int, int, int]]:
    boxes = [(x, y, inner.width, inner.height) for inner, x, y in box.inner]
    return boxes + [(x, y, *box.cell) for _, x, y in box.cells]


@pytest.mark.parametrize("sizes", [[1], [3, 7], [1, 20, 5, 5], [40, 60, 3], [16] * 9])
def test_nothing_in_the_picture_overlaps_or_sticks_out(sizes: list[int]) -> None:
    racks = [thing for i, n in enumerate(sizes) for thing in rack(f"r{i}", n)]
    spine = hyper_node("spine", 2, domains=[f"r{i}" for i in range(len(sizes))], nodes=["x"])
    pending = [lay_out(make_view(Objects.of([*racks, spine, node("x"), node("y")])).root)]
    while pending:
        box = pending.pop()
        pending += [inner for inner, _, _ in box.inner]
        taken = inside(box)
        for place, (x, y, width, height) in enumerate(taken):
            assert x >= 0
            assert y >= 0
            assert x + width <= box.width
            assert y + height <= box.height
            for x2, y2, width2, height2 in taken[:place]:
                apart = x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y
                assert apart
