"""Arguments that preempt and reclaim have in common: Volcano's, and those of the gang strategy."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from muster.actions.gang_evictions import GangEvictionArguments
from muster.actions.solver_arguments import (
    MaxJobsPerQueue,
    MaxTrialsPerCycle,
    MaxTrialsPerJob,
    PassOverBlocked,
    PassOverProtected,
    TakeBackBinds,
    Trim,
    UseSignatures,
)
from muster.engine.evictions.tasks import TaskOptions
from muster.engine.evictions.topology_aware import CandidateOptions


class EvictionArguments(GangEvictionArguments, frozen=True, kw_only=True):
    """Which strategy chooses the victims, and how far it may go."""

    strategy: Annotated[
        Literal["", "task", "gang", "solver"],
        Meta(description="Who chooses victims: task (Volcano; the default), gang (gangAwareEnable) or solver (KAI)."),
    ] = ""
    max_trials_per_job: MaxTrialsPerJob = field(default=1000, name="maxTrialsPerJob")
    max_trials_per_cycle: MaxTrialsPerCycle = field(default=20_000, name="maxTrialsPerCycle")
    max_jobs_per_queue: MaxJobsPerQueue = field(default=None, name="maxJobsPerQueue")
    use_signatures: UseSignatures = field(default=True, name="useSchedulingSignatures")
    trim: Trim = True
    pass_over_protected: PassOverProtected = field(default=True, name="passOverProtected")
    pass_over_blocked: PassOverBlocked = field(default=True, name="passOverBlocked")
    take_back_binds: TakeBackBinds = field(default=False, name="takeBackBinds")

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
