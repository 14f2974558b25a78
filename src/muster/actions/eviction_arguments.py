"""Arguments of the actions that evict: what all of them respect, and what each strategy knows beside that.

A field has the name of the engine's option that it sets. Arguments of another strategy than the chosen one are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, field

from muster.engine.evictions.gang.choice import GangOptions
from muster.engine.evictions.solver.search import SolverOptions
from muster.engine.evictions.task.rooms import TaskOptions
from muster.framework import Arguments

#: Stands for any number of victims.
ANY = -1

Options = TypeVar("Options", GangOptions, SolverOptions, TaskOptions)

MaxDomains: TypeAlias = Annotated[
    int, Meta(description="In how many domains at most victims are looked for, per job; below one counts as 8.")
]
AllowWhole: TypeAlias = Annotated[
    bool, Meta(description="Whether a gang may be broken; otherwise only what gangs can spare is evicted.")
]
EvictRemainder: TypeAlias = Annotated[
    bool, Meta(description="Whether the pods of a broken gang outside the domain are evicted too.")
]
RoiThreshold: TypeAlias = Annotated[
    float, Meta(ge=0, description="Gangs whose efficiency as victims differs by less count as equal in it.")
]
Grow: TypeAlias = Annotated[
    bool, Meta(description="Whether gangs that have their minimum may take what others can spare, for the rest.")
]


class LimitArguments(Arguments, frozen=True, kw_only=True):
    """What every strategy respects."""

    ignore_pdb: Annotated[bool, Meta(description="Whether to evict without regard to PodDisruptionBudgets.")] = field(
        default=False, name="ignorePDB"
    )
    max_disruption_ratio: Annotated[
        float | None,
        Meta(description="The most that may be evicted, in terms of what is requested; not set: no limit."),
    ] = field(default=None, name="maxDisruptionRatio")
    looks_ahead: Annotated[
        bool,
        Meta(
            description="Whether room is cleared only for who keeps it: the first in the queue that would take it, and "
            "nobody who would lose it in the next cycle. If false, for whose turn it is, as in Volcano and KAI."
        ),
    ] = field(default=True, name="looksAhead")

    @property
    def chosen(self) -> str:
        """The strategy."""
        return "gang"

    def options(self, kind: type[Options]) -> Options:
        """The engine's options of the same names."""
        given = {name: getattr(self, name) for name in (one.name for one in fields(kind)) if hasattr(self, name)}
        return kind(**given)


class GangArguments(LimitArguments, frozen=True, kw_only=True):
    """Arguments of the actions that evict whole gangs."""

    max_domains: MaxDomains = field(default=8, name="maxDomains")
    allow_whole: AllowWhole = field(default=True, name="allowWholeBundle")
    evict_remainder: EvictRemainder = field(default=False, name="evictRemainder")
    roi_threshold: RoiThreshold = field(default=0.05, name="roiThreshold")
    grow: Grow = field(default=True, name="growByEviction")


class SolverArguments(LimitArguments, frozen=True, kw_only=True):
    """Arguments of the actions that may use the solver strategy."""

    max_trials_per_job: Annotated[
        int, Meta(ge=1, description="Solver: the most dry runs for one job; a job that needs more is left waiting.")
    ] = field(default=1000, name="maxTrialsPerJob")
    max_trials_per_cycle: Annotated[
        int, Meta(ge=1, description="Solver: the most dry runs in one run of the action.")
    ] = field(default=20_000, name="maxTrialsPerCycle")
    max_jobs_per_queue: Annotated[
        int | None, Meta(description="Solver: how many waiting jobs of each queue are tried; not set: all.")
    ] = field(default=None, name="maxJobsPerQueue")
    use_signatures: Annotated[
        bool, Meta(description="Solver: pass over a job when one that is easier to serve has failed already.")
    ] = field(default=True, name="useSchedulingSignatures")
    trim: Annotated[
        bool, Meta(description="Solver: give back every victim that turns out not to be needed; KAI does not.")
    ] = True
    pass_over_protected: Annotated[
        bool,
        Meta(
            description="Solver: where a gang that still has its minimum runtime would have to be broken, go on with "
            "the next victim; if false, nobody behind it is taken, as in KAI."
        ),
    ] = field(default=True, name="passOverProtected")
    pass_over_blocked: Annotated[
        bool,
        Meta(
            description="Solver: whether a waiting job that its queue's quota keeps out holds nobody up; if false, "
            "it keeps its turn, as in KAI."
        ),
    ] = field(default=True, name="passOverBlocked")
    take_back_binds: Annotated[
        bool,
        Meta(
            description="Solver: whether pods that were placed in the same cycle may be victims, as in KAI; they are "
            "not bound then, and wait again."
        ),
    ] = field(default=False, name="takeBackBinds")
    growth_breaks_gangs: Annotated[
        bool,
        Meta(
            description="Solver: whether gangs are broken and moved also for pods beyond a minimum, as in KAI; if "
            "false, these take what others can spare."
        ),
    ] = field(default=False, name="growthBreaksGangs")

    @property
    def chosen(self) -> str:
        return "solver"


class ConsolidationArguments(SolverArguments, frozen=True, kw_only=True):
    """Arguments of the consolidation action."""

    max_victims: Annotated[
        int, Meta(ge=ANY, description="The most jobs that may be moved for one job; 0: nobody moves, -1: any number.")
    ] = field(default=16, name="maxConsolidationPreemptees")


class EvictionArguments(SolverArguments, frozen=True, kw_only=True):
    """Arguments that preempt and reclaim have in common: which strategy chooses the victims, and its own."""

    strategy: Annotated[
        Literal["", "task", "gang", "solver"],
        Meta(description="Who chooses victims: task (Volcano; the default), gang (gangAwareEnable) or solver (KAI)."),
    ] = ""
    gang_aware: Annotated[
        bool, Meta(description="Choose whole gangs and what gangs can spare, and not single tasks, as victims.")
    ] = field(default=False, name="gangAwareEnable")
    max_domains: MaxDomains = field(default=8, name="maxDomains")
    allow_whole: AllowWhole = field(default=True, name="allowWholeBundle")
    evict_remainder: EvictRemainder = field(default=False, name="evictRemainder")
    roi_threshold: RoiThreshold = field(default=0.05, name="roiThreshold")
    grow: Grow = field(default=True, name="growByEviction")
    predicate_error_cache_enable: Annotated[
        bool, Meta(description="Accepted for Volcano's files; answers are always kept per class of tasks.")
    ] = field(default=True, name="predicateErrorCacheEnable")

    @classmethod
    def read_arguments(cls, raw: Mapping[str, Any]) -> Self:  # Any: values as YAML gave them
        """Read them as given. Raises ValueError for what belongs to another strategy than the chosen one."""
        arguments = msgspec.convert({key: value for key, value in raw.items() if value is not None}, cls, strict=False)
        shared = _names(LimitArguments)
        for strategy, names in (("gang", _names(GangArguments)), ("solver", _names(SolverArguments))):
            for name in raw:
                if name in names - shared and strategy != arguments.chosen:
                    chosen = arguments.chosen
                    raise ValueError(f"{name}: belongs to the strategy {strategy}, and this action uses {chosen}")
        return arguments

    @property
    def chosen(self) -> str:
        """The strategy; Volcano's flag may have the name of the action before it."""
        dotted = getattr(self, "gang_aware_dotted", False)
        return self.strategy or ("gang" if self.gang_aware or dotted else "task")


def _names(arguments: type[Arguments]) -> set[str]:
    return {known.encode_name for known in msgspec.structs.fields(arguments)}
