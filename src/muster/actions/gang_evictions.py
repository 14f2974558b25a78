"""Gangpreempt and gangreclaim: the gang strategy under Volcano's names for it."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from muster.engine.evictions.departures import evict_departures
from muster.engine.evictions.gang.choice import GangOptions
from muster.engine.evictions.gang.strategy import GangStrategy, GrowthStrategy
from muster.engine.evictions.pipeline import Limits, run
from muster.framework import Action, Arguments, Eviction, Session


class GangEvictionArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the actions that evict whole gangs."""

    max_domains: Annotated[
        int, Meta(description="In how many domains at most victims are looked for, per job; below one counts as 8.")
    ] = msgspec.field(default=8, name="maxDomains")
    allow_whole_bundle: Annotated[
        bool, Meta(description="Whether a gang may be broken; otherwise only what gangs can spare is evicted.")
    ] = msgspec.field(default=True, name="allowWholeBundle")
    evict_remainder: Annotated[
        bool, Meta(description="Whether the pods of a broken gang outside the domain are evicted too.")
    ] = msgspec.field(default=False, name="evictRemainder")
    roi_threshold: Annotated[
        float, Meta(ge=0, description="Gangs whose efficiency as victims differs by less count as equal in it.")
    ] = msgspec.field(default=0.05, name="roiThreshold")
    grow: Annotated[
        bool, Meta(description="Whether gangs that have their minimum may take what others can spare, for the rest.")
    ] = msgspec.field(default=True, name="growByEviction")
    ignore_pdb: Annotated[bool, Meta(description="Whether to evict without regard to PodDisruptionBudgets.")] = (
        msgspec.field(default=False, name="ignorePDB")
    )
    max_disruption_ratio: Annotated[
        float | None,
        Meta(description="The most that may be evicted, in terms of what is requested; not set: no limit."),
    ] = msgspec.field(default=None, name="maxDisruptionRatio")

    def options(self) -> GangOptions:
        """The same for the engine."""
        return GangOptions(
            max_domains=self.max_domains if self.max_domains > 0 else 8,
            allow_whole=self.allow_whole_bundle,
            evict_remainder=self.evict_remainder,
            roi_threshold=self.roi_threshold,
            ignore_budgets=self.ignore_pdb,
        )


class GangPreempt(Action):
    """Starving gangs take the place of gangs of lower priority in their queue."""

    name: ClassVar[str] = "gangpreempt"
    summary: ClassVar[str] = "Evict gangs of lower priority, whole or what they can spare, for gangs of the same queue."
    Args: ClassVar[type[Arguments]] = GangEvictionArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, GangEvictionArguments)
        evict_gangs(session, Eviction.PREEMPT, self.arguments, self.name)
        evict_departures(session, self.name, ignores_budgets=self.arguments.ignore_pdb)


class GangReclaim(Action):
    """Starving gangs of queues below their share take it back from other queues."""

    name: ClassVar[str] = "gangreclaim"
    summary: ClassVar[str] = "Evict gangs of queues above what they deserve, whole or what they can spare."
    Args: ClassVar[type[Arguments]] = GangEvictionArguments

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, GangEvictionArguments)
        evict_gangs(session, Eviction.RECLAIM, self.arguments, self.name)


def evict_gangs(session: Session, kind: Eviction, arguments: GangEvictionArguments, action: str) -> None:
    """Let gangs make room for themselves, and then for what they would like beside their minimum."""
    limits, options = Limits(arguments.max_disruption_ratio), arguments.options()
    # Whoever lacks its minimum comes before those who would like more.
    run(session, kind, GangStrategy(session, kind, options, action), limits, action)
    if arguments.grow:
        run(session, kind, GrowthStrategy(session, kind, options, action), limits, action)
