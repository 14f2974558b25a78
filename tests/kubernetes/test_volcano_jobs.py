"""Jobs of Volcano on a real API server: served by Muster's controllers, scheduled by Muster, run by KWOK."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError, node, queue
from tests.kubernetes.replicas import Process, replica

KIND = "VolcanoJob"
#: Of those that run while controllers die; as many as in a storm take minutes.
N_JOBS = 200 if "MUSTER_STRIKES" in os.environ else 40


def job(name: str, replicas: int = 4, task: Json | None = None, **spec: Any) -> Json:
    """A Job with one task "w"."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    tasks = [{"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}, **(task or {})}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": replicas, "tasks": tasks, **spec},
    }


def phase(kubectl: Kubectl, name: str) -> str:
    found: str = kubectl.get(KIND, name).get("status", {}).get("state", {}).get("phase", "")
    return found


def pods_of(kubectl: Kubectl, name: str) -> dict[str, Json]:
    pods = kubectl.list("Pod")
    return {
        each["metadata"]["name"]: each for each in pods if each["metadata"]["labels"]["volcano.sh/job-name"] == name
    }


def test_a_job_with_plugins_runs_to_its_end(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    plugins = {"svc": [], "env": [], "ssh": ["--ssh-private-key=a", "--ssh-public-key=b"], "pytorch": ["--master=w"]}
    with replica(control_plane, tmp_path / "log"):
        kubectl.create(job("train", plugins=plugins, ttlSecondsAfterFinished=3600))
        kubectl.wait(lambda: phase(kubectl, "train") == "Completed", seconds=60)
        # What stood beside the pods is let go of in the next step.
        kubectl.wait(lambda: not kubectl.get(KIND, "train")["status"].get("controlledResources"), seconds=20)
    status = kubectl.get(KIND, "train")["status"]
    assert (status["succeeded"], status["taskStatusCount"]) == (4, {"w": {"phase": {"Succeeded": 4}}})
    assert [known["status"] for known in status["conditions"]] == ["Pending", "Running", "Completed"]
    pods = pods_of(kubectl, "train")
    assert sorted(pods) == [f"train-w-{k}" for k in range(4)]
    assert {each["spec"]["nodeName"] for each in pods.values()} == {"n1"}
    env = {known["name"]: known.get("value") for known in pods["train-w-2"]["spec"]["containers"][0]["env"]}
    assert (env["VC_TASK_INDEX"], env["WORLD_SIZE"]) == ("2", "4")
    assert not kubectl.list("PodGroup")
    for kind in ("Service", "ConfigMap", "Secret", "NetworkPolicy"):
        left = [each["metadata"]["name"] for each in kubectl.list(kind)]
        assert not any(name.startswith("train") for name in left), kind
    told = [each for each in kubectl.list("Event") if each["involvedObject"]["name"] == "train"]
    assert any(each["reason"] == "Completed" for each in told)


def test_what_a_pod_needs_is_there_before_the_pod(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create(queue("default"))  # and no node: pods stay as they are
    with replica(control_plane, tmp_path / "log", "--components", "scheduler,controllers"):
        kubectl.create(job("train", 2, plugins={"mpi": ["--master=w"], "ssh": ["--ssh-private-key=a"]}))
        kubectl.wait(lambda: len(pods_of(kubectl, "train")) == 2, seconds=60)
    assert kubectl.get("Service", "train")["spec"]["clusterIP"] == "None"
    assert kubectl.get("ConfigMap", "train-svc")["data"]["VC_W_HOSTS"] == "train-w-0.train,train-w-1.train"
    assert set(kubectl.get("Secret", "train-ssh")["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    assert kubectl.get("NetworkPolicy", "train")["spec"]["policyTypes"] == ["Ingress"]


def test_jobs_come_out_right_though_the_controllers_die_again_and_again(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    chance = random.Random(7)
    kubectl.create_all([queue("default"), *(node(f"n{number}") for number in range(4))])
    names = [f"job-{number}" for number in range(N_JOBS)]
    births: Counter[str] = Counter()
    threading.Thread(target=_count_births, args=(kubectl.watch("Pod"), births), daemon=True).start()
    with replica(control_plane, tmp_path / "scheduler", "--components", "scheduler"):
        controllers = _controllers(control_plane, tmp_path, 0)
        try:
            for number, name in enumerate(names):
                kubectl.create(job(name, chance.randint(1, 6), plugins={"svc": []}))
                if number % 8 == 7:
                    time.sleep(chance.uniform(0.0, 1.5))
                    controllers.end(signal.SIGKILL)
                    controllers = _controllers(control_plane, tmp_path, number)
            kubectl.wait(lambda: _phases(kubectl) == {"Completed": N_JOBS}, seconds=120 + N_JOBS)
            kubectl.wait(lambda: not kubectl.list("PodGroup"))
        finally:
            controllers.end(signal.SIGKILL)
    pods = kubectl.list("Pod")
    kubectl.wait(lambda: len(births) == len(pods))
    assert set(births.values()) == {1}  # none twice, not even one after the other
    for name in names:
        wanted = kubectl.get(KIND, name)
        replicas = wanted["spec"]["tasks"][0]["replicas"]
        own = [each["metadata"]["name"] for each in pods if each["metadata"]["labels"]["volcano.sh/job-name"] == name]
        assert sorted(own) == sorted(f"{name}-w-{k}" for k in range(replicas))
        assert wanted["status"].get("retryCount", 0) == 0
        assert wanted["status"]["succeeded"] == replicas


def _count_births(events: Iterator[Json], births: Counter[str]) -> None:
    for event in events:
        births[event["object"]["metadata"]["name"]] += event["type"] == "ADDED"


def _phases(kubectl: Kubectl) -> Counter[str]:
    return Counter(each.get("status", {}).get("state", {}).get("phase", "") for each in kubectl.list(KIND))


def _controllers(plane: ControlPlane, folder: Path, number: int) -> Process:
    return Process(
        plane.kubeconfig, folder / f"controllers-{number}", "--components", "controllers", "--no-leader-elect"
    )


def test_a_partition_starts_anew_alone(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    task = {
        "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2},
        "policies": [{"event": "PodFailed", "action": "RestartPartition"}],
    }
    with control_plane.without_kubelets(), replica(control_plane, tmp_path / "log"):
        kubectl.create(job("train", 4, task))
        kubectl.wait(lambda: sum(map(bool, kubectl.nodes_of_pods().values())) == 4, seconds=60)
        before = pods_of(kubectl, "train")
        _set_phase(kubectl, before, "Running")
        kubectl.wait(lambda: phase(kubectl, "train") == "Running")
        _set_phase(kubectl, ["train-w-3"], "Failed")
        kubectl.wait(lambda: kubectl.get(KIND, "train")["status"].get("retryCount") == 1)
        kubectl.wait(lambda: _renewed(kubectl, before) == {"train-w-2", "train-w-3"}, seconds=30)
        kubectl.wait(lambda: phase(kubectl, "train") in ("Pending", "Running"))
        _set_phase(kubectl, ["train-w-2", "train-w-3"], "Running")
        kubectl.wait(lambda: phase(kubectl, "train") == "Running")
    after = pods_of(kubectl, "train")
    assert [after[f"train-w-{k}"]["metadata"]["labels"]["volcano.sh/partition-id"] for k in range(4)] == list("0011")
    assert _renewed(kubectl, before) == {"train-w-2", "train-w-3"}


def _set_phase(kubectl: Kubectl, names: Any, phase: str) -> None:
    for name in names:
        kubectl.patch("Pod", name, {"status": {"phase": phase}}, status=True)


def _renewed(kubectl: Kubectl, before: dict[str, Json]) -> set[str]:
    """The pods that are others than before; those that leave are helped on, as a kubelet would."""
    renewed = set()
    for name, pod in pods_of(kubectl, "train").items():
        if pod["metadata"].get("deletionTimestamp"):
            with suppress(RefusedError):  # it has gone meanwhile
                kubectl.delete("Pod", name, grace=0)
        elif pod["metadata"]["uid"] != before[name]["metadata"]["uid"]:
            renewed.add(name)
    return renewed


def test_a_job_is_suspended_and_resumed(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create(queue("default"))
    with replica(control_plane, tmp_path / "log"):
        kubectl.create(job("train", 2))
        kubectl.wait(lambda: len(pods_of(kubectl, "train")) == 2, seconds=60)
        _command(kubectl, "AbortJob")
        kubectl.wait(lambda: phase(kubectl, "train") == "Aborted")
        assert (pods_of(kubectl, "train"), kubectl.list("PodGroup"), kubectl.list("Command")) == ({}, [], [])
        _command(kubectl, "ResumeJob")
        kubectl.wait(lambda: len(pods_of(kubectl, "train")) == 2)
        assert phase(kubectl, "train") == "Pending"


def _command(kubectl: Kubectl, action: str) -> None:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "x"}
    document = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": action.lower()}}
    kubectl.create({**document, "action": action, "target": target})


def test_one_pod_too_many_to_scale_down(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create(queue("default"))
    with replica(control_plane, tmp_path / "log"):
        kubectl.create(job("train", 3))
        kubectl.wait(lambda: len(pods_of(kubectl, "train")) == 3, seconds=60)
        smaller = job("train", 1)["spec"]
        kubectl.patch(KIND, "train", {"spec": {"minAvailable": 1, "tasks": smaller["tasks"]}})
        kubectl.wait(lambda: sorted(pods_of(kubectl, "train")) == ["train-w-0"])
        kubectl.wait(lambda: kubectl.list("PodGroup")[0]["spec"]["minMember"] == 1)


@pytest.mark.usefixtures("controllers")
def test_what_a_job_made_goes_with_it(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create(queue("default"))
    with replica(control_plane, tmp_path / "log"):
        kubectl.create(job("train", 2, plugins={"svc": []}))
        kubectl.wait(lambda: len(pods_of(kubectl, "train")) == 2, seconds=60)
        kubectl.delete(KIND, "train")
        kubectl.wait(lambda: not pods_of(kubectl, "train") and not kubectl.list("PodGroup"), seconds=60)
        assert "train" not in [each["metadata"]["name"] for each in kubectl.list("Service")]


def test_a_flow_and_a_clock_make_jobs(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    for name in ("a", "b"):
        template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": name}}
        kubectl.create({**template, "spec": job("x", 2)["spec"]})
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "flow"}}
    cron = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "tick"}}
    often = {"schedule": "@every 2s", "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": job("x", 1)["spec"]}}
    with replica(control_plane, tmp_path / "log"):
        kubectl.create({**flow, "spec": {"flows": flows}})
        kubectl.wait(lambda: _state(kubectl) == "Succeed", seconds=90)
        kubectl.create({**cron, "spec": often})
        kubectl.wait(lambda: _successes(kubectl), seconds=60)
    jobs = {each["metadata"]["name"]: each for each in kubectl.list(KIND)}
    assert (
        jobs["flow-a"]["status"]["state"]["lastTransitionTime"] <= jobs["flow-b"]["metadata"]["creationTimestamp"] + "Z"
    )
    assert kubectl.get("JobFlow", "flow")["status"]["completedJobs"] == ["flow-a", "flow-b"]
    assert kubectl.get("VolcanoCronJob", "tick")["status"]["lastScheduleTime"]


def _state(kubectl: Kubectl) -> str:
    found: str = kubectl.get("JobFlow", "flow").get("status", {}).get("state", {}).get("phase", "")
    return found


def _successes(kubectl: Kubectl) -> bool:
    return "lastSuccessfulTime" in kubectl.get("VolcanoCronJob", "tick").get("status", {})
