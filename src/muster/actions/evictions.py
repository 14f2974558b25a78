"""The actions that evict: each lets jobs make room for themselves, by the strategy that its arguments choose.

Gangpreempt and gangreclaim are the gang strategy under Volcano's names. Two evictions are for nobody's benefit: pods
that must leave where they are, and what is left of gangs that have been broken for too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from muster.actions.eviction_arguments import (
    ConsolidationArguments,
    EvictionArguments,
    GangArguments,
    LimitArguments,
)
from muster.api import UserError, parse_seconds
from muster.engine.evictions.departures import end_stale_gangs, evict_departures
from muster.engine.evictions.gang.choice import GangOptions
from muster.engine.evictions.gang.strategy import GangStrategy, GrowthStrategy
from muster.engine.evictions.pipeline import Strategy, run
from muster.engine.evictions.solver.search import SolverOptions
from muster.engine.evictions.solver.strategy import SolverStrategy
from muster.engine.evictions.task.rooms import TaskOptions
from muster.engine.evictions.task.strategy import TaskStrategy, WithinJobs
from muster.engine.waiting import nobody_waits
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


class _Evicting(Action):
    """Give jobs in need their turns: those who lack their minimum before those who would like more."""

    kind: ClassVar[Eviction]

    def run(self, session: Session) -> None:
        arguments = self.arguments
        assert isinstance(arguments, LimitArguments)
        for strategy in () if nobody_waits(session) else self._strategies(session, arguments):
            limit, ahead = arguments.max_disruption_ratio, arguments.looks_ahead
            run(session, self.kind, strategy, self.name, max_disruption_ratio=limit, looks_ahead=ahead)
        if self.kind is Eviction.PREEMPT:
            evict_departures(session, self.name, ignores_budgets=arguments.ignore_pdb)

    def _strategies(
        self, session: Session, arguments: LimitArguments
    ) -> Iterator[Strategy[Any]]:  # Any: its candidates
        """What chooses the victims, each after the one before it is through."""
        if arguments.chosen == "solver":
            yield SolverStrategy(session, self.kind, arguments.options(SolverOptions), self.name)
        elif arguments.chosen == "gang":
            options = arguments.options(GangOptions)
            yield GangStrategy(session, self.kind, options, self.name)
            if isinstance(arguments, GangArguments | EvictionArguments) and arguments.grow:
                yield GrowthStrategy(session, self.kind, options, self.name)
        else:
            by_task = arguments.options(TaskOptions)
            yield (between := TaskStrategy(session, self.kind, by_task))
            if self.kind is Eviction.PREEMPT:
                yield WithinJobs(session, self.kind, by_task, between.asked)


class Preempt(_Evicting):
    """Go through queues and their jobs in need: first at the expense of other jobs, then inside each job."""

    name: ClassVar[str] = "preempt"
    summary: ClassVar[str] = "Let jobs in need take the place of less important ones in their queue."
    kind = Eviction.PREEMPT
    Args: ClassVar[type[Arguments]] = PreemptArguments
    read_arguments = PreemptArguments.read_arguments


class Reclaim(_Evicting):
    """Go through queues in order; each one that has not had its share serves its jobs in need from other queues."""

    name: ClassVar[str] = "reclaim"
    summary: ClassVar[str] = "Let queues below their share take it back from queues that have more than theirs."
    kind = Eviction.RECLAIM
    Args: ClassVar[type[Arguments]] = ReclaimArguments
    read_arguments = ReclaimArguments.read_arguments


class GangPreempt(_Evicting):
    """Starving gangs take the place of gangs of lower priority in their queue."""

    name: ClassVar[str] = "gangpreempt"
    summary: ClassVar[str] = "Evict gangs of lower priority, whole or what they can spare, for gangs of the same queue."
    kind = Eviction.PREEMPT
    Args: ClassVar[type[Arguments]] = GangArguments


class GangReclaim(_Evicting):
    """Starving gangs of queues below their share take it back from other queues."""

    name: ClassVar[str] = "gangreclaim"
    summary: ClassVar[str] = "Evict gangs of queues above what they deserve, whole or what they can spare."
    kind = Eviction.RECLAIM
    Args: ClassVar[type[Arguments]] = GangArguments


class Consolidation(_Evicting):
    """Waiting preemptible gangs, in order, get room by moving preemptible gangs of any queue to other nodes."""

    name: ClassVar[str] = "consolidation"
    summary: ClassVar[str] = "Move gangs to other nodes where that makes room for a waiting one; nobody loses a place."
    kind = Eviction.CONSOLIDATE
    Args: ClassVar[type[Arguments]] = ConsolidationArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, ConsolidationArguments)
        if self.arguments.max_victims != 0:
            super().run(session)


class StaleGangArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the stalegangeviction action."""

    grace_period: Annotated[
        str | float,
        Meta(
            description="How long a gang may be broken where its PodGroup does not say: 5m, or seconds; 0: it goes at "
            "once, negative: never."
        ),
    ] = field(default=60.0, name="gracePeriod")
    ignore_pdb: Annotated[bool, Meta(description="Whether to evict without regard to PodDisruptionBudgets.")] = field(
        default=False, name="ignorePDB"
    )


class StaleGangEviction(Action):
    """Evict what is left of each gang whose grace period is over, so that it does not hold what it cannot use."""

    name: ClassVar[str] = "stalegangeviction"
    summary: ClassVar[str] = "Evict what is left of gangs that have been below their minimum for too long."
    Args: ClassVar[type[Arguments]] = StaleGangArguments

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, StaleGangArguments)
        try:
            self._grace = parse_seconds(arguments.grace_period)
        except ValueError as error:
            raise UserError(f"action stalegangeviction: arguments: gracePeriod: {error}") from error
        self._ignores_budgets = arguments.ignore_pdb

    def run(self, session: Session) -> None:
        end_stale_gangs(session, self.name, self._grace, ignores_budgets=self._ignores_budgets)
