"""Arguments that preempt and reclaim have in common: Volcano's, and those of the gang strategy."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from muster.actions.gang_evictions import GangEvictionArguments
from muster.engine.evictions.tasks import TaskOptions
from muster.engine.evictions.topology_aware import CandidateOptions


class EvictionArguments(GangEvictionArguments, frozen=True, kw_only=True):
    """Which strategy chooses the victims, and how far it may go."""

    predicate_error_cache_enable: Annotated[
        bool, Meta(description="Accepted for Volcano's files; answers are always kept per class of tasks.")
    ] = field(default=True, name="predicateErrorCacheEnable")
    gang_aware: Annotated[
        bool, Meta(description="Choose whole gangs and what gangs can spare, and not single tasks, as victims.")
    ] = field(default=False, name="gangAwareEnable")

    def task_options(self, candidates: CandidateOptions | None = None) -> TaskOptions:
        """What the task strategy needs to know."""
        return TaskOptions(
            ignore_budgets=self.ignore_pdb,
            max_disruption_ratio=self.max_disruption_ratio,
            candidates=candidates,
        )
