"""Two runs beside each other: what happens without the changes, and what would happen with them.

`Comparison.as_document` is the documented output of `muster whatif --output json`; tables are made of the same fields.
Everything is sorted: equal input gives equal output, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.whatif.fates import JobFate, Json, Outcome

#: Starts that lie closer together are the same.
_SAME_S = 0.5


class Difference(StrEnum):
    """What the changes do to a job, in one word; the most telling first."""

    #: It loses work that it keeps without the changes, or more of it.
    EVICTED = "evicted"
    #: It does not start any more.
    WAITS = "waits"
    LATER = "later"
    #: It is there only with the changes.
    NEW = "new"
    #: It starts, and does not without the changes.
    STARTS = "starts"
    EARLIER = "earlier"
    #: It keeps work that it loses without the changes.
    SPARED = "spared"
    #: It runs on other nodes.
    ELSEWHERE = "elsewhere"
    #: It is there only without the changes.
    GONE = "gone"
    #: It waits as before, for another reason.
    OTHER_REASON = "other reason"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class JobComparison:
    """One job in both runs; None where it is not there, or runs and nothing is decided about it."""

    job: str
    difference: Difference
    without: JobFate | None
    within: JobFate | None

    def to_json(self) -> Json:
        return {
            "job": self.job,
            "difference": self.difference.value,
            "without": None if self.without is None else self.without.to_json(),
            "with": None if self.within is None else self.within.to_json(),
        }


@dataclass(frozen=True, slots=True)
class RunTotals:
    """One run in numbers."""

    cycles: int
    #: How far the clock was run forward.
    seconds: float
    #: Whether it ended because nothing would be decided any more.
    settled: bool
    #: Jobs that got their minimum, that wait at the end, and that lost it for good.
    started: int
    waiting: int
    evicted: int
    #: Pods.
    evicted_pods: int
    moved_pods: int
    lost_gpu_s: float
    #: At the end.
    gpus_held: float
    gpus: float

    def to_json(self) -> Json:
        return {
            "cycles": self.cycles,
            "seconds": round(self.seconds, 3),
            "settled": self.settled,
            "started": self.started,
            "waiting": self.waiting,
            "evicted": self.evicted,
            "evictedPods": self.evicted_pods,
            "movedPods": self.moved_pods,
            "lostGpuSeconds": round(self.lost_gpu_s, 3),
            "gpusHeld": self.gpus_held,
            "gpus": self.gpus,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes would do."""

    #: In words.
    changes: tuple[str, ...]
    #: What is worth knowing about them.
    notes: tuple[str, ...]
    without: RunTotals
    within: RunTotals
    #: Jobs about which something is decided or that wait, in one of the runs; differences first.
    jobs: tuple[JobComparison, ...]

    @property
    def differences(self) -> tuple[JobComparison, ...]:
        """Jobs for which it makes a difference."""
        return tuple(job for job in self.jobs if job.difference is not Difference.SAME)

    def of(self, job: str) -> JobComparison | None:
        """One job by its id; None: it runs in both, and nothing is decided about it."""
        return next((each for each in self.jobs if each.job == job), None)

    def as_document(self) -> Json:
        """Return the documented JSON form."""
        return {
            "changes": list(self.changes),
            "notes": list(self.notes),
            "without": self.without.to_json(),
            "with": self.within.to_json(),
            "jobs": [job.to_json() for job in self.jobs],
        }


def compare_jobs(
    without: Mapping[str, JobFate], within: Mapping[str, JobFate], present: tuple[frozenset[str], frozenset[str]]
) -> tuple[JobComparison, ...]:
    """Put the jobs of two runs beside each other; `present`: all jobs that are there at the end of each."""
    found = []
    for job in sorted({*without, *within}):
        one, other = without.get(job), within.get(job)
        found.append(JobComparison(job, _difference(one, other, (job in present[0], job in present[1])), one, other))
    order = list(Difference)
    return tuple(sorted(found, key=lambda each: (order.index(each.difference), each.job)))


def _difference(without: JobFate | None, within: JobFate | None, there: tuple[bool, bool]) -> Difference:
    if there[0] != there[1]:
        return Difference.NEW if there[1] else Difference.GONE
    return (
        _about_work(without, within)
        or _about_start(without, within)
        or (Difference.ELSEWHERE if _nodes(without) != _nodes(within) else None)
        or _about_reason(without, within)
        or Difference.SAME
    )


def _about_work(without: JobFate | None, within: JobFate | None) -> Difference | None:
    was_lost, is_lost = _lost(without), _lost(within)
    if is_lost != was_lost:
        return Difference.EVICTED if is_lost > was_lost else Difference.SPARED
    return None


def _lost(fate: JobFate | None) -> tuple[bool, float, int]:
    """What a job loses: its place, then work, then pods."""
    if fate is None:
        return False, 0.0, 0
    return fate.outcome is Outcome.EVICTED, round(fate.lost_gpu_s, 3), fate.n_evicted


def _about_start(without: JobFate | None, within: JobFate | None) -> Difference | None:
    waited, waits = _waits(without), _waits(within)
    if waited != waits:
        return Difference.WAITS if waits else Difference.STARTS
    before, now = (0.0 if fate is None or fate.starts_s is None else fate.starts_s for fate in (without, within))
    if abs(before - now) <= _SAME_S:
        return None
    return Difference.LATER if now > before else Difference.EARLIER


def _waits(fate: JobFate | None) -> bool:
    return fate is not None and fate.outcome in (Outcome.WAITS, Outcome.EVICTED)


def _nodes(fate: JobFate | None) -> tuple[str, ...]:
    """Where a job is at the end, if it got there in the run; who was not decided about is where it was."""
    return () if fate is None or fate.outcome is Outcome.RUNS else fate.nodes


def _about_reason(without: JobFate | None, within: JobFate | None) -> Difference | None:
    codes = [fate.reason.partition(":")[0] for fate in (without, within) if fate is not None]
    return Difference.OTHER_REASON if len(set(codes)) > 1 else None


def started(fates: Iterable[JobFate]) -> int:
    """How many jobs got their minimum."""
    return sum(fate.outcome in (Outcome.STARTS, Outcome.RESTARTS) for fate in fates)
