"""Resource strategies: points worked out by hand, what pods may say for themselves, and what stays free for devices."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject, Pod, UserError, names
from muster.framework import PluginOption, SchedulerConfig, Session
from muster.plugins.nodes.resource_strategy_fit import Strategy, StrategyArguments, strategy_of
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror
from muster.testing import builders
from muster.testing.conformance import check_plugin
from tests.plugins.sessions import (
    REGISTRY,
    all_scores,
    class_row,
    fixed_scores,
    live_reasons,
    open_session,
    place,
    task_row,
)

GPU = "nvidia.com/gpu"
FIT = "resource-strategy-fit"
MIXED = {"cpu": {"type": "LeastAllocated", "weight": 1}, GPU: {"type": "MostAllocated", "weight": 3}}


def arguments(**given: Any) -> StrategyArguments:
    plugin = REGISTRY.make_plugin(PluginOption(FIT, arguments=given))
    assert isinstance(plugin.arguments, StrategyArguments)
    return plugin.arguments


def fit(objects: list[KubeObject], **given: Any) -> Session:
    return open_session(objects, **{FIT: given})


def used_and_empty(*pods: Pod) -> list[KubeObject]:
    """Two nodes of 8 cores and 4 GPUs, one of them half used."""
    return [
        builders.node("empty", cpu=8, memory="8Gi", gpu=4),
        builders.node("used", cpu=8, memory="8Gi", gpu=4),
        builders.pod("r", cpu=4, gpu=2, node="used"),
        *pods,
    ]


# -- scores --------------------------------------------------------------------------------------------------


def test_each_resource_has_its_own_direction() -> None:
    session = fit(used_and_empty(builders.pod("p", cpu=2, gpu=1)), resourceStrategyFitWeight=1, resources=MIXED)
    # (1 x free cores + 3 x used GPUs) / 4
    assert all_scores(session, "p") == {
        "empty": pytest.approx(100 * (6 / 8 + 3 * 1 / 4) / 4),
        "used": pytest.approx(100 * (2 / 8 + 3 * 3 / 4) / 4),
    }


def test_without_arguments_free_cpu_and_memory_are_better() -> None:
    session = fit(used_and_empty(builders.pod("p", cpu=2, memory="2Gi", gpu=1)))
    assert all_scores(session, "p") == {"empty": pytest.approx(750), "used": pytest.approx(500)}


def test_placements_of_the_session_count() -> None:
    session = fit([builders.node("n", cpu=4), builders.pod("p", cpu=1), builders.pod("q", cpu=1)])
    assert all_scores(session, "q") == {"n": pytest.approx(750)}
    place(session, "p", "n")
    assert all_scores(session, "q") == {"n": pytest.approx(500)}


def test_a_node_that_would_overflow_or_lacks_the_resource_gets_little() -> None:
    objects = [
        builders.node("small", cpu=1, gpu=4),
        builders.node("plain", cpu=8),
        builders.pod("p", cpu=2, gpu=2),
    ]
    session = fit(objects, resourceStrategyFitWeight=1, resources=MIXED)
    assert all_scores(session, "p") == {"small": 0, "plain": pytest.approx(100 * (6 / 8) / 4)}


def test_weight_zero_turns_the_strategies_off() -> None:
    session = fit(used_and_empty(builders.pod("p", cpu=1)), resourceStrategyFitWeight=0)
    scores = session.node_scores(class_row(session, "p"))[0]
    assert (scores.fixed, list(scores.terms)) == (None, [])


def test_the_name_goes_before_its_beginnings_and_the_longest_of_these_first() -> None:
    known = {"a.com/*": Strategy(weight=1), "a.com/gpu*": Strategy(weight=2), "a.com/gpu": Strategy(weight=3)}
    found = [strategy_of(name, known) for name in ("a.com/gpu", "a.com/gpu-b200", "a.com/nic", "b.com/gpu", "cpu")]
    assert [strategy and strategy.weight for strategy in found] == [3, 2, 1, None, None]


# -- pods that say otherwise ---------------------------------------------------------------------------------


def wishing(name: str, kind: str | None, weights: str | None) -> Pod:
    marks = {names.STRATEGY_TYPE: kind, names.STRATEGY_WEIGHT: weights}
    given = {key: value for key, value in marks.items() if value is not None}
    return builders.pod(name, cpu=2, gpu=1, annotations=given)


@pytest.mark.parametrize(
    ("kind", "weights", "points"),
    [
        ("MostAllocated", '{"cpu": 1}', 75),
        ("LeastAllocated", f'{{"{GPU}": 5}}', 25),
        ("MostAllocated", f'{{"cpu": 1, "{GPU}": 0}}', 75),
        # The type alone changes that of every resource of the configuration, weights alone keep their types.
        ("MostAllocated", None, (75 + 3 * 75) / 4),
        (None, f'{{"cpu": 1, "{GPU}": 1}}', (25 + 75) / 2),
        # What cannot be read leaves nothing that counts.
        ("Mostallocated", '{"cpu": 1}', 0),
        ("LeastAllocated", "cpu=1", 0),
        ("LeastAllocated", '{"cpu": -1}', 0),
    ],
)
def test_annotations_of_a_pod_go_before_the_configuration(kind: str | None, weights: str | None, points: float) -> None:
    objects = used_and_empty(wishing("p", kind, weights), builders.pod("other", cpu=2, gpu=1))
    session = fit(objects, resourceStrategyFitWeight=1, resources=MIXED)
    assert all_scores(session, "p")["used"] == pytest.approx(points)
    assert all_scores(session, "other")["used"] == pytest.approx((25 + 3 * 75) / 4)


# -- scarce resources ----------------------------------------------------------------------------------------


def test_nodes_without_scarce_resources_are_better_for_those_who_need_none() -> None:
    objects = [
        builders.node("plain", cpu=8),
        builders.node("gpus", cpu=8, gpu=4),
        builders.pod("p", cpu=1),
        builders.pod("g", cpu=1, gpu=1),
    ]
    sra = {"enable": True, "resources": f"{GPU}, example.com/fpga", "weight": 2, "resourceWeight": {GPU: 3}}
    session = fit(objects, resourceStrategyFitWeight=0, sra=sra)
    # An FPGA is on no node and counts 1 of 4.
    assert fixed_scores(session, "p") == {"plain": 200, "gpus": 50}
    assert fixed_scores(session, "g") == {"plain": 0, "gpus": 50}


def test_what_no_pod_asks_for_is_scarce_all_the_same() -> None:
    objects = [builders.node("plain", cpu=8), builders.node("gpus", cpu=8, gpu=4), builders.pod("p", cpu=1)]
    session = fit(objects, resourceStrategyFitWeight=0, sra={"enable": True, "resources": GPU})
    assert fixed_scores(session, "p") == {"plain": 100, "gpus": 0}


def test_scarce_resources_count_only_when_enabled() -> None:
    session = fit(used_and_empty(builders.pod("p", cpu=1)), sra={"resources": GPU, "weight": 5})
    assert session.node_scores(class_row(session, "p"))[0].fixed is None


# -- what stays free for devices -----------------------------------------------------------------------------

PROPORTIONAL = {"enable": "true", "resources": GPU, "resourceProportion": {f"{GPU}.cpu": 8, f"{GPU}.memory": 8}}


def device_nodes() -> list[KubeObject]:
    return [builders.node("gpus", cpu=74, memory="128G", gpu=8), builders.node("plain", cpu=8, memory="8G")]


def test_a_pod_without_devices_leaves_cpu_and_memory_for_free_devices() -> None:
    pods = [builders.pod(f"p{k}", cpu=8, memory="8G") for k in range(2)]
    session = fit([*device_nodes(), *pods, builders.pod("g", cpu=60, gpu=1)], proportional=PROPORTIONAL)
    assert live_reasons(session, "p0") == {"gpus": "fits", "plain": "fits"}
    place(session, "p0", "gpus")
    # 58 cores would be left, and 8 free GPUs keep 64.
    assert live_reasons(session, "p1") == {"gpus": "kept-for-devices", "plain": "fits"}
    # Who uses a device is not held back.
    assert live_reasons(session, "g") == {"gpus": "fits", "plain": "fits"}
    assert task_row(session, "g") not in session.live_tasks()


def test_devices_that_are_taken_keep_nothing() -> None:
    taken = builders.pod("g", cpu=10, memory="8G", gpu=8, node="gpus")
    session = fit([*device_nodes(), taken, builders.pod("p", cpu=60, memory="100G")], proportional=PROPORTIONAL)
    assert live_reasons(session, "p")["gpus"] == "fits"


def test_memory_is_kept_too() -> None:
    session = fit([*device_nodes(), builders.pod("p", cpu=1, memory="65G")], proportional=PROPORTIONAL)
    assert live_reasons(session, "p")["gpus"] == "kept-for-devices"


def test_allocate_asks_for_every_pod_anew() -> None:
    registry = builtin_registry(third_party=False)
    mirror = Mirror()
    pods = [builders.pod(f"p{k}", cpu=8, memory="8G") for k in range(3)]
    for item in [*device_nodes(), builders.queue("default"), *pods]:
        mirror.upsert(item)
    option = PluginOption(FIT, arguments={"proportional": PROPORTIONAL})
    config = SchedulerConfig(("allocate",), ((PluginOption("gang"), PluginOption("predicates"), option),))
    session = Session(mirror.snapshot(), config, registry)
    registry.make_action("allocate", {}).run(session)
    nodes = session.snapshot.tasks.node.tolist()
    assert sorted(session.snapshot.nodes.names[row] for row in nodes if row >= 0) == ["gpus", "plain"]


# -- arguments -----------------------------------------------------------------------------------------------


def test_defaults() -> None:
    given = arguments()
    assert given.weight == 10
    assert given.resources == {"cpu": Strategy("LeastAllocated", 1), "memory": Strategy("LeastAllocated", 1)}
    assert arguments(resources={}).resources == given.resources
    assert arguments(resources={GPU: None, "cpu": {"weight": "2"}}).resources == {
        GPU: Strategy(),
        "cpu": Strategy(weight=2),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resourceStrategyFitWeight": -1}, "resourceStrategyFitWeight"),
        (
            {"resourceStrategyWeight": 3},
            "there is no argument 'resourceStrategyWeight'; did you mean 'resourceStrategyFitWeight'?",
        ),
        ({"resources": ["cpu"]}, "resources: expected a mapping of resources to type and weight"),
        ({"resources": {"*": {}}}, 'resources.*: expected a name, or the beginning of names as in "nvidia.com/*"'),
        ({"resources": {"*.com/gpu": {}}}, "resources.*.com/gpu: expected a name"),
        ({"resources": {"a.com/**": {}}}, "resources.a.com/**: expected a name"),
        ({"resources": {"cpu": {"type": "Most"}}}, "resources.cpu.type: expected LeastAllocated or MostAllocated"),
        ({"resources": {"cpu": {"weight": 0}}}, "resources.cpu.weight: expected an integer of at least 1, got 0"),
        ({"resources": {"cpu": {"wieght": 1}}}, "resources.cpu: there is no argument 'wieght'; did you mean 'weight'?"),
        ({"sra": {"enable": True}}, "sra.resources: expected names separated by commas"),
        ({"sra": {"resourceWeight": {GPU: -1}}}, "expected an integer of at least 0, got -1"),
        (
            {"sra": {"policy": "retention"}},
            "sra: there is no argument 'policy'; known: enable, resourceWeight, resources, weight",
        ),
        ({"proportional": {"enable": True}}, "proportional.resources: expected names separated by commas"),
        (
            {"proportional": {"resourceProportion": {GPU: 4}}},
            f"proportional.resourceProportion.{GPU}: expected the name",
        ),
        ({"proportional": {"resourceProportion": {f"{GPU}.cpu": -4}}}, "of at least 0, got -4"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"plugin {FIT}: arguments: ") as error:
        arguments(**given)
    assert message in str(error.value)


def test_the_contract_of_plugins_is_kept() -> None:
    known = builtin_registry(third_party=False).plugins[FIT]
    check_plugin(known, {"resources": MIXED, "sra": {"enable": True, "resources": GPU}, "proportional": PROPORTIONAL})
