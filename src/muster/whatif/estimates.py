"""When pods that run are expected to end, so that the clock can be run forward; and how sure that is.

A pod of a simulation says how long it runs, by `muster.sh/run-seconds`. For others the scheduler's own estimates count:
what the pod or its PodGroup says, its deadline, or what jobs of the same owner took that have finished and are still to
be seen. Of a pod that nobody knows anything about the end is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from muster.api import KaiPodGroup, Pod, PodGroup, group_of
from muster.cluster import MemoryCluster
from muster.cluster.embedded_server import Store, run_seconds
from muster.explain.words import joined
from muster.framework.run_times import Expected, RunTimes, expected_seconds, owner_of
from muster.snapshot import JobRecord
from muster.snapshot.kai_records import job_from_kai
from muster.snapshot.records import job_from_group, job_from_pod

SAID: Final = "said"
DEADLINE: Final = "deadline"
RECORD: Final = "record"


@dataclass(frozen=True, slots=True)
class Basis:
    """What an expected moment rests on: how many jobs have to end before it, and from where their run times are."""

    #: Jobs by the source of their run times.
    jobs: Mapping[str, int]
    #: By what factor the least sure of them may be wrong; 1 where nothing is estimated.
    factor: float = 1.0

    @property
    def total(self) -> int:
        return sum(self.jobs.values())

    @property
    def text(self) -> str:
        total = self.total
        whose = "its" if total == 1 else "their"
        words = {
            SAID: f"by {whose} own word",
            DEADLINE: f"at {whose} deadline{'' if total == 1 else 's'}",
            RECORD: f"by what jobs of the same owner took, within a factor of {self.factor:g}",
        }
        known = [source for source in words if self.jobs.get(source)]
        if len(known) == 1:
            return f"{'one job ends' if total == 1 else f'{total} jobs end'} before, {words[known[0]]}"
        return f"{total} jobs end before: {joined(f'{self.jobs[source]} {words[source]}' for source in known)}"

    def to_json(self) -> dict[str, object]:
        return {
            "jobs": {source: self.jobs.get(source, 0) for source in (SAID, DEADLINE, RECORD)},
            "factor": self.factor,
        }


@dataclass(slots=True)
class Estimates:
    """Expected ends of the pods of one cluster."""

    store: Store
    run_times: RunTimes
    #: What was expected, by job.
    expected: dict[str, Expected] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: MemoryCluster) -> Estimates:
        """Estimates from what the pods of a cluster say, and from those that have finished."""
        run_times = RunTimes()
        runs: dict[str, tuple[str, float]] = {}
        for pod in cluster.store.all(Pod):
            seconds = _took(pod)
            if seconds is not None:
                record = _record(cluster.store, pod)
                longest = max(seconds, runs.get(record.id, ("", 0.0))[1])
                runs[record.id] = owner_of(record, pod), longest
        for job, (owner, seconds) in sorted(runs.items()):
            run_times.ended(job, owner, seconds)
        return cls(cluster.store, run_times)

    def end(self, pod: Pod, began: float, now: float) -> float | None:
        """When a pod will end; None: nobody knows."""
        exact = run_seconds(pod)
        if exact is not None:
            self.expected.setdefault(job_of(pod), Expected(exact, SAID))
            return began + exact
        expected = self.of_pod(pod)
        if expected is None:
            return None
        self.expected.setdefault(job_of(pod), expected)
        return now + expected.remaining(now - began)

    def of_pod(self, pod: Pod) -> Expected | None:
        """How long a pod is expected to run in all."""
        group = _group(self.store, pod)
        marks = {} if group is None else group.metadata.annotations
        seconds = expected_seconds(pod, marks)
        if seconds is None:
            return self.run_times.by_owner(owner_of(_record(self.store, pod), pod))
        return Expected(seconds, DEADLINE if _is_bound(pod, marks) else SAID)

    def basis(self, jobs: Iterable[str]) -> Basis:
        """What is behind the ends of some jobs."""
        counts = dict.fromkeys((SAID, DEADLINE, RECORD), 0)
        factor = 1.0
        for job in jobs:
            known = self.expected.get(job)
            if known is not None:
                counts[known.source if known.source in (SAID, DEADLINE) else RECORD] += 1
                factor = max(factor, known.error)
        return Basis(counts, factor)


def _is_bound(pod: Pod, marks: Mapping[str, str]) -> bool:
    """Whether nothing but its deadline is known of a pod that has one."""
    if pod.spec.active_deadline_seconds is None:
        return False
    return expected_seconds(replace(pod, spec=replace(pod.spec, active_deadline_seconds=None)), marks) is None


def _took(pod: Pod) -> float | None:
    """How long a pod ran that has done its work; None: it has not, or nobody knows."""
    began = pod.status.start_time
    if pod.status.phase != "Succeeded" or began is None:
        return None
    ends = [
        known.state.terminated.finished_at.timestamp()
        for known in pod.status.container_statuses
        if known.state.terminated is not None and known.state.terminated.finished_at is not None
    ]
    return max(0.0, max(ends) - began.timestamp()) if ends else None


def _group(store: Store, pod: Pod) -> PodGroup | KaiPodGroup | None:
    name = group_of(pod)
    key = f"{pod.namespace}/{name}"
    return None if name is None else store.get(PodGroup, key) or store.get(KaiPodGroup, key)


def _record(store: Store, pod: Pod) -> JobRecord:
    group = _group(store, pod)
    if group is None:
        return job_from_pod(pod)
    return job_from_group(group) if isinstance(group, PodGroup) else job_from_kai(group)


def job_of(pod: Pod) -> str:
    """The id of the job that a pod belongs to, as decisions name it."""
    group = group_of(pod)
    return f"{pod.namespace}/pod/{pod.name}" if group is None else f"{pod.namespace}/{group}"
