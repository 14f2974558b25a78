"""Lines: which queue is served next, and which of its jobs.

Queues stand side by side, or take turns down their tree: the best top queue, its best child, ... and so the leaf to
serve next. Shares steer the order while resources are given out: whoever was served, or got something, is compared
anew when it comes first. In a tree the others keep their places meanwhile, and a queue is judged by the leaf that
stands first below it, even if that one has just been served, as in KAI. A turn costs a few keys.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from muster.framework import JobVerdict, Session
from muster.framework.reasons import QUEUE_OVERUSED
from muster.snapshot import NO_ROW

Key = tuple[Any, ...]
#: From so many jobs on, asking about all at once is faster than one by one.
_MANY: Final = 4
#: The key of a queue (first argument) by what stands first in its best leaf (second).
KeyOf = Callable[[int, int], Key]
#: By leaf, the queues from it up to the top, each with its parent; NO_ROW at the top.
Steps: TypeAlias = Mapping[int, Sequence[tuple[int, int]]] | Sequence[Sequence[tuple[int, int]]]


class QueueTree:
    """Leaves with something in them, and the queues above; `last_first` serves the largest keys first.

    Whoever owns it knows what stands in each leaf, and says when that changes. The tree does not keep `key_of`: it is
    its owner's method, and in a circle neither would be freed at once.
    """

    def __init__(self, steps: Steps, leaves: Iterable[int], key_of: KeyOf, *, last_first: bool = False) -> None:
        """`leaves`: those that have something in them."""
        self._steps = steps
        self._first = -1 if last_first else 0
        self._leaves = set(leaves)
        #: Queues with something below them by parent, the smallest key first as of when each was compared.
        self._inside: dict[int, list[int]] = {}
        for leaf in sorted(self._leaves):
            for queue, parent in steps[leaf]:
                siblings = self._inside.setdefault(parent, [])
                if queue in siblings:
                    break
                siblings.append(queue)
        self._arrange(NO_ROW, key_of)
        #: Those that are compared anew when they come first.
        self._changed: set[int] = set()
        self.all_changed()

    def _arrange(self, parent: int, key_of: KeyOf) -> None:
        siblings = self._inside.get(parent, [])
        for queue in siblings:
            if queue not in self._leaves:
                self._arrange(queue, key_of)
        if len(siblings) > 1:
            siblings.sort(key=lambda queue: key_of(queue, self._first_leaf(queue)))

    def changed(self, leaf: int, key_of: KeyOf, *, occupied: bool) -> None:
        """Something came to a leaf or went; `occupied`: there is something in it now."""
        self._leaves.add(leaf)
        for queue, parent in self._steps[leaf]:
            siblings = self._inside.setdefault(parent, [])
            if occupied:
                if queue not in siblings:
                    self._put(siblings, queue, key_of)
                self._changed.add(queue)
            elif queue in siblings:
                siblings.remove(queue)
                self._changed.discard(queue)
                occupied = len(siblings) > 0
            else:
                return

    def all_changed(self) -> None:
        """What one queue got may have changed the keys of all."""
        self._changed.update(*self._inside.values())

    def next_leaf(self, key_of: KeyOf) -> int | None:
        """The leaf whose turn it is; None: there is nothing anywhere."""
        siblings = self._inside.get(NO_ROW)
        while siblings:
            first = siblings[self._first]
            if first in self._changed:
                self._changed.remove(first)
                self._put(siblings, siblings.pop(self._first), key_of)
            elif first in self._leaves:
                return first
            else:
                siblings = self._inside[first]
        return None

    def _put(self, siblings: list[int], queue: int, key_of: KeyOf) -> None:
        """Put a queue in its place among others."""
        if siblings:
            insort(siblings, queue, key=lambda one: key_of(one, self._first_leaf(one)))
        else:
            siblings.append(queue)

    def _first_leaf(self, queue: int) -> int:
        while queue not in self._leaves:
            queue = self._inside[queue][self._first]
        return queue


def _keys(session: Session, jobs: Iterable[int]) -> Mapping[int, Key]:
    """The keys of jobs where plugins tell those of many at once; who fails at that is asked about each."""
    rows = np.fromiter(jobs, np.intp)
    if len(rows) < _MANY:
        return {}
    try:
        keys = session.job_keys(rows)
    except Exception:  # noqa: BLE001  # it will be told about the job that it fails at
        return {}
    return {} if keys is None else dict(zip(rows.tolist(), keys, strict=True))


class Line:
    """Jobs in line at their queues, none of which is missing, broken or, in a tree, not a leaf."""

    def __init__(
        self,
        session: Session,
        jobs: Collection[int],
        *,
        is_tree: bool = False,
        turns_away: bool = False,
        depth: int | None = None,
        known: Mapping[int, Key] | None = None,
    ) -> None:
        """`turns_away`: queues that have too much already get nothing; `depth`: so many jobs of a queue are kept.

        `known`: the keys of jobs for which somebody has just asked.
        """
        self._session = session
        self._is_tree = is_tree
        self._turns_away = turns_away
        self._depth = depth
        self._jobs: dict[int, list[tuple[Key, int]]] = {}
        known = known or _keys(session, jobs)
        for job in jobs:
            with session.turn(job):
                self._jobs_beside(job).append((known[job] if job in known else session.job_key(job), job))
        for line in self._jobs.values():
            line.sort()
            line[:] = line[:depth]
        queues = session.snapshot.queues
        steps: Steps = queues.steps if is_tree else [[(queue, NO_ROW)] for queue in range(len(queues))]
        self._tree = QueueTree(steps, [queue for queue, line in self._jobs.items() if line], self._queue_key)

    def __len__(self) -> int:
        return sum(map(len, self._jobs.values()))

    def pop(self) -> int | None:
        """Take out the next job; None: nobody is in line."""
        while (queue := self._next_queue()) is not None:
            jobs = self._jobs[queue]
            if not (self._turns_away and self._session.overused(queue)):
                _, job = jobs.pop(0)
                self._tree.changed(queue, self._queue_key, occupied=bool(jobs))
                return job
            for job in self.close(queue):
                self._session.record(job, JobVerdict(QUEUE_OVERUSED))
        return None

    def pop_queue(self) -> tuple[int, list[int]] | None:
        """Take out the first queue, with its jobs; None: none is in line."""
        queue = self._next_queue()
        return None if queue is None else (queue, self.close(queue))

    def push(self, job: int) -> None:
        """Put a job in line, or back."""
        line = self._jobs_beside(job)
        with self._session.turn(job):
            insort(line, (self._session.job_key(job), job))
        line[:] = line[: self._depth]
        self._tree.changed(int(self._session.snapshot.jobs.queue[job]), self._queue_key, occupied=bool(line))

    def leave_out(self, jobs: Container[int]) -> list[int]:
        """Take out those of the jobs that are in line."""
        gone: list[int] = []
        for queue, line in self._jobs.items():
            left = [entry for entry in line if entry[1] not in jobs]
            if len(left) < len(line):
                gone += [job for _, job in line if job in jobs]
                line[:] = left
                self._tree.changed(queue, self._queue_key, occupied=bool(left))
        return gone

    def close(self, queue: int) -> list[int]:
        """Take out all jobs of a queue."""
        jobs = self._jobs.pop(queue, [])
        if jobs:
            self._tree.changed(queue, self._queue_key, occupied=False)
        return [job for _, job in jobs]

    def sort_again(self, queue: int) -> None:
        """What orders the jobs of a queue has changed."""
        line = self._jobs.get(queue, [])
        line[:] = sorted((self._session.job_key(job), job) for _, job in line)
        if line:
            self._tree.changed(queue, self._queue_key, occupied=True)

    def _jobs_beside(self, job: int) -> list[tuple[Key, int]]:
        return self._jobs.setdefault(int(self._session.snapshot.jobs.queue[job]), [])

    def _next_queue(self) -> int | None:
        if not self._is_tree:
            self._tree.all_changed()
        return self._tree.next_leaf(self._queue_key)

    def _queue_key(self, queue: int, leaf: int) -> Key:
        if self._is_tree:
            return self._session.queue_turn_key(queue, self._jobs[leaf][0][1])
        return self._session.queue_key(queue)
