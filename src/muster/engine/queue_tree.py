"""Queues that take turns down their tree: the best top queue, its best child, ... and so the leaf to serve next.

Siblings stand in a heap, as they do in KAI. Whoever was served, or got something, is compared anew when it comes first;
the others keep their places meanwhile, and a queue is judged by the leaf that stands first below it, even if that one
has just been served. A turn costs a few keys, however many queues there are. `TreeLine` is a line of jobs by this
order; whoever owns a `QueueTree` knows what stands in each leaf and says when that changes.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Callable, Iterable

from muster.engine.lines import Key
from muster.framework import Session
from muster.snapshot import NO_ROW, QueueTable

#: The key of a queue (first argument) by what stands first in its best leaf (second).
KeyOf = Callable[[int, int], Key]


class QueueTree:
    """Leaves with something in them, and the queues above; `last_first` serves the largest keys first.

    The tree does not keep `key_of`: it is its owner's method, and in a circle neither would be freed at once.
    """

    def __init__(self, queues: QueueTable, leaves: Iterable[int], key_of: KeyOf, *, last_first: bool = False) -> None:
        """`leaves`: those that have something in them."""
        self._queues = queues
        self._last_first = last_first
        self._leaves = set(leaves)
        #: Queues with something below them.
        self._inside: set[int] = set()
        #: By parent (NO_ROW for the top queues) the heap of its children.
        self._heaps: dict[int, list[int]] = {}
        for leaf in sorted(self._leaves):
            for queue, parent in queues.steps[leaf]:
                if queue in self._inside:
                    break
                self._inside.add(queue)
                self._heaps.setdefault(parent, []).append(queue)
        #: Those that are compared anew when they come first.
        self._changed: set[int] = set(self._inside)
        self._arrange(NO_ROW, key_of)
        # Whoever stands first everywhere has just been compared.
        heap = self._heaps.get(NO_ROW)
        while heap:
            self._changed.discard(heap[0])
            heap = None if heap[0] in self._leaves else self._heaps[heap[0]]

    def _arrange(self, parent: int, key_of: KeyOf) -> None:
        heap = self._heaps.get(parent, [])
        for queue in heap:
            if queue not in self._leaves:
                self._arrange(queue, key_of)
        if len(heap) > 1:
            heap.sort(key=lambda queue: key_of(queue, self._first_leaf(queue)), reverse=self._last_first)

    def changed(self, leaf: int, key_of: KeyOf, *, occupied: bool) -> None:
        """Something came to a leaf or went; `occupied`: there is something in it now."""
        self._leaves.add(leaf)
        for queue, parent in self._queues.steps[leaf]:
            heap = self._heaps.setdefault(parent, [])
            if occupied:
                if queue not in self._inside:
                    self._inside.add(queue)
                    heap.append(queue)
                    self._rise(heap, len(heap) - 1, key_of)
                self._changed.add(queue)
            elif queue in self._inside:
                self._inside.remove(queue)
                self._changed.discard(queue)
                self._take_out(heap, heap.index(queue), key_of)
                occupied = len(heap) > 0
            else:
                return

    def next_leaf(self, key_of: KeyOf) -> int | None:
        """The leaf whose turn it is; None: there is nothing anywhere."""
        heap = self._heaps.get(NO_ROW)
        while heap:
            first = heap[0]
            if first in self._changed:
                self._changed.remove(first)
                self._sink(heap, 0, key_of)
            elif first in self._leaves:
                return first
            else:
                heap = self._heaps[first]
        return None

    def _first_leaf(self, queue: int) -> int:
        while queue not in self._leaves:
            queue = self._heaps[queue][0]
        return queue

    # -- heaps ---------------------------------------------------------------------------------------------------

    def _key(self, queue: int, key_of: KeyOf) -> Key:
        return key_of(queue, self._first_leaf(queue))

    def _before(self, left: Key, right: Key) -> bool:
        return left > right if self._last_first else left < right

    def _sink(self, heap: list[int], at: int, key_of: KeyOf) -> None:
        if 2 * at + 1 >= len(heap):
            return
        mine = self._key(heap[at], key_of)
        while (child := 2 * at + 1) < len(heap):
            best = self._key(heap[child], key_of)
            if child + 1 < len(heap) and self._before(other := self._key(heap[child + 1], key_of), best):
                child, best = child + 1, other
            if not self._before(best, mine):
                return
            heap[at], heap[child] = heap[child], heap[at]
            at = child

    def _rise(self, heap: list[int], at: int, key_of: KeyOf) -> None:
        if at == 0:
            return
        mine = self._key(heap[at], key_of)
        while at > 0 and self._before(mine, self._key(heap[above := (at - 1) // 2], key_of)):
            heap[at], heap[above] = heap[above], heap[at]
            at = above

    def _take_out(self, heap: list[int], at: int, key_of: KeyOf) -> None:
        last = heap.pop()
        if at < len(heap):
            heap[at] = last
            self._sink(heap, at, key_of)
            self._rise(heap, at, key_of)


class TreeLine:
    """Jobs in line by the tree of their queues, none of which is missing, broken or not a leaf."""

    def __init__(self, session: Session, jobs: Iterable[int], *, depth: int | None = None) -> None:
        """`depth`: how many jobs of one leaf are kept, the first ones; None: all."""
        self._session = session
        self._depth = sys.maxsize if depth is None else depth
        self._leaves: dict[int, list[tuple[Key, int]]] = {}
        self._count = 0
        for job in jobs:
            with session.turn(job):
                self._leaf_of(job).append((session.job_key(job), job))
        for line in self._leaves.values():
            line.sort()
            del line[self._depth :]
            self._count += len(line)
        occupied = [leaf for leaf, line in self._leaves.items() if line]
        self._tree = QueueTree(session.snapshot.queues, occupied, self._queue_key)

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def pop(self) -> int | None:
        """Take out the next job; None: nobody is in line."""
        leaf = self._tree.next_leaf(self._queue_key)
        if leaf is None:
            return None
        line = self._leaves[leaf]
        _, job = line.pop(0)
        self._count -= 1
        self._tree.changed(leaf, self._queue_key, occupied=bool(line))
        return job

    def push(self, job: int) -> None:
        """Put a job in line, or back."""
        line = self._leaf_of(job)
        before = len(line)
        with self._session.turn(job):
            insort(line, (self._session.job_key(job), job))
        del line[self._depth :]
        self._count += len(line) - before
        self._tree.changed(int(self._session.snapshot.jobs.queue[job]), self._queue_key, occupied=bool(line))

    def _leaf_of(self, job: int) -> list[tuple[Key, int]]:
        return self._leaves.setdefault(int(self._session.snapshot.jobs.queue[job]), [])

    def _queue_key(self, queue: int, leaf: int) -> Key:
        return self._session.queue_turn_key(queue, self._leaves[leaf][0][1])
