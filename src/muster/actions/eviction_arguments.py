"""Arguments that preempt and reclaim have in common: Volcano's, and those of the gang strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import Meta, field

from muster.actions.gang_evictions import GangEvictionArguments, evict_gangs
from muster.actions.solver_arguments import (
    MaxJobsPerQueue,
    MaxTrialsPerCycle,
    MaxTrialsPerJob,
    PassOverBlocked,
    PassOverProtected,
    TakeBackBinds,
    Trim,
    UseSignatures,
    solver_options,
)
from muster.engine.evictions.pipeline import Limits, run
from muster.engine.evictions.solver.strategy import SolverStrategy
from muster.engine.evictions.task.picking import PickOptions
from muster.engine.evictions.task.strategy import TaskOptions, TaskStrategy, WithinJobs
from muster.framework import Eviction, Session


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

    @classmethod
    def read_arguments(cls, raw: Mapping[str, Any]) -> Self:
        """Read them as given. Raises ValueError for what belongs to another strategy than the chosen one."""
        arguments = msgspec.convert({key: value for key, value in raw.items() if value is not None}, cls, strict=False)
        for name in raw:
            owner = _OWNERS.get(name, arguments.chosen)
            if owner != arguments.chosen:
                raise ValueError(f"{name}: belongs to the strategy {owner}, and this action uses {arguments.chosen}")
        return arguments

    @property
    def chosen(self) -> str:
        """The strategy."""
        return self.strategy or ("gang" if self.gang_aware or self.dotted else "task")

    @property
    def dotted(self) -> bool:
        """Whether Volcano's dotted flag asks for whole gangs."""
        return False

    def evict(self, session: Session, kind: Eviction, action: str, picks: PickOptions | None = None) -> None:
        """Let jobs make room for themselves, the chosen way."""
        limits = Limits(self.max_disruption_ratio)
        if self.chosen == "solver":
            run(session, kind, SolverStrategy(session, kind, solver_options(self), action), limits, action)
        elif self.chosen == "gang":
            evict_gangs(session, kind, self, action)
        else:
            by_task = TaskOptions(ignore_budgets=self.ignore_pdb, candidates=picks)
            between = TaskStrategy(session, kind, by_task)
            run(session, kind, between, limits, action)
            if kind is Eviction.PREEMPT:
                run(session, kind, WithinJobs(session, kind, by_task, between.asked), limits, action)


#: Arguments that only one strategy knows.
_OWNERS: Final = {
    **dict.fromkeys(("maxDomains", "allowWholeBundle", "evictRemainder", "roiThreshold", "growByEviction"), "gang"),
    **dict.fromkeys(
        (
            "maxTrialsPerJob",
            "maxTrialsPerCycle",
            "maxJobsPerQueue",
            "useSchedulingSignatures",
            "trim",
            "passOverProtected",
            "passOverBlocked",
            "takeBackBinds",
        ),
        "solver",
    ),
}
