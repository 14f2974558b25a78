"""Gangs with members that ask for nothing.

A pending best-effort task counts as ready, because it nearly always finds a node. Nearly: so before a gang that
relies on such members is bound, they are placed in the same statement, and the gang waits if one finds no node.
"""

from __future__ import annotations

from muster.engine.placement import Placer
from muster.framework import Session
from muster.snapshot import BEST_EFFORT, BEST_EFFORT_PENDING, Rows, Statement


def best_effort_tasks(session: Session, job: int) -> Rows:
    """Pending tasks of a job that ask for nothing, in order."""
    table = session.snapshot.tasks
    tasks = session.snapshot.pending_tasks()
    mine = (table.job[tasks] == job) & ((table.flags[tasks] & BEST_EFFORT) != 0)
    return session.sort_tasks(tasks[mine])


def place_best_effort_members(session: Session, placer: Placer, job: int, statement: Statement) -> bool:
    """Place the best-effort members that a gang's minimum relies on; False: one found no node, all is undone."""
    jobs = session.snapshot.jobs
    if not jobs.counts[job, BEST_EFFORT_PENDING] or not session.has_action("backfill"):
        return True
    missing = int(jobs.min_member[job]) - jobs.ready_count(job)
    if missing <= 0:
        return True
    members = best_effort_tasks(session, job)[:missing]
    if placer.place_all(members, statement) == len(members):
        return True
    statement.rollback()
    return False
