"""Allocate: start pending gangs on free capacity, in the order of queues, jobs and tasks. Never evicts."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, field

from muster.engine.constraints import has_topology
from muster.engine.gates import open_gates
from muster.engine.hope import Crowd, InVain
from muster.engine.lines import Line
from muster.engine.placing import EVERYWHERE, Door, Found, Options, Scope, door_of
from muster.engine.promises import left_without_share, take_promises
from muster.engine.waiting import placeable_jobs, schedulable_tasks, tell_gated
from muster.framework import Action, Arguments, JobVerdict, Rejection, Session, points
from muster.framework.reasons import HELD_BACK, INSUFFICIENT, NOT_TRIED, QUEUE_FULL
from muster.snapshot import Mask, Rows, Statement, TaskStatus

_NO_ROOM = JobVerdict(INSUFFICIENT)
#: So few tasks are sooner tried than counted.
_FEW = 2


class AllocateArguments(Options, frozen=True, kw_only=True):
    """Arguments of the allocate action."""

    predicate_error_cache_enable: Annotated[
        bool,
        Meta(description="Accepted for Volcano's files; within a turn failures are always remembered per role."),
    ] = field(default=True, name="predicateErrorCacheEnable")
    gate_removal_worker_num: Annotated[
        int,
        Meta(
            description="Accepted for Volcano's files. Gates are taken off by the workers that write statuses, "
            "several at once, and never delay a cycle."
        ),
    ] = field(default=5, name="gateRemovalWorkerNum")


class Allocate(Action):
    """Give queues turns; each turn the queue's first job gets nodes until it is ready, and is bound only then."""

    name: ClassVar[str] = "allocate"
    summary: ClassVar[str] = "Start pending gangs on free capacity, in the order of queues, jobs and tasks."
    Args: ClassVar[type[Arguments]] = AllocateArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, AllocateArguments)
        session.workspace["door"] = Door(session, self.arguments)
        is_tree = bool(session.asked(points.QUEUE_TURN))
        waiting, crowd = self._line_up(session, is_tree=is_tree)
        promises = bool(session.snapshot.tasks.reserved.any())
        line = Line(session, waiting, is_tree=is_tree, turns_away=not is_tree)
        in_vain, told = InVain(session), session.asked(points.JOB_WAITS)
        while (job := line.pop()) is not None:
            tasks, waiting[job] = waiting[job], waiting[job][:0]
            was_in_vain = False
            with session.turn(job):
                if crowd is not None and job in crowd.lost:
                    session.record(job, _NO_ROOM)
                else:
                    where = session.start_nodes(job, tasks)
                    if promises or not in_vain.tell(job, tasks, where):
                        waiting[job] = self._give_turn(session, job, tasks, where, promises=promises)
                        was_in_vain = in_vain.note(job, tasks, where)
                if told:
                    _tell_wait(session, line, job)
            if len(waiting[job]):
                line.push(job)
            if was_in_vain and crowd is not None and crowd.count_out() and crowd.may_leave:
                session.verdicts.update(dict.fromkeys(line.leave_out(crowd.lost), _NO_ROOM))
        open_gates(session)

    def _line_up(self, session: Session, *, is_tree: bool) -> tuple[dict[int, Rows], Crowd | None]:
        """Pending tasks of every job that can be allocated; the others get their verdicts, and keep no room.

        The second part tells for which of them there is none; None: nobody counts. Where queues do not form a tree,
        tasks that ask for nothing are left to backfill.
        """
        tell_gated(session)
        tasks = schedulable_tasks(session, best_effort=None if is_tree else False)
        crowd = None
        promises = bool(session.snapshot.tasks.reserved.any())
        if len(tasks) > _FEW and not promises and not session.explains:
            crowd = Crowd(session, tasks, is_tree=is_tree)
            lost = crowd.count_out()
            if crowd.may_leave:
                session.verdicts.update(dict.fromkeys(lost, _NO_ROOM))
                tasks = crowd.tasks
        waiting = placeable_jobs(session, tasks, tell=True)
        if promises:
            with session.statement(self.name) as statement:
                statement.release(tasks[~np.isin(session.snapshot.tasks.job[tasks], list(waiting))])
                statement.hold()
        return waiting, crowd

    def _give_turn(
        self, session: Session, job: int, tasks: Rows, where: Rejection | Mask | None, *, promises: bool
    ) -> Rows:
        """Let one job try; return the tasks with which it goes back in line. `promises`: some have room set aside."""
        if isinstance(where, Rejection):
            session.record(job, JobVerdict(where.reason, where.detail))
            return tasks[:0]
        door = door_of(session)
        with session.statement(self.name) as statement:
            if promises:
                statement.release(session.snapshot.tasks_of(job))
            # The network decides for itself where a job goes that it matters to: that is looked at afterwards.
            is_free = where is None or has_topology(session, job) or bool(session.snapshot.jobs.records[job].sub_groups)
            scope = EVERYWHERE if is_free else Scope(mask=where)
            outcome = door.place(job, tasks, statement, scope)
            if promises and not outcome and take_promises(session, job, statement):
                outcome = door.place(job, tasks, statement, scope)
            refusal = _why_not_keep(session, job, statement, where, promises=promises) if outcome else None
            if refusal is not None:
                session.record(job, refusal)
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


def _tell_wait(session: Session, line: Line, job: int) -> None:
    """Tell plugins of a job that got no place and lacks some, and do what they say about those behind it."""
    jobs = session.snapshot.jobs
    if jobs.counts[job, TaskStatus.ALLOCATED] or session.job_deficit(job) == 0:
        return
    queue = int(jobs.queue[job])
    if session.job_waits(job):
        line.sort_again(queue)
    closed = session.queue_closed(queue)
    if closed is not None:
        session.verdicts.update(dict.fromkeys(line.close(queue), JobVerdict(closed.reason, closed.detail)))


def _why_not_keep(
    session: Session, job: int, statement: Statement, where: Mask | None, *, promises: bool
) -> JobVerdict | None:
    """Why a job may not have the places that it was given; None: it may."""
    given = (operation.nodes for operation in statement.operations)
    if where is not None and not all(where[nodes].all() for nodes in given):
        return JobVerdict(HELD_BACK)
    owner = left_without_share(session, job, statement) if promises else ""
    return JobVerdict(QUEUE_FULL, f"the rest is kept for {owner}, for which pods were evicted") if owner else None
