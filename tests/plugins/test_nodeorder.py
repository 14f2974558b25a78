"""Node order: the points of each score, worked out by hand, and how weights combine them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import UserError
from muster.framework import PluginOption
from muster.testing import builders
from tests.plugins.documents import node, pod
from tests.plugins.sessions import (
    REGISTRY,
    all_scores,
    evict,
    fixed_scores,
    live_scores,
    open_session,
    place,
    task_row,
)

OFF = {
    f"{name}.weight": 0
    for name in (
        "leastrequested",
        "mostrequested",
        "balancedresource",
        "nodeaffinity",
        "podaffinity",
        "tainttoleration",
        "podtopologyspread",
    )
}


def only(**weights: int) -> dict[str, int]:
    return {**OFF, **{f"{name}.weight": weight for name, weight in weights.items()}}


# -- resources ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        # (3/4 + 7/8) / 2 and (1/2 + 3/4) / 2 of the node is free, in whole points per resource
        ("leastrequested", {"large": (75 + 87) // 2, "small": (50 + 75) // 2}),
        ("mostrequested", {"large": (25 + 12) // 2, "small": (50 + 25) // 2}),
        # half the difference of the used fractions, 1/16 and 1/8, makes 93 and 87 of the 100 points of an empty node
        ("balancedresource", {"large": 50 + (50 + 93 - 100) // 2, "small": 50 + (50 + 87 - 100) // 2}),
    ],
)
def test_resources(score: str, expected: dict[str, int]) -> None:
    objects = [
        builders.node("large", cpu=4, memory="8Gi"),
        builders.node("small", cpu=2, memory="4Gi"),
        builders.pod("p", cpu=1, memory="1Gi"),
    ]
    assert all_scores(open_session(objects, nodeorder=only(**{score: 1})), "p") == expected
    tripled = {name: 3 * points for name, points in expected.items()}
    assert all_scores(open_session(objects, nodeorder=only(**{score: 3})), "p") == tripled


def test_gpus_are_balanced_for_those_who_ask_for_them() -> None:
    objects = [
        builders.node("n", cpu=4, memory="4Gi", gpu=2),
        builders.pod("with", cpu=1, memory="1Gi", gpu=2),
        builders.pod("without", cpu=1, memory="1Gi"),
    ]
    session = open_session(objects, nodeorder=only(balancedresource=1))
    # fractions 1/4, 1/4 and 1: standard deviation 0.3535, so 64 of the 100 points that the empty node has
    assert all_scores(session, "with") == {"n": 50 + (50 + 64 - 100) // 2}
    assert all_scores(session, "without") == {"n": 75}


def test_the_defaults_are_volcanos() -> None:
    given = REGISTRY.make_plugin(PluginOption("nodeorder")).arguments
    spoken = REGISTRY.make_plugin(
        PluginOption(
            "nodeorder",
            arguments={
                "leastrequested.weight": 1,
                "mostrequested.weight": 0,
                "balancedresource.weight": 1,
                "nodeaffinity.weight": 2,
                "podaffinity.weight": 2,
                "tainttoleration.weight": 3,
                "imagelocality.weight": "1",
                "podtopologyspread.weight": 2,
                "selectorspread.weight": 0,
            },
        )
    )
    assert given == spoken.arguments


@pytest.mark.parametrize("value", [-1, "many", 1.5, [1]])
def test_wrong_weights_are_named(value: Any) -> None:
    with pytest.raises(UserError, match=r"plugin nodeorder: .*nodeaffinity\.weight"):
        REGISTRY.make_plugin(PluginOption("nodeorder", arguments={"nodeaffinity.weight": value}))


# -- node affinity and taints --------------------------------------------------------------------------------


def prefer(*terms: tuple[int, str, str]) -> dict[str, Any]:
    preferred = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}
        for weight, key, value in terms
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def test_preferred_node_affinity_adds_the_weights_of_matching_terms() -> None:
    nodes = [node("a", {"disk": "ssd", "zone": "z1"}), node("b", {"disk": "ssd"}), node("c")]
    asked = pod(**prefer((10, "disk", "ssd"), (5, "zone", "z1")))
    session = open_session([*nodes, asked], nodeorder=only(nodeaffinity=2))
    assert fixed_scores(session, "p") == {"a": 30, "b": 20, "c": 0}


def test_untolerated_soft_taints_cost_points() -> None:
    soft = [{"key": key, "effect": "PreferNoSchedule"} for key in ("k1", "k2", "k3")]
    nodes = [node("a"), node("b", taints=soft[:1]), node("c", taints=soft)]
    nodes.append(node("hard", taints=[{"key": "k9", "effect": "NoSchedule"}, *soft, *soft]))
    asked = [pod("p"), pod("q", tolerations=[{"key": "k1", "operator": "Exists"}])]
    session = open_session([*nodes, *asked], predicates={}, nodeorder=only(tainttoleration=3))
    # The node that the pod may not use does not stretch the scale.
    assert fixed_scores(session, "p") == {"a": 300, "b": 3 * (100 - 33), "c": 0, "hard": 0}
    assert fixed_scores(session, "q") == {"a": 300, "b": 300, "c": 0, "hard": 0}


def test_all_nodes_without_soft_taints_are_equal() -> None:
    session = open_session([node("a"), node("b"), pod()], nodeorder=only(tainttoleration=3))
    assert len(set(fixed_scores(session, "p").values())) == 1


# -- pod affinity and spread ---------------------------------------------------------------------------------


def weighted(kind: str, *terms: tuple[int, str, str]) -> dict[str, Any]:
    preferred = [
        {"weight": weight, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}}
        for weight, app, key in terms
    ]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


ZONES = [node("a1", {"zone": "a"}), node("a2", {"zone": "a"}), node("b1", {"zone": "b"}), node("x")]


def web(name: str, on: str) -> Any:
    return pod(name, {"app": "web"}, nodeName=on)


def test_preferred_pod_affinity_is_stretched_between_worst_and_best() -> None:
    both = {**weighted("podAffinity", (10, "web", "zone")), **weighted("podAntiAffinity", (30, "db", "zone"))}
    running = [web("w1", "a1"), web("w2", "a2"), pod("d", {"app": "db"}, nodeName="b1")]
    session = open_session([*ZONES, *running, pod(affinity=both)], nodeorder=only(podaffinity=2))
    # a: +20, b: -30, x: 0, hence 0..100 over 50 points
    assert live_scores(session, "p") == {"a1": 200, "a2": 200, "b1": 0, "x": 120}


def test_preferences_of_running_pods_work_the_other_way_too() -> None:
    lonely = pod("lonely", affinity=weighted("podAntiAffinity", (10, "web", "zone")), nodeName="a1")
    session = open_session([*ZONES, lonely, pod("p", {"app": "web"})], nodeorder=only(podaffinity=1))
    assert session.live_tasks() == {task_row(session, "p")}
    assert live_scores(session, "p") == {"a1": 0, "a2": 0, "b1": 100, "x": 100}
    evict(session, "lonely")
    assert set(live_scores(session, "p").values()) == {0}


def test_required_affinity_of_running_pods_counts_when_it_has_a_weight() -> None:
    required = [{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    friend = pod("friend", affinity=affinity, nodeName="b1")
    objects = [*ZONES, friend, pod("p", {"app": "web"})]
    assert open_session(objects, nodeorder=only(podaffinity=1)).live_tasks() == frozenset()
    session = open_session(objects, nodeorder={**only(podaffinity=1), "podaffinity.hardWeight": 1})
    assert live_scores(session, "p") == {"a1": 0, "a2": 0, "b1": 100, "x": 0}


def test_soft_spread_prefers_the_emptier_zone() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    asked = [pod(name, {"app": "web"}, topologySpreadConstraints=[constraint]) for name in ("p", "q")]
    session = open_session([*ZONES, web("w", "a1"), *asked], nodeorder=only(podtopologyspread=2))
    # loads ln(4) = 1.39 in zone a, 0 in zone b; the node without a zone is not rated
    assert live_scores(session, "p") == {"a1": 0, "a2": 0, "b1": 200, "x": 0}
    place(session, "p", "b1")
    assert live_scores(session, "q") == {"a1": 200, "a2": 200, "b1": 200, "x": 0}
