"""What gangs can spare: how many tasks may go before a job, one of its roles or its sub-groups falls below minimum."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import (
    BEST_EFFORT,
    BEST_EFFORT_PENDING,
    NO_ROW,
    READY_STATUSES,
    Mask,
    Rows,
    Snapshot,
    TaskStatus,
    run_bounds,
)

_NO_LIMIT: Final = 2**30
#: Counts towards a minimum, and has not got its place in this very cycle.
_LASTING: Mask = np.isin(np.arange(len(TaskStatus)), READY_STATUSES)
_LASTING[TaskStatus.ALLOCATED] = False


def ready_counts(counts: Rows, *, promised: bool = False) -> NDArray[np.int64]:
    """Tasks per row that hold a place or need none; terminating ones are not among them, promised ones if asked for."""
    columns = counts.T
    total: NDArray[np.int64] = columns[BEST_EFFORT_PENDING].astype(np.int64)
    for status in (*READY_STATUSES, TaskStatus.PIPELINED) if promised else READY_STATUSES:
        total += columns[status]
    return total


def job_surplus(snapshot: Snapshot, of: Rows | None = None, *, promised: bool = False) -> NDArray[np.int64]:
    """Per job: ready tasks beyond the minimum; negative for jobs that are broken, by whichever of their minimums.

    With `promised`, tasks that are promised a place count as ready. Without it they are nothing to spare; but who has
    its minimum with them, as a job of which some pods move, is not broken. Jobs whose tasks go together have nothing
    to spare. With `of`, only these jobs are looked at.
    """
    surplus = _surplus(snapshot, of, promised=promised)
    broken = np.flatnonzero(surplus < 0).astype(np.intp)
    if not promised and len(broken):
        surplus[broken] = np.minimum(_surplus(snapshot, broken, promised=True)[broken], 0)
    return surplus


def lasting_surplus(snapshot: Snapshot, of: Rows | None = None) -> NDArray[np.int64]:
    """As `job_surplus`, for jobs that must keep their minimum: nobody goes in the stead of a task that has not begun.

    What gets its place in this cycle may fail to, and whoever ran for it would have run for nothing.
    """
    surplus = job_surplus(snapshot, of)
    begun = surplus - snapshot.jobs.counts[:, TaskStatus.ALLOCATED]
    return np.where(surplus > 0, np.maximum(begun, 0), surplus)


def _surplus(snapshot: Snapshot, of: Rows | None, *, promised: bool) -> NDArray[np.int64]:
    jobs, roles, groups = snapshot.jobs, snapshot.roles, snapshot.subgroups
    surplus = np.zeros(len(jobs), np.int64)
    if of is None or len(of) > len(jobs) // 8:
        rows, own = np.arange(len(jobs), dtype=np.intp), np.flatnonzero(roles.job != NO_ROW)
        divided: list[int] = sorted(set(groups.job[groups.policy != NO_ROW].tolist()))
    else:
        rows, own = of, np.array([role for job in of.tolist() for role in jobs.roles[job]], np.int64)
        divided = [job for job in of.tolist() if jobs.records[job].sub_groups]
    surplus[rows] = ready_counts(jobs.counts[rows], promised=promised) - jobs.min_member[rows]
    surplus[jobs.goes_whole & (surplus > 0)] = 0
    lacking = roles.job[own[ready_counts(roles.counts[own], promised=promised) < roles.minimum[own]]]
    broken = lacking[roles_hold(snapshot, lacking)].tolist()
    if divided:
        ready = ready_counts(groups.counts, promised=promised)
        broken += [job for job in divided if job != NO_ROW and _lacks_subgroups(snapshot, job, ready)]
    surplus[broken] = np.minimum(surplus[broken], -1)
    return surplus


def roles_hold(snapshot: Snapshot, jobs: Rows) -> Mask:
    """Whether role minimums hold: only while the job's own minimum covers their sum."""
    total = snapshot.jobs.min_roles_total[jobs]
    mask: Mask = (total > 0) & (total <= snapshot.jobs.min_member[jobs])
    return mask


def holds_minimum(snapshot: Snapshot, job: int, staying: Rows) -> bool:
    """Whether a job has all its minimums when of its tasks only those in `staying` are left."""
    if len(staying) < snapshot.jobs.min_member[job]:
        return False
    if roles_hold(snapshot, np.array([job], np.intp))[0]:
        of_role = np.bincount(snapshot.tasks.role[staying], minlength=len(snapshot.roles))
        if any(of_role[role] < snapshot.roles.minimum[role] for role in snapshot.jobs.roles[job]):
            return False
    if not snapshot.jobs.records[job].sub_groups:
        return True
    return not _lacks_subgroups(
        snapshot, job, np.bincount(snapshot.tasks.subgroup[staying], minlength=len(snapshot.subgroups))
    )


def _lacks_subgroups(snapshot: Snapshot, job: int, ready: NDArray[np.int64]) -> bool:
    return any(spare < 0 for spare in _spare_subgroups(snapshot, job, ready).values())


def _spare_subgroups(snapshot: Snapshot, job: int, ready: NDArray[np.int64]) -> dict[int, int]:
    """Per sub-group policy: sub-groups beyond minSubGroups that have their minimum; `ready`: tasks per sub-group."""
    policies = snapshot.jobs.records[job].sub_groups
    spare = {number: -(policy.min_sub_groups or 0) for number, policy in enumerate(policies)}
    for subgroup in snapshot.jobs.subgroups[job]:
        policy = int(snapshot.subgroups.policy[subgroup])
        if policy != NO_ROW and ready[subgroup] >= snapshot.subgroups.minimum[subgroup]:
            spare[policy] += 1
    return spare


def safe_tasks(snapshot: Snapshot, tasks: Rows, surplus: NDArray[np.int64]) -> Mask:
    """Which tasks their gangs can spare together, taken in the order given.

    `surplus` is that of `job_surplus`. Role by role and then for the job as a whole the first ones are spared: going
    through them one by one, with a budget per role and one per job, ends the same. Broken gangs can spare all.
    """
    jobs = snapshot.tasks.job[tasks]
    own = surplus[jobs]
    safe: Mask = own > 0
    _spare_roles(snapshot, tasks, safe)
    _spare_groups(snapshot, tasks, safe, own)
    rows = np.flatnonzero(safe)
    safe[rows[_before(jobs[rows]) >= own[rows]]] = False
    safe |= own < 0
    return safe


def _before(groups: NDArray[np.integer]) -> NDArray[np.int64]:
    """For each position, how many of the same group stand before it."""
    order = np.argsort(groups, kind="stable")
    bounds = run_bounds(groups[order])
    before = np.empty(len(groups), np.int64)
    before[order] = np.arange(len(groups)) - np.repeat(bounds[:-1], np.diff(bounds))
    return before


def spare_tasks(snapshot: Snapshot, tasks: Rows, surplus: NDArray[np.int64] | None = None) -> Mask:
    """As `safe_tasks`, but only of gangs that keep their minimum: broken ones spare nothing."""
    owners = snapshot.tasks.job[tasks]
    surplus = job_surplus(snapshot, np.unique(owners)) if surplus is None else surplus
    return safe_tasks(snapshot, tasks, surplus) & (surplus[owners] > 0)


def _spare_roles(snapshot: Snapshot, tasks: Rows, safe: Mask) -> None:
    """Take tasks out of `safe` that their role cannot spare; a role without a minimum spares any."""
    rows = np.flatnonzero(safe)
    roles = snapshot.tasks.role[tasks[rows]]
    distinct, where = np.unique(roles, return_inverse=True)
    holds = roles_hold(snapshot, snapshot.roles.job[distinct])
    minimum = snapshot.roles.minimum[distinct]
    spare = ready_counts(snapshot.roles.counts[distinct]) - minimum
    limit = np.where(holds & (minimum > 0), spare, _NO_LIMIT)
    safe[rows[_before(where) >= limit[where]]] = False


def _spare_groups(snapshot: Snapshot, tasks: Rows, safe: Mask, surplus: NDArray[np.int64]) -> None:
    """Take tasks out of `safe` that their sub-groups cannot spare, for jobs that have sub-groups.

    Breaking a ready sub-group uses up one of those beyond minSubGroups; what else it has is free then.
    """
    jobs, table = snapshot.tasks.job[tasks], snapshot.subgroups
    for job in np.unique(jobs[safe]).tolist():
        if not snapshot.jobs.records[job].sub_groups:
            continue
        ready = ready_counts(table.counts)
        spare, slack = _spare_subgroups(snapshot, job, ready), ready - table.minimum
        mine = np.flatnonzero((jobs == job) & safe)
        left = int(surplus[mine[0]])
        for row in mine.tolist():
            subgroup = int(snapshot.tasks.subgroup[tasks[row]])
            policy = int(table.policy[subgroup])
            breaks = slack[subgroup] == 0
            # A task of no sub-group stays: nothing says that the job can do without it. Who goes beyond the job's own
            # surplus uses nothing up.
            safe[row] = left > 0 and policy != NO_ROW and (not breaks or spare[policy] > 0)
            if safe[row]:
                left -= 1
                slack[subgroup] -= 1
                spare[policy] -= int(breaks)


def spare_of_protected(snapshot: Snapshot, protected: Rows, tasks: Rows) -> Mask:
    """Which tasks may go together, taken in the order given, so that every protected gang keeps its minimum."""
    mask: Mask = np.ones(len(tasks), np.bool_)
    if len(protected):
        concerned = np.flatnonzero(np.isin(snapshot.tasks.job[tasks], protected))
        mask[concerned] = spare_tasks(snapshot, tasks[concerned], lasting_surplus(snapshot, protected))
    return mask


def broken_by(snapshot: Snapshot, taken: Rows, moved: Rows) -> list[int]:
    """The jobs that lose a task in `taken`, and without these do not have their minimum.

    `moved` have a place elsewhere and count as there; others that got a place in this cycle do not. The answer is the
    same before and after the statement has evicted and moved them. A job that is below its minimum loses nothing, nor
    does one whose tasks go together.
    """
    table = snapshot.tasks
    gone, stays = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    gone[taken] = stays[moved] = True
    broken = list[int]()
    for job in np.unique(table.job[taken]).tolist():
        own = snapshot.tasks_of(job)
        status = table.status[own]
        needs_no_place = (status == TaskStatus.PENDING) & ((table.flags[own] & BEST_EFFORT) != 0)
        here = _LASTING[status] | needs_no_place | stays[own]
        if snapshot.jobs.goes_whole[job] or not holds_minimum(snapshot, job, own[here & ~gone[own]]):
            broken.append(job)
    return broken
