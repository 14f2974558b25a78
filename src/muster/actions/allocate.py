"""Allocate: start pending gangs on free capacity, in the order of queues, jobs and tasks. Never evicts."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
import numpy as np

from muster.engine.lines import QueueLine
from muster.engine.placing import STEPS_PER_CYCLE, STEPS_PER_JOB, Door, Found
from muster.engine.queue_tree import TreeLine
from muster.engine.waiting import (
    gated_jobs,
    gated_verdict,
    open_gates,
    schedulable_tasks,
    tasks_by_job,
    why_not_schedulable,
)
from muster.framework import Action, Arguments, JobVerdict, Session, points
from muster.framework.reasons import NOT_TRIED, QUEUE_FULL
from muster.snapshot import BEST_EFFORT, NO_ROW, Mask, Rows, Statement


class AllocateArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the allocate action."""

    predicate_error_cache_enable: Annotated[
        bool,
        msgspec.Meta(description="Accepted for Volcano's files; failures are always remembered per role."),
    ] = msgspec.field(default=True, name="predicateErrorCacheEnable")
    rank_order: Annotated[
        bool,
        msgspec.Meta(
            description="Give equal tasks of a gang with a topology constraint nodes in topology order, by their index."
        ),
    ] = msgspec.field(default=True, name="rankOrder")
    search_steps_per_job: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            description="Steps of the exact search for one gang that found no places in order; 0 turns it off.",
        ),
    ] = msgspec.field(default=STEPS_PER_JOB, name="searchStepsPerJob")
    search_steps_per_cycle: Annotated[
        int, msgspec.Meta(ge=0, description="Steps of the exact search for all gangs of a cycle together.")
    ] = msgspec.field(default=STEPS_PER_CYCLE, name="searchStepsPerCycle")
    hard_starts_whole: Annotated[
        bool,
        msgspec.Meta(
            description="Let a gang with a hard topology constraint wait for a domain that has as much free as all its "
            "pods ask for, as Volcano does, also where its minimum has room."
        ),
    ] = msgspec.field(default=False, name="hardStartsWhole")
    gate_removal_worker_num: Annotated[
        int,
        msgspec.Meta(
            description="Accepted for Volcano's files. Gates are taken off by the workers that write statuses, "
            "several at once, and never delay a cycle."
        ),
    ] = msgspec.field(default=5, name="gateRemovalWorkerNum")


class Allocate(Action):
    """Give queues turns; each turn the queue's first job gets nodes until it is ready, and is bound only then."""

    name: ClassVar[str] = "allocate"
    summary: ClassVar[str] = "Start pending gangs on free capacity, in the order of queues, jobs and tasks."
    Args: ClassVar[type[Arguments]] = AllocateArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, AllocateArguments)
        door = session.workspace["door"] = Door(
            session,
            rank_order=self.arguments.rank_order,
            steps_per_job=self.arguments.search_steps_per_job,
            steps_per_cycle=self.arguments.search_steps_per_cycle,
            hard_starts_whole=self.arguments.hard_starts_whole,
        )
        waiting = self._line_up(session)
        promises = bool(session.snapshot.tasks.reserved.any())
        line = TreeLine(session, waiting) if session.asked(points.QUEUE_TURN) else QueueLine(session, waiting)
        while (job := line.pop()) is not None:
            tasks, waiting[job] = waiting[job], waiting[job][:0]
            with session.turn(job):
                waiting[job] = self._give_turn(session, door, job, tasks, promises=promises)
            if len(waiting[job]):
                line.push(job)
        open_gates(session)

    def _line_up(self, session: Session) -> dict[int, Rows]:
        """Pending tasks of every job that can be allocated; the others get their verdicts."""
        for job in gated_jobs(session):
            session.record(job, gated_verdict(session, job))
        waiting: dict[int, Rows] = {}
        for job, tasks in tasks_by_job(session, self._pending(session)):
            with session.turn(job):
                verdict = why_not_schedulable(session, job)
                session.record(job, verdict or JobVerdict(NOT_TRIED))
                if verdict is None:
                    waiting[job] = tasks
            if job not in waiting:
                with session.statement(self.name) as statement:  # room is not kept for a job that cannot use it now
                    statement.release(tasks)
                    statement.hold()
        return waiting

    def _pending(self, session: Session) -> Rows:
        """Tasks to place; where queues do not form a tree, those that ask for nothing are left to backfill."""
        tasks, table = schedulable_tasks(session), session.snapshot.tasks
        is_tree = bool(session.asked(points.QUEUE_TURN))
        wanted: Mask = table.job[tasks] != NO_ROW if is_tree else (table.flags[tasks] & BEST_EFFORT) == 0
        return tasks[wanted]

    def _give_turn(self, session: Session, door: Door, job: int, tasks: Rows, *, promises: bool) -> Rows:
        """Let one job try; return the tasks with which it goes back in line. `promises`: some have room set aside."""
        with session.statement(self.name) as statement:
            if promises:
                statement.release(session.snapshot.tasks_of(job))
            outcome = door.place(job, tasks, statement)
            if promises and not outcome and _take_promises(session, job, statement):
                outcome = door.place(job, tasks, statement)
            owner = _left_without_share(session, job, statement) if promises and outcome else ""
            if owner:
                session.record(
                    job, JobVerdict(QUEUE_FULL, f"the rest is kept for {owner}, for which pods were evicted")
                )
                statement.rollback()
                return tasks[:0]
            session.record(job, outcome.verdict or JobVerdict(NOT_TRIED))
            if outcome.found is Found.READY:
                statement.commit()
            elif outcome.found is Found.PROMISED:
                statement.hold()  # it keeps its places for this cycle, and is not bound
            else:
                statement.rollback()
        return outcome.left


def _take_promises(session: Session, job: int, statement: Statement) -> bool:
    """Let what is promised to jobs that this one could evict, and not theirs yet, be free for it; False: there is none.

    Otherwise they would start there, only to be evicted for it a moment later. Between queues a priority says nothing:
    whose room was taken back for another queue must not sit down in it again. And pods beyond a minimum take what is
    free: nobody was evicted for them.
    """
    if session.job_deficit(job) <= 0:
        return False
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    promised = np.flatnonzero(table.reserved & (table.job != NO_ROW)).astype(np.int32)
    owners = table.job[promised]
    yields = (jobs.priority[owners] < jobs.priority[job]) & (jobs.queue[owners] == jobs.queue[job])
    taken = promised[yields & ~jobs.spared[owners]]
    statement.release(taken)
    return len(taken) > 0


def _left_without_share(session: Session, job: int, statement: Statement) -> str:
    """A job for which room was cleared and whose queue could not hold it any more after this placement; "": none.

    What was cleared for it is a part of its queue's share too; else it would not start, and pods had gone for nothing.
    """
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    promised = np.flatnonzero(table.reserved & (table.job != NO_ROW)).astype(np.int32)
    promised = promised[jobs.queue[table.job[promised]] == jobs.queue[job]]
    for owner in np.unique(table.job[promised]).tolist():
        own = promised[table.job[promised] == owner]
        queue = int(jobs.queue[owner])
        if _has_share(session, queue, own):
            continue
        placed = list(statement.operations)
        statement.rollback(0)
        had = _has_share(session, queue, own)
        statement.redo(placed)
        if had:
            name: str = jobs.records[owner].id
            return name
    return ""


def _has_share(session: Session, queue: int, tasks: Rows) -> bool:
    classes, counts = np.unique(session.snapshot.tasks.cls[tasks], return_counts=True)
    requests = session.snapshot.classes.requests[classes, 0]
    return not session.overused(queue) and all(
        session.queue_slots(queue, request) >= count for request, count in zip(requests, counts, strict=True)
    )
