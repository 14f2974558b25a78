"""Which pods belong to which job, kept current by the backend from pods' events.

Job ids are those of decisions: the namespace and name of the PodGroup. Pods without one are not listed.
"""

from __future__ import annotations

from muster.api import Pod, group_of
from muster.snapshot.messages import Event


class PodsOfJobs:
    """Keys of pods by job id."""

    def __init__(self) -> None:
        self._job_of: dict[str, str] = {}
        self._pods_of: dict[str, set[str]] = {}

    def observe(self, event: Event) -> None:
        pod = event.object
        if isinstance(pod, Pod):
            group = None if event.kind == "DELETED" else group_of(pod)
            self._move(pod.key, None if group is None else f"{pod.namespace}/{group}")

    def jobs(self) -> list[str]:
        """All jobs that have pods, by id."""
        return sorted(self._pods_of)

    def of(self, job: str) -> list[str]:
        """The pods of a job, by name."""
        return sorted(self._pods_of.get(job, ()))

    def _move(self, key: str, job: str | None) -> None:
        before = self._job_of.get(key)
        if before == job:
            return
        if before is not None:
            del self._job_of[key]
            self._pods_of[before].discard(key)
            if not self._pods_of[before]:
                del self._pods_of[before]
        if job is not None:
            self._job_of[key] = job
            self._pods_of.setdefault(job, set()).add(key)
