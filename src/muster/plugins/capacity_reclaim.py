"""Which tasks may be reclaimed from queues that hold more than they deserve; used by the capacity plugin.

One `Reclaim` serves one question: it remembers what it has taken from queues so far, so that a queue is not
taken below its guarantee, nor taken from any more once it is down to what it deserves.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.plugins.capacity_tree import Standing
from muster.snapshot import Amounts


class Reclaim:
    """Takes candidates one by one, in the order in which they are offered."""

    def __init__(self, standing: Standing, levels: int, pods: int, held: Callable[[int], Amounts]) -> None:
        self._standing = standing
        #: How many levels of ancestors have a say.
        self._levels = levels
        self._pods = pods
        self._held = held
        self._left: dict[int, Amounts] = {}

    def takes(self, reclaimer: int, wanted: Amounts, source: int, offered: Amounts) -> bool:
        """May a task with the request `offered` go from queue `source` for one with the request `wanted`?"""
        if not self._overlaps(wanted, offered):
            return False
        if (self._of(source) - offered < self._standing.guarantees[source]).any():
            return False
        if self._is_unentitled(source, offered):
            if self._share_ancestor(reclaimer, source) and self._is_unentitled(reclaimer, wanted):
                return False
        elif not self._is_over(source, offered):
            return False
        line = self._line_to_check(reclaimer, source)
        if not all(self._is_unentitled(row, offered) or self._is_over(row, offered) for row in line):
            return False
        for row in (source, *line):
            self._left[row] = self._of(row) - offered
        return True

    def _of(self, queue: int) -> Amounts:
        """What a queue still holds."""
        if queue not in self._left:
            self._left[queue] = self._held(queue)
        return self._left[queue]

    def _overlaps(self, wanted: Amounts, offered: Amounts) -> bool:
        """Does the task hold anything that is wanted?"""
        useful = (wanted > 0) & (offered > 0)
        useful[self._pods] = False
        return bool(useful.any())

    def _is_unentitled(self, queue: int, request: Amounts) -> bool:
        """Does the queue deserve nothing of what is requested?"""
        return not ((request > 0) & (self._standing.deserved[queue] > 0)).any()

    def _is_over(self, queue: int, request: Amounts) -> bool:
        """Does the queue hold more than it deserves of something requested that it has a say on?"""
        over = (request > 0) & self._standing.named[queue] & (self._of(queue) > self._standing.deserved[queue])
        over[self._pods] = False
        return bool(over.any())

    def _near(self, queue: int) -> list[int]:
        """The ancestors that have a say, the nearest first."""
        return self._standing.ancestors[queue][: self._levels]

    def _share_ancestor(self, one: int, other: int) -> bool:
        common = set(self._near(one)) & set(self._near(other))
        return bool(common - {self._standing.root})

    def _line_to_check(self, reclaimer: int, source: int) -> list[int]:
        """Ancestors of the source that must be over as well: those that are not the reclaimer's own."""
        mine, theirs = self._near(reclaimer), self._near(source)
        mine += [-1] * (len(theirs) - len(mine))
        return [row for own, row in zip(mine, theirs, strict=False) if row not in (own, self._standing.root)]
