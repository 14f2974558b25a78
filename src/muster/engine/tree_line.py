"""One line of jobs for a tree of queues: the best top queue, its best child, ... and the first job of that leaf.

Callers: actions that let queues take turns level by level. Jobs are ranked when they are put in line, queues as
`muster.engine.queue_tree` says. Callers leave out jobs whose queue is missing, broken or not a leaf.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Iterable

from muster.engine.lines import Key
from muster.engine.queue_tree import QueueTree
from muster.framework import Session


class TreeLine:
    """Jobs in line, by the tree of their queues."""

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
