"""The document's examples of what a victim is worth, and what is needed at all."""

from __future__ import annotations

import numpy as np
import pytest

from muster.api import Node
from muster.engine.domains import ROOT
from muster.engine.evictions.gang.bundles import burden, coverage, efficiency
from muster.engine.evictions.gang.need import GangNeed, shortage, without_pods
from muster.engine.evictions.supply import Demand
from muster.snapshot import Amounts, Mirror, Snapshot
from muster.testing import node, pod


def amounts(*values: int) -> Amounts:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("need", "local", "total", "gain", "cost", "worth"),
    [
        # GPUs: a gang that is only here, against one that is elsewhere too.
        pytest.param([2], [2], [4], 1.0, 2.0, 0.5, id="1-A"),
        pytest.param([2], [2], [2], 1.0, 1.0, 1.0, id="1-B"),
        # CPUs: a large gang, against a small one that is all here.
        pytest.param([10], [10], [20], 1.0, 2.0, 0.5, id="2-C"),
        pytest.param([10], [2], [2], 0.2, 0.2, 1.0, id="2-D"),
        # CPUs and memory.
        pytest.param([4, 16], [4, 4], [4, 4], 1.25, 1.25, 1.0, id="3-E"),
        pytest.param([4, 16], [2, 8], [2, 8], 1.0, 1.0, 1.0, id="3-F"),
        # CPUs are needed, GPUs are not: they do not count.
        pytest.param([4, 0], [4, 0], [4, 0], 1.0, 1.0, 1.0, id="4-G"),
        pytest.param([4, 0], [4, 1], [4, 1], 1.0, 1.0, 1.0, id="4-H"),
    ],
)
def test_the_examples_of_the_document(
    need: list[int], local: list[int], total: list[int], gain: float, cost: float, worth: float
) -> None:
    needed = amounts(*need)
    assert coverage(amounts(*local), needed) == pytest.approx(gain)
    assert burden(amounts(*total), needed) == pytest.approx(cost)
    assert efficiency(amounts(*local)[None], amounts(*total)[None], needed) == pytest.approx([worth])


def test_what_costs_nothing_is_worth_everything() -> None:
    assert efficiency(amounts(2)[None], amounts(0)[None], amounts(4)).tolist() == [np.inf]


def picture(*nodes: Node) -> Snapshot:
    mirror = Mirror()
    for item in nodes:
        mirror.upsert(item)
    mirror.upsert(pod("p", gpu=1))
    return mirror.snapshot()


def missing(snapshot: Snapshot, count: int, **request: int) -> dict[str, int]:
    """What so many tasks lack in the whole cluster."""
    one = snapshot.axis.vector({"cpu": request["cpu"], "nvidia.com/gpu": request["gpu"], "pods": 1})
    demand = Demand(one, count, np.ones(len(snapshot.nodes), np.bool_))
    need = GangNeed(0, np.zeros(count, np.intp), one * count, without_pods(snapshot, one), (demand,), exact=True)
    return dict(snapshot.axis.amounts(shortage(snapshot, need, ROOT)[0]))


def test_what_is_needed_is_the_request_less_what_is_free() -> None:
    snapshot = picture(node("n", cpu=9, gpu=1))
    assert missing(snapshot, 2, cpu=4000, gpu=2000) == {"nvidia.com/gpu": 3000}


def test_when_only_places_are_missing_the_scarce_resources_are_needed_in_full() -> None:
    snapshot = picture(*(node(f"n{k}", cpu=9, gpu=1) for k in range(8)))
    assert missing(snapshot, 2, cpu=4000, gpu=2000) == {"nvidia.com/gpu": 4000}


def test_pods_count_only_where_nothing_else_is_requested() -> None:
    snapshot = picture(node("n", gpu=8))
    names = np.array(snapshot.axis.names)
    assert names[without_pods(snapshot, snapshot.axis.vector({"cpu": 1, "pods": 1}))].tolist() == ["cpu"]
    assert names[without_pods(snapshot, snapshot.axis.vector({"pods": 1}))].tolist() == ["pods"]
