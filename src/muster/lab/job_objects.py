"""The Kubernetes objects that jobs of a trace are made of, when they come.

Pods of one shape share what says it, so that a hundred thousand jobs of thirty shapes are looked at thirty times.
"""

from __future__ import annotations

from msgspec.structs import replace

from muster.api import (
    Container,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodSpec,
    PodStatus,
    Quantity,
    ResourceRequirements,
)
from muster.api.names import EXPECTED_SECONDS, GROUP_NAME, OWNER
from muster.cluster.clock import stamp_of
from muster.lab.trace import TraceJob

_PENDING = PodStatus(phase="Pending")


class ObjectMaker:
    """Makes objects; `epoch` is the beginning of the trace, in seconds since 1970."""

    def __init__(self, epoch: float) -> None:
        self._epoch = epoch
        self._specs: dict[tuple[object, ...], PodSpec] = {}
        self._made_anew = 0

    def objects(self, job: TraceJob) -> tuple[PodGroup, list[Pod]]:
        """The PodGroup of a job and its pods, as they are made when it comes."""
        created = stamp_of(self._epoch + job.submit_s)
        if job.group is not None:
            return self._given(job, job.group)
        marks = self._marks(job)
        meta = ObjectMeta(
            name=job.name,
            namespace=job.namespace,
            uid=f"podgroup/{job.namespace}/{job.name}",
            annotations=marks,
            creation_timestamp=created,
        )
        group = PodGroup(metadata=meta, spec=PodGroupSpec(min_member=job.n_tasks, queue=job.queue))
        spec = self._spec(job)
        own = {GROUP_NAME: job.name}  # what is to be known beside requests its PodGroup says
        pods = [
            Pod(
                metadata=ObjectMeta(
                    name=f"{job.name}-{number}",
                    namespace=job.namespace,
                    uid=f"pod/{job.namespace}/{job.name}-{number}",
                    annotations=own,
                    creation_timestamp=created,
                ),
                spec=spec,
                status=_PENDING,
            )
            for number in range(job.n_tasks)
        ]
        return group, pods

    def anew(self, pod: Pod, job: TraceJob, now: float) -> Pod:
        """The pod that takes the place of one which has left."""
        self._made_anew += 1
        meta = replace(
            pod.metadata,
            uid=f"{pod.metadata.uid.partition('#')[0]}#{self._made_anew}",
            creation_timestamp=stamp_of(now),
            deletion_timestamp=None,
        )
        given = next((known for known in job.pods if known.key == pod.key), None)
        spec = self._spec(job) if given is None else replace(given.spec, node_name="")
        return replace(pod, metadata=meta, spec=spec, status=_PENDING)

    def _given(self, job: TraceJob, group: PodGroup) -> tuple[PodGroup, list[Pod]]:
        """Objects of a file or a cluster, as they were when they came: no node, no status, no stamps."""
        created = stamp_of(self._epoch + job.submit_s)
        marks = {key: text for key, text in group.metadata.annotations.items() if not key.startswith("muster.sh/st")}
        meta = replace(
            group.metadata,
            uid=group.metadata.uid or f"podgroup/{group.key}",
            creation_timestamp=created,
            annotations={**marks, **self._marks(job)},
        )
        bare = PodGroup(metadata=meta, spec=group.spec)
        return bare, [
            replace(
                pod,
                metadata=replace(
                    pod.metadata,
                    uid=pod.metadata.uid or f"pod/{pod.key}",
                    creation_timestamp=created,
                    deletion_timestamp=None,
                    annotations={**pod.metadata.annotations, GROUP_NAME: group.name},
                ),
                spec=replace(pod.spec, node_name=""),
                status=_PENDING,
            )
            for pod in job.pods
        ]

    def _spec(self, job: TraceJob) -> PodSpec:
        key = (job.requests, job.priority)
        spec = self._specs.get(key)
        if spec is None:
            requests = {name: Quantity(text) for name, text in job.requests}
            container = Container(name="main", resources=ResourceRequirements(requests=requests))
            spec = self._specs[key] = PodSpec(containers=[container], priority=job.priority)
        return spec

    def _marks(self, job: TraceJob) -> dict[str, str]:
        """What the scheduler is told beside requests: how long it will run, and whose it is."""
        expected = {} if job.expected_s is None else {EXPECTED_SECONDS: f"{job.expected_s:g}"}
        return {**expected, **({OWNER: job.user} if job.user else {})}
