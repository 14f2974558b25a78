"""Chunks: which tasks of a gang are placed together next, and which leave together.

Below a minimum, all that is missing comes as one chunk; above it, a gang grows and shrinks one task at a time. Minimums
of roles may add up to less than the job's own: the rest may be of any role.
A gang with pod sets (roles whose minimums hold) must have all of them at their minimum; one without has the job's own.
Callers: allocate over the queue tree, and the solver strategy. Tasks are given and returned in task order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.role_order import RoleKey, turn_key
from muster.engine.role_order import active_count as count_active
from muster.framework import Session
from muster.snapshot import NO_ROW, Rows, Snapshot

_NOBODY: Rows = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Tasks of a job that have a minimum in common; role NO_ROW: the whole job."""

    role: int
    minimum: int
    name: str = ""


def pod_sets(snapshot: Snapshot, job: int) -> list[PodSet]:
    """The pod sets of a job."""
    if not snapshot.jobs.has_pod_sets(job):
        return [PodSet(NO_ROW, int(snapshot.jobs.min_member[job]))]
    roles = snapshot.roles
    return [PodSet(role, int(roles.minimum[role]), roles.names[role]) for role in snapshot.jobs.roles[job]]


def beyond_roles(snapshot: Snapshot, job: int) -> int:
    """How many tasks a job with pod sets needs beyond their minimums, of whichever role; none in KAI's gangs."""
    return int(snapshot.jobs.min_member[job]) - int(snapshot.jobs.min_roles_total[job])


def active_count(snapshot: Snapshot, job: int, pods: PodSet) -> int:
    """How many tasks of a pod set hold a place."""
    counts = snapshot.jobs.counts[job] if pods.role == NO_ROW else snapshot.roles.counts[pods.role]
    return count_active(counts)


def next_tasks(session: Session, job: int, waiting: Rows) -> Rows:
    """The chunk of the `waiting` tasks to place next; empty: too few wait to make the gang whole."""
    snapshot = session.snapshot
    jobs = snapshot.jobs
    if not jobs.has_pod_sets(job):
        missing = max(1, int(jobs.min_member[job]) - count_active(jobs.counts[job]))
        return waiting[:missing] if len(waiting) >= missing else _NOBODY
    sets = pod_sets(snapshot, job)
    roles = snapshot.tasks.role[waiting]
    held = {pods.role: active_count(snapshot, job, pods) for pods in sets}
    ordered = sorted(sets, key=lambda pods: _turn(pods, held[pods.role]))
    short = [pods for pods in ordered if held[pods.role] < pods.minimum]
    parts = [waiting[roles == pods.role][: pods.minimum - held[pods.role]] for pods in short]
    if any(len(part) < pods.minimum - held[pods.role] for part, pods in zip(parts, short, strict=True)):
        return _NOBODY
    chosen: Rows = np.concatenate(parts) if parts else _NOBODY
    missing = int(jobs.min_member[job]) - count_active(jobs.counts[job]) - len(chosen)
    if missing > 0 and beyond_roles(snapshot, job):
        others = waiting[~np.isin(waiting, chosen)][:missing]
        return np.concatenate((chosen, others)) if len(others) == missing else _NOBODY
    if len(chosen):
        return chosen
    for pods in ordered:
        part: Rows = waiting[roles == pods.role][:1]
        if len(part):
            return part
    return waiting[:1]


def next_victims(snapshot: Snapshot, job: int, left: Rows) -> Rows:
    """Which of the tasks `left` of a job, in task order, leave together: one that can be spared, else all.

    The result is in eviction order: the last task goes first.
    """
    if not snapshot.jobs.has_pod_sets(job):
        return left[-1:] if len(left) > snapshot.jobs.min_member[job] else left[::-1]
    sets = pod_sets(snapshot, job)
    roles = snapshot.tasks.role[left]
    counts = {pods.role: int(np.count_nonzero(roles == pods.role)) for pods in sets}
    ordered = sorted(sets, key=lambda pods: _turn(pods, counts[pods.role]), reverse=True)
    is_just_enough = bool(beyond_roles(snapshot, job)) and len(left) <= snapshot.jobs.min_member[job]
    for pods in ordered:
        if counts[pods.role] > pods.minimum and not is_just_enough:
            spare: Rows = left[roles == pods.role][-1:]
            return spare
    return np.concatenate([left[roles == pods.role][::-1] for pods in ordered])


def _turn(pods: PodSet, held: int) -> RoleKey:
    return turn_key(held, pods.minimum, pods.name)


def requests_of(snapshot: Snapshot, tasks: Rows) -> NDArray[np.int64]:
    """What tasks ask for together; to be read only."""
    requests: NDArray[np.int64] = snapshot.classes.requests
    if len(tasks) == 1:  # most jobs have one task, and sums are slow to begin
        only: NDArray[np.int64] = requests[snapshot.tasks.cls[tasks[0]], 0]
        return only
    total: NDArray[np.int64] = requests[snapshot.tasks.cls[tasks], 0].sum(axis=0)
    return total
