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
        beside = plan.moved[snapshot.jobs.queue[snapshot.tasks.job[plan.moved]] == snapshot.jobs.queue[heir]]
        weaker = beside[snapshot.jobs.priority[snapshot.tasks.job[beside]] < snapshot.jobs.priority[heir]]
        for lost in (own, np.concatenate((own, weaker)))[: 1 + bool(len(weaker))]:
            statement.rollback(0)
            statement.redo([one for one in done if one.kind not in _PLACES or not np.isin(one.tasks, lost).any()])
            mark = statement.mark()
            if Simulation(session, heir, statement).place(waiting[heir]):
                places = promise(statement.operations[mark:])
                statement.rollback(mark)
                statement.redo(places)
                placed = joined([one.tasks for one in places])
                return heir, _handed_on(session, job, heir, replace(plan, placed=placed)) if lost is own else None
        statement.rollback(0)
        statement.redo(done)
    return job, plan


def _handed_on(session: Session, job: int, heir: int, plan: Plan) -> Plan:
    records = session.snapshot.jobs.records
    if plan.record is None:
        return plan
    return replace(plan, record=HandedOn(plan.record, records[job].id, records[heir].id))


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


def is_taken_next(session: Session, job: int, plan: Plan, statement: Statement, waiting: Mapping[int, Rows]) -> bool:
    """Whether a job of another queue that waits would start if it took back from this one what it got."""
    jobs = session.snapshot.jobs
    for other, tasks in waiting.items():
        queue, lacks = int(jobs.queue[other]), session.job_pipelined_deficit(other)
        wanted = tasks[:lacks]
        if queue == jobs.queue[job] or not 0 < lacks <= len(wanted) or session.overused(queue):
            continue
        if session.preemptive(queue, wanted):
            taken = session.evictable(Eviction.RECLAIM, Evictor(other, wanted, breaks_gangs=True), plan.placed)
            if len(taken) and Simulation(session, other, statement).placements(wanted, taken) is not None:
                return True
    return False
