"""The solver strategy on random small clusters: what must hold whatever the cluster looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from muster.api import KaiPodGroup, KubeObject, Pod, group_of, role_of
from muster.cluster import MemoryCluster
from muster.engine.evictions.simulation import Plan
from muster.engine.evictions.solver import strategy as path
from muster.engine.evictions.solver.pool import Unit
from muster.engine.evictions.solver.search import Search
from muster.engine.gangs import PodSet, pod_sets
from muster.framework import Eviction, SchedulerConfig, Session
from muster.plugins.jobs.elastic import active_count
from muster.plugins.queues.fairshare import FairShare
from muster.plugins.queues.fairshare.rules import victim_units
from muster.scheduler import Scheduler
from muster.snapshot import NO_ROW, Operation, OperationKind, Rows, Statement, TaskStatus
from muster.snapshot.messages import Evict, Nominate
from tests.engine.evictions.solver.solver_stage import NOW, REGISTRY, kai, open_session, run
from tests.engine.evictions.solver.worlds import RUNTIME, worlds
from tests.snapshot.test_statement import assert_same, frozen
from tests.snapshot.test_statement_moves import recount

KINDS = {"consolidation": Eviction.CONSOLIDATE, "reclaim": Eviction.RECLAIM, "preempt": Eviction.PREEMPT}
ACTIONS = ("allocate", "consolidation", "reclaim", "preempt")
EACH = pytest.mark.parametrize("action", sorted(KINDS))
MAX_CYCLES = 150


def config(*actions: str, trim: bool = False, runtime: float = 0) -> SchedulerConfig:
    times = {"defaultReclaimMinRuntime": runtime, "defaultPreemptMinRuntime": runtime}
    arguments = {name: {"trim": trim} for name in KINDS}
    return kai(*actions, plugins={"minruntime": times}, **arguments)


def watched(session: Session, check: Callable[[Statement, str], None]) -> Session:
    """Run the actions; every statement is looked at before it is committed."""
    commit, make = Statement.commit, session.statement
    actions: dict[int, str] = {}

    def making(action: str = "", *, promises: bool = False) -> Statement:
        statement = make(action, promises=promises)
        actions[id(statement)] = action
        return statement

    def checking(statement: Statement) -> list[Operation]:
        check(statement, actions[id(statement)])
        return commit(statement)

    with patch.object(session, "statement", making), patch.object(Statement, "commit", checking):
        return run(session)


def of_kind(statement: Statement, *kinds: OperationKind) -> Rows:
    parts = [operation.tasks for operation in statement.operations if operation.kind in kinds]
    return np.concatenate(parts) if parts else np.empty(0, np.intp)


def leaving(statement: Statement) -> Rows:
    """Tasks that have no place any more: evicted, and neither moved nor given back."""
    taken = of_kind(statement, OperationKind.EVICT, OperationKind.RECALL)
    lost: Rows = taken[statement.snapshot.tasks.status[taken] == TaskStatus.RELEASING]
    return lost


def deficits(session: Session, job: int) -> Iterator[tuple[PodSet, int]]:
    jobs, roles = session.snapshot.jobs, session.snapshot.roles
    for pods in pod_sets(session.snapshot, job):
        counts = jobs.counts[job] if pods.role == NO_ROW else roles.counts[pods.role]
        yield pods, pods.minimum - active_count(counts)


def is_whole_or_nothing(session: Session, job: int) -> bool:
    held = session.snapshot.jobs.counts[job, 1:6].sum()
    return held == 0 or all(missing <= 0 for _, missing in deficits(session, job))


# -- one session -------------------------------------------------------------------------------------------


@given(objects=worlds(), trim=st.booleans())
def test_books_nodes_and_gangs_are_in_order_after_every_commit(objects: list[KubeObject], trim: bool) -> None:
    session = open_session(objects, config(*ACTIONS, trim=trim))

    def check(_statement: Statement, action: str) -> None:
        nodes = session.snapshot.nodes
        assert (nodes.future_idle() >= 0).all()
        assert (nodes.state >= 0).all()
        for job in range(len(session.snapshot.jobs)):
            assert is_whole_or_nothing(session, job), f"{action}: {session.snapshot.jobs.records[job].id}"

    watched(session, check)
    assert (session.snapshot.nodes.idle() >= 0).all()
    if not any(one.action == "allocate" for one in session.committed):
        recount(session.snapshot)


@EACH
@given(objects=worlds(), trim=st.booleans())
def test_nobody_has_to_go_without_a_placed_beneficiary(action: str, objects: list[KubeObject], trim: bool) -> None:
    session = open_session(objects, config("allocate", action, trim=trim))

    def check(statement: Statement, name: str) -> None:
        if name != action:
            return
        event("commits")
        tasks = session.snapshot.tasks
        placed = of_kind(statement, OperationKind.PIPELINE)
        (beneficiary,) = np.unique(tasks.job[placed]).tolist()
        for operation in statement.operations:
            if operation.kind in (OperationKind.EVICT, OperationKind.RECALL):
                assert operation.beneficiary == beneficiary
        assert all(missing <= 0 for _, missing in deficits(session, beneficiary))
        taken = of_kind(statement, OperationKind.EVICT, OperationKind.RECALL)
        assert beneficiary not in tasks.job[taken]
        assert session.snapshot.jobs.preemptible[tasks.job[taken]].all()
        if action == "consolidation":
            assert len(leaving(statement)) == 0

    watched(session, check)


@EACH
@given(objects=worlds())
def test_what_is_given_up_leaves_no_trace(action: str, objects: list[KubeObject]) -> None:
    session = open_session(objects, config(action))
    before = frozen(session.snapshot)
    with patch.object(Session, "is_valid_scenario", lambda _self, _scenario: False):
        run(session)
    assert session.committed == []
    assert_same(session.snapshot, before)


@given(objects=worlds())
def test_preempt_takes_from_lower_priorities_of_one_queue(objects: list[KubeObject]) -> None:
    session = open_session(objects, config("preempt"))
    jobs, tasks = session.snapshot.jobs, session.snapshot.tasks

    def check(statement: Statement, _action: str) -> None:
        (winner,) = np.unique(tasks.job[of_kind(statement, OperationKind.PIPELINE)]).tolist()
        owners = tasks.job[of_kind(statement, OperationKind.EVICT)]
        assert (jobs.queue[owners] == jobs.queue[winner]).all()
        assert (jobs.priority[owners] < jobs.priority[winner]).all()

    watched(session, check)


@given(objects=worlds(), trim=st.booleans())
def test_reclaim_takes_from_a_queue_only_while_it_has_more_than_its_quota(
    objects: list[KubeObject],
    trim: bool,
) -> None:
    session = open_session(objects, config("reclaim", trim=trim))
    fair = session.plugins["fairshare"]
    assert isinstance(fair, FairShare)
    entitled = np.minimum(fair.shares.quota, fair.shares.limits)
    jobs, tasks = session.snapshot.jobs, session.snapshot.tasks

    def check(statement: Statement, _action: str) -> None:
        (winner,) = np.unique(tasks.job[of_kind(statement, OperationKind.PIPELINE)]).tolist()
        taker = int(jobs.queue[winner])
        after = session.snapshot.queues.tree_allocated
        assert (after[taker] <= fair.shares.fair[taker])[list(fair.shares.columns)].all()
        # The last unit may take a queue below its quota, but not one more.
        last: dict[int, list[Any]] = {}
        for job, units in victim_units(session.snapshot, leaving(statement)):
            giver = diverging(session, int(jobs.queue[job]), taker)
            last.setdefault(giver, []).extend(
                session.snapshot.classes.requests[tasks.cls[unit], 0].sum(axis=0) for unit in units
            )
        for giver, amounts in last.items():
            event("gives")
            over = [(after[giver] + amount > entitled[giver])[list(fair.shares.columns)] for amount in amounts]
            assert np.any(over), session.snapshot.queues.records[giver].name

    watched(session, check)


def diverging(session: Session, giver: int, taker: int) -> int:
    """The queue above the giver, or itself, that is nearest to the top and not above the taker."""
    paths = session.snapshot.queues.paths
    above = set(paths[taker].tolist())
    return int([row for row in paths[giver].tolist() if row not in above][-1])


@EACH
@given(objects=worlds(), trim=st.booleans())
def test_protected_gangs_keep_their_minimum(action: str, objects: list[KubeObject], trim: bool) -> None:
    session = open_session(objects, config(action, trim=trim, runtime=RUNTIME))
    jobs = session.snapshot.jobs
    before = jobs.counts[:, TaskStatus.RUNNING].copy()
    run(session)
    for job, record in enumerate(jobs.records):
        if before[job] and record.started is not None and record.started + RUNTIME > NOW:
            event("protected")
            assert all(missing <= 0 for _, missing in deficits(session, job))
            if action == "consolidation":
                stays = jobs.counts[job, TaskStatus.RUNNING]
                assert stays >= jobs.min_member[job], "nobody moves its core"


@EACH
@given(objects=worlds(), trim=st.booleans())
def test_budgets_are_kept(action: str, objects: list[KubeObject], trim: bool) -> None:
    session = open_session(objects, config(action, trim=trim))
    run(session)
    tasks = session.snapshot.tasks
    gone = [
        task
        for one in session.committed
        for operation in one.operations
        if operation.kind is OperationKind.EVICT
        for task in operation.tasks.tolist()
    ]
    web = sum(tasks.pods[task].metadata.labels["app"] == "web" for task in gone)
    for item in session.snapshot.objects.get("PodDisruptionBudget", {}).values():
        assert web <= item.status.disruptions_allowed  # type: ignore[attr-defined]  # a budget


class Minimal(Search):
    """A search whose solutions are looked at: could any unit stay?"""

    def solve(self, pending: Rows) -> Plan | None:
        solution = super().solve(pending)
        if solution is not None and len(solution.victims):
            event("solution with victims")
            self._check(pending, solution)
        return solution

    def _check(self, pending: Rows, solution: Plan) -> None:
        statement, trials = self._statement, self.trials
        taken = set(solution.victims.tolist())
        units = [unit for unit in self.units if not taken.isdisjoint(unit.tasks.tolist())]
        done = statement.operations[self._base :]
        statement.rollback(self._base)
        for unit in units:
            others = [other for other in units if other is not unit]
            if _is_surplus(unit, units):
                continue
            victims = np.concatenate([np.empty(0, np.intp), *(other.tasks for other in others)])
            statement.evict(victims, self.simulation.job)
            outcome = trials.run(pending, victims)
            needless = outcome is not None and len(outcome.victims) < len(taken) and trials.judge(outcome, victims)
            statement.rollback(self._base)
            assert not needless, f"{unit.tasks} need not go"
        statement.redo(done)


def _is_surplus(unit: Unit, units: list[Unit]) -> bool:
    """Whether the core of the unit's job, or more of it, goes too."""
    return [other for other in units if other.job == unit.job][-1] is not unit


@EACH
@given(objects=worlds())
def test_no_victim_of_a_trimmed_solution_could_stay(action: str, objects: list[KubeObject]) -> None:
    session = open_session(objects, config(action, trim=True))
    with patch.object(path, "Search", Minimal):
        run(session)


def decisions(session: Session) -> list[tuple[str, str, str]]:
    tasks, nodes = session.snapshot.tasks, session.snapshot.nodes.names
    return [
        (operation.kind.name, tasks.ids[task], nodes[row])
        for committed in session.committed
        for operation in committed.operations
        for task, row in zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True)
    ]


@given(objects=worlds(), seed=st.integers(0, 1000), trim=st.booleans())
def test_the_same_cluster_leads_to_the_same_decisions_in_whatever_order_it_is_told(
    objects: list[KubeObject],
    seed: int,
    trim: bool,
) -> None:
    chosen = config(*ACTIONS, trim=trim)
    first = decisions(run(open_session(objects, chosen)))
    assert decisions(run(open_session(objects, chosen))) == first
    shuffled = list(objects)
    Random(seed).shuffle(shuffled)
    assert decisions(run(open_session(shuffled, chosen))) == first


# -- many cycles -------------------------------------------------------------------------------------------


def broken_gangs(cluster: MemoryCluster) -> list[str]:
    """Gangs of which some pods have a node, and a pod set has fewer than its minimum."""
    placed: dict[tuple[str | None, str], int] = {}
    for member in cluster.store.all(Pod):
        if member.spec.node_name:
            for role in {role_of(member) or "", ""}:
                placed[group_of(member), role] = placed.get((group_of(member), role), 0) + 1
    broken = []
    for group in cluster.store.all(KaiPodGroup):
        minimums = {part.name: part.min_member or 0 for part in group.spec.sub_groups} or {"": group.spec.min_member}
        if placed.get((group.name, "")) and any(placed.get((group.name, r), 0) < n for r, n in minimums.items()):
            broken.append(group.name)
    return broken


@given(objects=worlds(), trim=st.booleans())
def test_the_cluster_comes_to_rest_with_gangs_that_are_whole_or_wait(objects: list[KubeObject], trim: bool) -> None:
    chosen = config(*ACTIONS, "stalegangeviction", trim=trim)
    cluster = MemoryCluster(objects, start=NOW)
    scheduler = Scheduler(cluster, chosen, REGISTRY)
    for _ in range(MAX_CYCLES):
        result = scheduler.run_once()
        assert result.error is None
        assert result.failures == ()
        promised = {made.job for made in result.decisions if isinstance(made, Nominate) and made.node}
        for made in result.decisions:
            if isinstance(made, Evict):
                event("evicts")
                assert made.beneficiary in promised or made.why.startswith("stalegangeviction")
        due = [moment for moment in (cluster.next_event_at(), result.due) if moment is not None]
        if not cluster.store.has_events and not due:
            assert broken_gangs(cluster) == []
            return
        cluster.advance_to(cluster.now() + 1.0 if cluster.store.has_events else max(cluster.now() + 1.0, min(due)))
    raise AssertionError("the cluster does not come to rest: somebody evicts for ever")
