"""Jobs: what is refused, what may change later, and what is filled in."""

from __future__ import annotations

from typing import Any

import pytest

from muster.admission import Settings
from muster.admission.jobs import start_order
from muster.api.objects.batch import DependsOn, JobTask
from tests.admission.requests import Json, create, document, filled, job, queue, task, update


def policy(**given: Any) -> Json:
    return {"action": "RestartJob", **given}


def with_container(**container: Any) -> Json:
    return task(template={"spec": {"containers": [{"name": "main", "image": "train:1", **container}]}})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minAvailable": 3}, "spec.minAvailable: expected at most the replicas of all tasks, 2, got 3"),
        ({"tasks": []}, "spec.tasks: expected at least one task"),
        ({"tasks": [task(), task()]}, 'spec.tasks[1].name: expected a name of its own, got "worker" again'),
        ({"tasks": [task("Worker")]}, "spec.tasks[0].name: expected at most 63 lower-case letters"),
        ({"tasks": [task("w" * 60)]}, "names of pods have at most 63 characters"),
        ({"tasks": [task(minAvailable=3)]}, "spec.tasks[0].minAvailable: expected at most the replicas, 2, got 3"),
        ({"tasks": [task(template={"spec": {}})]}, "spec.tasks[0].template.spec.containers: expected at least one"),
        ({"tasks": [with_container(image="")]}, "template.spec.containers[0].image: expected the name of an image"),
        ({"tasks": [with_container(name="")]}, "template.spec.containers[0].name: expected"),
        (
            {"tasks": [with_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            'containers[0].resources.requests: expected at most the limit of cpu, "1", got "2"',
        ),
        (
            {"tasks": [with_container(resources={"requests": {"cpu": "two"}})]},
            'spec.tasks[0].template.spec.containers[0].resources.requests["cpu"]: expected a quantity',
        ),
        ({"policies": [policy(event="PodFailed", exitCode=1)]}, "spec.policies[0]: expected events or an exitCode"),
        ({"policies": [policy(event="OutOfSync")]}, "spec.policies[0].event: expected"),
        ({"policies": [policy(events=["PodFailed"]), policy(event="PodFailed")]}, 'got "PodFailed" again'),
        ({"policies": [policy(event="*"), policy(event="PodFailed")]}, 'expected no other event beside "*"'),
        (
            {"plugins": {"mpi": ["--master", "boss"]}},
            'spec.plugins.mpi: expected the name of a task as --master, got "boss"',
        ),
        ({"volumes": [{"mountPath": "/a", "volumeClaim": {"a": 1}, "volumeClaimName": "b"}]}, "got both"),
        ({"volumes": [{"mountPath": "/a", "volumeClaimName": "No_Name"}]}, "spec.volumes[0].volumeClaimName: expected"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: expected a number of at least 0"),
        ({"queue": "nobody"}, 'spec.queue: expected the name of a queue, got "nobody", which does not exist'),
        ({"queue": "closed"}, 'spec.queue: expected an open queue, got "closed", which is closing'),
        ({"queue": "parent"}, 'below it are "child"'),
        ({"tasks": [task(dependsOn={"name": ["worker"]})]}, "tasks that wait for each other"),
    ],
)
def test_jobs_that_cannot_run_are_refused(spec: Json, problem: str) -> None:
    there = [queue("closed", status={"state": "Closing"}), queue("parent"), queue("child", parent="parent")]
    assert problem in create(job(**spec), *there).message


def test_everything_that_is_wrong_is_said_at_once() -> None:
    verdict = create(job(minAvailable=9, queue="nobody", plugins={"x": []}))
    assert [problem.field for problem in verdict.problems] == ["spec.minAvailable", "spec.plugins.x", "spec.queue"]


def test_an_ordinary_job_is_admitted() -> None:
    master = task("master", replicas=1, policies=[policy(event="TaskCompleted", action="CompleteJob")])
    given = job(
        minAvailable=1, tasks=[master, task(dependsOn={"name": ["master"]})], plugins={"mpi": ["--master=master"]}
    )
    verdict = create(given)
    assert (verdict.message, verdict.warnings) == ("", [])
    assert create(job(queue="")).is_allowed
    assert create(job(plugins={"own": []}), settings=Settings().with_job_plugins(["own"])).is_allowed


@pytest.mark.parametrize(
    ("partitions", "least", "problem"),
    [
        ({"totalPartitions": 2, "partitionSize": 2}, None, ""),
        ({"totalPartitions": 2, "partitionSize": 3}, None, "spec.tasks[0].replicas: expected totalPartitions times"),
        ({"totalPartitions": 0, "partitionSize": 2}, None, "totalPartitions: expected a number of at least 1"),
        ({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}, 2, ""),
        (
            {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
            4,
            "minAvailable: expected minPartitions times",
        ),
        ({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 3}, None, "minPartitions: expected at most"),
    ],
)
def test_partitions_add_up(partitions: Json, least: int | None, problem: str) -> None:
    verdict = create(job(tasks=[task(replicas=4, minAvailable=least, partitionPolicy=partitions)]))
    assert verdict.is_allowed == (not problem)
    assert problem in verdict.message


def test_a_job_with_partitions_is_admitted_after_its_minimum_was_filled_in() -> None:
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    whole = filled(job(tasks=[task(replicas=4, partitionPolicy=partitions)]))
    assert (whole["spec"]["tasks"][0]["minAvailable"], whole["spec"]["minAvailable"]) == (2, 2)
    assert create(whole).is_allowed


def test_exclusive_cpus_need_whole_ones_and_equal_limits() -> None:
    def asking(**resources: Any) -> str:
        return create(job(tasks=[{**with_container(resources=resources), "topologyPolicy": "restricted"}])).message

    assert asking(limits={"cpu": "2", "memory": "1Gi"}) == ""
    assert "needs a whole number of CPUs in containers[0]" in asking(limits={"cpu": "2500m", "memory": "1Gi"})
    assert "needs a limit of memory" in asking(limits={"cpu": "2"})
    unequal = asking(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "1", "memory": "1Gi"})
    assert "a request of the same amount" in unequal


def test_constraints_that_keep_a_job_waiting_are_warned_about() -> None:
    rack = document("HyperNode", "rack-1", {"tier": 1, "tierName": "rack", "members": []})
    verdict = create(job(networkTopology={"mode": "hard", "highestTierName": "row"}), rack)
    assert verdict.is_allowed
    assert len(verdict.warnings) == 1
    assert 'highestTierName: no HyperNode is of tier "row"; there are rack.' in verdict.warnings[0]
    assert "hard mode needs" in create(job(networkTopology={"mode": "hard"})).warnings[0]
    assert create(job(networkTopology={"mode": "hard", "highestTierName": "rack"}), rack).warnings == []


# -- changes -------------------------------------------------------------------------------------------------


def test_a_job_can_be_scaled_and_get_another_priority() -> None:
    scaled = job(minAvailable=1, priorityClassName="high", tasks=[task(replicas=5, minAvailable=3)])
    assert update(job(minAvailable=2), scaled).is_allowed
    assert "at most the replicas" in update(job(), job(tasks=[task(replicas=1)], minAvailable=2)).message


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (job(queue="other"), "spec.queue"),
        (job(tasks=[task("other")]), "spec.tasks[0].name"),
        (job(tasks=[with_container(image="train:2")]), "spec.tasks[0].template.spec.containers[0].image"),
        (job(tasks=[task(), task("more")]), "spec.tasks"),
        (job(networkTopology={"mode": "soft"}), "spec.networkTopology"),
    ],
)
def test_nothing_else_of_a_job_may_change(new: Json, field: str) -> None:
    assert [problem.field for problem in update(job(), new).problems] == [field]


def test_what_the_controller_and_the_server_write_is_no_change() -> None:
    claim = {"accessModes": ["ReadWriteOnce"]}
    old = job(volumes=[{"mountPath": "/a", "volumeClaim": claim}], policies=[], maxRetry=None)
    new = job(volumes=[{"mountPath": "/a", "volumeClaim": claim, "volumeClaimName": "train-volume-0"}])
    assert update(old, new).is_allowed


# -- defaults ------------------------------------------------------------------------------------------------


def test_what_is_left_open_is_filled_in() -> None:
    bare = {"replicas": 2, "template": {"spec": {"containers": [], "hostNetwork": True}}}
    spec = filled(document("Job", "train", {"tasks": [bare, task("w", minAvailable=1)], "plugins": {"mpi": []}}))[
        "spec"
    ]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    assert [each["name"] for each in spec["tasks"]] == ["default0", "w"]
    assert [each["minAvailable"] for each in spec["tasks"]] == [2, 1]
    assert spec["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert spec["plugins"] == {"mpi": [], "svc": [], "ssh": []}


def test_what_is_written_stays() -> None:
    whole = filled(job(minAvailable=1, tasks=[task(minAvailable=1, maxRetry=9)], maxRetry=7, schedulerName="own"))
    assert filled(whole) == whole
    assert (whole["spec"]["maxRetry"], whole["spec"]["tasks"][0]["maxRetry"]) == (7, 9)


@pytest.mark.parametrize("spec", ["text", {"tasks": "text"}, {"tasks": [7]}, None])
def test_a_document_of_the_wrong_types_is_left_as_it_is_for_the_check(spec: Any) -> None:
    given = document("Job", "train", spec)
    assert (filled(given) == given) == (spec is not None)
    assert not create(given).is_allowed


def test_tasks_start_after_those_they_depend_on() -> None:
    def named(name: str, *needs: str) -> JobTask:
        return JobTask(name=name, depends_on=DependsOn(name=list(needs)) if needs else None)

    assert start_order([named("a", "b", "c"), named("b", "c"), named("c")]) == ["c", "b", "a"]
    assert start_order([named("a", "b"), named("b", "a"), named("c")]) is None
    assert start_order([named("a", "nobody")]) is None
