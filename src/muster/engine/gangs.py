"""Gangs: which tasks are placed together next, which leave together, and what a gang cannot start without.

Below a minimum, all that is missing comes as one chunk; above it, a gang grows and shrinks one task at a time. Minimums
of roles may add up to less than the job's own: the rest may be of any role. A gang with pod sets (roles whose minimums
hold) must have all of them at their minimum; one without has the job's own. Tasks are given and returned in task order.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.framework import Session, points
from muster.snapshot import ACTIVE_STATUSES, BEST_EFFORT_PENDING, NO_ROW, READY_STATUSES, Rows, Snapshot, TaskStatus

NOBODY: Rows = np.empty(0, np.intp)
#: Whether the minimum is there, tasks per task of the minimum (0 where it is not), name.
RoleKey: TypeAlias = tuple[bool, float, str]
#: They follow each other.
_ACTIVE = slice(min(ACTIVE_STATUSES), max(ACTIVE_STATUSES) + 1)
_SUCCEEDED = int(TaskStatus.SUCCEEDED)


def settled_count(counts: Rows) -> int:
    """Of the counters of a job or role: tasks that need no place, as they have one, are promised one, or are done."""
    row: list[int] = counts.tolist()
    return sum(row[_ACTIVE]) + row[_SUCCEEDED]


def ready_count(counts: Rows) -> int:
    """Of the counters of a job, role or sub-group: tasks that count towards its minimum."""
    return int(counts[list(READY_STATUSES)].sum())


def requests_of(snapshot: Snapshot, tasks: Rows) -> NDArray[np.int64]:
    """What tasks ask for together; to be read only."""
    requests: NDArray[np.int64] = snapshot.classes.requests
    if len(tasks) == 1:  # most jobs have one task, and sums are slow to begin
        only: NDArray[np.int64] = requests[snapshot.tasks.cls[tasks[0]], 0]
        return only
    total: NDArray[np.int64] = requests[snapshot.tasks.cls[tasks], 0].sum(axis=0)
    return total


def pending_tasks_of(snapshot: Snapshot, job: int, subgroup: int = NO_ROW) -> Rows:
    """Pending tasks of a job, or (given) of one of its sub-groups."""
    own = snapshot.tasks_of(job)
    waiting = snapshot.tasks.status[own] == TaskStatus.PENDING
    if subgroup != NO_ROW:
        waiting &= snapshot.tasks.subgroup[own] == subgroup
    kept: Rows = own[waiting]
    return kept


# -- roles ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodSet:
    """Tasks of a job that have a minimum in common; role NO_ROW: the whole job."""

    role: int
    minimum: int
    name: str = ""

    def turn(self, held: int) -> RoleKey:
        """Its order among the pod sets of a job when so many of its tasks have a place; smaller goes first.

        Who is below its minimum goes first, then who has least beyond it; how much a role lacks does not matter.
        """
        if held < self.minimum or held == 0:
            return held >= self.minimum, 0.0, self.name
        return True, held / self.minimum if self.minimum else math.inf, self.name


def pod_sets(snapshot: Snapshot, job: int) -> list[PodSet]:
    """The pod sets of a job."""
    if not snapshot.jobs.has_pod_sets(job):
        return [PodSet(NO_ROW, int(snapshot.jobs.min_member[job]))]
    roles = snapshot.roles
    return [PodSet(role, int(roles.minimum[role]), roles.names[role]) for role in snapshot.jobs.roles[job]]


def beyond_roles(snapshot: Snapshot, job: int) -> int:
    """How many tasks a job with pod sets needs beyond their minimums, of whichever role; none in KAI's gangs."""
    return int(snapshot.jobs.min_member[job]) - int(snapshot.jobs.min_roles_total[job])


def role_deficit(snapshot: Snapshot, role: int) -> int:
    """How many more of its tasks a role needs; those that ask for nothing count as placed."""
    counts = snapshot.roles.counts[role]
    return max(0, int(snapshot.roles.minimum[role]) - ready_count(counts) - int(counts[BEST_EFFORT_PENDING]))


def next_tasks(session: Session, job: int, waiting: Rows) -> Rows:
    """The chunk of the `waiting` tasks to place next; empty: too few wait to make the gang whole."""
    snapshot = session.snapshot
    jobs = snapshot.jobs
    if jobs.records[job].sub_groups:
        return _next_of_divided(session, job, waiting)
    if not jobs.has_pod_sets(job):
        missing = max(1, int(jobs.min_member[job]) - settled_count(jobs.counts[job]))
        return waiting[:missing] if len(waiting) >= missing else NOBODY
    roles = snapshot.tasks.role[waiting]
    held = {pods: settled_count(snapshot.roles.counts[pods.role]) for pods in pod_sets(snapshot, job)}
    ordered = sorted(held, key=lambda pods: pods.turn(held[pods]))
    short = [pods for pods in ordered if held[pods] < pods.minimum]
    parts = [waiting[roles == pods.role][: pods.minimum - held[pods]] for pods in short]
    if any(len(part) < pods.minimum - held[pods] for part, pods in zip(parts, short, strict=True)):
        return NOBODY
    chosen: Rows = np.concatenate(parts) if parts else NOBODY
    missing = int(jobs.min_member[job]) - settled_count(jobs.counts[job]) - len(chosen)
    if missing > 0 and beyond_roles(snapshot, job):
        others = waiting[~np.isin(waiting, chosen)][:missing]
        return np.concatenate((chosen, others)) if len(others) == missing else NOBODY
    if len(chosen):
        return chosen
    first = (waiting[roles == pods.role][:1] for pods in ordered)
    return next((part for part in first if len(part)), waiting[:1])


def next_victims(snapshot: Snapshot, job: int, left: Rows) -> Rows:
    """Which of the tasks `left` of a job, in task order, leave together: one that can be spared, else all.

    The result is in eviction order: the last task goes first.
    """
    if snapshot.jobs.goes_whole[job]:
        return left[::-1]
    if not snapshot.jobs.has_pod_sets(job):
        return left[-1:] if len(left) > snapshot.jobs.min_member[job] else left[::-1]
    roles = snapshot.tasks.role[left]
    held = {pods: int(np.count_nonzero(roles == pods.role)) for pods in pod_sets(snapshot, job)}
    ordered = sorted(held, key=lambda pods: pods.turn(held[pods]), reverse=True)
    is_just_enough = bool(beyond_roles(snapshot, job)) and len(left) <= snapshot.jobs.min_member[job]
    for pods in ordered:
        if held[pods] > pods.minimum and not is_just_enough:
            spare: Rows = left[roles == pods.role][-1:]
            return spare
    return np.concatenate([left[roles == pods.role][::-1] for pods in ordered])


# -- sub-groups ----------------------------------------------------------------------------------------------------


class Portion(NamedTuple):
    """Tasks of one sub-group; NO_ROW: of a job that has none."""

    subgroup: int
    tasks: Rows


def by_subgroup(session: Session, job: int, tasks: Rows) -> list[Portion]:
    """Sort tasks of a job, already in order, into its sub-groups, in the order in which these appear."""
    if not session.snapshot.jobs.records[job].sub_groups:
        return [Portion(NO_ROW, tasks)]
    owners = session.snapshot.tasks.subgroup[tasks]
    return [Portion(owner, tasks[owners == owner]) for owner in dict.fromkeys(owners.tolist())]


def lacking_subgroups(snapshot: Snapshot, job: int, unready: Collection[int]) -> list[int]:
    """How many ready sub-groups each policy of a job lacks when these are not; below zero: how many it can spare."""
    lacking = [policy.min_sub_groups or 0 for policy in snapshot.jobs.records[job].sub_groups]
    for subgroup in snapshot.jobs.subgroups[job]:
        if snapshot.subgroups.policy[subgroup] != NO_ROW and subgroup not in unready:
            lacking[snapshot.subgroups.policy[subgroup]] -= 1
    return lacking


def required_subgroups(session: Session, job: int, *, promised: bool = False) -> list[int]:
    """Sub-groups that the job cannot start without, in order: as many of each policy as its minSubGroups still lacks.

    Those that have too few pods for their size come last. `promised`: what has a promise lacks nothing.
    """
    snapshot = session.snapshot
    policy, pending = snapshot.subgroups.policy, snapshot.subgroups.counts[:, TaskStatus.PENDING]
    deficit_of = session.subgroup_pipelined_deficit if promised else session.subgroup_deficit
    deficits = {subgroup: deficit_of(subgroup) for subgroup in snapshot.jobs.subgroups[job]}
    unready = {subgroup: lacks for subgroup, lacks in deficits.items() if lacks > 0}
    lacking = lacking_subgroups(snapshot, job, unready)
    required = []
    for subgroup in sorted(unready, key=lambda one: (pending[one] < unready[one], session.subgroup_key(one), one)):
        if policy[subgroup] != NO_ROW and lacking[policy[subgroup]] > 0:
            lacking[policy[subgroup]] -= 1
            required.append(subgroup)
    return required


def _next_of_divided(session: Session, job: int, waiting: Rows) -> Rows:
    """As `next_tasks`: what the sub-groups lack that the job needs, and what it lacks beside them, each whole."""
    snapshot = session.snapshot
    parts = {part.subgroup: part.tasks for part in by_subgroup(session, job, waiting)}
    lacking = {subgroup: session.subgroup_pipelined_deficit(subgroup) for subgroup in parts}
    chosen, missing = [], int(snapshot.jobs.min_member[job]) - settled_count(snapshot.jobs.counts[job])

    def take(subgroup: int, most: int) -> None:
        nonlocal missing
        chosen.append(parts[subgroup][:most])
        parts[subgroup] = parts[subgroup][most:]
        missing -= len(chosen[-1])

    for subgroup in required_subgroups(session, job, promised=True):
        if len(parts.get(subgroup, NOBODY)) < lacking.get(subgroup, 1):
            return NOBODY
        take(subgroup, lacking.pop(subgroup))
    if not chosen:
        missing = max(1, missing)
    for subgroup in sorted(parts, key=lambda one: (lacking.get(one, 0) > 0, session.subgroup_key(one))):
        if missing > 0 and len(parts[subgroup]) >= max(1, lacking.get(subgroup, 0)):
            take(subgroup, max(missing, lacking.get(subgroup, 0)))
    return NOBODY if missing > 0 else np.concatenate(chosen)


# -- members that ask for nothing ----------------------------------------------------------------------------------
# A pending best-effort task counts as ready, because it nearly always finds a node. Nearly: so before a gang that
# relies on such members is bound, they are placed in the same statement, and the gang waits if too few find a node.


def relies_on_best_effort(session: Session, job: int) -> bool:
    """Whether a job that is ready has a minimum (its own, of a role, a sub-group) only if pending ones are counted."""
    jobs, roles, groups = session.snapshot.jobs, session.snapshot.roles, session.snapshot.subgroups
    if not jobs.counts[job, BEST_EFFORT_PENDING] or not session.asked(points.JOB_READY):
        return False
    least = [(jobs.counts[job], jobs.min_member[job])]
    if jobs.has_pod_sets(job):
        least += [(roles.counts[role], roles.minimum[role]) for role in jobs.roles[job]]
    if any(ready_count(counts) < minimum for counts, minimum in least):
        return True
    lacks = {part: int(groups.minimum[part]) - ready_count(groups.counts[part]) for part in jobs.subgroups[job]}
    unready = {part: count for part, count in lacks.items() if count > 0}
    if any(lack > 0 for lack in lacking_subgroups(session.snapshot, job, unready)):
        return True
    # One that the job can do without begins with its size, or not at all.
    helped = groups.counts[:, BEST_EFFORT_PENDING]
    return any(count < groups.minimum[part] and count <= helped[part] for part, count in unready.items())
