"""Evictions that nobody profits from, because a plugin says that pods have to leave where they are.

Callers: preempt and gangpreempt, at their end; the first of them in a cycle. Whatever a plugin says, pods of other
schedulers, pods that the cluster itself depends on and pods that asked to be spared stay, and so do those whose
PodDisruptionBudget has no disruption left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.candidates import on_node, willing
from muster.engine.evictions.pipeline import send_away
from muster.framework import Departure, Session
from muster.snapshot import Rows

#: Key of the workspace: the action that has seen to it.
_DONE: Final = "departures"


@dataclass(frozen=True, slots=True)
class DepartureRecord:
    """Why a pod had to leave; the same for all of one departure."""

    why: str

    @property
    def reason(self) -> str:
        return "must-leave"

    def to_json(self) -> dict[str, object]:
        """The record for programs."""
        return {"reason": self.why}

    def as_text(self) -> str:
        """One line for people."""
        return self.why

    def of_task(self, _task: int) -> DepartureRecord:
        return self


def evict_departures(session: Session, action: str, *, ignores_budgets: bool) -> None:
    """Evict whom plugins name, as far as they may be evicted at all; once per session."""
    if session.workspace.setdefault(_DONE, action) != action:
        return
    departures = session.must_leave()
    if not departures:
        return
    budgets = Budgets(session, ignores_budgets)
    for departure in departures:
        tasks = _evictable(session, departure)
        tasks = tasks[budgets.allowed(tasks)]
        if len(tasks):
            send_away(session, tasks, action, DepartureRecord(departure.why))


def _evictable(session: Session, departure: Departure) -> Rows:
    """The tasks of a departure that may go, in the order given; those that left with an earlier one are gone."""
    snapshot = session.snapshot
    may_go = on_node(snapshot) & willing(snapshot)
    tasks: Rows = departure.tasks[may_go[departure.tasks]]
    return tasks
