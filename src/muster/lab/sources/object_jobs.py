"""Jobs and nodes from Kubernetes objects: files as `muster simulate` reads them, and saved snapshots of a cluster.

A PodGroup with its pods is a job, and so is a pod without one. It came when it was made. It runs as long as the
annotation `muster.sh/run-seconds` says; where a pod has ended, as long as it ran; else as long as it is expected to
(`muster.sh/expected-seconds`), or until its deadline. Pods of a job end together, with the longest. Jobs of which
nothing is known are left out, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace as with_changes

from muster.api import (
    ClusterSnapshot,
    KaiPodGroup,
    KubeObject,
    Loaded,
    Pod,
    PodGroup,
    PodGroupSpec,
    UserError,
    group_of,
)
from muster.api.objects.meta import ObjectMeta
from muster.api.resources import GPU, pod_request
from muster.cluster.embedded_server import run_seconds
from muster.framework.run_times import expected_seconds
from muster.lab.trace import Trace, TraceJob
from muster.snapshot.records import created_seconds


def split(objects: Iterable[KubeObject | Loaded], source: str) -> tuple[Trace, list[KubeObject]]:
    """The jobs among objects, and everything else: nodes, queues, HyperNodes. Raises UserError."""
    bare = [thing.object if isinstance(thing, Loaded) else thing for thing in objects]
    groups = {thing.key: thing for thing in bare if isinstance(thing, PodGroup)}
    members: dict[str, list[Pod]] = {}
    for thing in bare:
        if isinstance(thing, Pod):
            name = group_of(thing)
            members.setdefault(f"{thing.namespace}/{name}" if name else thing.key, []).append(thing)
    found: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    for key, pods in members.items():
        group = groups.get(key) or (_group_of_one(pods[0]) if group_of(pods[0]) is None else None)
        if group is None:
            left_out["names a PodGroup that is not there"] += 1
            continue
        seconds = [_seconds(pod) for pod in pods]
        known = [value for value in seconds if value is not None]
        if len(known) < len(seconds):
            left_out["has no run time"] += 1
            continue
        found.append(_job(group, pods, max(known)))
    if not found:
        raise UserError("expected pods with run times, such as the annotation muster.sh/run-seconds", place=source)
    first = min(job.submit_s for job in found)
    jobs = sorted((with_changes(job, submit_s=job.submit_s - first) for job in found), key=_place)
    skipped = (Pod, PodGroup, KaiPodGroup, ClusterSnapshot)
    return Trace(jobs, source, dict(left_out)), [thing for thing in bare if not isinstance(thing, skipped)]


def _place(job: TraceJob) -> tuple[float, str]:
    return job.submit_s, job.name


def _job(group: PodGroup, pods: Sequence[Pod], run_s: float) -> TraceJob:
    ordered = tuple(sorted(pods, key=lambda pod: pod.key))
    gpus = sum(pod_request(pod).get(GPU, 0) for pod in ordered) / 1000 / len(ordered)
    return TraceJob(
        name=group.name,
        submit_s=created_seconds(group.metadata),
        run_s=run_s,
        n_tasks=len(ordered),
        requests=((GPU, f"{round(gpus * 1000)}m"),) if gpus else (),
        queue=group.spec.queue or "default",
        namespace=group.namespace,
        group=group,
        pods=ordered,
    )


def _group_of_one(pod: Pod) -> PodGroup:
    meta = ObjectMeta(name=pod.name, namespace=pod.namespace, creation_timestamp=pod.metadata.creation_timestamp)
    return PodGroup(metadata=meta, spec=PodGroupSpec(min_member=1))


def _seconds(pod: Pod) -> float | None:
    """How long a pod runs; None: nobody knows."""
    said = run_seconds(pod)
    if said is not None:
        return said
    began = pod.status.start_time
    ends = [status.state.terminated for status in pod.status.container_statuses if status.state.terminated is not None]
    finished = [end.finished_at for end in ends if end.finished_at is not None]
    if began is not None and finished and len(finished) == len(pod.status.container_statuses):
        return max(0.0, max(finished).timestamp() - began.timestamp())
    return expected_seconds(pod)
