"""The solver strategy: let waiting gangs make room for themselves, one after the other, down the queue tree.

For each job a search finds victims that work; they are evicted or moved, and the job is promised its places. Jobs need
no search where one that is easier to serve has failed already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from muster.api import format_amount
from muster.engine.boards import boards_of
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.pipeline import Strategy
from muster.engine.evictions.simulation import TAKES, Plan, Simulation, VictimRecord
from muster.engine.evictions.solver.places import FreePlaces
from muster.engine.evictions.solver.pool import VictimLine, VictimPool
from muster.engine.evictions.solver.search import Search, TrialsUsedUp
from muster.engine.evictions.solver.trial import Trials, Waiting
from muster.engine.evictions.surplus import job_surplus
from muster.engine.gangs import next_tasks, requests_of
from muster.engine.hope import Waiters, beyond_total
from muster.engine.lines import Line
from muster.framework import Eviction, JobVerdict, Rejection, Session, points
from muster.framework.reasons import NO_ROOM_BY_EVICTION, NO_ROOM_BY_MOVING, SEARCH_ENDED
from muster.snapshot import NEEDS_LIVE_CHECK, Amounts, Rows, Snapshot, TaskStatus

_PENDING = int(TaskStatus.PENDING)


class SolverStrategy(Strategy[VictimLine]):
    """Victims gang by gang, by trying scenarios down the queue tree."""

    asks_validators = True
    decides_dues = (points.CAN_RECLAIM,)
    options: SolverOptions
    _pool: VictimPool

    def __init__(self, session: Session, kind: Eviction, options: SolverOptions, action: str) -> None:
        super().__init__(session, kind, options, action)
        self._places = FreePlaces(session.snapshot, boards_of(session))
        self._failed = FailedJobs(session, kind)
        self._trials_left = options.max_trials_per_cycle

    def jobs(self, waiting: dict[int, Rows]) -> dict[int, Rows]:
        session, asking = self.session, super().jobs(waiting)
        if not asking:
            return {}
        #: Pending tasks, in order, of all jobs that could be placed.
        self._pending = able = waiting
        self._pool = VictimPool(session, self.kind, self.options)
        # Who may never have what it waits for keeps nobody waiting.
        if self.options.pass_over_blocked:
            able = {job: tasks for job, tasks in waiting.items() if self._could_run(job, tasks)}
        self._waiting = Waiting(session, able)
        return asking

    def asks(self, job: int) -> bool:
        """Only those move others that may be moved themselves."""
        return self.kind is not Eviction.CONSOLIDATE or bool(self.session.snapshot.jobs.preemptible[job])

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        depth, known = self.options.max_jobs_per_queue, self._waiting.keys()
        line = Line(self.session, jobs, is_tree=True, depth=depth, known=known)
        while (job := line.pop()) is not None:
            yield job

    def _could_run(self, job: int, tasks: Rows) -> bool:
        """Whether what the job waits for next is within what its queues are guaranteed, where that is the limit."""
        chunk = next_tasks(self.session, job, tasks)
        return len(chunk) > 0 and self.session.over_quota(job, chunk) is None

    def need(self, job: int, pending: Rows) -> Rows:
        session = self.session
        tasks = next_tasks(session, job, self._pending[job])
        if not self.has_settled(job) and self._grows(job):
            return tasks[:0]
        refusal = None
        if len(tasks) and self.kind is Eviction.CONSOLIDATE:
            refusal = self._why_moving_is_vain(tasks)
        if len(tasks) and refusal is None and self.options.use_signatures and self._failed:
            refusal = self._why_ruled_out(job, tasks)
        if refusal is not None:
            session.note_no_eviction(job, self.action, refusal, tried=False)
            return tasks[:0]
        return tasks

    def hopeful(self, tasks: Rows) -> Collection[int] | None:
        """Those for whose next tasks there is enough in all, where others only move; see `_why_moving_is_vain`."""
        if self.kind is not Eviction.CONSOLIDATE or self.options.max_jobs_per_queue is not None:
            return None
        snapshot = self.session.snapshot
        waiters = Waiters.of(snapshot, tasks)
        beyond = beyond_total(snapshot, waiters, snapshot.nodes.future_total())
        return set(waiters.jobs[~beyond].tolist())

    def _why_moving_is_vain(self, tasks: Rows) -> Rejection | None:
        """Nobody leaves the cluster by moving: what is free in all is all that there will be."""
        snapshot = self.session.snapshot
        wanted, free = requests_of(snapshot, tasks), snapshot.nodes.future_total()
        lacking = np.flatnonzero(wanted > free)
        if len(lacking) == 0:
            return None
        name = snapshot.axis.names[int(lacking[0])]
        asked, left = (format_amount(name, int(amounts[lacking[0]])) for amounts in (wanted, free))
        return Rejection(NO_ROOM_BY_MOVING, f"{asked} {name} asked for, {left} free in all")

    def _why_ruled_out(self, job: int, tasks: Rows) -> Rejection | None:
        """An easier job has failed for a reason that holds for this one, too."""
        other = self._failed.easier(job, tasks, spare_only=self._takes_spare_only(job))
        if other is None:
            return None
        known = self.session.no_evictions.get(other, {}).get(self.action, Rejection(NO_ROOM_BY_EVICTION))
        name = self.session.snapshot.jobs.records[other].id
        return Rejection(known.reason, f"as for {name}" + (f": {known.detail}" if known.detail else ""))

    def candidates(self, job: int) -> VictimLine:
        return self._pool.line(job, spare_only=self._takes_spare_only(job))

    def _takes_spare_only(self, job: int) -> bool:
        """Whether the job has its minimum, and nobody is to be broken for what it wants beside that."""
        return bool(self.session.snapshot.jobs.allocated_count(job)) and self._grows(job)

    def _grows(self, job: int) -> bool:
        """Whether the job has its minimum, or is promised it, and what it wants beside that costs no gangs."""
        if self.options.growth_breaks_gangs:
            return False
        return bool(job_surplus(self.session.snapshot, np.array([job], np.intp), promised=True)[job] >= 0)

    def solve(self, tasks: Rows, candidates: VictimLine, simulation: Simulation) -> Plan | None:
        session, options = self.session, self.options
        if not candidates and not self._places.suffices(tasks):
            return None
        most = min(options.max_trials_per_job, self._trials_left)
        ahead = options.looks_ahead
        trials = Trials(session, simulation, self.kind, self._waiting, self._places, looks_ahead=ahead)
        search = Search(session, self.kind, options, self._budgets, most, candidates, trials, self._places, simulation)
        outcome = None
        try:
            outcome = search.solve(tasks)
        except TrialsUsedUp:
            session.tally.cut_short += 1
            session.record(simulation.job, JobVerdict(SEARCH_ENDED, f"{self.action}: after {search.made} dry runs"))
        self._trials_left -= search.made
        if outcome is None:
            return None
        records = ScenarioRecords(
            session.snapshot, simulation.job, len(outcome.victims), len(outcome.moved), search.made, len(search.units)
        )
        for operation in simulation.statement.operations:
            operation.record = records if operation.kind in TAKES else None
        return outcome if simulation.accepts(outcome) else None

    def settled(self, job: int, tasks: Rows, plan: Plan | None) -> None:
        table = self.session.snapshot.tasks
        super().settled(job, tasks, plan)
        if plan is None:
            # Where the disruption is limited, a larger job may succeed although a smaller one failed.
            if self.options.max_disruption_ratio is None:
                self._failed.note(job, tasks, spare_only=self._takes_spare_only(job))
            return
        self._failed.forget()
        touched = sorted({*table.job[plan.evicted].tolist(), *table.job[plan.moved].tolist()})
        # Pods of a victim that waited may have places now, too; see `Trials`.
        for one in (job, *(victim for victim in touched if victim in self._pending)):
            pending = self._pending[one]
            left = pending[table.status[pending] == _PENDING]
            if len(left) < len(pending):
                self._pending[one] = left
                self._waiting.served(one, left)
        # Those who were promised places may be dealt others for the sake of the next ones.
        self._pool.refresh([*touched, job])


@dataclass(frozen=True, slots=True)
class ScenarioRecords:
    """Why victims have to go or move: for whom, and after how long a search."""

    snapshot: Snapshot
    beneficiary: int
    #: Pods that go, and how many of them move; dry runs and units of victims that the search looked at.
    victims: int
    moved: int
    trials: int
    offered: int

    def of_task(self, task: int) -> VictimRecord:
        snapshot = self.snapshot
        job = snapshot.jobs.records[self.beneficiary].id
        moves = snapshot.tasks.status[task] == TaskStatus.PIPELINED
        target = snapshot.nodes.names[int(snapshot.tasks.node[task])] if moves else ""
        where = f" and moves to {target}" if moves else ""
        pods = "1 pod goes" if self.victims == 1 else f"{self.victims} pods go"
        moved = f", {self.moved} of them to other nodes" if self.moved else ""
        moved = ", to another node" if self.moved == self.victims == 1 else moved
        runs = "1 dry run" if self.trials == 1 else f"{self.trials} dry runs"
        text = f"makes room for {job}{where}: {pods}{moved} (found by {runs})"
        facts = {
            "beneficiary": job,
            "movesTo": target or None,
            "victims": self.victims,
            "moved": self.moved,
            "trials": self.trials,
            "offered": self.offered,
        }
        return VictimRecord("moved" if moves else "scenario", text, facts)


_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a job waits for: classes and counts; for tasks that are all alike, what one of them asks for."""

    job: int
    counts: Mapping[int, int]
    request: Amounts | None

    def is_easier_than(self, other: _Wish) -> bool:
        if all(count <= other.counts.get(cls, 0) for cls, count in self.counts.items()):
            return True
        if self.request is None or other.request is None:
            return False
        mine, theirs = sum(self.counts.values()), sum(other.counts.values())
        return mine <= theirs and bool((self.request <= other.request).all())


class FailedJobs:
    """Jobs that found no victims since the last commit.

    Two jobs have the same signature when their tasks wait under the same conditions: the nodes that they may use,
    priority, whether they may be victims themselves, and whether they may break gangs, network constraints, and for
    evictions the queue. Of two such jobs the one that wants no more is the easier: fewer tasks of each class, or, where
    all are alike, not more tasks that ask for less. Jobs whose places depend on other pods (ports, affinity) have no
    signature.
    """

    def __init__(self, session: Session, kind: Eviction) -> None:
        self._session = session
        self._kind = kind
        self._failed: dict[Hashable, list[_Wish]] = {}
        self._nodes: dict[int, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._failed)

    def forget(self) -> None:
        self._failed.clear()

    def note(self, job: int, tasks: Rows, *, spare_only: bool = False) -> None:
        """A job found nothing for these tasks."""
        signature = self._signature(job, tasks, spare_only=spare_only)
        if signature is not None:
            self._failed.setdefault(signature, []).append(self._wish(job, tasks))

    def easier(self, job: int, tasks: Rows, *, spare_only: bool = False) -> int | None:
        """A job that has failed and is no harder to serve than this one; None: there is none."""
        known = self._failed.get(self._signature(job, tasks, spare_only=spare_only), [])
        wish = self._wish(job, tasks) if known else None
        return next((failed.job for failed in known if wish and failed.is_easier_than(wish)), None)

    def _wish(self, job: int, tasks: Rows) -> _Wish:
        snapshot = self._session.snapshot
        counts = Counter(snapshot.tasks.cls[tasks].tolist())
        request = snapshot.classes.requests[next(iter(counts)), 0] if len(counts) == 1 else None
        return _Wish(job, counts, request)

    def _signature(self, job: int, tasks: Rows, *, spare_only: bool = False) -> Hashable | None:
        snapshot = self._session.snapshot
        if (snapshot.tasks.flags[tasks] & NEEDS_LIVE_CHECK).any():
            return None
        jobs, record = snapshot.jobs, snapshot.jobs.records[job]
        network: Hashable = None
        if record.topology is not None or record.sub_groups or record.groups is not None:
            network = (_encode((record.topology, record.sub_groups)), record.groups)
        queue = None if self._kind is Eviction.CONSOLIDATE else int(jobs.queue[job])
        nodes = tuple(sorted({self._nodes_of(cls) for cls in set(snapshot.tasks.cls[tasks].tolist())}))
        return queue, int(jobs.priority[job]), bool(jobs.preemptible[job]), network, nodes, spare_only

    def _nodes_of(self, cls: int) -> bytes:
        """The nodes that a class may use."""
        nodes = self._nodes.get(cls)
        if nodes is None:
            nodes = self._nodes[cls] = np.packbits(np.isfinite(boards_of(self._session).fixed(cls))).tobytes()
        return nodes
