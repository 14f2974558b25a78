"""Training: the kinds of Kubeflow's operators, and sets of Jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.api.objects.workloads import ForeignWorkload
from muster.controllers.contract import Json
from muster.controllers.played.contract import (
    Player,
    Scene,
    Wish,
    child_of,
    count_of,
    is_active,
    is_finished,
    is_running,
    mapping,
    pod_of,
    with_labels,
)

_PREFIX: Final = "training.kubeflow.org"
_JOBSET: Final = "jobset.sigs.k8s.io"
_TRAINER: Final = "trainer.kubeflow.org"
#: Roles of which one pod speaks for the job; the first that there is.
_MASTERS: Final = ("Launcher", "Master", "Chief", "Scheduler", "Worker")


def replica_specs(field: str, operator: str) -> Player:
    """The player of a kind that has its roles in a field of the spec."""

    def play(scene: Scene) -> Wish:
        return _replicated(scene, field, operator)

    return play


def _replicated(scene: Scene, field: str, operator: str) -> Wish:
    thing, policy = scene.thing, {**scene.spec, **mapping(scene.spec.get("runPolicy"))}
    roles = mapping(scene.spec.get(field))
    counts = {
        role: count_of(mapping(given).get("replicas"), 1, f"spec.{field}.{role}.replicas")
        for role, given in roles.items()
    }
    if policy.get("suspend") is True:
        return Wish(leaving=sorted(name for name, pod in scene.pods.items() if is_active(pod)))
    master = next((role for role in _MASTERS if role in roles), "")
    leader = scene.pods.get(_pod_name(thing, master, 0, operator)) if master else None
    if leader is not None and leader.status.phase in ("Succeeded", "Failed"):
        is_kept = str(policy.get("cleanPodPolicy") or "None") == "None"
        return Wish(leaving=[] if is_kept else sorted(name for name, pod in scene.pods.items() if is_active(pod)))
    late = "Launcher" if policy.get("launcherCreationPolicy") == "WaitForWorkersReady" else ""
    wished: list[Json] = []
    for role, given in roles.items():
        entry = mapping(given)
        if role == late and not _are_running(scene, "Worker", counts.get("Worker", 1), operator):
            continue
        for number in range(counts[role]):
            labels = _labels(thing, role, number, operator, is_master=role == master)
            wished.append(pod_of(thing, _pod_name(thing, role, number, operator), entry.get("template"), labels))
    return Wish(wished)


def _are_running(scene: Scene, role: str, count: int, operator: str) -> bool:
    names = (_pod_name(scene.thing, role, number, operator) for number in range(count))
    return all(is_running(scene.pods.get(name)) for name in names)


def _pod_name(thing: ForeignWorkload, role: str, number: int, operator: str) -> str:
    if operator == "mpijob-controller" and role == "Launcher":
        return f"{thing.name}-launcher"
    return f"{thing.name}-{role.lower()}-{number}"


def _labels(thing: ForeignWorkload, role: str, number: int, operator: str, *, is_master: bool) -> dict[str, str]:
    labels = {
        f"{_PREFIX}/operator-name": operator,
        f"{_PREFIX}/job-name": thing.name,
        f"{_PREFIX}/replica-type": role.lower(),
        f"{_PREFIX}/replica-index": str(number),
    }
    if operator == "mpijob-controller":
        labels[f"{_PREFIX}/job-role"] = role.lower()
    elif is_master:
        labels[f"{_PREFIX}/job-role"] = "master"
    return labels


# -- JobSets ---------------------------------------------------------------------------------------------------


def job_set(scene: Scene) -> Wish:
    """Jobs of all templates; one after the other where they are to start in order or depend on others."""
    spec = scene.spec
    if spec.get("suspend") is True:
        return Wish()
    in_order = mapping(spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder"
    wished: list[Json] = []
    for entry in spec.get("replicatedJobs") or ():
        given = mapping(entry)
        if not all(_is_met(scene, mapping(each)) for each in given.get("dependsOn") or ()):
            continue
        wished += _jobs(scene, given)
        if in_order and not _are_ready(scene, given):
            break
    return Wish(wished)


def _jobs(scene: Scene, entry: Json) -> Iterator[Json]:
    thing, name = scene.thing, str(entry.get("name"))
    template = mapping(entry.get("template"))
    spec = {"completionMode": "Indexed", **mapping(template.get("spec"))}
    replicas = count_of(entry.get("replicas"), 1, "spec.replicatedJobs.replicas")
    for number in range(replicas):
        labels = {
            f"{_JOBSET}/jobset-name": thing.name,
            f"{_JOBSET}/replicatedjob-name": name,
            f"{_JOBSET}/replicatedjob-replicas": str(replicas),
            f"{_JOBSET}/job-index": str(number),
        }
        metadata = mapping(template.get("metadata"))
        of_job = {**metadata, "labels": {**mapping(metadata.get("labels")), **labels}}
        pods = with_labels(spec.get("template"), labels, labels)
        job_name = f"{thing.name}-{name}-{number}"
        yield child_of(thing, "batch/v1", "Job", job_name, {**spec, "template": pods}, of_job)


def _made(scene: Scene, name: str) -> list[ForeignWorkload | None]:
    entries = [mapping(each) for each in scene.spec.get("replicatedJobs") or ()]
    entry: Json = next((each for each in entries if each.get("name") == name), {})
    replicas = count_of(entry.get("replicas"), 1, "spec.replicatedJobs.replicas")
    return [scene.child("Job", f"{scene.thing.name}-{name}-{number}") for number in range(replicas)]


def _are_ready(scene: Scene, entry: Json) -> bool:
    return all(child is not None and _is_ready(child) for child in _made(scene, str(entry.get("name"))))


def _is_ready(job: ForeignWorkload) -> bool:
    if is_finished(job):
        return True
    wanted = count_of(job.spec.get("parallelism"), 1, "spec.parallelism")
    return int(job.status.get("ready") or 0) + int(job.status.get("succeeded") or 0) >= wanted


def _is_met(scene: Scene, needed: Json) -> bool:
    jobs = _made(scene, str(needed.get("name")))
    if needed.get("status") == "Complete":
        return all(is_finished(job, "Complete") for job in jobs)
    return all(job is not None and _is_ready(job) for job in jobs)


# -- TrainJobs -------------------------------------------------------------------------------------------------


def train_job(scene: Scene) -> Wish:
    """The JobSet of the runtime that it names, with its own number of nodes, image and resources."""
    thing, spec = scene.thing, scene.spec
    reference = mapping(spec.get("runtimeRef"))
    kind, name = str(reference.get("kind") or "ClusterTrainingRuntime"), str(reference.get("name"))
    key = name if kind == "ClusterTrainingRuntime" else f"{thing.namespace}/{name}"
    runtime = scene.find(kind, key)
    template = mapping(runtime.spec.get("template")) if runtime is not None else _PLAIN_RUNTIME
    policy = mapping(runtime.spec.get("mlPolicy")) if runtime is not None else {}
    jobs = [_trained(mapping(each), spec, policy) for each in mapping(template.get("spec")).get("replicatedJobs") or ()]
    body = {**mapping(template.get("spec")), "replicatedJobs": jobs, "suspend": spec.get("suspend")}
    marks = {
        "labels": {**mapping(mapping(template.get("metadata")).get("labels")), **mapping(spec.get("labels"))},
        "annotations": mapping(spec.get("annotations")),
    }
    return Wish([child_of(thing, "jobset.x-k8s.io/v1alpha2", "JobSet", thing.name, body, marks)])


#: What stands in for a runtime that is not among the objects: one pod for each node.
_PLAIN_RUNTIME: Final[Json] = {
    "spec": {
        "replicatedJobs": [
            {
                "name": "node",
                "template": {
                    "metadata": {"labels": {f"{_TRAINER}/trainjob-ancestor-step": "trainer"}},
                    "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "trainer"}]}}},
                },
            }
        ]
    }
}


def _trained(entry: Json, spec: Json, policy: Json) -> Json:
    """A replicated Job of the runtime, as the TrainJob changes it."""
    template = mapping(entry.get("template"))
    steps = mapping(mapping(template.get("metadata")).get("labels"))
    if steps.get(f"{_TRAINER}/trainjob-ancestor-step") != "trainer" and entry.get("name") != "node":
        return entry
    trainer = mapping(spec.get("trainer"))
    nodes = count_of(trainer.get("numNodes"), 0, "spec.trainer.numNodes") or count_of(
        policy.get("numNodes"), 1, "spec.mlPolicy.numNodes"
    )
    job = mapping(template.get("spec"))
    pods = mapping(job.get("template"))
    of_pods = mapping(pods.get("spec"))
    containers = [dict(mapping(each)) for each in of_pods.get("containers") or ()]
    for container in containers:
        if container.get("name") == "node" and trainer.get("resourcesPerNode") is not None:
            container["resources"] = trainer["resourcesPerNode"]
    changed = {**pods, "spec": {**of_pods, "containers": containers}}
    return {
        **entry,
        "template": {**template, "spec": {**job, "parallelism": nodes, "completions": nodes, "template": changed}},
    }
