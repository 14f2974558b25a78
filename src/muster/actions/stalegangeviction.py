"""Stalegangeviction: end gangs that have been broken for too long, so that they do not hold what they cannot use."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from muster.api import UserError, parse_seconds
from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.pipeline import send_away
from muster.engine.evictions.stale import StaleReasons, StaleRecord, broken_since, remaining_tasks, stale_jobs
from muster.framework import Action, Arguments, Session
from muster.snapshot import CRITICAL, PREEMPTABLE
from muster.snapshot.records import refuses_eviction


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
        records = session.snapshot.jobs.records
        budgets = Budgets(session, self._ignores_budgets)
        for job in sorted(np.flatnonzero(stale_jobs(session.snapshot)).tolist(), key=lambda job: records[job].id):
            own = records[job].stale_grace
            grace = self._grace if own is None else own
            if grace < 0:
                continue
            since = broken_since(session.snapshot, job, session.now)
            if session.now - since >= grace:
                self._end(session, job, budgets, session.now - since, grace)
            else:
                session.look_again(since + grace)

    def _end(self, session: Session, job: int, budgets: Budgets, broken_for: float, grace: float) -> None:
        """Evict all that is left, or nothing where a mark, a budget or the cluster itself keeps a pod of it.

        Jobs that are not preemptible and minimum runtimes do not stop it: nobody profits from what is broken.
        """
        snapshot = session.snapshot
        tasks = remaining_tasks(snapshot, job)
        record = snapshot.jobs.records[job]
        marked = (snapshot.tasks.flags[tasks] & (CRITICAL | PREEMPTABLE)) != PREEMPTABLE
        if marked.any() or refuses_eviction(record.annotations, record.labels) or not budgets.allowed(tasks).all():
            return
        ended = StaleRecord(record.id, round(broken_for, 3), grace, len(tasks))
        send_away(session, tasks, self.name, StaleReasons(ended))
