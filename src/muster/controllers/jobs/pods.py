"""Pods of a Job, as documents: the template of the task, and the names, labels and annotations that Volcano's have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from muster.api import PersistentVolumeClaim
from muster.api.names import (
    COOLDOWN_TIME,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_QUEUE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    LIFE,
    NUMA_POLICY,
    PARTITION_ID,
    PREEMPTABLE,
    REVOCABLE_ZONE,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
)
from muster.api.objects.batch import Job, JobTask
from muster.controllers.contract import Create, Json, owner_reference
from muster.controllers.job_plugins import JobPlugin
from muster.controllers.jobs.observed import group_name, pod_name

_ANNOTATIONS_OF_JOB: Final = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
_LABELS_OF_JOB: Final = (PREEMPTABLE, COOLDOWN_TIME)


class PodMaker:
    """Makes the pods of one task."""

    def __init__(self, job: Job, task: JobTask, plugins: list[JobPlugin]) -> None:
        self._job = job
        self._task = task
        self._plugins = plugins
        of_job = job.metadata.annotations
        self._life = {key: of_job[key] for key in LIFE if key in of_job}
        # Copied for each pod, many times: from JSON that is far faster than object by object.
        self._template = msgspec.json.encode(task.template)

    def make(self, index: int) -> Json:
        """The document of one pod."""
        template = msgspec.json.decode(self._template)
        metadata = template.get("metadata") or {}
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name(self._job, self._task, index),
                "namespace": self._job.namespace,
                "labels": {**(metadata.get("labels") or {}), **self._labels(index)},
                "annotations": {**self._life, **(metadata.get("annotations") or {}), **self._annotations(index)},
                "ownerReferences": [owner_reference(self._job)],
            },
            "spec": template.get("spec") or {},
        }
        self._complete(pod["spec"])
        for plugin in self._plugins:
            plugin.shape(pod, self._job, self._task, index)
        return pod

    def _labels(self, index: int) -> dict[str, str]:
        job, task = self._job, self._task
        labels = {
            TASK_INDEX: str(index),
            TASK_SPEC: task.name,
            JOB_NAME: job.name,
            JOB_NAMESPACE: job.namespace,
            JOB_QUEUE: job.spec.queue,
        }
        labels |= {key: job.metadata.labels[key] for key in _LABELS_OF_JOB if key in job.metadata.labels}
        if task.partition_policy is not None:
            size = task.partition_policy.partition_size
            labels[PARTITION_ID] = str(index // size if size > 0 else 0)
        return labels

    def _annotations(self, index: int) -> dict[str, str]:
        job, task = self._job, self._task
        annotations = {
            TASK_INDEX: str(index),
            TASK_SPEC: task.name,
            GROUP_NAME: group_name(job),
            JOB_NAME: job.name,
            JOB_QUEUE: job.spec.queue,
            JOB_VERSION: str(job.status.version),
            JOB_RETRY_COUNT: str(job.status.retry_count),
            TEMPLATE_UID: f"{job.name}-{task.name}",
        }
        if task.topology_policy:
            annotations[NUMA_POLICY] = task.topology_policy
        of_job = job.metadata.annotations
        annotations |= {key: of_job[key] for key in _ANNOTATIONS_OF_JOB if key in of_job}
        budget = next((key for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if key in of_job), None)
        if budget is not None:
            annotations[budget] = of_job[budget]
        return annotations

    def _complete(self, spec: Json) -> None:
        job = self._job.spec
        spec["schedulerName"] = spec.get("schedulerName") or job.scheduler_name
        if not spec.get("priorityClassName") and job.priority_class_name:
            spec["priorityClassName"] = job.priority_class_name
        seen: set[str] = set()
        for place, volume in enumerate(job.volumes):
            claim = volume.volume_claim_name or claim_name(self._job, place)
            if claim in seen:
                continue
            seen.add(claim)
            name = f"{self._job.name}-{_digest(self._job, claim)}"
            spec.setdefault("volumes", []).append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
            for container in spec.get("containers") or ():
                container.setdefault("volumeMounts", []).append({"name": name, "mountPath": volume.mount_path})


# -- claims ----------------------------------------------------------------------------------------------------


def claims(job: Job) -> Iterator[tuple[str, Create | None]]:
    """The claims of a Job by name, and how those are made that it describes itself."""
    for place, volume in enumerate(job.spec.volumes):
        if volume.volume_claim_name:
            yield volume.volume_claim_name, None
            continue
        name = claim_name(job, place)
        metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]}
        kind = {"apiVersion": PersistentVolumeClaim.api_version, "kind": PersistentVolumeClaim.kind}
        yield name, Create({**kind, "metadata": metadata, "spec": volume.volume_claim or {}})


def claim_name(job: Job, place: int) -> str:
    """The name of a claim that has none: the same each time, so that it is made once."""
    return f"{job.name}-pvc-{_digest(job, str(place))}"


def _digest(job: Job, what: str) -> str:
    return hashlib.sha256(f"{job.metadata.uid}/{what}".encode()).hexdigest()[:12]
