"""Queues that take turns down their tree: the best top queue, its best child, ... and so the leaf to serve next.

Callers: lines of jobs and of victims, which know what stands in each leaf and say when that changes. A queue is
ranked anew after a change below it; any other only when it comes first, so one whose rank improves by itself may be
served late, unless its owner says so. A turn costs a few keys, however many queues there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.engine.lines import Key
from muster.snapshot import NO_ROW, QueueTable

#: The key of a queue (first argument) by what stands first in its best leaf (second).
KeyOf = Callable[[int, int], Key]


@dataclass(slots=True)
class _Siblings:
    """Queues with one parent that have something below them; `changed` ones have no rank until somebody asks."""

    ranked: list[tuple[Key, int]] = field(default_factory=list)
    keys: dict[int, Key] = field(default_factory=dict)
    changed: dict[int, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys) + len(self.changed)

    def rank(self, queue: int, key: Key) -> None:
        self.drop(queue)
        self.keys[queue] = key
        insort(self.ranked, (key, queue))

    def unrank(self, queue: int) -> None:
        if queue not in self.changed:
            self.drop(queue)
            self.changed[queue] = None

    def drop(self, queue: int) -> None:
        self.changed.pop(queue, None)
        key = self.keys.pop(queue, None)
        if key is not None:
            del self.ranked[bisect_left(self.ranked, (key, queue))]


class QueueTree:
    """Leaves with something in them, and the queues above; `last_first` serves the largest keys first."""

    def __init__(self, queues: QueueTable, *, last_first: bool = False) -> None:
        self._queues = queues
        self._front = -1 if last_first else 0
        self._leaves: set[int] = set()
        #: By parent, NO_ROW for the top queues.
        self._siblings: dict[int, _Siblings] = {}

    def changed(self, leaf: int, *, occupied: bool) -> None:
        """Something came to a leaf or went; `occupied`: there is something in it now."""
        self._leaves.add(leaf)
        for queue, parent in self._queues.steps[leaf]:
            siblings = self._siblings.get(parent)
            if siblings is None:
                siblings = self._siblings[parent] = _Siblings()
            if occupied:
                siblings.unrank(queue)
            else:
                siblings.drop(queue)
            occupied = len(siblings) > 0

    def rank_anew(self, leaf: int) -> None:
        """The rank of a leaf and of the queues above it may have changed by itself."""
        for queue, parent in self._queues.steps[leaf]:
            siblings = self._siblings.get(parent)
            if siblings is not None and queue in siblings.keys:
                siblings.unrank(queue)

    def next_leaf(self, key_of: KeyOf) -> int | None:
        """The leaf whose turn it is; None: there is nothing anywhere.

        The tree does not keep `key_of`: it is its owner's method, and in a circle neither would be freed at once.
        """
        return self._best_below(NO_ROW, key_of) if self._siblings.get(NO_ROW) else None

    def _best_below(self, parent: int, key_of: KeyOf) -> int:
        """The best leaf below a queue, with every rank on the way to it made anew."""
        siblings = self._siblings[parent]
        if len(siblings) == 1:
            # Nobody to compare it with; it is ranked when a sibling comes.
            queue = next(iter(siblings.keys or siblings.changed))
            siblings.unrank(queue)
            return self._best_leaf(queue, key_of)
        fresh: dict[int, int] = {}
        for queue in list(siblings.changed):
            fresh[queue] = self._best_leaf(queue, key_of)
            siblings.rank(queue, key_of(queue, fresh[queue]))
        while True:
            key, queue = siblings.ranked[self._front]
            if queue in fresh:
                return fresh[queue]
            fresh[queue] = self._best_leaf(queue, key_of)
            now = key_of(queue, fresh[queue])
            if now != key:
                siblings.rank(queue, now)

    def _best_leaf(self, queue: int, key_of: KeyOf) -> int:
        return queue if queue in self._leaves else self._best_below(queue, key_of)
