"""Placing a chunk of a gang, all or nothing: what allocate does in earnest and the solver in its dry runs.

A chunk is what `muster.engine.chunks` says comes next. The queues above the job are asked once for the whole chunk,
then every task gets the best node that is left, in order, inside the network domains that the job's constraint names.
Invariant: either all tasks of the chunk have a place in the statement, or it is as it was.
"""

from __future__ import annotations

from muster.engine.boards import boards_of
from muster.engine.constraints import job_constraint, job_domain, why_not_placeable
from muster.engine.domains import ROOT, holding, ranked, search_gradients
from muster.engine.evictions.pipeline import promise
from muster.engine.nested import NestedPlacer
from muster.engine.placement import EVERYWHERE, PROMISES, Placer, Scope
from muster.engine.two_level import TwoLevelPlacer, make_work, needs_domains
from muster.framework import JobVerdict, Session
from muster.framework.reasons import INSUFFICIENT, TOPOLOGY
from muster.snapshot import NO_ROW, Rows, Statement, TaskStatus


class ChunkPlacer:
    """Places chunks of one session."""

    def __init__(self, session: Session, *, rank_order: bool = True) -> None:
        self._session = session
        self._boards = boards_of(session)
        self.placer = Placer(session, self._boards, rank_order=rank_order)
        self._nested = NestedPlacer(session, self._boards, self.placer)
        self.domains = TwoLevelPlacer(session, self._boards, self.placer)
        #: Why the last chunk found no place.
        self.verdict: JobVerdict | None = None

    def place(
        self, job: int, tasks: Rows, statement: Statement, modes: tuple[int, ...], scope: Scope = EVERYWHERE
    ) -> bool:
        """Place exactly these tasks, or none; `scope` says where, as far as no constraint of the job does."""
        self.verdict = None
        rejection = self._session.over_capacity(job, tasks)
        if rejection is not None:
            self.verdict = JobVerdict(rejection.reason, rejection.detail)
            return False
        if self._session.snapshot.jobs.records[job].groups is not None:
            if not self._nested.place(job, tasks, statement, modes):
                self.verdict = self._nested.verdict or JobVerdict(TOPOLOGY)
                return False
            return True
        if needs_domains(self._session, job):
            return self._place_in_domains(job, tasks, statement, modes)
        mark = statement.mark()
        placed = self.placer.place_all(tasks, statement, scope, modes)
        if placed == len(tasks):
            return True
        statement.rollback(mark)
        task = int(tasks[placed])
        cls = int(self._session.snapshot.tasks.cls[task])
        self.verdict = JobVerdict(INSUFFICIENT, cls=cls, task=task, placed=placed)
        return False

    def _place_in_domains(self, job: int, tasks: Rows, statement: Statement, modes: tuple[int, ...]) -> bool:
        """Place a gang with HyperNode constraints; a part of its minimum has no place of its own."""
        status = self._session.snapshot.tasks.status
        if status[tasks[0]] == TaskStatus.RELEASING:
            return self._bring_back(job, tasks, statement, modes)
        work = make_work(self._session, job, tasks)
        mark = statement.mark()
        if self.domains.place(work, statement) and (status[tasks] != TaskStatus.PENDING).all():
            if modes == PROMISES:
                placed = statement.operations[mark:]
                statement.rollback(mark)
                statement.redo(promise(placed))
            return True
        statement.rollback(mark)
        self.verdict = work.verdict or JobVerdict(TOPOLOGY)
        return False

    def _bring_back(self, job: int, tasks: Rows, statement: Statement, modes: tuple[int, ...]) -> bool:
        """Let evicted tasks have places together, in the first domain that has them, near where they were.

        A gang whose sub-groups have constraints of their own is not moved.
        """
        session, snapshot = self._session, self._session.snapshot
        if snapshot.jobs.records[job].sub_groups or why_not_placeable(session, job) is not None:
            return False
        placed = job_domain(snapshot, job)
        near = snapshot.topology.domain_of_nodes(snapshot.tasks.node[tasks]) if placed == NO_ROW else placed
        mark = statement.mark()
        for step in search_gradients(session, job, NO_ROW, ROOT, job_constraint(session, job), placed):
            domains = holding(session, self._boards, tasks, len(tasks), step)
            for domain, _ in ranked(session, job, NO_ROW, domains, near):
                if self.placer.place_all(tasks, statement, Scope(domain), modes) == len(tasks):
                    return True
                statement.rollback(mark)
        return False
