"""Members of a gang that ask for nothing.

A pending best-effort task counts as ready, because it nearly always finds a node. Nearly: so before a gang that
relies on such members is bound, they are placed in the same statement, and the gang waits if too few find a node.
Callers: the door, which keeps them to the gang's topology constraints like everybody else; backfill.
"""

from __future__ import annotations

from muster.framework import Session
from muster.snapshot import BEST_EFFORT, BEST_EFFORT_PENDING, GATED, READY_STATUSES, GroupTable, Rows


def best_effort_tasks(session: Session, job: int) -> Rows:
    """Pending tasks of a job that ask for nothing and may be placed, in order."""
    table = session.snapshot.tasks
    tasks = session.snapshot.pending_tasks()
    mine = (table.job[tasks] == job) & ((table.flags[tasks] & (BEST_EFFORT | GATED)) == BEST_EFFORT)
    return session.sort_tasks(tasks[mine])


def relies_on_best_effort(session: Session, job: int) -> bool:
    """Whether a minimum (of the job, a role, a sub-group) is met only by counting pending best-effort tasks."""
    snapshot = session.snapshot
    jobs = snapshot.jobs
    if not jobs.counts[job, BEST_EFFORT_PENDING] or not session.asked("job_ready"):
        return False
    minimum = int(jobs.min_member[job])
    if _relies(jobs.counts[job], minimum):
        return True
    if minimum >= jobs.min_roles_total[job] and any(_short(snapshot.roles, role) for role in jobs.roles[job]):
        return True
    return bool(jobs.records[job].sub_groups) and _subgroups_rely(session, job)


def _subgroups_rely(session: Session, job: int) -> bool:
    groups = session.snapshot.subgroups
    ready: dict[int, int] = {}
    counted: dict[int, int] = {}
    for subgroup in session.snapshot.jobs.subgroups[job]:
        have = _ready_count(groups.counts[subgroup])
        minimum, policy = int(groups.minimum[subgroup]), int(groups.policy[subgroup])
        if have and _short(groups, subgroup):
            return True  # started, and not yet whole
        ready[policy] = ready.get(policy, 0) + (have >= minimum)
        waiting = int(groups.counts[subgroup, BEST_EFFORT_PENDING])
        counted[policy] = counted.get(policy, 0) + (have + waiting >= minimum)
    return any(
        ready.get(number, 0) < (policy_spec.min_sub_groups or 0) <= counted.get(number, 0)
        for number, policy_spec in enumerate(session.snapshot.jobs.records[job].sub_groups)
    )


def _short(groups: GroupTable, group: int) -> bool:
    return _relies(groups.counts[group], int(groups.minimum[group]))


def _relies(counts: Rows, minimum: int) -> bool:
    ready = _ready_count(counts)
    return ready < minimum <= ready + int(counts[BEST_EFFORT_PENDING])


def _ready_count(counts: Rows) -> int:
    return int(counts[list(READY_STATUSES)].sum())
