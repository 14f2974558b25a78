"""Gangs that are half bound, by us or by the scheduler before us: watched until they are whole, or undone.

The rule for one that another scheduler left behind is that for our own (`gangs`): the next cycles place what is
missing, and when that has not helped in time, what was bound leaves again. Used by the backend in the scheduler's
thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence

from muster.api import Pod
from muster.cluster.kubernetes.assumptions import Assumptions
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.gangs import Answered, HalfBoundGangs
from muster.cluster.kubernetes.jobs import PodsOfJobs
from muster.cluster.kubernetes.reports import Reports
from muster.cluster.kubernetes.wholeness import is_whole, left_behind
from muster.snapshot.messages import Bind

log = logging.getLogger("muster.kubernetes")


class Custody:
    """Answers for gangs. `takes_over_from` names the schedulers whose gangs are ours when we begin to lead."""

    def __init__(
        self,
        room: EngineRoom,
        assumptions: Assumptions,
        pods: PodsOfJobs,
        reports: Reports,
        limit_s: float,
        takes_over_from: Collection[str],
    ) -> None:
        self._room = room
        self._assumptions = assumptions
        self._pods = pods
        self._reports = reports
        self._gangs = HalfBoundGangs(limit_s)
        self._takes_over_from = frozenset(takes_over_from)
        self._term: float | None = None

    def attempt(self, decisions: Sequence[Bind]) -> Answered:
        """Note what is about to be bound; returns what to call with every answer."""
        return self._gangs.attempt(decisions)

    def given_up(self, waiting: Mapping[str, Collection[str]]) -> list[Pod]:
        """The pods of gangs that could not be completed in time; `waiting`: pods that wait for volumes, by job."""
        found = []

        def is_whole(job: str) -> bool:
            return self.is_whole(job, waiting.get(job, ()))

        for job, uids in self._gangs.due(time.monotonic(), is_whole, waiting.keys()):
            log.warning("event=gang-undone job=%s pods=%d", job, len(uids))
            for key in sorted(uids):
                pod = self._assumptions.find(Pod, key)
                if pod is not None and pod.metadata.uid == uids[key]:
                    found.append(pod)
        return found

    def take_over(self, now: float) -> None:
        """When we begin to lead, answer for gangs that the scheduler before us was about to bind."""
        term = self._room.term
        if term == self._term or not self._takes_over_from or not self._room.may_act():
            return
        self._term = term
        for job in self._pods.jobs():
            group, members = self._reports.group(job), self._members(job)
            if group is None or any(pod.spec.scheduler_name not in self._takes_over_from for pod in members):
                continue
            if bound := left_behind(group, members, now):
                log.warning("event=gang-taken-over job=%s pods=%d", job, len(bound))
                self._gangs.take_over(job, bound, time.monotonic())

    def is_whole(self, job: str, without: Collection[str] = ()) -> bool:
        """Whether enough pods of a job are, or are about to be, on nodes, not counting some."""
        return is_whole(self._reports.group(job), [pod for pod in self._members(job) if pod.key not in without])

    def _members(self, job: str) -> list[Pod]:
        pods = (self._assumptions.find_assumed(Pod, key) for key in self._pods.of(job))
        return [pod for pod in pods if pod is not None]
