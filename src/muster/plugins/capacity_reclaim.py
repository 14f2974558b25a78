"""Which tasks may be reclaimed from queues that hold more than they deserve; used by the capacity plugin.

One `Reclaim` serves one question: it remembers what it has taken from queues so far, so that a queue is not
taken below its guarantee, nor taken from any more once it is down to what it deserves.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.plugins.capacity_tree import Standing
from muster.plugins.queue_books import NO_LIMIT
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
        return self.takes_many(reclaimer, wanted, source, offered, 1) == 1

    def takes_many(self, reclaimer: int, wanted: Amounts, source: int, offered: Amounts, count: int) -> int:
        """How many of `count` equal tasks may go, one after the other; see `takes`."""
        if not self._overlaps(wanted, offered):
            return 0
        going = min(count, self._above_guarantee(source, offered))
        if self._is_unentitled(source, offered):
            if self._share_ancestor(reclaimer, source) and self._is_unentitled(reclaimer, wanted):
                return 0
        else:
            going = min(going, self._while_over(source, offered))
        line = self._line_to_check(reclaimer, source)
        for row in line:
            if not self._is_unentitled(row, offered):
                going = min(going, self._while_over(row, offered))
        if going <= 0:
            return 0
        for row in (source, *line):
            self._left[row] = self._of(row) - going * offered
        return going

    def _above_guarantee(self, queue: int, request: Amounts) -> int:
        """How many such tasks the queue can lose before it is below what is guaranteed to it."""
        beyond = self._of(queue) - self._standing.guarantees[queue]
        asked = request > 0
        if (beyond < 0).any() or not asked.any():
            return 0 if (beyond < 0).any() else NO_LIMIT
        return int((beyond[asked] // request[asked]).min())

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

    def _while_over(self, queue: int, request: Amounts) -> int:
        """How many such tasks can go while the queue holds more than it deserves of something that they have."""
        counted = (request > 0) & self._standing.named[queue]
        counted[self._pods] = False
        if not counted.any():
            return 0
        beyond = self._of(queue)[counted] - self._standing.deserved[queue][counted]
        return max(0, int((-(-beyond // request[counted])).max()))

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
