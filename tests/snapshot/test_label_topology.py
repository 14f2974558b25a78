"""Label topologies: nodes grouped by their labels, level by level, with sums and common domains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from muster.snapshot import NO_ROW
from muster.snapshot.labels import LabelTopology, NodeLabels, build_label_topology
from muster.testing import node


def topology(*nodes: Mapping[str, str], levels: tuple[str, ...] = ("zone", "rack")) -> LabelTopology:
    """A topology over nodes with the given labels; node rows are in the order given."""
    listed = [node(f"n{row}", labels=labels) for row, labels in enumerate(nodes)]
    return build_label_topology("network", levels, NodeLabels(listed), len(listed))


def at(zone: str, rack: str) -> dict[str, str]:
    return {"zone": zone, "rack": rack}


MIXED = topology(at("z2", "r1"), at("z1", "r2"), at("z1", "r1"), {"zone": "z1"}, at("z1", "r2"), at("z2", "r1"))


def test_domains_are_label_values_from_the_widest_on_in_the_order_of_names() -> None:
    assert MIXED.names == ["root", "z1", "z2", "z1.r1", "z1.r2", "z2.r1"]
    assert MIXED.level.tolist() == [0, 1, 1, 2, 2, 2]
    assert MIXED.parent.tolist() == [NO_ROW, 0, 0, 1, 1, 2]


def test_a_domain_holds_the_nodes_with_its_labels_wherever_their_rows_are() -> None:
    held = {name: MIXED.nodes(domain).tolist() for domain, name in enumerate(MIXED.names)}
    assert held == {
        "root": [2, 1, 4, 0, 5],
        "z1": [2, 1, 4],
        "z2": [0, 5],
        "z1.r1": [2],
        "z1.r2": [1, 4],
        "z2.r1": [0, 5],
    }


def test_a_node_that_lacks_a_label_is_in_no_domain() -> None:
    assert MIXED.owners(0, 6).tolist() == [0, 0, 0, NO_ROW, 0, 0]
    assert MIXED.owners(2, 6).tolist() == [5, 4, 3, NO_ROW, 4, 5]


def test_the_same_rack_name_in_two_zones_is_two_racks() -> None:
    table = topology(at("z1", "r1"), at("z2", "r1"))
    assert table.names == ["root", "z1", "z2", "z1.r1", "z2.r1"]


def test_sums_are_those_of_every_domain() -> None:
    amounts = np.array([[1, 10], [2, 20], [4, 40], [100, 100], [8, 80], [16, 160]], np.int64)
    assert MIXED.sums(amounts)[:, 0].tolist() == [31, 14, 17, 4, 10, 17]
    assert MIXED.sums(amounts)[:, 1].tolist() == [310, 140, 170, 40, 100, 170]


@pytest.mark.parametrize(
    ("nodes", "narrowest", "expected"),
    [
        ([1, 4], None, "z1.r2"),
        ([1, 4], 1, "z1"),
        ([1, 2], None, "z1"),
        ([0, 1], None, "root"),
        ([1, 3], None, "z1.r2"),
        ([3], None, "root"),
        ([], None, "root"),
    ],
)
def test_the_common_domain_is_the_narrowest_around_nodes(
    nodes: list[int], narrowest: int | None, expected: str
) -> None:
    assert MIXED.names[MIXED.common_domain(np.array(nodes, np.intp), narrowest)] == expected


def test_ancestors_are_the_domains_of_a_level_around_others() -> None:
    assert MIXED.ancestors(np.array([3, 4, 5, 2], np.intp), 1).tolist() == [1, 1, 2, 2]


def test_levels_are_found_by_their_label_and_others_are_refused() -> None:
    assert [MIXED.level_of("zone"), MIXED.level_of("rack")] == [1, 2]
    with pytest.raises(ValueError, match="has no level 'spine'; it has zone, rack"):
        MIXED.level_of("spine")


@pytest.mark.parametrize("levels", [("zone",), ("zone", "rack"), ()])
def test_without_nodes_in_it_a_topology_has_only_its_root(levels: tuple[str, ...]) -> None:
    table = topology(levels=levels)
    assert table.names == ["root"]
    assert [len(table.at_level(level)) for level in range(1, len(levels) + 1)] == [0] * len(levels)
    assert table.sums(np.zeros((0, 3), np.int64)).tolist() == [[0, 0, 0]]
