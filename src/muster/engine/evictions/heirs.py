"""Who will have the room that is cleared: heirs, and those who would take it next.

A job of higher priority that waits may not be entitled to take all it needs from other queues, while a smaller one
behind it is. Where the victims free more than that one needs, as gangs do that go whole, the first would find room in
the next cycle, take the place of the other (nobody of lower priority keeps it back), and the eviction would have been
for nobody. So what is cleared is given to whom it will belong. And a beneficiary that a waiting job would break for
what it got, together with others, is not served at all: at once, or when what is left over has been given out to those
whose turn comes first.

What later plans of a cycle leave over adds to what earlier ones promised. When all have had their turns, a promise is
given to the job that would take it next, together with what is left over: it may be of a higher priority than the one
that pods went for, and that one would never start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from typing import Final

import numpy as np

from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.candidates import SOON_ON_NODE, Pool
from muster.engine.evictions.restraint import never_preempts, why_not_ask, would_bounce
from muster.engine.evictions.simulation import TAKES, Plan, Simulation, VictimRecord, VictimRecords, joined
from muster.engine.evictions.surplus import spare_tasks
from muster.engine.gangs import requests_of
from muster.engine.lines import Line
from muster.engine.placing import promise
from muster.engine.waiting import soon_anew
from muster.framework import Eviction, Evictor, Rejection, Session, points
from muster.framework.reasons import NOT_STEADY
from muster.snapshot import Amounts, Operation, OperationKind, Rows, Statement, TaskStatus

#: Below every priority.
_LOWEST: Final = int(np.iinfo(np.int64).min)
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


def _hand_over(operations: list[Operation], chosen_for: str, beneficiary: str) -> None:
    """Let the records of evictions name the job that gets the places."""
    for operation in operations:
        if isinstance(operation.record, VictimRecords):
            operation.record = HandedOn(operation.record, chosen_for, beneficiary)


@dataclass(slots=True)
class Served:
    """A plan that was carried out in this session, and what was committed for it."""

    kind: Eviction
    job: int
    plan: Plan
    operations: list[Operation]

    @property
    def places(self) -> list[Operation]:
        """What was promised to its beneficiary."""
        return [one for one in self.operations if one.kind is OperationKind.PIPELINE]


def _served_plans(session: Session) -> list[Served]:
    """The plans of this session that move somebody, or serve one who comes after one that waits, in order."""
    known = session.workspace.setdefault("served-plans", [])
    assert isinstance(known, list)
    return known


@dataclass
class LookAhead:
    """Who of those that wait would have in the next cycle what the plans of an action free in this one."""

    session: Session
    kind: Eviction
    #: Jobs that have not been served, with their pending tasks in order.
    waiting: dict[int, Rows]
    budgets: Budgets
    #: So many of the plans that might be contested were there before one of this action that left something over.
    _unsettled: int = 0
    #: Of a queue and priority, the jobs that were asked about: one of each shape.
    _shapes: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    @cached_property
    def _groups(self) -> dict[tuple[int, int], list[int]]:
        """By queue and priority: the jobs that waited at the beginning."""
        jobs, groups = self.session.snapshot.jobs, dict[tuple[int, int], list[int]]()
        rows = np.fromiter(self.waiting, np.intp, len(self.waiting))
        keys = zip(jobs.queue[rows].tolist(), jobs.priority[rows].tolist(), strict=True)
        for key, job in zip(keys, rows.tolist(), strict=True):
            groups.setdefault(key, []).append(job)
        return groups

    @cached_property
    def _highest(self) -> dict[int, int]:
        """By queue, the highest priority of a job that waited at the beginning."""
        return dict(sorted(self._groups))

    @cached_property
    def _returning(self) -> dict[int, int]:
        """By queue, the highest priority of a job that was broken and is not back yet: it comes before others then."""
        done = [operation for committed in self.session.committed for operation in committed.operations]
        evicted = joined([one.tasks for one in done if one.kind in TAKES])
        return self._with_broken({}, np.concatenate((evicted, soon_anew(self.session))))

    def _with_broken(self, returning: dict[int, int], evicted: Rows) -> dict[int, int]:
        """Count those of the jobs that lost tasks, and with them their minimum, among who is returning."""
        jobs = self.session.snapshot.jobs
        for owner in set(self.session.snapshot.tasks.job[evicted].tolist()):
            queue, priority = int(jobs.queue[owner]), int(jobs.priority[owner])
            if priority > returning.get(queue, _LOWEST) and self.session.job_pipelined_deficit(owner) > 0:
                returning[queue] = priority
        return returning

    def note(self, owner: int, plan: Plan) -> None:
        """A plan was carried out for a job."""
        self.waiting.pop(owner, None)
        self._with_broken(self._returning, plan.evicted)
        plans = _served_plans(self.session)
        if plans and self._leaves_over(plan):
            self._unsettled = len(plans)
        if len(plan.moved) or (len(plan.victims) and self._has_higher(owner)):
            plans.append(Served(self.kind, owner, plan, self.session.committed[-1].operations))

    def _has_higher(self, job: int) -> bool:
        """Whether one of a higher priority waited in its queue at the beginning."""
        jobs = self.session.snapshot.jobs
        return bool(jobs.priority[job] < self._highest.get(int(jobs.queue[job]), _LOWEST))

    def yields(self, job: int) -> bool:
        """Whether a job has its minimum, and another of its queue comes before it, who would take the rest from it."""
        session, jobs = self.session, self.session.snapshot.jobs
        if not jobs.allocated_count(job) or session.job_starving(job) or session.job_deficit(job) > 0:
            return False
        return self._has_higher(job)

    def beneficiary(self, job: int, plan: Plan, simulation: Simulation) -> tuple[int, Plan | None]:
        """Whom a plan will serve: who comes first in the queue and finds room then; None: it would not be steady."""
        jobs, statement = self.session.snapshot.jobs, simulation.statement
        owner: int = job
        handed: Plan | None = plan
        queue, priority = int(jobs.queue[job]), jobs.priority[job]
        if len(plan.victims) and priority < self._returning.get(queue, _LOWEST):
            why = "a job of its queue that comes before it was evicted just now, and would take the room"
        else:
            if priority < self._highest[queue]:
                owner, handed = self._hand_on(job, plan, statement)
            if handed is None or (owner != job and self._is_in_vain(owner, handed, self.kind)):
                why = f"{jobs.records[owner].id} would take the room, and may not have it, or lose it"
            elif len(handed.victims) and (taker := self._next_taker(owner, handed, statement)) is not None:
                why = f"{jobs.records[taker].id} would take the room next"
            else:
                return owner, handed
        simulation.refusal = Rejection(NOT_STEADY, why)
        return job, None

    # -- what was promised before ----------------------------------------------------------------------------------

    def contested(self) -> Iterator[Served]:
        """Plans after which more was freed than taken, and whose beneficiary comes after one that waits."""
        for one in _served_plans(self.session)[: self._unsettled]:
            is_firm = self.session.snapshot.jobs.spared[one.job]
            if self._has_higher(one.job) and not is_firm and all(map(self._stands, one.places)):
                yield one

    def _stands(self, place: Operation) -> bool:
        """Whether nobody has got other places since, or lost them."""
        table = self.session.snapshot.tasks
        is_promised = table.status[place.tasks] == TaskStatus.PIPELINED
        return bool((is_promised & (table.node[place.tasks] == place.nodes)).all())

    def _leaves_over(self, plan: Plan) -> bool:
        """Whether a plan that was carried out frees more somewhere than its beneficiary takes there."""
        snapshot, gone = self.session.snapshot, plan.evicted
        tasks = np.concatenate((gone, plan.placed))
        places, where = np.unique(snapshot.tasks.node[tasks], return_inverse=True)
        requests = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0]
        left = np.zeros((len(places), requests.shape[1]), np.int64)
        np.add.at(left, where[: len(gone)], requests[: len(gone)])
        np.subtract.at(left, where[len(gone) :], requests[len(gone) :])
        return len(plan.moved) > 0 or bool((left > 0).any())

    def pass_on(self, one: Served, statement: Statement) -> bool:
        """Give what was promised to the first job that would take it next, with what later plans left over."""
        session, jobs = self.session, self.session.snapshot.jobs
        heirs = self._ahead(one.job, one.plan)
        if not heirs:
            return False
        own = one.places
        statement.take_over(own)
        statement.rollback(0)
        one.operations[:] = [done for done in one.operations if done.kind is not OperationKind.PIPELINE]
        for heir in heirs:
            if Simulation(session, heir, statement).place(self.waiting[heir]):
                places = promise(statement.operations)
                statement.rollback(0)
                statement.redo(places)
                plan = replace(one.plan, placed=joined([place.tasks for place in places]))
                if not self._is_in_vain(heir, plan, one.kind):
                    _hand_over(one.operations, *(jobs.records[job].id for job in (one.job, heir)))
                    one.job, one.plan = heir, plan
                    self.waiting.pop(heir)
                    return True
            statement.rollback(0)
        statement.redo(own)
        one.operations += own
        return False

    # -- heirs -----------------------------------------------------------------------------------------------------

    def _hand_on(self, job: int, plan: Plan, statement: Statement) -> tuple[int, Plan | None]:
        """Give what a plan frees to the first job that would take it from its beneficiary; return who has it, and it.

        None: an heir would take the new places of those who move, too, so they would not move but go.
        """
        session, done = self.session, list(statement.operations)
        own, moving = session.snapshot.tasks_of(job), self._moving(plan)
        for heir in self._ahead(job, plan):
            # Who moves is made anew, and nothing keeps its new place for it.
            for lost in (own, np.concatenate((own, moving)))[: 1 + bool(len(moving))]:
                statement.rollback(0)
                statement.redo([one for one in done if one.kind not in _PLACES or not np.isin(one.tasks, lost).any()])
                simulation = Simulation(session, heir, statement)
                if lost is not own:
                    simulation.evict(moving[session.snapshot.tasks.status[moving] == TaskStatus.PIPELINED])
                mark = statement.mark()
                if simulation.place(self.waiting[heir]):
                    places = promise(statement.operations[mark:])
                    statement.rollback(mark)
                    statement.redo(places)
                    chosen_for, beneficiary = (session.snapshot.jobs.records[one].id for one in (job, heir))
                    _hand_over(statement.operations, chosen_for, beneficiary)
                    placed = joined([one.tasks for one in places])
                    return heir, replace(plan, placed=placed) if lost is own else None
            statement.rollback(0)
            statement.redo(done)
        return job, plan

    def _ahead(self, job: int, plan: Plan) -> list[int]:
        """Jobs of the queue that come before this one, and might start if it had nothing, in order."""
        snapshot, jobs = self.session.snapshot, self.session.snapshot.jobs
        if len(plan.victims) == 0:
            return []
        before = [
            other
            for (queue, priority), group in self._groups.items()
            if queue == jobs.queue[job] and priority > jobs.priority[job]
            for other in group
        ]
        requests, cls = snapshot.classes.requests, snapshot.tasks.cls
        lost = np.concatenate((plan.placed, self._moving(plan)))
        free = snapshot.nodes.future_total() + requests_of(snapshot, lost)

        def might_start(other: int) -> bool:
            lacks = self._lacks(other)
            return lacks > 0 and bool((lacks * requests[cls[self.waiting[other]], 0].min(axis=0) <= free).all())

        return sorted(filter(might_start, before), key=self.session.job_key)

    def _moving(self, plan: Plan) -> Rows:
        """Who moves in this session, for the plan or for an earlier one."""
        earlier = [one.plan.moved for one in _served_plans(self.session)]
        moving: Rows = np.unique(joined([plan.moved, *earlier]))
        return moving

    def _lacks(self, job: int) -> int:
        """How many tasks a job lacks to start; 0: none, or more than wait."""
        lacks = self.session.job_pipelined_deficit(job)
        return max(lacks, 0) if lacks <= len(self.waiting.get(job, ())) else 0

    def _is_in_vain(self, heir: int, plan: Plan, kind: Eviction) -> bool:
        """Whether an heir may not have what a plan frees, or not for long."""
        return never_preempts(self.session, plan.placed) or would_bounce(
            self.session, kind, heir, plan.evicted, plan.placed, breaks_gangs=True
        )

    # -- who takes it next -----------------------------------------------------------------------------------------

    def _next_taker(self, job: int, plan: Plan, statement: Statement) -> int | None:
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
        if not elsewhere:
            return None
        # Those with places elsewhere may lose them to whose turn comes first.
        mark = statement.mark()
        beside = self._give_out(job, statement)
        taken = self.session.snapshot.tasks.node[beside]
        left_out = (
            other
            for kind, other, nodes in elsewhere
            if np.isin(nodes, taken).any()
            and (left := self._needs(kind, other, plan.placed, beside, statement)) is not None
            and len(left) == 0
        )
        first = next(left_out, None)
        statement.rollback(mark)
        return first

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
            for head in nsmallest(_LOOKED_AT, filter(self._lacks, group), key=session.job_key):
                heads.append(head)
                wanted.append(requests_of(session.snapshot, self.waiting[head][: self._lacks(head)]))
        amounts = np.array(wanted, np.int64).reshape(len(heads), len(session.snapshot.axis.index))
        return np.array(heads, np.intp), amounts

    def _alike(self, queue: int, priority: int) -> list[int]:
        """Jobs of a queue and priority that lack their minimum, one of each shape, the first in order."""
        group = queue, priority
        if group not in self._shapes:
            shapes: dict[tuple[int, bytes], int] = {}
            for job in filter(self._lacks, self._groups[group]):
                lacks = self._lacks(job)
                classes = self.session.snapshot.tasks.cls[self.waiting[job][:lacks]].tobytes()
                shapes.setdefault((lacks, classes), job)
            firsts = sorted(shapes.values(), key=self.session.job_key)
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
        got, might_go = np.concatenate((placed, beside)), Pool(session, kind, SOON_ON_NODE).find(other).tasks
        others = might_go[~np.isin(might_go, got)]
        room = snapshot.nodes.future_total() + requests_of(snapshot, np.concatenate((others, got)))
        if bool((requests_of(snapshot, wanted) > room).any()):
            return None
        own, simulation = snapshot.tasks.job[placed[0]], Simulation(session, other, statement)
        # Plugins that count, as what a queue has too much, spend it on the first.
        for first, last in ((others, got), (got, others)):
            taken = session.evictable(kind, evictor, np.concatenate((first, last)))
            owners = snapshot.tasks.job[taken]
            # Inside a queue nobody of a higher priority is broken in its stead.
            instead = (owners != own) & (
                (kind is not Eviction.PREEMPT)
                | spare_tasks(snapshot, taken)
                | (snapshot.jobs.priority[owners] <= snapshot.jobs.priority[own])
            )
            without = taken[instead]
            places = simulation.placements(wanted, without[self.budgets.allowed(without)])
            if places is not None:
                return joined([one.nodes for one in places])
            if simulation.placements(wanted, taken) is not None:
                return _NOBODY
        return None
