"""How long jobs are expected to run, and how sure that is: their own word, their deadline, or their owner's record.

A pod says it by the annotation `muster.sh/expected-seconds`, on itself or its PodGroup; else its deadline is an upper
bound. Where neither is said, the jobs that the same owner has run before tell: half of them ran no longer than the
median of the last ones, and how far these lay apart is the error; owners without a record have everybody's. Owners are
named by `muster.sh/owner`, else by who made the pod, else by queue. Like all that is counted over time the record lives
in memory, and is lost with it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np
from msgspec.structs import replace

from muster.api import Pod
from muster.api.names import EXPECTED_SECONDS, OWNER, RUN_SECONDS
from muster.snapshot import JobRecord, Snapshot

#: So many runs of an owner are remembered, and so few tell nothing.
_REMEMBERED: Final = 64
_FEW: Final = 3
#: A job that runs for longer than expected is expected to run for so much of that time again.
_OVERRUN: Final = 0.5
#: The part of an owner's runs that are no longer than what a job is trusted not to exceed.
_HARDLY: Final = 0.85
#: Whose record stands for owners who have none: everybody's.
_ANYBODY: Final = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """A run time, where it comes from, and by what factor it may be wrong, as far as anybody knows."""

    seconds: float
    source: str
    error: float = 1.0
    #: The runs that it was made from, the shortest first; none: somebody said it.
    runs: tuple[float, ...] = ()

    @property
    def at_most(self) -> float:
        """What it will hardly exceed: 85 in a hundred of the runs did not; who said a time is believed."""
        return self.runs[math.ceil(_HARDLY * len(self.runs)) - 1] if self.runs else self.seconds

    def remaining(self, ran_s: float) -> float:
        """What is left of it after some time: who has run for long is one of those that run for long.

        One that is over has been estimated too low, and goes on for a while.
        """
        if self.runs and (longer := self.runs[bisect_right(self.runs, ran_s) :]):
            return longer[len(longer) // 2] - ran_s
        return self.seconds - ran_s if ran_s < self.seconds else max(60.0, _OVERRUN * ran_s)


def expected_seconds(pod: Pod, marks: Mapping[str, str] | None = None) -> float | None:
    """How long a pod says that it will run, or may at most; `marks`: annotations of its PodGroup. None: not said."""
    for written in (pod.metadata.annotations, marks or {}):
        for key in (EXPECTED_SECONDS, RUN_SECONDS):
            seconds = _number(written.get(key))
            if seconds is not None:
                return seconds
    deadline = pod.spec.active_deadline_seconds
    return None if deadline is None else float(deadline)


def _number(text: str | None) -> float | None:
    try:
        seconds = math.nan if text is None else float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def owner_of(record: JobRecord, pod: Pod | None) -> str:
    """Who stands behind a job."""
    said = record.annotations.get(OWNER) or ("" if pod is None else pod.metadata.annotations.get(OWNER, ""))
    if said:
        return said
    owners = () if pod is None else pod.metadata.owner_references
    made_by = next((f"{owner.kind} {record.namespace}/{owner.name}" for owner in owners), "")
    return made_by or f"queue {record.queue}"


@dataclass(slots=True)
class RunTimes:
    """What owners' jobs took before, and what the jobs that run are expected to take."""

    _record: dict[str, deque[float]] = field(default_factory=dict)
    #: Jobs that ran in the last cycle: owner, and since when.
    _running: dict[str, tuple[str, float]] = field(default_factory=dict)
    #: What PodGroups said that speak for their jobs, and what owners' records said since they last grew.
    _said: dict[str, tuple[JobRecord, Expected]] = field(default_factory=dict)
    _judged: dict[str, Expected] = field(default_factory=dict)
    #: When jobs that run will end by their own word: the same in every cycle.
    _ends: dict[str, tuple[JobRecord, float]] = field(default_factory=dict)

    def follow(self, snapshot: Snapshot, now: float) -> None:
        """Take in a picture: jobs that ran and are gone have ended."""
        jobs = snapshot.jobs
        runs = {jobs.records[row].id: row for row in np.flatnonzero(jobs.allocated.any(axis=1)).tolist()}
        for job in [job for job in self._running if job not in runs]:
            owner, since = self._running.pop(job)
            if job not in jobs.index:
                self._remember(owner, now - since)
        for job, row in runs.items():
            if job in self._running:
                continue
            record, tasks = jobs.records[row], snapshot.tasks_of(row)
            pod = snapshot.tasks.pods[int(tasks[0])] if len(tasks) else None
            self._running[job] = owner_of(record, pod), now if record.started is None else record.started
        if len(self._said) > 2 * len(jobs) + _REMEMBERED:
            self._said = {job: known for job, known in self._said.items() if job in jobs.index}
        if len(self._ends) > 2 * len(runs) + _REMEMBERED:
            self._ends = {job: known for job, known in self._ends.items() if job in runs}

    def ended(self, job: str, owner: str, seconds: float) -> None:
        """Note what a job took, where somebody knows it better than by looking now and then."""
        self._running.pop(job, None)
        self._remember(owner, seconds)

    def _remember(self, owner: str, seconds: float) -> None:
        for whose in (owner, _ANYBODY):
            self._record.setdefault(whose, deque(maxlen=_REMEMBERED)).append(max(0.0, seconds))
            self._judged.pop(whose, None)

    def said(self, record: JobRecord) -> Expected | None:
        """What the PodGroup of a job says, if that is known; None: its pods have to be looked at."""
        known = self._said.get(record.id)
        return known[1] if known is not None and known[0] is record else None

    def of(self, record: JobRecord, pods: Iterable[Pod]) -> Expected | None:
        """What is expected of a job; None: nothing is known."""
        if (known := self.said(record)) is not None:
            return known
        first: Pod | None = None
        said: list[float] = []
        for pod in pods:
            first = first or pod
            seconds = expected_seconds(pod, record.annotations)
            if seconds is not None:
                said.append(seconds)
            if record.annotations.get(EXPECTED_SECONDS):
                break  # the PodGroup speaks for all of them
        if said:
            is_bound = first is not None and expected_seconds(_without_deadline(first), record.annotations) is None
            found = Expected(max(said), "deadline" if is_bound else "said")
            if record.annotations.get(EXPECTED_SECONDS) and not _speaks(first):
                self._said[record.id] = record, found
            return found
        return self.by_owner(owner_of(record, first))

    def since(self, record: JobRecord, now: float) -> float:
        """When a job that runs began."""
        known = self._running.get(record.id)
        return record.started if record.started is not None else now if known is None else known[1]

    def end(self, record: JobRecord, expected: Callable[[], Expected | None], now: float) -> float:
        """When a job that runs is expected to end; infinite: nobody knows."""
        known = self._ends.get(record.id)
        if known is not None and known[0] is record and known[1] > now:
            return known[1]
        found = expected()
        if found is None:
            return math.inf
        if record.started is not None and self.said(record) is found:
            self._ends[record.id] = record, record.started + found.seconds
        return now + found.remaining(max(0.0, now - self.since(record, now)))

    def by_owner(self, owner: str) -> Expected | None:
        """What is expected of a job by what its owner's took before; None: too few did to tell."""
        known = self._judged.get(owner)
        if known is not None:
            return known
        before = self._record.get(owner, ())
        if len(before) < _FEW:
            return None if owner == _ANYBODY else self.by_owner(_ANYBODY)
        middle = median(before)
        apart = median(
            max(run, 1.0) / max(middle, 1.0) if run > middle else max(middle, 1.0) / max(run, 1.0) for run in before
        )
        source = f"record of {owner}" if owner else "record of everybody"
        found = self._judged[owner] = Expected(middle, source, round(apart, 2), tuple(sorted(before)))
        return found


def _speaks(pod: Pod | None) -> bool:
    """Whether a pod says by itself how long it will run."""
    return pod is not None and not {EXPECTED_SECONDS, RUN_SECONDS}.isdisjoint(pod.metadata.annotations)


def _without_deadline(pod: Pod) -> Pod:
    return (
        pod
        if pod.spec.active_deadline_seconds is None
        else replace(pod, spec=replace(pod.spec, active_deadline_seconds=None))
    )
