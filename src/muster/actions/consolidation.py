"""Consolidation: make one larger hole for a waiting gang by moving others, only if every one of them lands."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

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
from muster.framework import Action, Arguments, Eviction, Session

#: Stands for any number of victims.
_ANY = -1


class ConsolidationArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the consolidation action."""

    max_trials_per_job: MaxTrialsPerJob = field(default=1000, name="maxTrialsPerJob")
    max_trials_per_cycle: MaxTrialsPerCycle = field(default=20_000, name="maxTrialsPerCycle")
    max_jobs_per_queue: MaxJobsPerQueue = field(default=None, name="maxJobsPerQueue")
    use_signatures: UseSignatures = field(default=True, name="useSchedulingSignatures")
    trim: Trim = True
    pass_over_protected: PassOverProtected = field(default=True, name="passOverProtected")
    pass_over_blocked: PassOverBlocked = field(default=True, name="passOverBlocked")
    take_back_binds: TakeBackBinds = field(default=False, name="takeBackBinds")
    max_preemptees: Annotated[
        int, Meta(ge=_ANY, description="The most jobs that may be moved for one job; 0: nobody moves, -1: any number.")
    ] = field(default=16, name="maxConsolidationPreemptees")
    ignore_pdb: Annotated[bool, Meta(description="Whether to move pods without regard to PodDisruptionBudgets.")] = (
        field(default=False, name="ignorePDB")
    )
    max_disruption_ratio: Annotated[
        float | None, Meta(description="The most that may be moved, in terms of what is requested; not set: no limit.")
    ] = field(default=None, name="maxDisruptionRatio")


class Consolidation(Action):
    """Waiting preemptible gangs, in order, get room by moving preemptible gangs of any queue to other nodes."""

    name: ClassVar[str] = "consolidation"
    summary: ClassVar[str] = "Move gangs to other nodes where that makes room for a waiting one; nobody loses a place."
    Args: ClassVar[type[Arguments]] = ConsolidationArguments

    def run(self, session: Session) -> None:
        arguments = self.arguments
        assert isinstance(arguments, ConsolidationArguments)
        if arguments.max_preemptees == 0:
            return
        limit = None if arguments.max_preemptees == _ANY else arguments.max_preemptees
        strategy = SolverStrategy(session, Eviction.CONSOLIDATE, solver_options(arguments, limit), self.name)
        run(session, Eviction.CONSOLIDATE, strategy, Limits(arguments.max_disruption_ratio), self.name)
