"""Each key of `expect` is compared by its exact meaning."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case_files import GANG, cluster_case, group, node, pod, run

BOTH = {"ns/a": "n1", "ns/b": "n1"}


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        ({"binds": BOTH}, True),
        ({"binds": {"ns/a": "n1"}}, False),
        ({"binds": {**BOTH, "ns/c": "n1"}}, False),
        ({"binds": {"ns/a": "n1", "ns/b": "n2"}}, False),
        ({"bindsNum": 2}, True),
        ({"bindsNum": 1}, False),
        ({"binds": {}, "bindsNum": 2, "minimalBindCheck": True}, True),
        ({"binds": {}, "bindsNum": 3, "minimalBindCheck": True}, False),
        ({"evicted": [], "evictNum": 0}, True),
        ({"evicted": ["ns/a"]}, False),
        ({"evictNum": 1}, False),
        ({"taskStatusNums": {"ns/two": {"Binding": 2}}}, True),
        ({"taskStatusNums": {"ns/two": {"Allocated": 2}}}, False),
        ({"taskStatusNums": {"ns/two": {"Binding": 2, "Pending": 1}}}, False),
        ({"podGroupPhases": {"ns/two": "Inqueue"}}, True),
        ({"podGroupPhases": {"ns/two": "Running"}}, False),
        ({"podGroupPhases": {"ns/none": "Pending"}}, False),
        ({"pipelined": {"ns/two": ["n1"]}}, False),
        ({"jobs": {"ns/two": {"bound": 2, "pipelined": 0, "evicted": 0}}}, True),
        ({"jobs": {"ns/two": {"bound": 1, "pipelined": 0, "evicted": 0}}}, False),
        ({"jobs": {}}, False),
    ],
)
def test_a_bound_gang(tmp_path: Path, expect: dict[str, Any], holds: bool) -> None:
    assert run(tmp_path, cluster_case(expect)).outcome == ("passed" if holds else "failed")


def leaving_case(expect: dict[str, Any]) -> dict[str, Any]:
    """One pod fits now, the other waits for a pod that is terminating."""
    old = pod("old", "old", nodeName="n1")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body = cluster_case(expect)
    body["objects"]["podGroups"].append(group("old", 1))
    body["objects"]["pods"].append(old)
    return body


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        ({"binds": {}, "pipelined": {"ns/two": ["n1", "n2"]}}, True),
        ({"pipelined": {"ns/two": ["n2"]}}, False),
        ({"pipelined": {"ns/old": ["n1"]}}, False),
        ({"taskStatusNums": {"ns/two": {"Allocated": 1, "Pipelined": 1}}}, True),
        ({"jobs": {"ns/two": {"bound": 0, "pipelined": 1, "evicted": 0}, "ns/old": {}}}, False),
    ],
)
def test_a_gang_that_waits_for_room(tmp_path: Path, expect: dict[str, Any], holds: bool) -> None:
    assert run(tmp_path, leaving_case(expect)).outcome == ("passed" if holds else "failed")


def test_counts_per_job_are_the_default_and_strict_looks_at_pods_and_nodes(tmp_path: Path) -> None:
    jobs = {"ns/two": {"bound": 2, "pipelined": 0, "evicted": 0}}
    body = cluster_case({"jobs": jobs, "binds": {"ns/a": "elsewhere", "ns/b": "n1"}})
    assert run(tmp_path, body).outcome == "passed"
    strict = run(tmp_path, body, strict=True)
    assert [miss.key for miss in strict.mismatches] == ["binds"]


def test_absent_flags_are_off_and_unregistered_plugins_do_not_exist(tmp_path: Path) -> None:
    body = cluster_case({"bindsNum": 1})
    body["objects"]["nodes"] = [node("n1", "1")]
    assert run(tmp_path, body).outcome == "failed"  # half a gang is not bound
    body["config"]["tiers"] = [{"plugins": [{"name": "gang"}]}]
    assert run(tmp_path, body).outcome == "passed"
    body["config"]["tiers"] = [{"plugins": [GANG, {"name": "numa-aware"}]}]
    body["config"]["registeredPlugins"] = []
    assert run(tmp_path, body).outcome == "passed"


def test_only_nodes_of_a_hard_shard_are_used(tmp_path: Path) -> None:
    body = cluster_case({"binds": {"ns/a": "n2", "ns/b": "n2"}})
    body["objects"]["nodes"].append(node("n2", "2"))
    body["config"].update(sharding={"mode": "hard", "shard": "s"}, sessionNodesInShard=["n2"])
    assert run(tmp_path, body).outcome == "passed"
    body["config"]["sessionNodesInShard"] = ["n1"]
    assert run(tmp_path, body).outcome == "failed"


def test_what_jobs_hold_is_compared_in_volcanos_words(tmp_path: Path) -> None:
    held = {"MilliCPU": 2000, "Memory": 0, "MaxTaskNum": 0, "ScalarResources": {"pods": 2}}
    assert run(tmp_path, cluster_case({"observedAllocated": {"two": held}})).outcome == "passed"
    less = {**held, "MilliCPU": 1000}
    assert run(tmp_path, cluster_case({"observedAllocated": {"two": less}})).outcome == "failed"
