"""Gangs that were only partly bound, by us or by the scheduler before us: completed by the next cycles, or undone.

When some pods of a gang could not be bound and others could, the scheduler sees a gang that lacks members and places
them anew. If the gang still has less than its minimum when the time is up, the pods of that attempt are evicted, so
that they do not hold room for a gang that does not run. The clock stands still while pods of the gang wait for their
volumes, which is progress and has a limit of its own.
What a scheduler left behind that died while it bound a gang is taken over by the next one, under the same rule. A gang
that lost pods is broken, but not ours to undo: stale-gang eviction and its grace period are for that. A gang that was
never whole is: some of its pods were bound, and others that existed at that moment were not. Times are those of the API
server on both sides, so no clock of ours matters but for how long ago it was.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from muster.api import KaiPodGroup, Pod, role_of
from muster.api.names import POD_SCHEDULED
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions
from muster.cluster.written_objects import AnyGroup
from muster.snapshot.messages import Bind

log = logging.getLogger("muster.kubernetes")

#: A gang that has been half bound for longer than this is somebody's business other than ours.
RECENT_SECONDS: Final = 600.0

#: A bind, the pod if there is one, and what is wrong.
BindAnswered = Callable[[Bind, Pod | None, str], None]


@dataclass(slots=True)
class _Attempt:
    """What was asked for one job at once."""

    n_open: int
    #: Uids of the pods that were bound.
    bound: dict[str, str] = field(default_factory=dict)
    n_failed: int = 0


class PartialGangs:
    """Attempts that failed in part, and when they are given up.

    `takes_over_from` names the schedulers whose gangs are ours when we begin to lead.
    """

    def __init__(
        self,
        api: ApiThread,
        assumptions: Assumptions,
        limit_s: float,
        takes_over_from: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._assumptions = assumptions
        self._limit = limit_s
        self._takes_over_from = frozenset(takes_over_from)
        self._clock = clock
        self._term: float | None = None
        self._given_up_at: dict[str, tuple[float, _Attempt]] = {}
        self._looked_at: float | None = None

    def attempt(self, decisions: Iterable[Bind]) -> BindAnswered:
        """Note what is about to be bound; returns what to call with every answer."""
        attempts: dict[str, _Attempt] = {}
        for made in decisions:
            attempts.setdefault(made.job, _Attempt(0)).n_open += 1

        def answered(made: Bind, pod: Pod | None, error: str) -> None:
            attempt = attempts[made.job]
            attempt.n_open -= 1
            if error or pod is None:
                attempt.n_failed += 1
            else:
                attempt.bound[pod.key] = pod.metadata.uid
            if not attempt.n_open and attempt.n_failed and attempt.bound:
                self._note(made.job, attempt)

        return answered

    def take_over(self, now: float) -> None:
        """When we begin to lead, answer for gangs that the scheduler before us was about to bind."""
        term = self._api.term
        if term == self._term or not self._takes_over_from or not self._api.may_act():
            return
        self._term = term
        for job in self._assumptions.jobs():
            group, members = self._assumptions.group(job), self._assumptions.pods(job)
            if group is None or any(pod.spec.scheduler_name not in self._takes_over_from for pod in members):
                continue
            if bound := left_behind(group, members, now):
                log.warning("event=gang-taken-over job=%s pods=%d", job, len(bound))
                self._note(job, _Attempt(0, dict(bound), 1))

    def _note(self, job: str, attempt: _Attempt) -> None:
        """Remember a failed attempt; a second one does not win the job more time."""
        until, earlier = self._given_up_at.get(job, (self._clock() + self._limit, _Attempt(0)))
        attempt.bound |= earlier.bound
        self._given_up_at[job] = (until, attempt)

    def given_up(self, waiting: Mapping[str, Collection[str]]) -> list[Pod]:
        """The pods of gangs that could not be completed in time; complete ones are forgotten.

        `waiting`: pods that wait for volumes, by job. The time of these jobs does not pass.
        """
        now = self._clock()
        passed, self._looked_at = 0.0 if self._looked_at is None else now - self._looked_at, now
        found: list[Pod] = []
        for job, (until, attempt) in sorted(self._given_up_at.items()):
            if self.is_whole(job, waiting.get(job, ())):
                del self._given_up_at[job]
            elif job in waiting:
                self._given_up_at[job] = (until + passed, attempt)
            elif now >= until:
                del self._given_up_at[job]
                log.warning("event=gang-undone job=%s pods=%d", job, len(attempt.bound))
                found += self._present(attempt.bound)
        return found

    def _present(self, uids: Mapping[str, str]) -> Iterator[Pod]:
        for key in sorted(uids):
            pod = self._assumptions.find(Pod, key)
            if pod is not None and pod.metadata.uid == uids[key]:
                yield pod

    def is_whole(self, job: str, without: Collection[str] = ()) -> bool:
        """Whether enough pods of a job are, or are about to be, on nodes, not counting some."""
        members = [pod for pod in self._assumptions.pods(job) if pod.key not in without]
        return is_whole(self._assumptions.group(job), members)


def is_whole(group: AnyGroup | None, members: Iterable[Pod]) -> bool:
    """Whether enough members are on nodes, or have done their work."""
    return _is_enough(group, [pod for pod in members if _holds_place(pod)])


def left_behind(group: AnyGroup, members: Collection[Pod], now: float) -> dict[str, str]:
    """The pods on nodes, with their uids, of a gang that somebody stopped binding half-way; empty: there is none."""
    bound = [pod for pod in members if _holds_place(pod)]
    moments = [moment for pod in bound if (moment := _bound_at(pod)) is not None]
    if not bound or len(moments) < len(bound) or _is_enough(group, bound):
        return {}
    last = max(moments)
    if now - last.timestamp() > RECENT_SECONDS:
        return {}
    if not _is_enough(group, [*bound, *_passed_over(members, last)]):
        return {}
    return {pod.key: pod.metadata.uid for pod in bound}


def _passed_over(members: Iterable[Pod], moment: datetime) -> Iterator[Pod]:
    """Members that were there when others were bound, and were not."""
    for pod in members:
        created = pod.metadata.creation_timestamp
        waits = not pod.spec.node_name and pod.metadata.deletion_timestamp is None
        if waits and created is not None and created <= moment:
            yield pod


def _holds_place(pod: Pod) -> bool:
    has_done = pod.status.phase == "Succeeded"
    return has_done or (
        bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed"
    )


def _bound_at(pod: Pod) -> datetime | None:
    conditions = (known for known in pod.status.conditions if known.type == POD_SCHEDULED and known.status == "True")
    return next((known.last_transition_time for known in conditions), None)


def _is_enough(group: AnyGroup | None, pods: Sequence[Pod]) -> bool:
    """Pods without a PodGroup need no others."""
    if group is None:
        return bool(pods)
    roles = Counter(map(role_of, pods))
    return len(pods) >= group.spec.min_member and all(
        roles[name] >= least for name, least in _role_minimums(group).items()
    )


def _role_minimums(group: AnyGroup) -> Mapping[str, int]:
    if not isinstance(group, KaiPodGroup):
        return group.spec.min_task_member
    parents = {part.parent for part in group.spec.sub_groups}
    return {part.name: part.min_member or 0 for part in group.spec.sub_groups if part.name not in parents}
