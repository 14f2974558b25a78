"""The actions that evict: each lets jobs make room for themselves, by the strategy that its arguments choose.

Gangpreempt and gangreclaim are the gang strategy under Volcano's names. Two evictions are for nobody's benefit: pods
that must leave where they are, and what is left of gangs that have been broken for too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import msgspec
from msgspec import Meta, field

from muster.api import UserError, parse_seconds
from muster.engine.evictions.departures import end_stale_gangs, evict_departures
from muster.engine.evictions.gang.strategy import GangStrategy, GrowthStrategy
from muster.engine.evictions.options import ConsolidationOptions, GangOptions, Limits, SolverOptions, TaskOptions
from muster.engine.evictions.pipeline import Strategy, run
from muster.engine.evictions.solver.strategy import SolverStrategy
from muster.engine.evictions.task.strategy import TaskStrategy, WithinJobs
from muster.engine.waiting import schedulable_tasks
from muster.framework import Action, Arguments, Eviction, Session

Options = TypeVar("Options", bound=Limits)


class ChoosingArguments(Arguments, frozen=True, kw_only=True):
    """Arguments that say by which strategy victims are chosen; those of the strategies stand beside them."""

    strategy: Annotated[
        Literal["", "task", "gang", "solver"],
        Meta(description="Who chooses victims: task (Volcano; the default), gang (gangAwareEnable) or solver (KAI)."),
    ] = ""
    gang_aware: Annotated[
        bool, Meta(description="Choose whole gangs and what gangs can spare, and not single tasks, as victims.")
    ] = field(default=False, name="gangAwareEnable")
    predicate_error_cache_enable: Annotated[
        bool, Meta(description="Accepted for Volcano's files; answers are always kept per class of tasks.")
    ] = field(default=True, name="predicateErrorCacheEnable")

    @classmethod
    def read_arguments(cls, raw: Mapping[str, Any]) -> Self:  # Any: values as YAML gave them
        """Read them as given. Raises ValueError for what belongs to another strategy than the chosen one."""
        arguments = msgspec.convert({key: value for key, value in raw.items() if value is not None}, cls, strict=False)
        for strategy, options in (("gang", GangOptions), ("solver", SolverOptions)):
            strange = (name for name in raw if name in _names(options) - _names(Limits))
            if strategy != arguments.chosen and (name := next(strange, None)) is not None:
                chosen = arguments.chosen
                raise ValueError(f"{name}: belongs to the strategy {strategy}, and this action uses {chosen}")
        return arguments

    @property
    def chosen(self) -> str:
        """The strategy; Volcano's flag may have the name of the action before it."""
        dotted = getattr(self, "gang_aware_dotted", False)
        return self.strategy or ("gang" if self.gang_aware or dotted else "task")


class Workers(Arguments, frozen=True, kw_only=True):
    """What Volcano's preempt knows beside its strategies."""

    workers: Annotated[int, Meta(description="Accepted for Volcano's files; nodes are tried together as arrays.")] = (
        field(default=16, name="topologyAwarePreemptWorkerNum")
    )


def _choice(action: str, *options: type[Arguments]) -> type[ChoosingArguments]:
    """The arguments of an action that has the choice: it knows Volcano's flag by two names, and all of these."""
    dotted = Annotated[bool, Meta(description="The same as gangAwareEnable.")]
    fields = {"dotted": ("gang_aware_dotted", dotted, field(default=False, name=f"{action}.gangAwareEnable"))}
    for known in (known for kind in options for known in msgspec.structs.fields(kind)):
        fields[known.name] = known.name, known.type, field(default=known.default, name=known.encode_name)
    made = msgspec.defstruct(action, fields.values(), bases=(ChoosingArguments,), frozen=True, kw_only=True)
    assert issubclass(made, ChoosingArguments)
    return made


def _names(arguments: type[Arguments]) -> set[str]:
    return {known.encode_name for known in msgspec.structs.fields(arguments)}


class _Evicting(Action):
    """Give jobs in need their turns: those who lack their minimum before those who would like more."""

    kind: ClassVar[Eviction]

    def run(self, session: Session) -> None:
        for strategy in self._strategies(session) if len(schedulable_tasks(session)) else ():
            run(strategy)
        if self.kind is Eviction.PREEMPT:
            evict_departures(session, self.name, ignores_budgets=self._options(Limits).ignore_pdb)

    def _strategies(self, session: Session) -> Iterator[Strategy[Any]]:  # Any: its candidates
        """What chooses the victims, each after the one before it is through."""
        assert isinstance(self.arguments, ChoosingArguments | Limits)
        if self.arguments.chosen == "solver":
            yield SolverStrategy(session, self.kind, self._options(SolverOptions), self.name)
        elif self.arguments.chosen == "gang":
            by_gang = self._options(GangOptions)
            yield GangStrategy(session, self.kind, by_gang, self.name)
            if by_gang.grow:
                yield GrowthStrategy(session, self.kind, by_gang, self.name)
        else:
            by_task = self._options(TaskOptions)
            yield (between := TaskStrategy(session, self.kind, by_task, self.name))
            if self.kind is Eviction.PREEMPT:
                yield WithinJobs(session, self.kind, by_task, self.name, between.asked)

    def _options(self, kind: type[Options]) -> Options:
        """What the arguments say about one strategy."""
        given = self.arguments
        if isinstance(given, kind):
            return given
        return kind(**{name: getattr(given, name) for name in kind.__struct_fields__ if hasattr(given, name)})


class Preempt(_Evicting):
    """Go through queues and their jobs in need: first at the expense of other jobs, then inside each job."""

    name: ClassVar[str] = "preempt"
    summary: ClassVar[str] = "Let jobs in need take the place of less important ones in their queue."
    kind = Eviction.PREEMPT
    Args = _choice("preempt", Workers, TaskOptions, GangOptions, SolverOptions)
    read_arguments = Args.read_arguments


class Reclaim(_Evicting):
    """Go through queues in order; each one that has not had its share serves its jobs in need from other queues."""

    name: ClassVar[str] = "reclaim"
    summary: ClassVar[str] = "Let queues below their share take it back from queues that have more than theirs."
    kind = Eviction.RECLAIM
    Args = _choice("reclaim", GangOptions, SolverOptions)
    read_arguments = Args.read_arguments


class GangPreempt(_Evicting):
    """Starving gangs take the place of gangs of lower priority in their queue."""

    name: ClassVar[str] = "gangpreempt"
    summary: ClassVar[str] = "Evict gangs of lower priority, whole or what they can spare, for gangs of the same queue."
    kind = Eviction.PREEMPT
    Args: ClassVar[type[Arguments]] = GangOptions


class GangReclaim(_Evicting):
    """Starving gangs of queues below their share take it back from other queues."""

    name: ClassVar[str] = "gangreclaim"
    summary: ClassVar[str] = "Evict gangs of queues above what they deserve, whole or what they can spare."
    kind = Eviction.RECLAIM
    Args: ClassVar[type[Arguments]] = GangOptions


class Consolidation(_Evicting):
    """Waiting preemptible gangs, in order, get room by moving preemptible gangs of any queue to other nodes."""

    name: ClassVar[str] = "consolidation"
    summary: ClassVar[str] = "Move gangs to other nodes where that makes room for a waiting one; nobody loses a place."
    kind = Eviction.CONSOLIDATE
    Args: ClassVar[type[Arguments]] = ConsolidationOptions

    def run(self, session: Session) -> None:
        assert isinstance(self.arguments, ConsolidationOptions)
        if self.arguments.max_victims != 0:
            super().run(session)


class StaleGangArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the stalegangeviction action."""

    grace_period: Annotated[
        str | float,
        Meta(
            description="How long a gang may be broken where its PodGroup does not say: 5m, or seconds; 0: it goes at "
            "once, negative: never."
        ),
    ] = field(default=60.0, name="gracePeriod")
    ignore_pdb: Annotated[bool, Meta(description="Whether to evict without regard to PodDisruptionBudgets.")] = field(
        default=False, name="ignorePDB"
    )


class StaleGangEviction(Action):
    """Evict what is left of each gang whose grace period is over, so that it does not hold what it cannot use."""

    name: ClassVar[str] = "stalegangeviction"
    summary: ClassVar[str] = "Evict what is left of gangs that have been below their minimum for too long."
    Args: ClassVar[type[Arguments]] = StaleGangArguments

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, StaleGangArguments)
        try:
            self._grace = parse_seconds(arguments.grace_period)
        except ValueError as error:
            raise UserError(f"action stalegangeviction: arguments: gracePeriod: {error}") from error
        self._ignores_budgets = arguments.ignore_pdb

    def run(self, session: Session) -> None:
        end_stale_gangs(session, self.name, self._grace, ignores_budgets=self._ignores_budgets)
