"""Node placement and resource type: points worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject, UserError
from muster.framework import PluginOption
from muster.testing import builders
from tests.plugins.sessions import REGISTRY, all_scores, evict, open_session, place

PACK: dict[str, Any] = {}


def gpu_nodes(**gpus: int) -> list[KubeObject]:
    return [builders.node(name, gpu=count, cpu=16) for name, count in gpus.items()]


def test_the_node_with_the_fewest_free_gpus_is_best_whatever_its_size() -> None:
    objects = [
        *gpu_nodes(large=16, small=4),
        builders.pod("r", gpu=13, node="large"),
        builders.pod("p", gpu=1),
    ]
    # 3 of 16 free against 4 of 4: the small node is no fuller by amount.
    scores = all_scores(open_session(objects, nodeplacement=PACK), "p")
    assert scores == {"large": pytest.approx(9 * (1 - 3 / 16)), "small": pytest.approx(9 * (1 - 4 / 16))}


def test_tasks_without_a_gpu_are_placed_by_cpu() -> None:
    objects = [
        builders.node("a", gpu=1, cpu=8),
        builders.node("b", gpu=8, cpu=16),
        builders.pod("r", cpu=12, gpu=1, node="b"),
        builders.pod("p", cpu=1),
    ]
    assert all_scores(open_session(objects, nodeplacement=PACK), "p") == {
        "a": pytest.approx(9 * (1 - 8 / 16)),
        "b": pytest.approx(9 * (1 - 4 / 16)),
    }


def test_spread_prefers_the_largest_free_part() -> None:
    objects = [*gpu_nodes(a=8, b=2), builders.pod("r", gpu=4, node="a"), builders.pod("p", gpu=1)]
    scores = all_scores(open_session(objects, nodeplacement={"gpu": "spread"}), "p")
    assert scores == {"a": 0.5, "b": 1.0}


def test_each_kind_of_task_has_its_own_strategy() -> None:
    objects = [
        *gpu_nodes(a=8, b=8),
        builders.pod("r", gpu=4, cpu=4, node="a"),
        builders.pod("g", gpu=1),
        builders.pod("c", cpu=1),
    ]
    session = open_session(objects, nodeplacement={"gpu": "binpack", "cpu": "spread"})
    with_gpu, without = all_scores(session, "g"), all_scores(session, "c")
    assert with_gpu["a"] > with_gpu["b"]
    assert without["a"] < without["b"]


def test_what_is_leaving_is_free_and_what_is_promised_is_not() -> None:
    objects = [*gpu_nodes(n=8), builders.pod("r", gpu=4, node="n"), builders.pod("p", gpu=2), builders.pod("q", gpu=1)]
    session = open_session(objects, nodeplacement={"gpu": "spread"})
    assert all_scores(session, "q") == {"n": 4 / 8}
    evict(session, "r")
    assert all_scores(session, "q") == {"n": 8 / 8}
    place(session, "p", "n", waits=True)
    assert all_scores(session, "q") == {"n": 6 / 8}


@pytest.mark.parametrize("strategy", ["binpack", "spread"])
def test_nodes_without_the_resource_get_nothing(strategy: str) -> None:
    objects = [*gpu_nodes(a=0, b=4), builders.pod("r", gpu=2, node="b"), builders.pod("p", gpu=1)]
    scores = all_scores(open_session(objects, nodeplacement={"gpu": strategy}), "p")
    assert scores["a"] == 0.0
    assert scores["b"] > 0.0


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(UserError, match=r"plugin nodeplacement: arguments: .*gpu"):
        REGISTRY.make_plugin(PluginOption("nodeplacement", arguments={"gpu": "pile"}))


def test_tasks_without_a_gpu_prefer_nodes_without_one() -> None:
    sliced = builders.node("sliced", others={"nvidia.com/mig-1g.5gb": 2})
    objects = [*gpu_nodes(gpus=4, plain=0), sliced, builders.pod("c", cpu=1), builders.pod("g", gpu=1)]
    session = open_session(objects, resourcetype={})
    assert all_scores(session, "c") == {"gpus": 0.0, "plain": 10.0, "sliced": 0.0}
    assert all_scores(session, "g") == {"gpus": 0.0, "plain": 0.0, "sliced": 0.0}


def test_the_type_of_the_node_counts_more_than_how_full_it_is() -> None:
    objects = [*gpu_nodes(gpus=4, plain=0), builders.pod("r", cpu=15, node="gpus"), builders.pod("p", cpu=1)]
    scores = all_scores(open_session(objects, nodeplacement=PACK, resourcetype={}), "p")
    assert scores["plain"] > scores["gpus"]
