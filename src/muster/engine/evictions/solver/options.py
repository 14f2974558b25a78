"""Options of the solver strategy, shared by the actions that use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """How far the search goes, and what it respects."""

    #: Dry runs for one beneficiary, and in one run of the action.
    max_trials_per_job: int = 1000
    max_trials_per_cycle: int = 20_000
    #: Jobs that may have to go for one beneficiary; None: any number.
    max_victims: int | None = None
    #: Beneficiaries of one queue that are tried; None: all.
    max_jobs_per_queue: int | None = None
    ignore_budgets: bool = False
    #: Evicted ÷ requested resources; None: no limit.
    max_disruption_ratio: float | None = None
    #: Pass over a job when one that is easier to place has failed already.
    use_signatures: bool = True
    #: Give victims back that turn out not to be needed.
    trim: bool = True
    #: Go on with the next victim where a protected gang could only be broken; if not, the line of victims ends there.
    pass_over_protected: bool = True
    #: Jobs that their queue's quota keeps out hold up nobody behind them.
    pass_over_blocked: bool = True
    #: Take from those, too, whom the cycle has placed but not yet bound: they wait again, and nobody was told.
    take_back_binds: bool = False
