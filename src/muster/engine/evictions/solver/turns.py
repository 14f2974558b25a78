"""Whose turn it is in a dry run: victims that may find a place again, and the beneficiary, down the queue tree.

The order is that of the next allocate, so that what a dry run promises is what allocate will do: the other jobs that
wait stand in line too, and are passed over when their turn comes. Equal jobs that follow each other in a queue are
passed over together. Jobs that wait are sorted once for a whole run of the action; a dry run adds its own.

"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from muster.engine.lines import Key
from muster.engine.queue_tree import QueueTree
from muster.framework import Session
from muster.snapshot import Rows

#: Where a job stands in its queue, and the job.
Place = tuple[Key, int]


@dataclass(slots=True)
class _Run:
    """Jobs of one queue that follow each other and wait for the same."""

    shape: Hashable
    places: list[Place] = field(default_factory=list)

    def remove(self, place: Place) -> None:
        del self.places[bisect_left(self.places, place)]

    def without(self, own: Iterable[Place]) -> list[Place]:
        """One place for each part of the run that the places in `own` leave."""
        at = sorted(bisect_left(self.places, place) for place in own)
        parts = []
        start = 0
        for end in (*at, len(self.places)):
            if end > start:
                parts.append(self.places[start])
            start = end + 1
        return parts


class Waiting:
    """All jobs that wait, by queue, in the order of their turns."""

    def __init__(self, session: Session, jobs: Mapping[int, Rows]) -> None:
        """`jobs`: the tasks that wait, by job."""
        self._session = session
        lines: dict[int, list[Place]] = {}
        for job in jobs:
            lines.setdefault(int(session.snapshot.jobs.queue[job]), []).append((session.job_key(job), job))
        self._runs: dict[int, list[_Run]] = {}
        #: Where a job stands.
        self._place_of: dict[int, tuple[_Run, Place]] = {}
        for queue, line in lines.items():
            runs = self._runs[queue] = []
            for place in sorted(line):
                shape = _shape(session, place[1], jobs[place[1]])
                if not runs or runs[-1].shape != shape:
                    runs.append(_Run(shape))
                runs[-1].places.append(place)
                self._place_of[place[1]] = runs[-1], place

    def discard(self, job: int) -> None:
        """A job has been served; one that stood in no line had none to leave."""
        run, place = self._place_of.pop(job, (None, None))
        if run is not None and place is not None:
            run.remove(place)

    def with_jobs(self, own: Iterable[Place]) -> dict[int, list[Place]]:
        """The lines of all queues with the jobs of a dry run, each once, where the given keys put them."""
        places = list(own)
        leaving: dict[int, list[Place]] = {}
        for _, job in places:
            if job in self._place_of:
                run, place = self._place_of[job]
                leaving.setdefault(id(run), []).append(place)
        lines = {queue: [place for run in runs for place in _parts(run, leaving)] for queue, runs in self._runs.items()}
        for key, job in places:
            insort(lines.setdefault(int(self._session.snapshot.jobs.queue[job]), []), (key, job))
        return {queue: line for queue, line in lines.items() if line}


def _parts(run: _Run, leaving: Mapping[int, list[Place]]) -> list[Place]:
    """The first place of each part of a run that is left; `leaving` by the identity of runs."""
    own = leaving.get(id(run))
    return run.places[:1] if own is None else run.without(own)


def _shape(session: Session, job: int, tasks: Rows) -> Hashable:
    """Equal for jobs whose next chunk asks for the same."""
    snapshot = session.snapshot
    if snapshot.jobs.has_pod_sets(job):
        return job
    classes = snapshot.tasks.cls[tasks]
    held = sum(snapshot.jobs.counts[job].tolist()) - len(tasks)
    return classes.tobytes(), int(snapshot.jobs.min_member[job]), held if held == 0 else -job


class Turns:
    """The jobs of a dry run in the order in which they are served.

    Queues are compared only while several of them have jobs of the dry run; who else waits matters only then.
    """

    def __init__(self, session: Session, waiting: Waiting, own: Iterable[Place]) -> None:
        self._session = session
        places = sorted(own, reverse=True)
        #: By leaf, the next one at the end.
        self._left: dict[int, list[int]] = {}
        for _, job in places:
            self._left.setdefault(int(session.snapshot.jobs.queue[job]), []).append(job)
        self._lines: dict[int, list[Place]] = waiting.with_jobs(places) if len(self._left) > 1 else {}
        self._next = dict.fromkeys(self._lines, 0)
        self._tree = QueueTree(session.snapshot.queues, self._lines, self._turn_key)

    def pop(self) -> int | None:
        """The next job of the dry run; None: everybody had a turn."""
        while len(self._left) > 1:
            leaf = self._tree.next_leaf(self._turn_key)
            assert leaf is not None
            line, at = self._lines[leaf], self._next[leaf]
            self._next[leaf] = at + 1
            self._tree.changed(leaf, self._turn_key, occupied=at + 1 < len(line))
            own = self._left.get(leaf)
            if own and own[-1] == line[at][1]:
                return self._serve(leaf)
        return self._serve(next(iter(self._left))) if self._left else None

    def _serve(self, leaf: int) -> int:
        own = self._left[leaf]
        job = own.pop()
        if not own:
            del self._left[leaf]
        return job

    def _turn_key(self, queue: int, leaf: int) -> Key:
        first = self._lines[leaf][self._next[leaf]][1]
        return self._session.queue_turn_key(queue, first)
