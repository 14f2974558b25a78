"""Allocate: start pending gangs on free capacity, in the order of queues, jobs and tasks. Never evicts."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, field

from muster.engine.constraints import has_topology
from muster.engine.hope import Room, Waiters, without_room
from muster.engine.lines import Line
from muster.engine.placing import DEFAULTS, EVERYWHERE, Door, Found, Options, Scope, door_of
from muster.engine.waiting import (
    open_gates,
    placeable_jobs,
    queue_holds,
    schedulable_tasks,
    tasks_by_job,
    tell_gated,
)
from muster.framework import Action, Arguments, JobVerdict, Rejection, Session, points
from muster.framework.reasons import HELD_BACK, INSUFFICIENT, NOT_TRIED, QUEUE_FULL
from muster.snapshot import NO_ROW, Mask, Rows, Statement, TaskStatus

_NO_ROOM = JobVerdict(INSUFFICIENT)
#: So few tasks are sooner tried than counted.
_FEW = 2


class AllocateArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the allocate action."""

    predicate_error_cache_enable: Annotated[
        bool,
        Meta(description="Accepted for Volcano's files; within a turn failures are always remembered per role."),
    ] = field(default=True, name="predicateErrorCacheEnable")
    rank_order: Annotated[
        bool,
        Meta(
            description="Give equal tasks of a gang with a topology constraint nodes in topology order, by their index."
        ),
    ] = field(default=True, name="rankOrder")
    search_steps_per_job: Annotated[
        int,
        Meta(
            ge=0,
            description="Steps of the exact search for one gang that found no places in order; 0 turns it off.",
        ),
    ] = field(default=DEFAULTS.search_steps_per_job, name="searchStepsPerJob")
    search_steps_per_cycle: Annotated[
        int, Meta(ge=0, description="Steps of the exact search for all gangs of a cycle together.")
    ] = field(default=DEFAULTS.search_steps_per_cycle, name="searchStepsPerCycle")
    hard_starts_whole: Annotated[
        bool,
        Meta(
            description="Let a gang with a hard topology constraint wait for a domain that has as much free as all its "
            "pods ask for, as Volcano does, also where its minimum has room."
        ),
    ] = field(default=False, name="hardStartsWhole")
    groups_start_small: Annotated[
        bool,
        Meta(
            description="Let a gang with KAI's nested groups start in the first domains that hold its minimum, as KAI "
            "does, also where others have room for all its pods."
        ),
    ] = field(default=False, name="groupsStartSmall")
    gate_removal_worker_num: Annotated[
        int,
        Meta(
            description="Accepted for Volcano's files. Gates are taken off by the workers that write statuses, "
            "several at once, and never delay a cycle."
        ),
    ] = field(default=5, name="gateRemovalWorkerNum")


@cache
def _options(arguments: AllocateArguments) -> Options:
    return Options(**{option.name: getattr(arguments, option.name) for option in fields(Options)})


class Allocate(Action):
    """Give queues turns; each turn the queue's first job gets nodes until it is ready, and is bound only then."""

    name: ClassVar[str] = "allocate"
    summary: ClassVar[str] = "Start pending gangs on free capacity, in the order of queues, jobs and tasks."
    Args: ClassVar[type[Arguments]] = AllocateArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, AllocateArguments)
        door = session.workspace["door"] = Door(session, _options(self.arguments))
        is_tree = bool(session.asked(points.QUEUE_TURN))
        waiting, lost = self._line_up(session, is_tree=is_tree)
        promises = bool(session.snapshot.tasks.reserved.any())
        line = Line(session, waiting, is_tree=is_tree, turns_away=not is_tree)
        in_vain, told = _InVain(session), session.asked(points.JOB_WAITS)
        while (job := line.pop()) is not None:
            tasks, waiting[job] = waiting[job], waiting[job][:0]
            with session.turn(job):
                if job in lost:
                    session.record(job, _NO_ROOM)
                else:
                    where = session.start_nodes(job, tasks)
                    if promises or not in_vain.tell(job, tasks, where):
                        waiting[job] = self._give_turn(session, door, job, tasks, where, promises=promises)
                        in_vain.note(job, tasks, where)
                if told and not _has_started(session, job):
                    _tell_wait(session, line, job)
            if len(waiting[job]):
                line.push(job)
        open_gates(session)

    def _line_up(self, session: Session, *, is_tree: bool) -> tuple[dict[int, Rows], set[int]]:
        """Pending tasks of every job that can be allocated; the others get their verdicts, and keep no room.

        The second part are those of them for which there is none. Where queues do not form a tree, tasks that ask for
        nothing are left to backfill.
        """
        tell_gated(session)
        tasks = schedulable_tasks(session, best_effort=None if is_tree else False)
        lost: set[int] = set()
        promises = bool(session.snapshot.tasks.reserved.any())
        if len(tasks) > _FEW and not promises and not session.explains:
            tasks, lost = _leave_out(session, tasks, is_tree=is_tree)
        waiting = placeable_jobs(session, tasks, tell=True)
        if promises:
            with session.statement(self.name) as statement:
                statement.release(tasks[~np.isin(session.snapshot.tasks.job[tasks], list(waiting))])
                statement.hold()
        return waiting, lost

    def _give_turn(
        self,
        session: Session,
        door: Door,
        job: int,
        tasks: Rows,
        where: Rejection | Mask | None,
        *,
        promises: bool,
    ) -> Rows:
        """Let one job try; return the tasks with which it goes back in line. `promises`: some have room set aside."""
        if isinstance(where, Rejection):
            session.record(job, JobVerdict(where.reason, where.detail))
            return tasks[:0]
        with session.statement(self.name) as statement:
            if promises:
                statement.release(session.snapshot.tasks_of(job))
            # The network decides for itself where a job goes that it matters to: that is looked at afterwards.
            is_free = where is None or has_topology(session, job) or bool(session.snapshot.jobs.records[job].sub_groups)
            scope = EVERYWHERE if is_free else Scope(mask=where)
            outcome = door.place(job, tasks, statement, scope)
            if promises and not outcome and _take_promises(session, job, statement):
                outcome = door.place(job, tasks, statement, scope)
            if where is not None and outcome and _is_outside(statement, where):
                session.record(job, JobVerdict(HELD_BACK))
                statement.rollback()
                return tasks[:0]
            owner = _left_without_share(session, job, statement) if promises and outcome else ""
            if owner:
                why = f"the rest is kept for {owner}, for which pods were evicted"
                session.record(job, JobVerdict(QUEUE_FULL, why))
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


def _leave_out(session: Session, tasks: Rows, *, is_tree: bool) -> tuple[Rows, set[int]]:
    """The tasks without those of jobs for which there is too little room; where somebody minds, with them, and whose.

    Somebody may want to know who waits, and in which order; and in a tree a queue is judged by its first job.
    """
    waiters = Waiters.of(session.snapshot, tasks)
    lost = without_room(session, waiters, Room(session.snapshot))
    jobs, queues = waiters.jobs[lost].tolist(), session.snapshot.jobs.queue[waiters.jobs]
    if session.asked(points.JOB_WAITS) or (is_tree and (queues != queues[0]).any()):
        return tasks, set(jobs)
    session.verdicts.update(dict.fromkeys(jobs, _NO_ROOM))
    return waiters.pieces(~lost), set()


def _tell_wait(session: Session, line: Line, job: int) -> None:
    """Tell plugins that a job found no place, and do what they say about those behind it."""
    queue = int(session.snapshot.jobs.queue[job])
    if session.job_waits(job):
        line.sort_again(queue)
    closed = session.queue_closed(queue)
    if closed is not None:
        session.verdicts.update(dict.fromkeys(line.close(queue), JobVerdict(closed.reason, closed.detail)))


def _has_started(session: Session, job: int) -> bool:
    """Whether a job has been given places in this cycle, or has what it needs."""
    return bool(session.snapshot.jobs.counts[job, TaskStatus.ALLOCATED]) or session.job_deficit(job) == 0


def _has_places(session: Session, job: int) -> bool:
    """Whether a job has been given places in this cycle, or promised some."""
    counts = session.snapshot.jobs.counts[job]
    return bool(counts[TaskStatus.ALLOCATED] or counts[TaskStatus.PIPELINED])


def _is_outside(statement: Statement, where: Mask) -> bool:
    """Whether something was placed on other nodes than these."""
    return any(not where[operation.nodes].all() for operation in statement.operations if len(operation.nodes))


class _InVain:
    """Jobs that found no room: another one of the kind that needs as much finds none either.

    While room is given out it only becomes less. Not for jobs whose network or neighbours matter.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        #: By kind, the fewest tasks for which there was no room, and the verdict.
        self._failed: dict[tuple[object, ...], tuple[int, JobVerdict]] = {}
        self._live = session.live_tasks()
        #: Where jobs might start, each kept while its identity stands for it.
        self._wheres: list[object] = []

    def tell(self, job: int, tasks: Rows, where: object) -> bool:
        """Note the verdict on a job of whose kind one found no room that needed no more; False: there may be room.

        Who has to explain it wants one that needed just as much.
        """
        fewest, verdict = self._failed.get(self._kind(job, tasks, where), (0, None)) if self._failed else (0, None)
        if verdict is None or _has_places(self._session, job):
            return False
        needed = self._needed(job, tasks)
        if needed < fewest or (self._session.explains and needed != fewest):
            return False
        if self._session.explains:
            verdict = replace(verdict, task=int(tasks[verdict.placed]))
        self._session.record(job, verdict)
        return True

    def note(self, job: int, tasks: Rows, where: object) -> None:
        """Remember a job that found no room."""
        if self._session.verdicts[job].reason is not INSUFFICIENT or _has_places(self._session, job):
            return
        self._wheres.append(where)
        kind, needed = self._kind(job, tasks, where), self._needed(job, tasks)
        if kind and (kind not in self._failed or needed < self._failed[kind][0]):
            self._failed[kind] = needed, self._session.verdicts[job]

    def _needed(self, job: int, tasks: Rows) -> int:
        """How many of the tasks must find room together."""
        return max(1, min(self._session.job_deficit(job), len(tasks)))

    def _kind(self, job: int, tasks: Rows, where: object) -> tuple[object, ...]:
        """All that decides, beside how many tasks are needed; empty: more does."""
        snapshot = self._session.snapshot
        jobs, record, kinds = snapshot.jobs, snapshot.jobs.records[job], snapshot.tasks.cls[tasks]
        is_plain = not (record.sub_groups or record.min_roles or record.groups or has_topology(self._session, job))
        if not is_plain or (kinds != kinds[0]).any() or (self._live and not self._live.isdisjoint(tasks.tolist())):
            return ()
        return id(where), int(jobs.queue[job]), int(kinds[0]), bool(jobs.preemptible[job])


def _take_promises(session: Session, job: int, statement: Statement) -> bool:
    """Let what is promised to jobs that this one could evict, and not theirs yet, be free for it; False: there is none.

    Otherwise they would start there, only to be evicted for it a moment later. Between queues a priority says nothing:
    whose room was taken back for another queue must not sit down in it again. And pods beyond a minimum take what is
    free: nobody was evicted for them.
    """
    if session.job_deficit(job) <= 0:
        return False
    jobs = session.snapshot.jobs
    promised = _promised_below(session, int(jobs.queue[job]), job)
    owners = session.snapshot.tasks.job[promised]
    taken = promised[(jobs.priority[owners] < jobs.priority[job]) & ~jobs.spared[owners]]
    statement.release(taken)
    return len(taken) > 0


def _left_without_share(session: Session, job: int, statement: Statement) -> str:
    """A job for which room was cleared and whose queue could not hold it any more after this placement; "": none.

    What was cleared for it is a part of its queue's share too; else it would not start, and pods had gone for nothing.
    Jobs that were promised room are counted together: each alone might fit into what is left, and all wait for the
    others then.
    """
    queues, queue = session.snapshot.queues, int(session.snapshot.jobs.queue[job])
    # A limit above the queue is one for all below it.
    highest = [row for row in queues.paths[queue].tolist() if row == queue or queues.records[row].capability][-1]
    promised = _by_priority(session, _promised_below(session, highest, job))
    held = _held_together(session, promised, statement)
    if len(held) == len(promised):
        return ""
    placed = list(statement.operations)
    statement.rollback(0)
    # It has its turn among them, if room was cleared for it too: of two that exclude each other one starts.
    own = session.snapshot.tasks_of(job)
    own = own[session.snapshot.tasks.reserved[own]]
    everybody = _by_priority(session, np.concatenate((*(tasks for _, tasks in promised), own)))
    had = _held_together(session, everybody, statement)
    statement.redo(placed)
    lost = (owner for owner in had if owner != job and owner not in held)
    return next((session.snapshot.jobs.records[owner].id for owner in lost), "")


def _by_priority(session: Session, tasks: Rows) -> list[tuple[int, Rows]]:
    """Tasks that are ordered by job, cut into one piece for each job, in the order in which promises are kept."""
    jobs = session.snapshot.jobs
    return sorted(
        tasks_by_job(session, tasks), key=lambda piece: (-int(jobs.priority[piece[0]]), jobs.records[piece[0]].id)
    )


def _held_together(session: Session, promised: list[tuple[int, Rows]], statement: Statement) -> list[int]:
    """Those of the jobs that their queues could hold, one after the other, if they got what was promised to them."""
    table, jobs, mark, found = session.snapshot.tasks, session.snapshot.jobs, statement.mark(), []
    for job, tasks in promised:
        if not session.overused(int(jobs.queue[job])) and queue_holds(session, job, tasks):
            found.append(job)
            if len(promised) > 1:
                statement.release(tasks)
                door_of(session).put(tasks, table.nominated[tasks], statement)
    statement.rollback(mark)
    return found


def _promised_below(session: Session, queue: int, job: int) -> Rows:
    """Tasks of other jobs in a queue, or below it, for which room is set aside, ordered by job."""
    table, jobs, queues = session.snapshot.tasks, session.snapshot.jobs, session.snapshot.queues
    promised = np.flatnonzero(table.reserved & (table.job != NO_ROW) & (table.job != job)).astype(np.intp)
    below = np.append((queues.upward == queue).any(axis=1), np.False_)
    promised = promised[below[jobs.queue[table.job[promised]]]]
    ordered: Rows = promised[np.argsort(table.job[promised], kind="stable")]
    return ordered
