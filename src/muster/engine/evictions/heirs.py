"""Heirs: who would sit down in the room that was cleared for another job of its queue.

A job of higher priority that waits may not be entitled to take all it needs from other queues, while a smaller one
behind it is. Where the victims free more than that one needs, as gangs do that go whole, the first would find room in
the next cycle, take the place of the other (nobody of lower priority keeps it back), and the eviction would have been
for nobody. So what is cleared is given to whom it will belong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.evictions.simulation import Plan, Simulation, VictimRecord, VictimRecords, joined
from muster.engine.placing import promise
from muster.framework import Eviction, Evictor, Session
from muster.snapshot import OperationKind, Rows, Statement

_PLACES = (OperationKind.ALLOCATE, OperationKind.PIPELINE)


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
) -> tuple[int, Plan]:
    """Give what a plan frees to the first job that would take it from its beneficiary; return who has it, and the plan.

    `waiting`: jobs that have had their turn in vain, with their pending tasks in order.
    """
    for heir in _ahead(session, job, plan, waiting):
        done = list(statement.operations)
        statement.rollback(0)
        own = set(session.snapshot.tasks_of(job).tolist())
        statement.redo([one for one in done if one.kind not in _PLACES or int(one.tasks[0]) not in own])
        mark, simulation = statement.mark(), Simulation(session, heir, statement)
        if simulation.place(waiting[heir]):
            places = promise(statement.operations[mark:])
            statement.rollback(mark)
            statement.redo(places)
            return heir, _handed_on(session, job, heir, replace(plan, placed=joined([one.tasks for one in places])))
        statement.rollback(0)
        statement.redo(done)
    return job, plan


def _handed_on(session: Session, job: int, heir: int, plan: Plan) -> Plan:
    records = session.snapshot.jobs.records
    return (
        plan if plan.record is None else replace(plan, record=HandedOn(plan.record, records[job].id, records[heir].id))
    )


def _ahead(session: Session, job: int, plan: Plan, waiting: Mapping[int, Rows]) -> list[int]:
    """Jobs of the queue that come before this one, and might start if it had nothing, in order."""
    snapshot, jobs = session.snapshot, session.snapshot.jobs
    queue, priority = jobs.queue[job], jobs.priority[job]
    rows = np.fromiter(waiting, np.intp, len(waiting))
    rows = rows[(jobs.queue[rows] == queue) & (jobs.priority[rows] > priority)]
    if len(rows) == 0 or len(plan.evicted) == 0:
        return []
    requests, cls = snapshot.classes.requests, snapshot.tasks.cls
    free = snapshot.nodes.future_total() + requests[cls[plan.placed], 0].sum(axis=0)
    able = []
    for other in rows.tolist():
        tasks, lacks = waiting[other], session.job_pipelined_deficit(other)
        if 0 < lacks <= len(tasks) and bool((lacks * requests[cls[tasks], 0].min(axis=0) <= free).all()):
            able.append(other)
    return sorted(able, key=session.job_key)


def is_taken_next(session: Session, heir: int, placed: Rows, waiting: Mapping[int, Rows]) -> bool:
    """Whether a job of another queue that waits could take from the heir what it got, which is more than its share."""
    jobs = session.snapshot.jobs
    for other, tasks in waiting.items():
        queue, lacks = int(jobs.queue[other]), session.job_pipelined_deficit(other)
        wanted = tasks[:lacks]
        if queue == jobs.queue[heir] or len(wanted) == 0 or session.overused(queue):
            continue
        if session.preemptive(queue, wanted) and len(
            session.evictable(Eviction.RECLAIM, Evictor(other, wanted, breaks_gangs=True), placed)
        ):
            return True
    return False
