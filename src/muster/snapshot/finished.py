"""Jobs that have finished and of which nothing has to be written any more, kept beside the columns.

Finished pods stay in a cluster until somebody cleans up; a cycle has nothing to decide about them, and must not become
slower with each. So they are put away, job by job, and come back as they were when something of the job changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from muster.api import Pod
from muster.snapshot.records import JobRecord


class FinishedJob(NamedTuple):
    """All that is known of a job."""

    record: JobRecord
    has_group: bool
    pods: tuple[Pod, ...]


class FinishedJobs:
    """The jobs by id."""

    def __init__(self) -> None:
        self._jobs: dict[str, FinishedJob] = {}
        #: The job of each pod.
        self._job_of: dict[str, str] = {}
        #: How many of them have a PodGroup, by queue.
        self.by_queue: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._jobs))

    def put(self, job: FinishedJob) -> None:
        self.take(job.record.id)
        self._jobs[job.record.id] = job
        self.by_queue[job.record.queue] += job.record.source is not None
        self._job_of.update((pod.key, job.record.id) for pod in job.pods)

    def find(self, job: str) -> FinishedJob | None:
        return self._jobs.get(job)

    def job_of(self, pod: str) -> str | None:
        """The job that a pod was put away with."""
        return self._job_of.get(pod)

    def take(self, job: str) -> FinishedJob | None:
        """Give a job back; None: it is not here."""
        found = self._jobs.pop(job, None)
        if found is not None and found.record.source is not None:
            self.by_queue[found.record.queue] -= 1
        for pod in () if found is None else found.pods:
            del self._job_of[pod.key]
        return found
