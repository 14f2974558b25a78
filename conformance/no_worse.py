"""Judging evictions of whole gangs: not "the same as Volcano", but "no worse".

Muster means to do better there, with fewer victims, so equality would be a fault. A case passes when everybody whom
Volcano serves is served (or, in their stead, a job of at least their priority in their queue, or in one that comes
before it), and what is evicted for these jobs is no more, in resources and in gangs broken, than what Volcano evicts.
What is evicted for others, whom Volcano leaves waiting, is reported in the sums and not held against the case.
`--strict` asks for equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from conformance.cases import Case
from conformance.results import Mismatch
from conformance.scheduling import Cycle
from muster.framework import Session
from muster.snapshot import ALLOCATED_STATUSES, OperationKind, Rows

#: Areas of random cases that are judged this way.
AREAS = ("gangpreempt", "gangreclaim")


def is_judged_so(case: Case) -> bool:
    """Whether the case is one of random gang evictions."""
    return case.is_random and any(f"random:{area}" in case.tags for area in AREAS)


@dataclass(slots=True)
class Toll:
    """What serving jobs has cost."""

    served: int = 0
    pods: int = 0
    gangs: int = 0
    #: Evicted resources, each as a part of the cluster's, averaged over resources.
    share: float = 0.0

    def add(self, other: Toll) -> None:
        self.served += other.served
        self.pods += other.pods
        self.gangs += other.gangs
        self.share += other.share


@dataclass(slots=True)
class Sums:
    """Both sides, over all cases of an area."""

    cases: int = 0
    theirs: Toll = field(default_factory=Toll)
    ours: Toll = field(default_factory=Toll)


class NoWorse:
    """Judges cases and keeps the sums."""

    def __init__(self) -> None:
        self.sums: dict[str, Sums] = {}

    def compare(self, case: Case, before: Session, cycle: Cycle) -> Iterator[Mismatch]:
        """Yield what is worse than Volcano's outcome; `before` is a session on the same objects, untouched."""
        theirs = _served(case.body["expect"]["jobs"]) - _never_preempting(before)
        ours = {job for job, numbers in _our_numbers(cycle).items() if numbers}
        stand_ins = _stand_ins(before, theirs - ours, ours - theirs)
        counted = {*(theirs & ours), *stand_ins.values()}
        evicted = _tasks(before, case.body["observed"].get("evicted") or ())
        their_toll = _toll(before, len(theirs), evicted)
        our_toll = _toll(before, len(ours), _evicted_for(cycle, None))
        counted_toll = _toll(before, len(counted), _evicted_for(cycle, counted))
        self._keep(case, their_toll, our_toll)
        missing = sorted(theirs - ours - stand_ins.keys())
        if missing:
            yield Mismatch("served", sorted(theirs), sorted(ours))
        if counted_toll.share > their_toll.share + 1e-9:
            yield Mismatch("evicted resources", round(their_toll.share, 4), round(counted_toll.share, 4))
        if counted_toll.gangs > their_toll.gangs:
            yield Mismatch("gangs broken", their_toll.gangs, counted_toll.gangs)

    def _keep(self, case: Case, theirs: Toll, ours: Toll) -> None:
        area = next(area for area in AREAS if f"random:{area}" in case.tags)
        sums = self.sums.setdefault(area, Sums())
        sums.cases += 1
        sums.theirs.add(theirs)
        sums.ours.add(ours)

    def lines(self) -> list[str]:
        """The sums side by side, one line per area and system."""
        lines = []
        for area, sums in self.sums.items():
            for name, toll in (("Volcano", sums.theirs), ("Muster", sums.ours)):
                lines.append(
                    f"{area:12} {name:8} {sums.cases} cases: {toll.served:4} jobs served, {toll.pods:5} pods evicted, "
                    f"{toll.gangs:4} gangs broken, {toll.share / sums.cases:7.2%} of the cluster evicted on average"
                )
        return lines


def _served(jobs: dict[str, dict[str, int]]) -> set[str]:
    return {job for job, numbers in jobs.items() if numbers["bound"] + numbers["pipelined"] > 0}


def _never_preempting(before: Session) -> set[str]:
    """Jobs that take places in Volcano although their pods say `preemptionPolicy: Never`; nobody owes them that."""
    tasks, records = before.snapshot.tasks, before.snapshot.jobs.records
    return {
        records[int(job)].id
        for job, pod in zip(tasks.job, tasks.pods, strict=True)
        if job >= 0 and pod.spec.preemption_policy == "Never"
    }


def _our_numbers(cycle: Cycle) -> dict[str, int]:
    """Job -> pods that got a place."""
    snapshot = cycle.session.snapshot
    numbers = {job: len(nodes) for job, nodes in cycle.pipelined.items()}
    rows = {name: row for row, name in enumerate(snapshot.tasks.ids)}
    for pod in cycle.binds:
        job = snapshot.jobs.records[int(snapshot.tasks.job[rows[pod]])].id
        numbers[job] = numbers.get(job, 0) + 1
    return numbers


def _stand_ins(before: Session, missed: set[str], others: set[str]) -> dict[str, str]:
    """Who of the others may stand for whom: same or higher priority, and a queue that does not come later."""
    jobs = before.snapshot.jobs
    found: dict[str, str] = {}
    for name in sorted(missed):
        row = jobs.index[name]
        for other in sorted(others - set(found.values())):
            mine = jobs.index[other]
            if jobs.priority[mine] < jobs.priority[row]:
                continue
            same = jobs.queue[mine] == jobs.queue[row]
            if same or not before.queue_key(int(jobs.queue[row])) < before.queue_key(int(jobs.queue[mine])):
                found[name] = other
                break
    return found


def _tasks(before: Session, pods: tuple[str, ...] | list[str]) -> Rows:
    rows = {name: row for row, name in enumerate(before.snapshot.tasks.ids)}
    return np.array([rows[pod] for pod in pods], np.intp)


def _evicted_for(cycle: Cycle, jobs: set[str] | None) -> Rows:
    """Tasks evicted for the jobs, or (None) for anybody; rows are the same in every session on the same objects."""
    records = cycle.session.snapshot.jobs.records
    found = [
        operation.tasks
        for committed in cycle.session.committed
        for operation in committed.operations
        if operation.kind is OperationKind.EVICT and (jobs is None or records[operation.beneficiary].id in jobs)
    ]
    tasks: Rows = np.concatenate(found) if found else np.empty(0, np.intp)
    return tasks


def _toll(before: Session, served: int, evicted: Rows) -> Toll:
    """What an eviction of these tasks does to the cluster as it was."""
    snapshot = before.snapshot
    if len(evicted) == 0:
        return Toll(served)
    requests = snapshot.classes.requests[snapshot.tasks.cls[evicted], 0].sum(axis=0)
    counts = before.total > 0
    counts[snapshot.axis.index["pods"]] = False
    jobs, lost = np.unique(snapshot.tasks.job[evicted], return_counts=True)
    ready = snapshot.jobs.counts[jobs][:, list(ALLOCATED_STATUSES)].sum(axis=1)
    minimum = snapshot.jobs.min_member[jobs]
    broken = int(((ready >= minimum) & (ready - lost < minimum)).sum())
    return Toll(served, len(evicted), broken, float((requests[counts] / before.total[counts]).mean()))
