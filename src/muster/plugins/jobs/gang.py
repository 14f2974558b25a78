"""Gangs: a job starts with at least its minimum of tasks, or not at all.

Three minimums hold together: of the job, of its roles (only while the job's minimum covers their sum) and, for
jobs with sub-group policies, of sub-groups per policy. Readiness is answered as a deficit: a lower bound of the
placements that are still missing, zero exactly when the job is ready. It is asked a few times per gang
and turn, so counters are read as plain integers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.surplus import spare_tasks
from muster.framework.plugin import Eviction, Evictor, Plugin, Rejection
from muster.framework.reasons import reason
from muster.snapshot import BEST_EFFORT_PENDING, READY_STATUSES, GroupTable, Mask, Rows, TaskStatus

if TYPE_CHECKING:
    from muster.framework.session import Session

TOO_FEW_TASKS = reason(
    "too-few-pods",
    "it has fewer pods than its minimum",
    remedy="create the missing pods, or lower minMember",
)
TOO_FEW_OF_ROLE = reason(
    "too-few-pods-of-role",
    "one of its roles has fewer pods than its minimum",
    remedy="create the missing pods, or lower minTaskMember",
)
TOO_FEW_SUBGROUPS = reason(
    "too-few-subgroups",
    "it has fewer sub-groups than its minimum",
    remedy="create the missing pods, or lower minSubGroups",
)

_PENDING = int(TaskStatus.PENDING)
_ALLOCATED = int(TaskStatus.ALLOCATED)
_PIPELINED = int(TaskStatus.PIPELINED)
_RELEASING = int(TaskStatus.RELEASING)
_BINDING = int(TaskStatus.BINDING)
_BOUND = int(TaskStatus.BOUND)
_RUNNING = int(TaskStatus.RUNNING)
_SUCCEEDED = int(TaskStatus.SUCCEEDED)
_SETTLED = [*READY_STATUSES, BEST_EFFORT_PENDING]
_VALID = [*READY_STATUSES, _PIPELINED, _PENDING]
assert {_ALLOCATED, _BINDING, _BOUND, _RUNNING, _SUCCEEDED} == set(READY_STATUSES)


def _ready(counts: list[int]) -> int:
    """Tasks that hold their place or are done; written out because it runs for every gang and turn."""
    return counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING] + counts[_SUCCEEDED]


def _settled(counts: list[int], *, waiting: bool) -> int:
    """Tasks that count towards a minimum; pending ones that ask for nothing need no place."""
    settled = _ready(counts) + counts[BEST_EFFORT_PENDING]
    return settled + counts[_PIPELINED] if waiting else settled


def _valid(counts: list[int]) -> int:
    """Tasks that run, have run well, or may still be placed."""
    return _ready(counts) + counts[_PIPELINED] + counts[_PENDING]


def _too_few(counts: list[int], minimum: int) -> str:
    """Pods against the minimum; those that leave are there still. Their number changes often, and is not told."""
    leaving = ", beside those that are leaving" if counts[_RELEASING] else ""
    return f"{_valid(counts)} of {minimum} pods exist{leaving}"


class Gang(Plugin):
    """All of a gang's minimum at once, or none of it."""

    name = "gang"
    summary = "Start a job only with its minimum of pods: of the job, of each role, of each sub-group."
    orders_by = "what its gang still needs"
    steady_victims = True

    def open(self, session: Session) -> None:
        super().open(session)
        jobs = session.snapshot.jobs
        self._jobs = jobs
        self._counts = jobs.counts
        self._roles = session.snapshot.roles
        self._subgroups = session.snapshot.subgroups

    @cached_property
    def _minimum(self) -> list[int]:
        minimum: list[int] = self._jobs.min_member.tolist()
        return minimum

    @cached_property
    def _roles_hold(self) -> list[bool]:
        jobs = self._jobs
        hold: list[bool] = ((jobs.min_roles_total > 0) & (jobs.min_member >= jobs.min_roles_total)).tolist()
        return hold

    # -- validity ------------------------------------------------------------------------------------------

    def job_valid(self, job: int) -> Rejection | None:
        rejection = self._check_roles(job) if self._roles_hold[job] else None
        if rejection is None and self._jobs.records[job].sub_groups:
            rejection = self._check_subgroups(job)
        if rejection is not None:
            return rejection
        counts, minimum = self._counts[job].tolist(), self._minimum[job]
        if _valid(counts) < minimum:
            return Rejection(TOO_FEW_TASKS, _too_few(counts, minimum))
        return None

    def jobs_valid(self, jobs: Rows) -> Mask:
        enough: Mask = self._counts[jobs][:, _VALID].sum(axis=1) >= self._jobs.min_member[jobs]
        return enough & self._jobs.is_plain[jobs]

    def _check_roles(self, job: int) -> Rejection | None:
        roles = self._roles
        for name, role in sorted((roles.names[role], role) for role in self._jobs.roles[job]):
            minimum = int(roles.minimum[role])
            counts = roles.counts[role].tolist()
            if _valid(counts) < minimum:
                return Rejection(TOO_FEW_OF_ROLE, f"role {name}: {_too_few(counts, minimum)}")
        return None

    def _check_subgroups(self, job: int) -> Rejection | None:
        policies = self._jobs.records[job].sub_groups
        existing = [0] * len(policies)
        for subgroup in self._jobs.subgroups[job]:
            policy = int(self._subgroups.policy[subgroup])
            if policy >= 0:
                existing[policy] += 1
        for policy_spec, count in zip(policies, existing, strict=True):
            minimum = policy_spec.min_sub_groups or 0
            if count < minimum:
                return Rejection(TOO_FEW_SUBGROUPS, f"sub-group policy {policy_spec.name}: {count} of {minimum} exist")
        return None

    # -- readiness -----------------------------------------------------------------------------------------

    def job_ready(self, job: int) -> int:
        return self._job_deficit(job, waiting=False)

    def job_pipelined(self, job: int) -> int:
        return self._job_deficit(job, waiting=True)

    def subgroup_ready(self, subgroup: int) -> int:
        return _deficit(self._subgroups, subgroup, waiting=False)

    def subgroup_pipelined(self, subgroup: int) -> int:
        return _deficit(self._subgroups, subgroup, waiting=True)

    def job_starving(self, job: int) -> bool:
        counts: list[int] = self._counts[job].tolist()
        return _ready(counts) + counts[_PIPELINED] < self._minimum[job]

    def _job_deficit(self, job: int, *, waiting: bool) -> int:
        missing = self._minimum[job] - _settled(self._counts[job].tolist(), waiting=waiting)
        if self._roles_hold[job]:
            missing = max(missing, sum(_deficit(self._roles, role, waiting=waiting) for role in self._jobs.roles[job]))
        if self._jobs.records[job].sub_groups:
            missing = max(missing, self._subgroup_shortage(job, waiting=waiting))
        return max(0, missing)

    def _subgroup_shortage(self, job: int, *, waiting: bool) -> int:
        """Placements that make enough sub-groups of every policy ready, the nearest ones first."""
        policies = self._jobs.records[job].sub_groups
        deficits: list[list[int]] = [[] for _ in policies]
        for subgroup in self._jobs.subgroups[job]:
            policy = int(self._subgroups.policy[subgroup])
            if policy >= 0:
                deficits[policy].append(_deficit(self._subgroups, subgroup, waiting=waiting))
        total = 0
        for policy_spec, missing in zip(policies, deficits, strict=True):
            wanted = policy_spec.min_sub_groups or 0
            # A sub-group that does not exist needs at least one pod.
            total += sum(sorted(missing)[:wanted]) + max(0, wanted - len(missing))
        return total

    # -- order ---------------------------------------------------------------------------------------------

    def job_order(self, job: int) -> int:
        """Gangs that still need tasks go before those that could only grow."""
        return 1 if _settled(self._counts[job].tolist(), waiting=False) >= self._minimum[job] else 0

    def job_orders(self, jobs: Rows) -> NDArray[np.int64]:
        settled = self._counts[jobs][:, _SETTLED].sum(axis=1)
        keys: NDArray[np.int64] = (settled >= self._jobs.min_member[jobs]).astype(np.int64)
        return keys

    def subgroup_order(self, subgroup: int) -> int:
        return 1 if _deficit(self._subgroups, subgroup, waiting=False) == 0 else 0

    # -- evictions -----------------------------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Candidates that their gangs can spare, taken in the order given.

        All of them where gangs may be broken: who does that has counted what each gang can spare.
        """
        if evictor.breaks_gangs:
            return candidates
        victims: Rows = candidates[spare_tasks(self.session.snapshot, candidates)]
        return victims


def _deficit(groups: GroupTable, group: int, *, waiting: bool) -> int:
    missing = int(groups.minimum[group]) - _settled(groups.counts[group].tolist(), waiting=waiting)
    return max(0, missing)
