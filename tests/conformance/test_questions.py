"""Questions to plugins: scores, verdicts, orders and votes."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case_files import cluster_case, node, run


def asking(plugin: dict[str, Any], expect: dict[str, Any], **changes: Any) -> dict[str, Any]:
    config = {"actions": [], "registeredPlugins": [plugin["name"]], "tiers": [{"plugins": [plugin]}]}
    body = cluster_case(expect, config=config, **changes)
    body["objects"]["nodes"].append(node("n2", "8"))
    return body


def outcome(tmp_path: Path, plugin: dict[str, Any], expect: dict[str, Any], **changes: Any) -> str:
    return run(tmp_path, asking(plugin, expect, **changes)).outcome


@pytest.mark.parametrize(("score", "result"), [(50, "passed"), (49, "failed")])
def test_node_scores_of_every_plugin_are_added(tmp_path: Path, score: float, result: str) -> None:
    binpack = {"name": "binpack", "enableNodeOrder": True, "arguments": {"binpack.cpu": 1}}
    expect = {"nodeScores": {"ns/a": {"n1": score, "n2": 12.5}}}
    assert outcome(tmp_path, binpack, expect) == result


@pytest.mark.parametrize(("code", "result"), [(3, "passed"), (0, "failed"), (2, "failed")])
def test_predicate_status_tells_whether_an_eviction_could_help(tmp_path: Path, code: int, result: str) -> None:
    predicates = {"name": "predicates", "enablePredicate": True}
    body = asking(predicates, {"predicateStatus": {"ns/a": {"n1": code}}})
    body["objects"]["nodes"][0]["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    assert run(tmp_path, body).outcome == result


@pytest.mark.parametrize("enqueueable", [True, False])
def test_admission_is_asked_for_every_job(tmp_path: Path, enqueueable: bool) -> None:
    overcommit = {"name": "overcommit", "enableJobEnqueued": True}
    expect = {"jobEnqueueable(every job, after JobEnqueued was called for it)": enqueueable}
    body = asking(overcommit, expect)
    body["objects"]["podGroups"][0]["spec"]["minResources"] = {"cpu": "1" if enqueueable else "100"}
    assert run(tmp_path, body).outcome == "passed"
    body["expect"] = dict.fromkeys(expect, not enqueueable)
    assert run(tmp_path, body).outcome == "failed"


@pytest.mark.parametrize("first", [True, False])
def test_job_order_is_that_of_the_plugins_alone(tmp_path: Path, first: bool) -> None:
    sla = {"name": "sla", "enableJobOrder": True, "enableJobEnqueued": True}
    times = {"waitingTime": "1m" if first else "9h"}, {"waitingTime": "2h"}
    jobs = {f"job{number}": {"tasks": 1, **given} for number, given in enumerate(times, start=1)}
    body = asking(sla, {"jobOrderFn(job1,job2): job1 before job2": first, "jobEnqueueable(job1)": True})
    body["config"]["jobs"] = jobs
    assert run(tmp_path, body).outcome == "passed"
    body["expect"] = {"jobOrderFn(job1,job2): job1 before job2": not first}
    assert run(tmp_path, body).outcome == "failed"


@pytest.mark.parametrize(("victims", "result"), [(["ns/v"], "passed"), ([], "failed"), (["kube-system/v"], "failed")])
def test_victims_are_those_that_the_plugin_lets_go(tmp_path: Path, victims: list[str], result: str) -> None:
    conformance = {"name": "conformance", "enablePreemptable": True}
    pods = [
        {"metadata": {"name": "v", "namespace": space}, "spec": {"nodeName": "n1"}} for space in ("kube-system", "ns")
    ]
    expect = {"preemptable victims": victims, "preempteePods": pods}
    assert outcome(tmp_path, conformance, expect) == result
