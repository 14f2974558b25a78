"""Gangs with members that ask for nothing.

A pending best-effort task counts as ready, because it nearly always finds a node. Nearly: so before a gang that
relies on such members is bound, they are placed in the same statement, and the gang waits if too few find a node.
They keep to the gang's topology constraints like everybody else. Callers: allocate and backfill.
"""

from __future__ import annotations

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.constraints import (
    Constraint,
    has_topology,
    job_constraint,
    job_domain,
    subgroup_constraint,
    subgroup_domain,
)
from muster.engine.domains import ROOT, gradients, holding
from muster.engine.nested import NestedPlacer
from muster.engine.placement import Placer, Scope
from muster.framework import Session
from muster.snapshot import (
    BEST_EFFORT,
    BEST_EFFORT_PENDING,
    GATED,
    NO_ROW,
    READY_STATUSES,
    GroupTable,
    Rows,
    Statement,
)


def best_effort_tasks(session: Session, job: int) -> Rows:
    """Pending tasks of a job that ask for nothing and may be placed, in order."""
    table = session.snapshot.tasks
    tasks = session.snapshot.pending_tasks()
    mine = (table.job[tasks] == job) & ((table.flags[tasks] & (BEST_EFFORT | GATED)) == BEST_EFFORT)
    return session.sort_tasks(tasks[mine])


def place_best_effort_members(session: Session, placer: Placer, job: int, statement: Statement) -> bool:
    """Place the best-effort members that a gang's minimums rely on; False: too few found a node, all is undone."""
    if not session.has_action("backfill") or not relies_on_best_effort(session, job):
        return True
    members = best_effort_tasks(session, job)
    for k in range(len(members)):
        place_best_effort(session, placer, members[k : k + 1], statement)
        if not relies_on_best_effort(session, job):
            return True
    statement.rollback()
    return False


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


def place_best_effort(session: Session, placer: Placer, tasks: Rows, statement: Statement) -> int:
    """Place best-effort tasks of one job in order, where its topology constraints let them; stop where one fails."""
    table = session.snapshot.tasks
    if len(tasks) and session.snapshot.jobs.records[table.job[tasks[0]]].groups is not None:
        nested = NestedPlacer(session, boards_of(session), placer)
        job, single = int(table.job[tasks[0]]), enumerate(np.split(tasks, len(tasks)))
        return next((done for done, task in single if not nested.place(job, task, statement)), len(tasks))
    if len(tasks) == 0 or not has_topology(session, int(table.job[tasks[0]])):
        return placer.place_all(tasks, statement)
    done = 0
    while done < len(tasks):
        other = np.flatnonzero(table.subgroup[tasks[done:]] != table.subgroup[tasks[done]])
        run = tasks[done : done + int(other[0])] if len(other) else tasks[done:]
        domain = _domain_for(session, run)
        placed = 0 if domain == NO_ROW else placer.place_all(run, statement, Scope(domain))
        done += placed
        if placed < len(run):
            break
    return done


def _domain_for(session: Session, tasks: Rows) -> int:
    """The domain that tasks of one sub-group may go to; NO_ROW: none."""
    snapshot = session.snapshot
    job, subgroup = int(snapshot.tasks.job[tasks[0]]), int(snapshot.tasks.subgroup[tasks[0]])
    domain = _narrow(session, tasks, ROOT, job_constraint(session, job), job_domain(snapshot, job))
    if domain == NO_ROW or not snapshot.jobs.records[job].sub_groups:
        return domain
    constraint, placed = subgroup_constraint(session, subgroup), subgroup_domain(snapshot, subgroup)
    return _narrow(session, tasks, domain, constraint, placed)


def _narrow(session: Session, tasks: Rows, scope: int, constraint: Constraint, placed: int) -> int:
    """The widest domain around what is placed that the constraint allows, else the smallest that holds the tasks."""
    steps = gradients(session.snapshot.topology, constraint, scope, placed)
    if not steps:
        return NO_ROW
    if placed != NO_ROW:
        return int(steps[-1][0])
    domains = np.concatenate(steps)
    for needed in (len(tasks), 1):
        held = holding(session, boards_of(session), tasks, needed, domains)
        if len(held):
            return int(held[0])
    return NO_ROW
