"""A forecast of growth: which units a search would end up with, by counting places and without dry runs.

For a gang of equal tasks the search adds, step by step, the first units that make one more place. The same can be told
from the counts alone; one dry run then shows whether the forecast holds. If not, the search goes step by step.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.evictions.solver.pool import Unit
from muster.engine.evictions.solver.room import Places


def forecast(places: Places, units: Iterable[Unit]) -> list[Unit] | None:
    """Units that make enough places, in the order in which growth would add them; None: all together do not.

    A unit that adds no place by itself waits on its nodes until others offered there make one together.
    """
    chosen: list[Unit] = []
    waiting: list[Unit] = []
    if places.have >= places.wanted:
        return chosen
    for unit in units:
        waiting.append(unit)
        places.offer(unit)
        added = _added(places, waiting, unit)
        while added:
            chosen.extend(added)
            for one in added:
                places.take(one)
            if places.have >= places.wanted:
                return chosen
            taken = {id(one) for one in added}
            waiting = [one for one in waiting if id(one) not in taken]
            added = _offer_again(places, waiting)
    return None


def _offer_again(places: Places, waiting: list[Unit]) -> list[Unit]:
    """Offer anew those who wait, until some of them make one more place; what was taken may have opened their nodes."""
    places.forget_offers()
    for position, unit in enumerate(waiting):
        places.offer(unit)
        added = _added(places, waiting, unit, position + 1)
        if added:
            return added
    return []


def _added(places: Places, waiting: list[Unit], last: Unit, upto: int | None = None) -> list[Unit]:
    """Units that make one more place: those of the first `upto` that wait on a node of the last one offered."""
    for node in last.nodes:
        if places.gain(node) > 0:
            offered = waiting[:upto]
            jobs = {unit.job for unit in offered if node in unit.nodes}
            return [unit for unit in offered if unit.job in jobs]
    return []
