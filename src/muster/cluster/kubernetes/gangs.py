"""Gangs that were only partly bound: completed by the next cycles, or undone.

When some pods of a gang could not be bound and others could, the scheduler sees a gang that lacks members and places
them anew. If the gang still has less than its minimum when the time is up, the pods of that attempt are evicted, so
that they do not hold room for a gang that does not run. The clock stands still while pods of the gang wait for their
volumes, which is progress and has a limit of its own. What a scheduler left behind that died while it bound a gang
is taken over by the next one, under the same rule. Used by the backend in the scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from muster.api import Pod
from muster.snapshot.messages import Bind

#: A bind, the pod if there is one, what is wrong, and when that was told.
Answered = Callable[[Bind, Pod | None, str, float], None]


@dataclass(slots=True)
class _Attempt:
    """What was asked for one job at once."""

    n_open: int
    #: Uids of the pods that were bound.
    bound: dict[str, str] = field(default_factory=dict)
    n_failed: int = 0


class HalfBoundGangs:
    """Attempts that failed in part, and when they are given up."""

    def __init__(self, limit_s: float) -> None:
        self._limit = limit_s
        self._given_up_at: dict[str, tuple[float, _Attempt]] = {}
        self._looked_at: float | None = None

    def attempt(self, decisions: Iterable[Bind]) -> Answered:
        """Note what is about to be asked; returns what to call with every answer."""
        attempts: dict[str, _Attempt] = {}
        for made in decisions:
            attempts.setdefault(made.job, _Attempt(0)).n_open += 1

        def answered(made: Bind, pod: Pod | None, error: str, now: float) -> None:
            attempt = attempts[made.job]
            attempt.n_open -= 1
            if error or pod is None:
                attempt.n_failed += 1
            else:
                attempt.bound[pod.key] = pod.metadata.uid
            if not attempt.n_open and attempt.n_failed and attempt.bound:
                self._note(made.job, attempt, now)

        return answered

    def take_over(self, job: str, bound: Mapping[str, str], now: float) -> None:
        """Answer for what another scheduler bound of a job: uids by pod."""
        self._note(job, _Attempt(0, dict(bound), 1), now)

    def _note(self, job: str, attempt: _Attempt, now: float) -> None:
        """Remember a failed attempt; a second one does not win the job more time."""
        until, earlier = self._given_up_at.get(job, (now + self._limit, _Attempt(0)))
        attempt.bound |= earlier.bound
        self._given_up_at[job] = (until, attempt)

    def due(
        self, now: float, is_complete: Callable[[str], bool], waiting: Collection[str] = ()
    ) -> list[tuple[str, dict[str, str]]]:
        """Forget gangs that are complete; return the jobs that are given up, with the uids of the pods to undo.

        `waiting` are jobs whose time does not pass.
        """
        given_up = []
        passed, self._looked_at = 0.0 if self._looked_at is None else now - self._looked_at, now
        for job, (until, attempt) in sorted(self._given_up_at.items()):
            if is_complete(job):
                del self._given_up_at[job]
            elif job in waiting:
                self._given_up_at[job] = (until + passed, attempt)
            elif now >= until:
                del self._given_up_at[job]
                given_up.append((job, attempt.bound))
        return given_up
