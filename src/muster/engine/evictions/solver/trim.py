"""Giving victims back that a solution does not need: the dearest first, as long as the rest still does.

The search stops at the first offer that works, which may hold more than is needed: everybody on a node, or a gang that
was taken before a larger one made it superfluous. A unit goes back whole; what a gang could spare goes back only if
its core does not leave. Most units are told to be needed by counting places, without a dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muster.engine.evictions.solver.pool import Unit
from muster.engine.evictions.solver.room import Places
from muster.engine.evictions.solver.trial import Outcome

#: Units and a number of tasks -> the outcome when exactly these units are taken, None if it is no solution or if not
#: fewer tasks go.
TryUnits = Callable[[Sequence[Unit], int], Outcome | None]


def trimmed(units: Sequence[Unit], outcome: Outcome, counts: Sequence[Places], attempt: TryUnits) -> Outcome:
    """The outcome after everything that is not needed was given back; `units` in the order in which they were taken."""
    taken = set(outcome.victims.tolist())
    kept = [unit for unit in units if not taken.isdisjoint(unit.tasks.tolist())]
    for count in counts:
        for unit in kept:
            count.take(unit)
    for unit in reversed(list(kept)):
        if _core_leaves(unit, kept) or not all(count.can_spare(unit) for count in counts):
            continue
        smaller = [other for other in kept if other is not unit]
        found = attempt(smaller, len(outcome.victims))
        if found is not None:
            outcome, kept = found, smaller
            for count in counts:
                count.give_back(unit)
    return outcome


def _core_leaves(unit: Unit, kept: Sequence[Unit]) -> bool:
    """Whether a part of the same job that was taken later, and so is needed more, leaves too."""
    later = [other for other in kept if other.job == unit.job]
    return bool(later) and later[-1] is not unit


def unit_tasks(units: Sequence[Unit]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """All tasks of the units."""
    return np.concatenate([unit.tasks for unit in units]) if units else np.empty(0, np.int32)
