"""Preempt: let jobs in need take the place of less important ones in their queue."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from muster.actions.eviction_arguments import EvictionArguments
from muster.engine.evictions.departures import evict_departures
from muster.engine.evictions.task.picking import PickOptions
from muster.framework import Action, Arguments, Eviction, Session


class PreemptArguments(EvictionArguments, frozen=True, kw_only=True):
    """Arguments of the preempt action."""

    gang_aware_dotted: Annotated[bool, msgspec.Meta(description="The same as gangAwareEnable.")] = msgspec.field(
        default=False, name="preempt.gangAwareEnable"
    )
    topology_aware: Annotated[
        bool,
        msgspec.Meta(description="Try many nodes for each task and take the one whose victims matter least."),
    ] = msgspec.field(default=False, name="enableTopologyAwarePreemption")
    workers: Annotated[
        int, msgspec.Meta(description="Accepted for Volcano's files; nodes are tried together as arrays.")
    ] = msgspec.field(default=16, name="topologyAwarePreemptWorkerNum")
    percentage: Annotated[
        int, msgspec.Meta(ge=0, le=100, description="Topology-aware: the part of the nodes to find, in percent.")
    ] = msgspec.field(default=10, name="minCandidateNodesPercentage")
    at_least: Annotated[int, msgspec.Meta(ge=1, description="Topology-aware: the fewest nodes to find.")] = (
        msgspec.field(default=1, name="minCandidateNodesAbsolute")
    )
    at_most: Annotated[int, msgspec.Meta(ge=1, description="Topology-aware: the most nodes to find.")] = msgspec.field(
        default=100, name="maxCandidateNodesAbsolute"
    )

    @property
    def dotted(self) -> bool:
        return self.gang_aware_dotted


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
        arguments.evict(session, Eviction.PREEMPT, self.name, picks if arguments.topology_aware else None)
        evict_departures(session, self.name, ignores_budgets=arguments.ignore_pdb)
