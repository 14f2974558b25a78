"""What can be said about evicting: what every strategy respects, and what each of them knows beside that.

These are the arguments of the actions: each option stands here once, with its name in files, meaning and default.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

from muster.framework import Arguments

#: Stands for any number of victims.
ANY = -1
_DEFAULT_DOMAINS = 8


class Limits(Arguments, frozen=True, kw_only=True):
    """What every strategy respects."""

    #: The strategy that is meant.
    chosen: ClassVar[str] = "task"

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


class TaskOptions(Limits, frozen=True, kw_only=True):
    """Victims task by task."""

    topology_aware: Annotated[
        bool, Meta(description="Try many nodes for each task and take the one whose victims matter least.")
    ] = field(default=False, name="enableTopologyAwarePreemption")
    percentage: Annotated[
        int, Meta(ge=0, le=100, description="Topology-aware: the part of the nodes to find, in percent.")
    ] = field(default=10, name="minCandidateNodesPercentage")
    at_least: Annotated[int, Meta(ge=1, description="Topology-aware: the fewest nodes to find.")] = field(
        default=1, name="minCandidateNodesAbsolute"
    )
    at_most: Annotated[int, Meta(ge=1, description="Topology-aware: the most nodes to find.")] = field(
        default=100, name="maxCandidateNodesAbsolute"
    )

    def count(self, n_nodes: int) -> int:
        """How many nodes are looked for: a part of them, within the bounds, and never more than there are."""
        wanted = max(n_nodes * self.percentage // 100, self.at_least)
        return min(wanted, self.at_most, n_nodes)


class GangOptions(Limits, frozen=True, kw_only=True):
    """Victims as bundles of gangs in a domain."""

    chosen = "gang"

    max_domains: Annotated[
        int, Meta(description="In how many domains at most victims are looked for, per job; below one counts as 8.")
    ] = field(default=_DEFAULT_DOMAINS, name="maxDomains")
    allow_whole: Annotated[
        bool, Meta(description="Whether a gang may be broken; otherwise only what gangs can spare is evicted.")
    ] = field(default=True, name="allowWholeBundle")
    evict_remainder: Annotated[
        bool, Meta(description="Whether the pods of a broken gang outside the domain are evicted too.")
    ] = field(default=False, name="evictRemainder")
    roi_threshold: Annotated[
        float, Meta(ge=0, description="Gangs whose efficiency as victims differs by less count as equal in it.")
    ] = field(default=0.05, name="roiThreshold")
    grow: Annotated[
        bool, Meta(description="Whether gangs that have their minimum may take what others can spare, for the rest.")
    ] = field(default=True, name="growByEviction")

    @property
    def domains(self) -> int:
        """In how many domains dry runs are made."""
        return self.max_domains if self.max_domains > 0 else _DEFAULT_DOMAINS


class SolverOptions(Limits, frozen=True, kw_only=True):
    """Victims gang by gang, by trying scenarios."""

    chosen = "solver"

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
    def most_victims(self) -> int:
        """How many jobs may have to go for one beneficiary; negative: any number."""
        return ANY


class ConsolidationOptions(SolverOptions, frozen=True, kw_only=True):
    """Victims that are moved."""

    max_victims: Annotated[
        int, Meta(ge=ANY, description="The most jobs that may be moved for one job; 0: nobody moves, -1: any number.")
    ] = field(default=16, name="maxConsolidationPreemptees")

    @property
    def most_victims(self) -> int:
        return self.max_victims
