"""Kubernetes' own workloads: Deployments, sets of pods, Jobs, CronJobs."""

from __future__ import annotations

from typing import Final

from muster.api import UserError
from muster.controllers.contract import Json
from muster.controllers.cron import parse_schedule
from muster.controllers.played.contract import (
    Scene,
    Wish,
    child_of,
    count_of,
    digest,
    is_active,
    is_finished,
    is_running,
    mapping,
    n_with,
    pod_of,
    with_labels,
)

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOB_NAMES: Final = ("batch.kubernetes.io/job-name", "job-name")
_RETRIES: Final = 6
_QUOTING: Final = "kubectl.kubernetes.io/"


def deployment(scene: Scene) -> Wish:
    """One ReplicaSet for the present template, with the Deployment's annotations."""
    thing, template = scene.thing, mapping(scene.spec.get("template"))
    label = digest(template)
    spec = {
        "replicas": scene.spec.get("replicas"),
        "template": with_labels(template, {"pod-template-hash": label}),
    }
    annotations = {key: text for key, text in thing.metadata.annotations.items() if not key.startswith(_QUOTING)}
    metadata = {"labels": mapping(mapping(template.get("metadata")).get("labels")), "annotations": annotations}
    return Wish([child_of(thing, "apps/v1", "ReplicaSet", f"{thing.name}-{label}", spec, metadata)])


def replica_set(scene: Scene) -> Wish:
    """As many pods as asked for."""
    count = count_of(scene.spec.get("replicas"), 1, "spec.replicas")
    names = [f"{scene.thing.name}-{number}" for number in range(count)]
    return Wish(
        [pod_of(scene.thing, name, scene.spec.get("template")) for name in names],
        leaving=sorted(set(scene.pods) - set(names)),
    )


def stateful_set(scene: Scene) -> Wish:
    """Numbered pods, one after the other unless all may come at once. Claims of templates are not made."""
    count = count_of(scene.spec.get("replicas"), 1, "spec.replicas")
    at_once = scene.spec.get("podManagementPolicy") == "Parallel"
    made = []
    for number in range(count):
        name = f"{scene.thing.name}-{number}"
        labels = {"apps.kubernetes.io/pod-index": str(number), "statefulset.kubernetes.io/pod-name": name}
        made.append(pod_of(scene.thing, name, scene.spec.get("template"), labels))
        if not at_once and not is_running(scene.pods.get(name)):
            break
    names = {f"{scene.thing.name}-{number}" for number in range(count)}
    return Wish(made, leaving=sorted(set(scene.pods) - names))


def job(scene: Scene) -> Wish:
    """Pods until enough have succeeded, so many at a time; one that failed is made again, a few times."""
    spec, pods = scene.spec, scene.pods
    parallelism = count_of(spec.get("parallelism"), 1, "spec.parallelism")
    completions = spec.get("completions")
    total = count_of(completions, parallelism, "spec.completions")
    succeeded, failed = n_with(pods.values(), "Succeeded"), n_with(pods.values(), "Failed")
    active = {name for name, pod in pods.items() if is_active(pod)}
    ready = n_with(pods.values(), "Running")
    status: Json = {"active": len(active), "ready": ready, "succeeded": succeeded, "failed": failed}
    # Without completions pods share one pile of work: the first that is done says that nothing is left.
    is_done = succeeded >= total if completions is not None else succeeded > 0 and not active
    if spec.get("suspend") is True:
        return Wish(leaving=sorted(active), status=status)
    limit = spec.get("backoffLimit")
    if is_done or failed > (limit if isinstance(limit, int) else _RETRIES):
        kind = "Complete" if is_done else "Failed"
        ended = {**status, "active": 0, "conditions": [{"type": kind, "status": "True"}]}
        return Wish(leaving=sorted(active), status=ended)
    most = min(parallelism, total - succeeded) if completions is not None else parallelism if not succeeded else 0
    names = _new_names(scene, max(0, most - len(active)), total)
    return Wish([_job_pod(scene, name) for name in names], status=status)


def _new_names(scene: Scene, count: int, total: int) -> list[str]:
    """Names for more pods: the lowest number that nobody has or has done, with a letter for each attempt after it."""
    pods, thing = scene.pods, scene.thing
    is_indexed = scene.spec.get("completionMode") == "Indexed"
    found: list[str] = []
    number = 0
    while len(found) < count and number < total + len(pods):
        base = f"{thing.name}-{number}"
        attempts = [name for name in pods if name == base or name.startswith(f"{base}-r")]
        if not attempts:
            found.append(base)
        elif is_indexed and all(pods[name].status.phase == "Failed" for name in attempts):
            found.append(f"{base}-r{len(attempts)}")
        number += 1
        if is_indexed and number >= total:
            break
    return found


def _job_pod(scene: Scene, name: str) -> Json:
    thing = scene.thing
    labels = dict.fromkeys(_JOB_NAMES, thing.name)
    labels["batch.kubernetes.io/controller-uid"] = thing.metadata.uid
    if scene.spec.get("completionMode") != "Indexed":
        return pod_of(thing, name, scene.spec.get("template"), labels)
    index = {INDEX: name.removeprefix(f"{thing.name}-").partition("-")[0]}
    return pod_of(thing, name, scene.spec.get("template"), {**labels, **index}, index)


def cron_job(scene: Scene) -> Wish:
    """A Job for each time that has come."""
    return by_the_clock(scene, "batch/v1", "Job", mapping(scene.spec.get("jobTemplate")))


def by_the_clock(scene: Scene, api_version: str, kind: str, template: Json) -> Wish:
    """An object of a template for the last time that has come, unless one runs that forbids it."""
    thing, spec = scene.thing, scene.spec
    zone = spec.get("timeZone")
    schedule = parse_schedule(str(spec.get("schedule") or ""), zone if isinstance(zone, str) else None)
    if spec.get("suspend") is True:
        return Wish(keeps=True)
    made = thing.metadata.creation_timestamp
    since = max(
        (_minute(name) * 60.0 for _, name in scene.made), default=scene.now if made is None else made.timestamp()
    )
    moment = schedule.last(since, scene.now)
    due = schedule.after(scene.now)
    running = [name for (_, name), child in scene.made.items() if not is_finished(child)]
    if moment is None or (spec.get("concurrencyPolicy") == "Forbid" and running):
        return Wish(due=due, keeps=True)
    name = f"{thing.name}-{int(moment) // 60}"
    document = child_of(
        thing, api_version, kind, name, mapping(template.get("spec")), mapping(template.get("metadata"))
    )
    return Wish([document], due=due, keeps=spec.get("concurrencyPolicy") != "Replace")


def _minute(name: str) -> int:
    text = name.rpartition("-")[2]
    if not text.isdecimal():
        raise UserError(f"expected a name that ends with a time, got {name}")
    return int(text)


def notebook(scene: Scene) -> Wish:
    """A set of one pod, or of none where it is stopped."""
    thing = scene.thing
    is_stopped = "kubeflow-resource-stopped" in thing.metadata.annotations
    template = with_labels(scene.spec.get("template"), {"notebook-name": thing.name, "statefulset": thing.name})
    spec = {"replicas": 0 if is_stopped else 1, "template": template}
    return Wish([child_of(thing, "apps/v1", "StatefulSet", thing.name, spec)])


def knative_service(scene: Scene) -> Wish:
    """One Revision."""
    thing, template = scene.thing, mapping(scene.spec.get("template"))
    name = str(mapping(template.get("metadata")).get("name") or f"{thing.name}-00001")
    metadata = {
        "labels": {
            **mapping(mapping(template.get("metadata")).get("labels")),
            "serving.knative.dev/service": thing.name,
        },
        "annotations": mapping(mapping(template.get("metadata")).get("annotations")),
    }
    return Wish([child_of(thing, thing.api_version, "Revision", name, mapping(template.get("spec")), metadata)])


def knative_revision(scene: Scene) -> Wish:
    """A Deployment with the least number of pods, or the one to begin with."""
    thing, annotations = scene.thing, scene.thing.metadata.annotations
    known = [
        annotations.get(f"autoscaling.knative.dev/{word}", "") for word in ("min-scale", "minScale", "initial-scale")
    ]
    replicas = max((int(text) for text in known if text.isdecimal()), default=1)
    labels = {**thing.metadata.labels, "serving.knative.dev/revision": thing.name}
    template = {"metadata": {"labels": labels, "annotations": dict(annotations)}, "spec": scene.spec}
    spec = {"replicas": replicas or 1, "template": template}
    return Wish([child_of(thing, "apps/v1", "Deployment", f"{thing.name}-deployment", spec, {"labels": labels})])
