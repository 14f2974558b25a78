"""Who will have the room that is cleared: heirs, and those who would take it next.

A job of higher priority that waits may not be entitled to take all it needs from other queues, while a smaller one
behind it is. Where the victims free more than that one needs, as gangs do that go whole, the first would find room in
the next cycle, take the place of the other (nobody of lower priority keeps it back), and the eviction would have been
for nobody. So what is cleared is given to whom it will belong. And a beneficiary that a waiting job would break for
what it got, together with others, is not served at all: at once, or when what is left over has been given out to those
whose turn comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from typing import Final

import numpy as np

from muster.engine.evictions.candidates import Pool
from muster.engine.evictions.restraint import why_not_ask
from muster.engine.evictions.simulation import Plan, Simulation, VictimRecord, VictimRecords, joined
from muster.engine.gangs import requests_of
from muster.engine.lines import Line
from muster.engine.placing import promise
from muster.framework import Eviction, Evictor, Session, points
from muster.snapshot import Amounts, OperationKind, Rows, Statement

#: Of so many shapes of jobs, of one queue and priority, it is looked whether they would take something; so many jobs
#: get what is left over.
_LOOKED_AT: Final = 8
_NOBODY: Rows = np.empty(0, np.intp)
_PLACES = (OperationKind.ALLOCATE, OperationKind.PIPELINE, OperationKind.MOVE)


@dataclass(frozen=True, slots=True)
class HandedOn:
    """Records of victims that were chosen for another job than the one that gets their places."""

    records: VictimRecords
    chosen_for: str
    beneficiary: str

    def of_task(self, task: int) -> VictimRecord:
        record = self.records.of_task(task)
        text = record.text.replace(self.chosen_for, self.beneficiary, 1)
        text += f"; {self.chosen_for}, for which they were chosen, comes after it"
        return replace(
            record, text=text, facts={**record.facts, "beneficiary": self.beneficiary, "chosenFor": self.chosen_for}
        )


def hand_on(
    session: Session, job: int, plan: Plan, statement: Statement, waiting: Mapping[int, Rows]
) -> tuple[int, Plan | None]:
    """Give what a plan frees to the first job that would take it from its beneficiary; return who has it, and the plan.

    `waiting`: jobs that have not been served, with their pending tasks in order. None: an heir would take the new
    places of those who move, too, so they would not move but go.
    """
    snapshot, done = session.snapshot, list(statement.operations)
    own = snapshot.tasks_of(job)
    for heir in _ahead(session, job, plan, waiting):
        # Who moves is made anew, and nothing keeps its new place for it.
        for lost in (own, np.concatenate((own, plan.moved)))[: 1 + bool(len(plan.moved))]:
            statement.rollback(0)
            statement.redo([one for one in done if one.kind not in _PLACES or not np.isin(one.tasks, lost).any()])
            mark = statement.mark()
            if Simulation(session, heir, statement).place(waiting[heir]):
                places = promise(statement.operations[mark:])
                statement.rollback(mark)
                statement.redo(places)
                placed = joined([one.tasks for one in places])
                found = replace(plan, placed=placed)
                return heir, _handed_on(session, job, heir, found, statement) if lost is own else None
        statement.rollback(0)
        statement.redo(done)
    return job, plan


def _handed_on(session: Session, job: int, heir: int, plan: Plan, statement: Statement) -> Plan:
    """The plan, in whose records, or in those of its operations, the heir has the places."""
    chosen_for, beneficiary = (session.snapshot.jobs.records[one].id for one in (job, heir))
    if plan.record is not None:
        return replace(plan, record=HandedOn(plan.record, chosen_for, beneficiary))
    for operation in statement.operations:
        if isinstance(operation.record, VictimRecords):
            operation.record = HandedOn(operation.record, chosen_for, beneficiary)
    return plan


def _ahead(session: Session, job: int, plan: Plan, waiting: Mapping[int, Rows]) -> list[int]:
    """Jobs of the queue that come before this one, and might start if it had nothing, in order."""
    snapshot, jobs = session.snapshot, session.snapshot.jobs
    if len(plan.evicted) + len(plan.moved) == 0:
        return []
    queue, priority = int(jobs.queue[job]), int(jobs.priority[job])
    ahead = np.flatnonzero((jobs.queue == queue) & (jobs.priority > priority)).tolist()
    requests, cls = snapshot.classes.requests, snapshot.tasks.cls
    free = snapshot.nodes.future_total() + requests[cls[plan.placed], 0].sum(axis=0)
    free += requests[cls[plan.moved], 0].sum(axis=0)
    able = []
    for other in (other for other in ahead if other in waiting):
        tasks, lacks = waiting[other], session.job_pipelined_deficit(other)
        if 0 < lacks <= len(tasks) and bool((lacks * requests[cls[tasks], 0].min(axis=0) <= free).all()):
            able.append(other)
    return sorted(able, key=session.job_key)


@dataclass
class NextTakers:
    """Jobs that wait and would break the beneficiary of a plan for what it got: a higher priority, another queue."""

    session: Session
    #: Jobs that have not been served, with their pending tasks in order.
    waiting: Mapping[int, Rows]
    #: By queue and priority: jobs that waited at the beginning, and of those that were asked about one of each shape.
    _groups: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _shapes: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        jobs = self.session.snapshot.jobs
        rows = np.fromiter(self.waiting, np.intp, len(self.waiting))
        for job, queue, priority in zip(
            rows.tolist(), jobs.queue[rows].tolist(), jobs.priority[rows].tolist(), strict=True
        ):
            self._groups.setdefault((queue, priority), []).append(job)

    def first(self, job: int, plan: Plan, statement: Statement) -> int | None:
        """One that would have the places of the plan, which is in the statement, in the next cycle; None: nobody."""
        jobs = self.session.snapshot.jobs
        home, own = int(jobs.queue[job]), int(jobs.priority[job])
        elsewhere: list[tuple[Eviction, int, Rows]] = []
        for queue, priority in self._groups:
            if queue == home and priority <= own:
                continue
            kind = Eviction.PREEMPT if queue == home else Eviction.RECLAIM
            for other in self._alike(queue, priority):
                nodes = self._needs(kind, other, plan.placed, _NOBODY, statement) if other in self.waiting else None
                if nodes is not None and len(nodes) == 0:
                    return other
                if nodes is not None:
                    elsewhere.append((kind, other, nodes))
        return self._first_left_out(job, plan.placed, elsewhere, statement) if elsewhere else None

    def _first_left_out(
        self, job: int, placed: Rows, elsewhere: Sequence[tuple[Eviction, int, Rows]], statement: Statement
    ) -> int | None:
        """The first of those with places elsewhere (on the nodes given) that loses them to whose turn comes first."""
        mark = statement.mark()
        beside = self._give_out(job, statement)
        taken = np.unique(self.session.snapshot.tasks.node[beside])
        for kind, other, nodes in elsewhere if len(beside) else ():
            if np.isin(nodes, taken).any():
                left = self._needs(kind, other, placed, beside, statement)
                if left is not None and len(left) == 0:
                    statement.rollback(mark)
                    return other
        statement.rollback(mark)
        return None

    def _give_out(self, job: int, statement: Statement) -> Rows:
        """Let those whose turn comes first have what the beneficiary leaves, as allocate will; return their tasks."""
        session, is_tree = self.session, bool(self.session.asked(points.QUEUE_TURN))
        rows, wanted = self._heads
        fits = (wanted <= session.snapshot.nodes.future_total()).all(axis=1)
        heads = [head for head in rows[fits].tolist() if head != job and head in self.waiting]
        line, mark = Line(session, heads, is_tree=is_tree), statement.mark()
        door = Simulation(session, job, statement)
        for _ in range(_LOOKED_AT):
            if (head := line.pop()) is None:
                break
            if is_tree or not session.overused(int(session.snapshot.jobs.queue[head])):
                door.place(self.waiting[head], job=head)
        return joined([one.tasks for one in statement.operations[mark:]])

    @cached_property
    def _heads(self) -> tuple[Rows, Amounts]:
        """The first jobs of each queue that lack their minimum, and what they lack."""
        session, by_queue = self.session, dict[int, list[int]]()
        for (queue, _), group in self._groups.items():
            by_queue.setdefault(queue, []).extend(group)
        heads, wanted = list[int](), list[Amounts]()
        for group in by_queue.values():
            lacking = (job for job in group if 0 < session.job_pipelined_deficit(job) <= len(self.waiting.get(job, ())))
            for head in nsmallest(_LOOKED_AT, lacking, key=session.job_key):
                heads.append(head)
                tasks = self.waiting[head][: session.job_pipelined_deficit(head)]
                wanted.append(requests_of(session.snapshot, tasks))
        amounts = np.array(wanted, np.int64).reshape(len(heads), len(session.snapshot.axis.index))
        return np.array(heads, np.intp), amounts

    def _alike(self, queue: int, priority: int) -> list[int]:
        """Jobs of a queue and priority that lack their minimum, one of each shape, the first in order."""
        group = queue, priority
        if group not in self._shapes:
            shapes: dict[tuple[int, bytes], list[int]] = {}
            for job in self._groups[group]:
                lacks = self.session.job_pipelined_deficit(job)
                if 0 < lacks <= len(self.waiting.get(job, ())):
                    classes = self.session.snapshot.tasks.cls[self.waiting[job][:lacks]].tobytes()
                    shapes.setdefault((lacks, classes), []).append(job)
            firsts = sorted((alike[0] for alike in shapes.values()), key=self.session.job_key)
            self._shapes[group] = firsts[:_LOOKED_AT]
        return self._shapes[group]

    def _needs(self, kind: Eviction, other: int, placed: Rows, beside: Rows, statement: Statement) -> Rows | None:
        """Nodes on which a job that could evict the beneficiary has places without what that has and got (`placed`).

        Empty: it could only start there; None: it could not at all. `beside`: tasks of others with a place by then.
        """
        session, snapshot = self.session, self.session.snapshot
        wanted = self.waiting[other][: session.job_pipelined_deficit(other)]
        if len(wanted) == 0 or why_not_ask(session, kind, other, wanted) is not None:
            return None
        if kind is Eviction.RECLAIM and session.overused(int(snapshot.jobs.queue[other])):
            return None
        evictor = Evictor(other, wanted, breaks_gangs=True)
        if len(session.evictable(kind, evictor, placed)) == 0:
            return None
        found = np.concatenate((placed, beside, Pool(session, kind).find(other).tasks))
        room = snapshot.nodes.future_total() + requests_of(snapshot, found)
        if bool((requests_of(snapshot, wanted) > room).any()):
            return None
        taken = session.evictable(kind, evictor, found)
        own = snapshot.tasks.job[placed[0]]
        without, simulation = taken[snapshot.tasks.job[taken] != own], Simulation(session, other, statement)
        places = simulation.placements(wanted, without)
        if places is not None:
            return joined([one.nodes for one in places])
        return None if simulation.placements(wanted, taken) is None else _NOBODY
