"""Lines: which queue is served next, and which of its jobs.

A queue gives one job a turn and goes back in line with a fresh key, so that shares steer the order while
resources are given out. Keys are made when something is put in line; a queue whose share changed while it
stood in line is put in again, and its old place is void.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from muster.framework import JobVerdict, Session
from muster.framework.reasons import QUEUE_OVERUSED

Key = tuple[Any, ...]


class JobLine:
    """Jobs of one queue, in order of their keys at the time they were put in."""

    def __init__(self) -> None:
        self._heap: list[tuple[Key, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, key: Key, job: int) -> None:
        heapq.heappush(self._heap, (key, job))

    def pop(self) -> int:
        return heapq.heappop(self._heap)[1]

    def jobs(self) -> list[int]:
        """Everyone still in line, in no particular order."""
        return [job for _, job in self._heap]


class QueueLine:
    """Queues that have jobs to offer."""

    def __init__(self, queues: Iterable[int], key_of: Callable[[int], Key], related: dict[int, list[int]]) -> None:
        self._key_of = key_of
        #: Queues whose keys change when something is placed in the queue, itself not among them.
        self._related = related
        self._heap: list[tuple[Key, int, int]] = []
        self._ticket: dict[int, int] = {}
        self._tickets = 0
        for queue in queues:
            self.push(queue)

    def push(self, queue: int) -> None:
        """Put a queue in line, or anew if it stands there already."""
        self._tickets += 1
        self._ticket[queue] = self._tickets
        heapq.heappush(self._heap, (self._key_of(queue), self._tickets, queue))

    def pop(self) -> int | None:
        """Take the first queue out; None: nobody is in line."""
        while self._heap:
            _, ticket, queue = heapq.heappop(self._heap)
            if self._ticket.get(queue) == ticket:
                del self._ticket[queue]
                return queue
        return None

    def refresh_around(self, queue: int) -> None:
        """Something was placed in `queue`: queues that share a parent with it may have another key now."""
        for other in self._related.get(queue, ()):
            if other in self._ticket:
                self.push(other)


class FlatLine:
    """Jobs in line at queues that take turns: one job of a queue, then the next queue."""

    def __init__(self, session: Session, jobs: Iterable[int], *, turns_away: bool = True) -> None:
        """`turns_away`: queues that have too much already get nothing."""
        self._session = session
        self._turns_away = turns_away
        self._jobs: dict[int, JobLine] = {}
        for job in jobs:
            self.push(job)
        self._queues = QueueLine(self._jobs, session.queue_key, related_queues(session, self._jobs))
        #: The queue whose job has its turn; it goes back in line when that is over.
        self._served: int | None = None

    def pop(self) -> int | None:
        """Take out the next job; None: nobody is in line."""
        if self._served is not None:
            self._queues.refresh_around(self._served)
            self._queues.push(self._served)
            self._served = None
        while (queue := self._queues.pop()) is not None:
            jobs = self._jobs[queue]
            if jobs and self._turns_away and self._session.overused(queue):
                for job in jobs.jobs():
                    self._session.record(job, JobVerdict(QUEUE_OVERUSED))
            elif jobs:
                self._served = queue
                return jobs.pop()
        return None

    def push(self, job: int) -> None:
        """Put a job in line, or back."""
        with self._session.turn(job):
            queue = int(self._session.snapshot.jobs.queue[job])
            self._jobs.setdefault(queue, JobLine()).push(self._session.job_key(job), job)


def related_queues(session: Session, queues: Iterable[int]) -> dict[int, list[int]]:
    """Which of `queues` share a parent with which; empty for flat queues."""
    paths = session.snapshot.queues.paths
    members: dict[int, list[int]] = {}
    listed = list(queues)
    if session.is_hierarchical("drf"):
        # Its tree stands in annotations, and a resource that runs out changes the key of everybody.
        return {queue: [other for other in listed if other != queue] for queue in listed}
    for queue in listed:
        for above in paths[queue][1:]:
            members.setdefault(int(above), []).append(queue)
    related: dict[int, list[int]] = {}
    for queue in listed:
        near = {other for above in paths[queue][1:] for other in members[int(above)]}
        near.discard(queue)
        if near:
            related[queue] = sorted(near)
    return related
