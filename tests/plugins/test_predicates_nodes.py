"""Predicates on nodes' own objects: one row per rule."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import UserError, decode
from muster.framework import PluginOption
from tests.plugins.documents import AMOUNTS, node, pod
from tests.plugins.sessions import REGISTRY, fitting, open_session, static_reasons


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expressions(*given: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in given]}


NODES = [
    node("a", {"zone": "z1", "gpus": "8"}),
    node("b", {"zone": "z2", "gpus": "4"}),
    node("c", {"gpus": "many"}),
    node("d"),
]


@pytest.mark.parametrize(
    ("spec", "expected", "code"),
    [
        ({}, "abcd", ""),
        ({"nodeSelector": {"zone": "z1"}}, "a", "node-selector"),
        ({"nodeSelector": {"zone": "z9"}}, "", "node-selector"),
        ({"affinity": node_affinity(expressions(("zone", "In", ["z1", "z2"])))}, "ab", "node-affinity"),
        ({"affinity": node_affinity(expressions(("zone", "NotIn", ["z1"])))}, "bcd", "node-affinity"),
        ({"affinity": node_affinity(expressions(("zone", "Exists", [])))}, "ab", "node-affinity"),
        ({"affinity": node_affinity(expressions(("zone", "DoesNotExist", [])))}, "cd", "node-affinity"),
        ({"affinity": node_affinity(expressions(("gpus", "Gt", ["4"])))}, "a", "node-affinity"),
        ({"affinity": node_affinity(expressions(("gpus", "Lt", ["8"])))}, "b", "node-affinity"),
        ({"affinity": node_affinity(expressions(("gpus", "Gt", ["four"])))}, "", "node-affinity"),
        ({"affinity": node_affinity(expressions(("zone", "In", ["z1"]), ("gpus", "Gt", ["9"])))}, "", "node-affinity"),
        (
            {"affinity": node_affinity(expressions(("zone", "In", ["z1"])), expressions(("gpus", "Lt", ["5"])))},
            "ab",
            "node-affinity",
        ),
        ({"affinity": node_affinity({})}, "", "node-affinity"),
        ({"affinity": node_affinity({}, expressions(("zone", "In", ["z2"])))}, "b", "node-affinity"),
        (
            {"affinity": node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["d"]}]})},
            "d",
            "node-affinity",
        ),
        (
            {
                "affinity": node_affinity(
                    {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["d"]}]}
                )
            },
            "abc",
            "node-affinity",
        ),
    ],
)
def test_labels(spec: dict[str, Any], expected: str, code: str) -> None:
    reasons = static_reasons(open_session([*NODES, pod(**spec)], predicates={}), "p")
    assert fitting(reasons) == list(expected)
    assert set(reasons.values()) - {"fits"} == ({code} if len(expected) < len(NODES) else set())


@pytest.mark.parametrize(
    ("taint", "tolerations", "fits"),
    [
        ({"key": "k", "effect": "NoSchedule"}, [], False),
        ({"key": "k", "effect": "NoExecute"}, [], False),
        ({"key": "k", "effect": "PreferNoSchedule"}, [], True),
        ({"key": "k", "effect": "NoSchedule"}, [{"key": "k", "operator": "Exists"}], True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "value": "v"}], True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, [{"key": "k", "value": "w"}], False),
        ({"key": "k", "effect": "NoSchedule"}, [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
        ({"key": "k", "effect": "NoSchedule"}, [{"operator": "Exists"}], True),
    ],
)
def test_taints(taint: dict[str, str], tolerations: list[dict[str, str]], fits: bool) -> None:
    session = open_session([node("n", taints=[taint]), pod(tolerations=tolerations)], predicates={})
    assert static_reasons(session, "p") == {"n": "fits" if fits else "taint"}


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    tolerating = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]
    objects = [node("n", unschedulable=True), pod("p"), pod("q", tolerations=tolerating)]
    session = open_session(objects, predicates={})
    assert static_reasons(session, "p") == {"n": "unschedulable"}
    assert static_reasons(session, "q") == {"n": "fits"}


def test_a_node_that_is_not_ready_takes_nothing() -> None:
    broken = decode(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "spec": {"unschedulable": True},
            "status": {"allocatable": AMOUNTS, "conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
    )
    assert static_reasons(open_session([broken, pod()], predicates={}), "p") == {"n": "node-not-ready"}


@pytest.mark.parametrize(
    ("argument", "spec"),
    [
        ("predicate.NodeAffinityEnable", {"nodeSelector": {"zone": "z9"}}),
        ("predicate.NodeAffinityEnable", {"affinity": node_affinity({})}),
        ("predicate.TaintTolerationEnable", {}),
        ("predicate.VolumeBindingEnable", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}),
    ],
)
def test_a_check_can_be_turned_off(argument: str, spec: dict[str, Any]) -> None:
    tainted = node("n", taints=[{"key": "k", "effect": "NoSchedule"}])
    spec = spec if argument == "predicate.TaintTolerationEnable" else {**spec, "tolerations": [{"operator": "Exists"}]}
    assert fitting(static_reasons(open_session([tainted, pod(**spec)], predicates={}), "p")) == []
    without = open_session([tainted, pod(**spec)], predicates={argument: "false"})
    assert fitting(static_reasons(without, "p")) == ["n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predicate.ProportionalEnable": "true"}, "ProportionalEnable: expected false"),
        ({"predicate.NodePortsEnable": "perhaps"}, "predicate.NodePortsEnable"),
        (
            {"predicate.NodePortEnable": True},
            "there is no argument 'predicate.NodePortEnable'; did you mean 'predicate.NodePortsEnable'?",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=r"plugin predicates: arguments: ") as error:
        REGISTRY.make_plugin(PluginOption("predicates", arguments=arguments))
    assert message in str(error.value)


def test_arguments_of_features_that_are_off_are_accepted() -> None:
    arguments = {
        "predicate.ProportionalEnable": False,
        "predicate.resources": "nvidia.com/gpu",
        "predicate.resources.nvidia.com/gpu.cpu": 4,
        "predicate.GPUSharingEnable": True,
        "predicate.CacheEnable": True,
        "predicate.NodeVolumeLimitsEnable": None,
        "volumebinding.weight": 2,
        "volumebinding.shape": [{"utilization": 0, "score": 10}],
    }
    plugin = REGISTRY.make_plugin(PluginOption("predicates", arguments=arguments))
    assert plugin.name == "predicates"
