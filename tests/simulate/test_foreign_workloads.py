"""Workloads of others in a simulation: their pods are made, grouped, placed, and end."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from muster.api import UserError, load_files, load_text
from muster.framework import load_config
from muster.simulate import simulate

EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"
#: Each example, and how its workloads end: phase, pods that run, pods that ended well.
ENDS = {
    "kubernetes": {
        "default/web": ("Running", 3, 0),
        "default/sweep": ("Completed", 0, 4),
        "default/report": ("Completed", 0, 1),
    },
    "kubeflow": {"default/bert": ("Completed", 0, 4), "default/allreduce": ("Completed", 0, 3)},
    "ray": {"default/tune": ("Running", 5, 0)},
    "sets": {"default/llama": ("Running", 6, 0), "default/simulate": ("Completed", 0, 5)},
    "spark": {"default/etl": ("Completed", 0, 1)},
    "workflows": {
        "default/compare": ("Completed", 0, 2),
        "default/train-large": ("Completed", 0, 4),
        "default/train-small": ("Completed", 0, 4),
    },
    "serving": {"default/chat": ("Running", 2, 0), "default/llm": ("Running", 4, 0)},
}


@pytest.mark.parametrize("name", ENDS)
def test_every_example_runs(name: str) -> None:
    objects = load_files([EXAMPLES / "nodes.yaml", EXAMPLES / f"{name}.yaml"]).objects
    result = simulate(objects)
    found = {key: (each.phase, each.running, each.succeeded) for key, each in result.workloads.items()}
    assert found == ENDS[name]
    assert result.settled


def test_the_example_of_a_native_gang_runs() -> None:
    objects = load_files([EXAMPLES / "nodes.yaml", EXAMPLES / "native.yaml"]).objects
    result = simulate(objects)
    assert {name: job.phase for name, job in result.jobs.items()} == {"default/native-train": "Completed"}


def test_a_row_of_ones_own_is_read() -> None:
    objects = load_files([EXAMPLES / "nodes.yaml", EXAMPLES / "own-kind.yaml"]).objects
    result = simulate(objects, load_config(EXAMPLES / "grouping.conf"))
    assert list(result.jobs) == ["default/podgroup-7d1f"]


GANG = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: big}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 5
      template: {spec: {containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""


def test_a_gang_of_others_starts_whole_or_not_at_all() -> None:
    nodes = load_files([EXAMPLES / "nodes.yaml"]).objects
    result = simulate([*nodes, *load_text(GANG).objects])
    assert result.workloads["default/big"].phase == "Pending"
    assert all(job.running == 0 for job in result.jobs.values())
    smaller = yaml.safe_dump({**yaml.safe_load(GANG)}).replace("replicas: 5", "replicas: 4")
    result = simulate([*nodes, *load_text(smaller).objects])
    assert result.workloads["default/big"].running == 4


def test_a_gang_whose_workers_go_with_their_launcher_is_complete() -> None:
    text = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  runPolicy: {cleanPodPolicy: Running}
  mpiReplicaSpecs:
    Launcher:
      template:
        metadata: {annotations: {muster.sh/run-seconds: "20"}}
        spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}}
"""
    nodes = load_files([EXAMPLES / "nodes.yaml"]).objects
    result = simulate([*nodes, *load_text(text).objects])
    assert result.workloads["default/pi"].phase == "Completed"
    assert [(job.phase, job.reason) for job in result.jobs.values()] == [("Completed", "")]


def test_an_error_of_a_workload_says_where_it_was_written() -> None:
    with pytest.raises(UserError, match=r"^job.yaml: document 1 \(PyTorchJob default/big\): spec.pytorchReplicaSpecs"):
        simulate(load_text(GANG.replace("replicas: 5", "replicas: many"), "job.yaml"))


def test_pods_that_an_eviction_took_are_made_again() -> None:
    text = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: low}
spec:
  replicas: 4
  template:
    spec: {priorityClassName: low, containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: high}
spec: {priorityClassName: high, containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 1
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
"""
    objects = load_text(text).objects
    first = [thing for thing in objects if thing.name != "high"]
    nodes = load_files([EXAMPLES / "nodes.yaml"]).objects
    assert simulate([*nodes, *first]).workloads["default/low"].running == 4
    result = simulate([*nodes, *objects])
    report = result.workloads["default/low"]
    assert (report.running, report.pending) == (3, 1)


def test_names_that_a_server_would_make_up_are_made_up() -> None:
    pods = "{template: {spec: {containers: [{name: c}]}}}"
    text = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{generateName: run-}}\nspec: {pods}"
    [first] = load_text(text).objects
    [again] = load_text(text).objects
    assert first.name == again.name
    assert first.name.startswith("run-")
    assert len(first.name) > len("run-")


@pytest.mark.parametrize("label", ["kai.scheduler/queue", "runai/queue"])
def test_kais_queue_is_there_for_those_who_name_it(label: str) -> None:
    text = GANG.replace("{name: big}", f"{{name: big, labels: {{{label}: default-queue}}}}").replace("5", "2")
    nodes = load_files([EXAMPLES / "nodes.yaml"]).objects
    assert simulate([*nodes, *load_text(text).objects]).workloads["default/big"].running == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("replicas: 5", "replicas: many"),
            "default/big: spec.pytorchReplicaSpecs.Worker.replicas: expected a number of pods",
        ),
        (
            ("nvidia.com/gpu: 8", "nvidia.com/gpu: some"),
            r"PyTorchJob default/big\): spec.pytorchReplicaSpecs.Worker.template.spec.containers\[0\].resources.limits",
        ),
    ],
)
def test_what_cannot_be_made_is_one_error(change: tuple[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        simulate(load_text(GANG.replace(*change)).objects)


def test_lone_pods_of_kai_have_the_class_of_their_label() -> None:
    one = """
apiVersion: v1
kind: Pod
metadata: {name: low, labels: {kai.scheduler/queue: default-queue, priorityClassName: train}}
spec: {schedulerName: kai-scheduler, containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", nvidia.com/gpu: "8"}}
"""
    urgent = one.partition("---")[0].replace("low", "high").replace("train", "build")
    objects = [*load_text(one).objects, *load_text(urgent).objects]
    running = simulate(objects[:2]).jobs
    assert running["default/pod/low"].running == 1
    # The one with the class `build` comes first, although it stands last.
    both = simulate(objects).jobs
    assert (both["default/pod/low"].running, both["default/pod/high"].running) == (0, 1)
