"""Arguments of the actions that may use the solver strategy: each of them lists these fields."""

from __future__ import annotations

from typing import Annotated, Protocol, TypeAlias

from msgspec import Meta

from muster.engine.evictions.solver.search import SolverOptions

MaxTrialsPerJob: TypeAlias = Annotated[
    int, Meta(ge=1, description="Solver: the most dry runs for one job; a job that needs more is left waiting.")
]
MaxTrialsPerCycle: TypeAlias = Annotated[
    int, Meta(ge=1, description="Solver: the most dry runs in one run of the action.")
]
MaxJobsPerQueue: TypeAlias = Annotated[
    int | None, Meta(description="Solver: how many waiting jobs of each queue are tried; not set: all.")
]
UseSignatures: TypeAlias = Annotated[
    bool, Meta(description="Solver: pass over a job when one that is easier to serve has failed already.")
]

Trim: TypeAlias = Annotated[
    bool, Meta(description="Solver: give back every victim that turns out not to be needed; KAI does not.")
]

PassOverProtected: TypeAlias = Annotated[
    bool,
    Meta(
        description="Solver: where a gang that still has its minimum runtime would have to be broken, go on with the "
        "next victim; if false, nobody behind it is taken, as in KAI."
    ),
]

PassOverBlocked: TypeAlias = Annotated[
    bool,
    Meta(
        description="Solver: whether a waiting job that its queue's quota keeps out holds nobody up; if false, "
        "it keeps its turn, as in KAI."
    ),
]

TakeBackBinds: TypeAlias = Annotated[
    bool,
    Meta(
        description="Solver: whether pods that were placed in the same cycle may be victims, as in KAI; they are not "
        "bound then, and wait again."
    ),
]


class SolverArguments(Protocol):
    """What the solver needs to know of an action's arguments."""

    @property
    def max_trials_per_job(self) -> int: ...
    @property
    def max_trials_per_cycle(self) -> int: ...
    @property
    def max_jobs_per_queue(self) -> int | None: ...
    @property
    def use_signatures(self) -> bool: ...
    @property
    def trim(self) -> bool: ...
    @property
    def pass_over_protected(self) -> bool: ...
    @property
    def pass_over_blocked(self) -> bool: ...
    @property
    def take_back_binds(self) -> bool: ...
    @property
    def ignore_pdb(self) -> bool: ...
    @property
    def max_disruption_ratio(self) -> float | None: ...


def solver_options(arguments: SolverArguments, max_victims: int | None = None) -> SolverOptions:
    """The same for the engine."""
    return SolverOptions(
        max_trials_per_job=arguments.max_trials_per_job,
        max_trials_per_cycle=arguments.max_trials_per_cycle,
        max_victims=max_victims,
        max_jobs_per_queue=arguments.max_jobs_per_queue,
        ignore_budgets=arguments.ignore_pdb,
        max_disruption_ratio=arguments.max_disruption_ratio,
        use_signatures=arguments.use_signatures,
        trim=arguments.trim,
        pass_over_protected=arguments.pass_over_protected,
        pass_over_blocked=arguments.pass_over_blocked,
        take_back_binds=arguments.take_back_binds,
    )
