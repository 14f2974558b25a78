"""Adapters call the product's functions: a right output passes and a wrong one fails."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case_files import VOLCANO_API, function_case, group, pod, run


def tasks(*states: str) -> list[dict[str, Any]]:
    return [{"status": state, "node": "" if state == "Pending" else "n"} for state in states]


def member(name: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns1"},
        "spec": {"nodeName": "node1", "containers": [container]},
        "status": {"phase": "Running"},
    }


GROUPED = {"minAvailable": 2, "tasksByStatus": {"Bound": [{}], "Pipelined": [{}]}, "tasksTotal": 2}
VICTIMS = "victims (preemptable, reclaimable and victimTasks alike)"
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "budget", "namespace": "ns1"},
    "spec": {"selector": {}},
    "status": {"disruptionsAllowed": 1},
}
TOPOLOGY = {"mode": "soft", "highestTierAllowed": 2}
POLICY = {"name": "p", "subGroupSize": 3, "matchLabelKeys": ["rack"]}


@pytest.mark.parametrize(
    ("function", "given", "right", "wrong"),
    [
        (
            "jobReadiness",
            {"minAvailable": 2, "tasks": tasks("Running", "Allocated", "Pending")},
            {"ready": True, "pipelined": True, "starving": False, "pendingBestEffortTaskNum": 0},
            {"ready": False},
        ),
        (
            "jobReadiness",
            {"minAvailable": 2, "tasks": [{"status": "Pending", "bestEffort": True}, {"status": "Pipelined"}]},
            {"ready": False, "pipelined": True, "starving": True, "pendingBestEffortTaskNum": 1},
            {"pendingBestEffortTaskNum": 0},
        ),
        (
            "parseMinTaskMember",
            {"minTaskMemberBefore": {"old": 4}, "minTaskMember": {"a": 1, "b": 2}},
            {"taskMinAvailable": {"a": 1, "b": 2}, "taskMinAvailableTotal": 3},
            {"taskMinAvailableTotal": 7},
        ),
        ("scheduledTaskNum", {"taskStatuses": ["Running", "Pending", "Failed"]}, {"num": 2}, {"num": 3}),
        ("releasingScheduledTaskNum", {"tasks": tasks("Releasing", "Running")}, {"num": 1}, {"num": 2}),
        (
            "gang.skipUnschedulableConditionWhileReleasing",
            {"minAvailable": 2, "tasks": tasks("Releasing", "Running")},
            {"skip": True},
            {"skip": False},
        ),
        ("subJobID", {"job": "ns/j", "policy": "p", "matchValues": ["1"]}, {"id": "ns/j/p-1"}, {"id": "p-1"}),
        (
            "subGroupMatchValues",
            {"policy": POLICY, "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"rack": "7"}}}},
            {"values": ["7"]},
            {"values": None},
        ),
        (
            "newSubJob",
            {"policy": {**POLICY, "networkTopology": TOPOLOGY}, "matchValues": ["5", "a"]},
            {"matchIndex": 5, "minAvailable": 3, "networkTopology": TOPOLOGY},
            {"matchIndex": 0},
        ),
        (
            "elasticResources",
            {"minResources": {"cpu": "1", "pods": "1"}, "pods": [member("a"), member("b")]},
            {
                "elastic": {
                    "MilliCPU": 3000,
                    "Memory": 0,
                    "ScalarResources": {"nvidia.com/gpu": 2000, "pods": 1},
                    "MaxTaskNum": 1,
                }
            },
            {"elastic": {"MilliCPU": 4000}},
        ),
        (
            "capacity.queueShare",
            {"deserved": {"MilliCPU": 10, "Memory": 8}, "allocated": {"MilliCPU": 5, "Memory": 6}},
            {"share": 0.75},
            {"share": 0.5},
        ),
        (
            "resourceStrategyFit.parse",
            {"arguments": {"resources": {"cpu": {"type": "MostAllocated"}}}},
            {"resources": {"cpu": {"type": "MostAllocated", "weight": 1}}, "weight": 10},
            {"weight": 1},
        ),
        (
            "resourceStrategyFit.findResourceConfig",
            {"resourceName": "a.com/b", "resources": {"a.com/*": {"type": "LeastAllocated", "weight": 2}}},
            {"found": True, "config": {"type": "LeastAllocated", "weight": 2}},
            {"found": False},
        ),
        (
            "resourceStrategyFit.score",
            {
                "nodeAllocatable": {"MilliCPU": 400, "Memory": 400},
                "nodeUsed": {"MilliCPU": 100, "Memory": 100},
                "request": {"MilliCPU": 100, "Memory": 0},
                "podAnnotations": {},
                "resources": {"cpu": {"type": "MostAllocated", "weight": 1}},
                "weight": 2,
            },
            {"score": 100},
            {"score": 50},
        ),
        (
            "resourceStrategyFit.leastRequestedScore",
            {"capacity": 4, "used": 2, "requested": 1, "weight": 2},
            {"score": 0.5, "error": False},
            {"score": 1.5},
        ),
        (
            "pdb.victims",
            {"podDisruptionBudgets": [BUDGET], "preemptees": [member("a"), member("b")]},
            {VICTIMS: ["ns1/a"]},
            {VICTIMS: ["ns1/a", "ns1/b"]},
        ),
        (
            "backfill.pickUpPendingTasks",
            {
                "queues": [{"apiVersion": VOLCANO_API, "kind": "Queue", "metadata": {"name": "q"}}],
                "podGroups": [group("g", 1)],
                "pendingPods": [pod("later", "g", "0"), pod("first", "g", "0", priority=5), pod("no", "g")],
                "podsPipelinedToNode1BeforeThePick": [pod("promised", "g", "0")],
            },
            {"orderedPodNames": ["first", "later"]},
            {"orderedPodNames": ["later", "first"]},
        ),
        ("subJobIsReady", GROUPED, {"ready": False}, {"ready": True}),
        ("subJobIsPipelined", GROUPED, {"pipelined": True}, {"pipelined": False}),
    ],
)
def test_adapter(
    tmp_path: Path, function: str, given: dict[str, Any], right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    assert run(tmp_path, function_case(function, given, right)).outcome == "passed"
    assert run(tmp_path, function_case(function, given, wrong)).outcome == "failed"
