"""What queues may hold at most: limits for everybody, and quotas for jobs that are not preemptible.

Both hold for every queue up to the top. Only resources that are asked for are looked at, so a queue that is over its
limit in one resource still serves jobs that do without it. Callers: the plugin, before a chunk of a gang is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.plugins.fair_tree import FairShares
from muster.plugins.queue_books import NO_LIMIT
from muster.snapshot import Amounts


@dataclass(frozen=True, slots=True)
class Excess:
    """The first queue that would be over, and the numbers."""

    queue: int
    column: int
    held: int
    limit: int
    wanted: int


class Bounds:
    """Upper bounds of all queues, of one kind."""

    def __init__(self, shares: FairShares, bounds: Amounts) -> None:
        self._lines = shares.lines
        self._columns = shares.columns
        self._bounds: list[list[int]] = bounds.tolist()

    def excess(self, queue: int, wanted: Sequence[int], held: Amounts) -> Excess | None:
        """Would `wanted` be too much for the queue or one above it? `held` is what every queue holds now."""
        asked = [column for column in self._columns if wanted[column] > 0]
        for row in self._lines[queue]:
            bound, have = self._bounds[row], held[row].tolist()
            for column in asked:
                if have[column] + wanted[column] > bound[column]:
                    return Excess(row, column, have[column], bound[column], wanted[column])
        return None

    def slots(self, queue: int, request: Sequence[int], held: Amounts) -> int:
        """How many times a request still fits, in the queue and all above it."""
        asked = [column for column in self._columns if request[column] > 0]
        fit = NO_LIMIT
        for row in self._lines[queue]:
            bound, have = self._bounds[row], held[row].tolist()
            for column in asked:
                room = (bound[column] - have[column]) // request[column]
                fit = min(fit, room)
        return max(0, fit)
