"""The PodGroup of a Job: what has to start together, where, and out of which queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from muster.api import NetworkTopology, Pod, PodGroup, UserError, encode, format_amount, pod_request
from muster.api.kinds import decode_as
from muster.api.names import JOB_VERSION, PARTITION_ID, TASK_SPEC
from muster.api.objects.batch import Job, JobTask
from muster.api.objects.meta import encode_hook
from muster.api.objects.pod import ResourceRequirements
from muster.api.resources import PODS
from muster.controllers.contract import Json, owner_reference
from muster.controllers.jobs.observed import group_name

#: Resources of which quotas limit the limits.
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
#: What a PodGroup takes over when the Job changes; the rest is fixed when it is made.
_FOLLOWS: Final = ("minMember", "minTaskMember", "minResources", "priorityClassName", "subGroupPolicy")


def group_document(job: Job, priorities: Mapping[str, int]) -> Json:
    """The PodGroup as it is made; it says which version of the Job it was made for."""
    annotations = {**job.metadata.annotations, JOB_VERSION: str(job.status.version)}
    return {
        "apiVersion": PodGroup.api_version,
        "kind": PodGroup.kind,
        "metadata": {
            "name": group_name(job),
            "namespace": job.namespace,
            "labels": dict(job.metadata.labels),
            "annotations": annotations,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": _spec(job, priorities),
    }


def _spec(job: Job, priorities: Mapping[str, int]) -> Json:
    spec = job.spec
    wanted: Json = {
        "minMember": spec.min_available,
        "minTaskMember": {task.name: least_of(task) for task in spec.tasks},
        "minResources": min_resources(job, priorities),
        "queue": spec.queue,
    }
    if spec.priority_class_name:
        wanted["priorityClassName"] = spec.priority_class_name
    if spec.network_topology is not None:
        wanted["networkTopology"] = _topology(spec.network_topology)
    policies = [_sub_group(task) for task in spec.tasks if task.partition_policy is not None]
    if policies:
        wanted["subGroupPolicy"] = policies
    return wanted


def _topology(topology: NetworkTopology) -> Json:
    body: Json = msgspec.to_builtins(topology, enc_hook=encode_hook)
    return {"mode": topology.mode, **body}


def _sub_group(task: JobTask) -> Json:
    """Each partition of a task is a sub-group, told from the others by the label that its pods have."""
    policy = task.partition_policy
    assert policy is not None
    body: Json = {
        "name": task.name,
        "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION_ID],
        "subGroupSize": policy.partition_size,
        "minSubGroups": policy.min_partitions,
    }
    if policy.network_topology is not None:
        body["networkTopology"] = _topology(policy.network_topology)
    return body


def least_of(task: JobTask) -> int:
    """How many pods of a task have to start together."""
    return task.replicas if task.min_available is None else task.min_available


def difference(job: Job, group: PodGroup, priorities: Mapping[str, int]) -> Json:
    """What has to be merged into a PodGroup, {} if nothing."""
    stands = encode(group).get("spec") or {}
    assert isinstance(stands, dict)
    wanted = _spec(job, priorities)
    changed: Json = {}
    for name in _FOLLOWS:
        if _plain(wanted.get(name)) != _plain(stands.get(name)):
            changed[name] = wanted.get(name)
    if isinstance(changed.get("minTaskMember"), dict):
        gone = (stands.get("minTaskMember") or {}).keys() - wanted["minTaskMember"].keys()
        changed["minTaskMember"].update(dict.fromkeys(gone))
    if isinstance(changed.get("minResources"), dict):
        gone = (stands.get("minResources") or {}).keys() - wanted["minResources"].keys()
        changed["minResources"].update(dict.fromkeys(gone))
    return {"spec": changed} if changed else {}


def _plain(value: object) -> object:
    """A part of a document without what says nothing, so that two ways to write the same are equal."""
    if isinstance(value, dict):
        kept = {name: _plain(part) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part not in (None, "", 0, {}, [])} or None
    if isinstance(value, list):
        return [_plain(part) for part in value] or None
    return value if value not in ("", 0) else None


# -- what the minimum takes ------------------------------------------------------------------------------------


def min_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """What the least number of pods requests: the minimum of every task, then more of them, the highest priority first.

    Where the tasks ask for more together than the Job does, the Job's number counts and is filled task by task.
    """
    tasks = sorted(job.spec.tasks, key=lambda task: -priorities.get(_class_of(task), 0))
    left = job.spec.min_available
    counts = dict.fromkeys((task.name for task in tasks), 0)
    fits = left >= sum(least_of(task) for task in tasks)
    for task in tasks if fits else ():
        counts[task.name] = least_of(task)
        left -= counts[task.name]
    for task in tasks:
        more = min(left, task.replicas - counts[task.name])
        counts[task.name] += more
        left -= more
    total: dict[str, int] = {}
    for task in tasks:
        for name, amount in _usage_of(task).items():
            total[name] = total.get(name, 0) + amount * counts[task.name]
    return {name: format_amount(name, amount) for name, amount in sorted(total.items()) if amount}


def _class_of(task: JobTask) -> str:
    return str((task.template.get("spec") or {}).get("priorityClassName") or "")


def _usage_of(task: JobTask) -> dict[str, int]:
    """What one pod takes, also under the names of quotas, as Volcano's PodGroups say it.

    {} for a template that nobody can make a pod of, which is told when one is made.
    """
    try:
        pod = decode_as({"spec": task.template.get("spec") or {}}, Pod)
        request, most = pod_request(pod), pod_request(_with_limits(pod))
    except UserError:
        return {}
    usage = {"count/pods": 1, **request}
    usage |= {f"requests.{name}": amount for name, amount in request.items() if name != PODS}
    return usage | {f"limits.{name}": most[name] for name in _LIMITED if name in most}


def _with_limits(pod: Pod) -> Pod:
    """The pod as if it requested all that it may use."""
    kinds = {"containers": pod.spec.containers, "init_containers": pod.spec.init_containers}
    most = {
        kind: [replace(each, resources=ResourceRequirements(requests=each.resources.limits)) for each in containers]
        for kind, containers in kinds.items()
    }
    return replace(pod, spec=replace(pod.spec, **most, resources=None))
