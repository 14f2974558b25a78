"""Stalegangeviction: end gangs that have been broken for too long, so that they do not hold what they cannot use."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from muster.api import UserError, parse_seconds
from muster.engine.evictions.departures import end_stale_gangs
from muster.framework import Action, Arguments, Session


class StaleGangArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the stalegangeviction action."""

    grace_period: Annotated[
        str | float,
        Meta(
            description="How long a gang may be broken where its PodGroup does not say: 5m, or seconds; 0: it goes at "
            "once, negative: never."
        ),
    ] = msgspec.field(default=60.0, name="gracePeriod")
    ignore_pdb: Annotated[bool, Meta(description="Whether to evict without regard to PodDisruptionBudgets.")] = (
        msgspec.field(default=False, name="ignorePDB")
    )


class StaleGangEviction(Action):
    """Evict what is left of each gang whose grace period is over: the one eviction that nobody profits from."""

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
