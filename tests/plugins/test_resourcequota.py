"""Resource quotas: who is admitted, what counts as taken, and what those who wait are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from muster.api import Container, KubeObject, Pod, ResourceQuota, ResourceRequirements, decode
from muster.framework import PluginOption, Rejection, SchedulerConfig, Session, Vote
from muster.plugins.queues.resourcequota import amount_under
from muster.scheduler import builtin_registry
from muster.snapshot import JobPhase, Mirror
from muster.testing.builders import node, pod, pod_group, queue, resource_list
from tests.plugins.queue_stage import Stage

Hard = Mapping[str, Any]


def quota(
    hard: Hard, used: Hard | None = None, *, name: str = "q", namespace: str = "default", **spec: Any
) -> ResourceQuota:
    """A quota; with `used` the cluster has written its status."""
    status = {} if used is None else {"hard": dict(hard), "used": dict(used)}
    made = decode(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hard": dict(hard), **spec},
            "status": status,
        }
    )
    assert isinstance(made, ResourceQuota)
    return made


def stage(*objects: KubeObject) -> Stage:
    return Stage("resourcequota", [node("n1", cpu=64), queue("default"), *objects])


def asking(name: str, cpu: float, *, phase: str = "", **more: Any) -> KubeObject:
    return pod_group(name, min_resources={"cpu": cpu, **more}, phase=phase)


def admitted(where: Stage, job: str) -> bool:
    answer = where.plugin.job_enqueueable(where.job(job))
    assert answer is Vote.PERMIT or isinstance(answer, Rejection)
    return answer is Vote.PERMIT


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cpu", "fits"), [(4, True), (4.001, False)])
def test_a_job_is_admitted_up_to_the_quota(cpu: float, *, fits: bool) -> None:
    assert admitted(stage(quota({"cpu": 10}, {"cpu": 6}), asking("a", cpu)), "a") is fits


def test_every_quota_of_the_namespace_has_to_have_room() -> None:
    tight = quota({"cpu": 1}, {"cpu": 0}, name="tight")
    assert not admitted(stage(quota({"cpu": 10}, {"cpu": 0}), tight, asking("a", 2)), "a")


def test_other_namespaces_and_other_resources_do_not_matter() -> None:
    elsewhere = quota({"cpu": 1}, {"cpu": 1}, namespace="other")
    memory = quota({"memory": "1Gi", "pods": 1}, {"memory": "2Gi", "pods": 1})
    assert admitted(stage(elsewhere, memory, asking("a", 2)), "a")


def test_a_job_without_a_minimum_is_admitted() -> None:
    assert admitted(stage(quota({"cpu": 1}, {"cpu": 1}), pod_group("a")), "a")


def test_quotas_with_scopes_are_left_to_the_api_server() -> None:
    by_class = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    scoped = [
        quota({"cpu": 0}, {"cpu": 0}, scopes=["BestEffort"]),
        quota({"cpu": 0}, {"cpu": 0}, name="high", scopeSelector=by_class),
    ]
    assert admitted(stage(*scoped, asking("a", 2)), "a")


@pytest.mark.parametrize(
    ("name", "amount"),
    [
        ("cpu", 1),
        ("requests.cpu", 1),
        ("limits.cpu", 4),
        ("pods", 7),
        ("count/pods", 7),
        ("requests.a.com/b", 9),
        ("limits.memory", 0),
        ("count/jobs.batch", 0),
        ("memory", 0),
    ],
)
def test_names_that_mean_the_same(name: str, amount: int) -> None:
    assert amount_under(name, {"cpu": 1, "limits.cpu": 4, "count/pods": 7, "a.com/b": 9}) == amount


def test_quotas_by_request_hold_for_plain_names() -> None:
    gpus = quota({"requests.nvidia.com/gpu": 8}, {"requests.nvidia.com/gpu": 4})
    assert admitted(stage(gpus, asking("a", 1, gpu=4)), "a")
    assert not admitted(stage(gpus, asking("a", 1, gpu=5)), "a")


# -- what is promised ----------------------------------------------------------------------------------------


def test_what_was_admitted_counts_from_then_on() -> None:
    here = stage(quota({"cpu": 10}, {"cpu": 0}), asking("a", 6), asking("b", 6))
    assert admitted(here, "b")
    here.plugin.job_enqueued(here.job("a"))
    assert not admitted(here, "b")


def test_what_was_admitted_earlier_counts_until_its_pods_are_there() -> None:
    full = quota({"cpu": 10}, {"cpu": 0})
    assert not admitted(stage(full, asking("a", 6, phase="Inqueue"), asking("b", 6)), "b")
    made = quota({"cpu": 10}, {"cpu": 6})
    member = pod("a-0", group="a", cpu=6)
    here = stage(made, asking("a", 6, phase="Inqueue"), member, asking("b", 4), asking("c", 5))
    assert admitted(here, "b")
    assert not admitted(here, "c")


def test_a_job_whose_pods_exist_does_not_stand_in_its_own_way() -> None:
    """The cluster has counted its pods already, although they have no node."""
    mine = [asking("a", 6), *(pod(f"a-{k}", group="a", cpu=3) for k in range(2))]
    assert admitted(stage(quota({"cpu": 8}, {"cpu": 6}), *mine), "a")
    half = [asking("a", 6), pod("a-0", group="a", cpu=3)]
    assert admitted(stage(quota({"cpu": 8}, {"cpu": 5}), *half), "a")
    assert not admitted(stage(quota({"cpu": 8}, {"cpu": 6}), *half), "a")


def limited(name: str, group: str, cpu: int) -> Pod:
    """A pod whose limit is twice its request."""
    made = pod(name, group=group, cpu=cpu)
    resources = ResourceRequirements(requests=resource_list({"cpu": cpu}), limits=resource_list({"cpu": 2 * cpu}))
    container = Container(name="main", resources=resources)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=[container]))


def test_limits_of_own_pods_are_counted_too() -> None:
    group = pod_group("a", min_resources={"cpu": 2, "limits.cpu": 4})
    by_limit = quota({"limits.cpu": 4}, {"limits.cpu": 4})
    assert not admitted(stage(by_limit, group), "a")
    assert admitted(stage(by_limit, group, limited("a-0", "a", 1), limited("a-1", "a", 1)), "a")


# -- quotas without a status ---------------------------------------------------------------------------------


def test_without_a_status_pods_are_counted_but_for_those_of_waiting_jobs() -> None:
    objects = [
        quota({"cpu": 10}),
        *(item for name in "bcd" for item in (asking(name, 4), pod(f"{name}-0", group=name, cpu=4))),
        pod_group("r", phase="Running"),
        pod("r-0", group="r", cpu=4, node="n1"),
        pod("done", cpu=9, node="n1", phase="Succeeded"),
    ]
    here = stage(*objects)
    assert admitted(here, "b")
    here.plugin.job_enqueued(here.job("b"))
    assert not admitted(here, "c")


# -- what users are told -------------------------------------------------------------------------------------


def test_the_reason_has_the_numbers() -> None:
    here = stage(quota({"cpu": 10, "memory": "8Gi"}, {"cpu": 9.5, "memory": "1Gi"}), asking("a", 2, memory="8Gi"))
    answer = here.plugin.job_enqueueable(here.job("a"))
    assert (answer.reason.code, answer.detail) == (
        "namespace-quota",
        "ResourceQuota q: 9500m of 10 cpu taken, 2 needed; 1Gi of 8Gi memory taken, 8Gi needed",
    )


def test_enqueue_admits_as_many_as_the_quota_holds_and_tells_the_others_why() -> None:
    registry = builtin_registry(third_party=False)
    mirror = Mirror()
    for item in [node("n1", cpu=64), queue("default"), quota({"cpu": 5}, {"cpu": 1}), *(asking(n, 2) for n in "abc")]:
        mirror.upsert(item)
    config = SchedulerConfig(("enqueue",), ((PluginOption("resourcequota"),),))
    session = Session(mirror.snapshot(), config, registry)
    registry.make_action("enqueue", {}).run(session)
    jobs = session.snapshot.jobs
    assert [jobs.records[row].name for row in range(3) if jobs.phase[row] == JobPhase.INQUEUE] == ["a", "b"]
    assert session.verdicts[jobs.index["default/c"]].detail == "ResourceQuota q: 5 of 5 cpu taken, 2 needed"


def test_a_job_that_another_plugin_rejects_takes_nothing() -> None:
    """Two tiers of the same mind: `overcommit` rejects the large job, the quota has room for the small one."""
    registry = builtin_registry(third_party=False)
    mirror = Mirror()
    objects = [node("n1", cpu=4), queue("default"), quota({"cpu": 100}, {"cpu": 0}), asking("a", 98), asking("b", 4)]
    for item in objects:
        mirror.upsert(item)
    config = SchedulerConfig(("enqueue",), ((PluginOption("resourcequota"), PluginOption("overcommit")),))
    session = Session(mirror.snapshot(), config, registry)
    registry.make_action("enqueue", {}).run(session)
    jobs = session.snapshot.jobs
    assert jobs.phase[jobs.index["default/b"]] == JobPhase.INQUEUE
    assert session.verdicts[jobs.index["default/a"]].reason.code == "not-admitted"
