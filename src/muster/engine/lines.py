"""Lines: which queue is served next, and which of its jobs.

A queue gives one job a turn and goes back in line with a fresh key, so that shares steer the order while resources are
given out. Keys are made when something is put in line. What others get may make a queue's key larger meanwhile: it is
asked for again when the queue comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from muster.framework import JobVerdict, Session
from muster.framework.reasons import QUEUE_OVERUSED

Key = tuple[Any, ...]


class QueueLine:
    """Jobs in line at queues that take turns: one job of a queue, then the next queue."""

    def __init__(self, session: Session, jobs: Iterable[int], *, turns_away: bool = True) -> None:
        """`turns_away`: queues that have too much already get nothing."""
        self._session = session
        self._turns_away = turns_away
        #: Jobs of each queue, and queues by key and the number of their turn: heaps.
        self._jobs: dict[int, list[tuple[Key, int]]] = {}
        self._queues: list[tuple[Key, int, int]] = []
        self._turns = 0
        for job in jobs:
            self.push(job)
        for queue in self._jobs:
            self._put(queue)
        #: The queue whose job has its turn; it goes back in line when that is over.
        self._served: int | None = None

    def pop(self) -> int | None:
        """Take out the next job; None: nobody is in line."""
        if self._served is not None:
            self._put(self._served)
            self._served = None
        while (queue := self.pop_queue()) is not None:
            jobs = self._jobs[queue]
            if jobs and self._turns_away and self._session.overused(queue):
                for _, job in jobs:
                    self._session.record(job, JobVerdict(QUEUE_OVERUSED))
            elif jobs:
                self._served = queue
                return heapq.heappop(jobs)[1]
        return None

    def push(self, job: int) -> None:
        """Put a job in line, or back."""
        with self._session.turn(job):
            line = self._jobs.setdefault(int(self._session.snapshot.jobs.queue[job]), [])
            heapq.heappush(line, (self._session.job_key(job), job))

    def pop_queue(self) -> int | None:
        """Take out the first queue, with its jobs; None: none is in line."""
        while self._queues:
            key, turn, queue = self._queues[0]
            # Who was put in line last has its key from just now.
            if turn < self._turns and (fresh := self._session.queue_key(queue)) > key:
                heapq.heapreplace(self._queues, (fresh, turn, queue))
            else:
                return heapq.heappop(self._queues)[2]
        return None

    def pop_jobs(self, queue: int) -> Iterable[int]:
        """Take out the jobs of a queue, one after the other."""
        while self._jobs[queue]:
            yield heapq.heappop(self._jobs[queue])[1]

    def _put(self, queue: int) -> None:
        self._turns += 1
        heapq.heappush(self._queues, (self._session.queue_key(queue), self._turns, queue))
