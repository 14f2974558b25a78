"""Preempt and reclaim, by whichever strategy; gangpreempt and gangreclaim, the gang strategy under Volcano's names."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

from muster.actions.eviction_arguments import (
    ConsolidationArguments,
    EvictionArguments,
    GangArguments,
    LimitArguments,
)
from muster.engine.evictions.departures import evict_departures
from muster.engine.evictions.gang.choice import GangOptions
from muster.engine.evictions.gang.strategy import GangStrategy, GrowthStrategy
from muster.engine.evictions.pipeline import Limits, run
from muster.engine.evictions.solver.search import SolverOptions
from muster.engine.evictions.solver.strategy import SolverStrategy
from muster.engine.evictions.task.picking import PickOptions
from muster.engine.evictions.task.strategy import TaskOptions, TaskStrategy, WithinJobs
from muster.framework import Action, Arguments, Eviction, Session


class PreemptArguments(EvictionArguments, frozen=True, kw_only=True):
    """Arguments of the preempt action."""

    gang_aware_dotted: Annotated[bool, Meta(description="The same as gangAwareEnable.")] = field(
        default=False, name="preempt.gangAwareEnable"
    )
    topology_aware: Annotated[
        bool, Meta(description="Try many nodes for each task and take the one whose victims matter least.")
    ] = field(default=False, name="enableTopologyAwarePreemption")
    workers: Annotated[int, Meta(description="Accepted for Volcano's files; nodes are tried together as arrays.")] = (
        field(default=16, name="topologyAwarePreemptWorkerNum")
    )
    percentage: Annotated[
        int, Meta(ge=0, le=100, description="Topology-aware: the part of the nodes to find, in percent.")
    ] = field(default=10, name="minCandidateNodesPercentage")
    at_least: Annotated[int, Meta(ge=1, description="Topology-aware: the fewest nodes to find.")] = field(
        default=1, name="minCandidateNodesAbsolute"
    )
    at_most: Annotated[int, Meta(ge=1, description="Topology-aware: the most nodes to find.")] = field(
        default=100, name="maxCandidateNodesAbsolute"
    )


class ReclaimArguments(EvictionArguments, frozen=True, kw_only=True):
    """Arguments of the reclaim action."""

    gang_aware_dotted: Annotated[bool, Meta(description="The same as gangAwareEnable.")] = field(
        default=False, name="reclaim.gangAwareEnable"
    )


class Preempt(Action):
    """Go through queues and their jobs in need: first at the expense of other jobs, then inside each job."""

    name: ClassVar[str] = "preempt"
    summary: ClassVar[str] = "Let jobs in need take the place of less important ones in their queue."
    Args: ClassVar[type[Arguments]] = PreemptArguments
    read_arguments = PreemptArguments.read_arguments

    def run(self, session: Session) -> None:
        arguments = self.arguments
        assert isinstance(arguments, PreemptArguments)
        picks = PickOptions(arguments.percentage, arguments.at_least, arguments.at_most)
        _evict(session, Eviction.PREEMPT, arguments, self.name, picks if arguments.topology_aware else None)
        evict_departures(session, self.name, ignores_budgets=arguments.ignore_pdb)


class Reclaim(Action):
    """Go through queues in order; each one that has not had its share serves its jobs in need from other queues."""

    name: ClassVar[str] = "reclaim"
    summary: ClassVar[str] = "Let queues below their share take it back from queues that have more than theirs."
    Args: ClassVar[type[Arguments]] = ReclaimArguments
    read_arguments = ReclaimArguments.read_arguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, ReclaimArguments)
        _evict(session, Eviction.RECLAIM, self.arguments, self.name)


class GangPreempt(Action):
    """Starving gangs take the place of gangs of lower priority in their queue."""

    name: ClassVar[str] = "gangpreempt"
    summary: ClassVar[str] = "Evict gangs of lower priority, whole or what they can spare, for gangs of the same queue."
    Args: ClassVar[type[Arguments]] = GangArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, GangArguments)
        _evict_gangs(session, Eviction.PREEMPT, self.arguments, self.name, grow=self.arguments.grow)
        evict_departures(session, self.name, ignores_budgets=self.arguments.ignore_pdb)


class GangReclaim(Action):
    """Starving gangs of queues below their share take it back from other queues."""

    name: ClassVar[str] = "gangreclaim"
    summary: ClassVar[str] = "Evict gangs of queues above what they deserve, whole or what they can spare."
    Args: ClassVar[type[Arguments]] = GangArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, GangArguments)
        _evict_gangs(session, Eviction.RECLAIM, self.arguments, self.name, grow=self.arguments.grow)


class Consolidation(Action):
    """Waiting preemptible gangs, in order, get room by moving preemptible gangs of any queue to other nodes."""

    name: ClassVar[str] = "consolidation"
    summary: ClassVar[str] = "Move gangs to other nodes where that makes room for a waiting one; nobody loses a place."
    Args: ClassVar[type[Arguments]] = ConsolidationArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, ConsolidationArguments)
        if self.arguments.max_victims != 0:
            _solve(session, Eviction.CONSOLIDATE, self.arguments, self.name)


def _evict(
    session: Session, kind: Eviction, arguments: EvictionArguments, action: str, picks: PickOptions | None = None
) -> None:
    """Let jobs make room for themselves, the chosen way."""
    if arguments.chosen == "solver":
        _solve(session, kind, arguments, action)
    elif arguments.chosen == "gang":
        _evict_gangs(session, kind, arguments, action, grow=arguments.grow)
    else:
        limits, by_task = Limits(arguments.max_disruption_ratio), TaskOptions(arguments.ignore_pdb, picks)
        between = TaskStrategy(session, kind, by_task)
        run(session, kind, between, limits, action)
        if kind is Eviction.PREEMPT:
            run(session, kind, WithinJobs(session, kind, by_task, between.asked), limits, action)


def _evict_gangs(session: Session, kind: Eviction, arguments: LimitArguments, action: str, *, grow: bool) -> None:
    """Let gangs make room for themselves, and then for what they would like beside their minimum."""
    limits, options = Limits(arguments.max_disruption_ratio), arguments.options(GangOptions)
    # Whoever lacks its minimum comes before those who would like more.
    run(session, kind, GangStrategy(session, kind, options, action), limits, action)
    if grow:
        run(session, kind, GrowthStrategy(session, kind, options, action), limits, action)


def _solve(session: Session, kind: Eviction, arguments: LimitArguments, action: str) -> None:
    strategy = SolverStrategy(session, kind, arguments.options(SolverOptions), action)
    run(session, kind, strategy, Limits(arguments.max_disruption_ratio), action)
