"""What evicting came to, as Prometheus reads it: attempts, victims, dry runs, time, and who was evicted in vain.

An eviction is in vain when the job for which it was made has, at the end of a later cycle, neither started a pod nor a
promise of a place, and still waits. A victim that stayed on its node, because the API server refused, lost nothing; and
a job that was deleted, or asks for no pod any more, is nobody's mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.framework import Session
from muster.scheduler import CycleResult
from muster.snapshot import NO_ROW, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Evict

_Label = tuple[str, str]


class EvictionMetrics:
    """Counts over all cycles of this process."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._dry_runs: Counter[str] = Counter()
        self._cut_short: Counter[str] = Counter()
        self._attempts: Counter[_Label] = Counter()
        self._victims: Counter[_Label] = Counter()
        self._in_vain = 0
        #: By beneficiary that has not started yet: its victims.
        self._awaited: dict[str, list[Evict]] = {}

    def record(self, result: CycleResult) -> None:
        """Count what a cycle did."""
        for action, tally in result.tallies.items():
            self._seconds[action] = self._seconds.get(action, 0.0) + tally.seconds
            self._dry_runs[action] += tally.dry_runs
            self._cut_short[action] += tally.cut_short
            for outcome, count in tally.attempts.items():
                self._attempts[action, outcome] += count
        # What is bound in the cycle of an eviction does not owe it its place, so the binds come first.
        for made in result.decisions if self._awaited else ():
            if isinstance(made, Bind):
                self._awaited.pop(made.job, None)
        for made in result.decisions:
            if isinstance(made, Evict):
                self._victims[made.why.partition(":")[0], made.reason or "other"] += 1
                if made.beneficiary:
                    self._awaited.setdefault(made.beneficiary, []).append(made)

    def look(self, session: Session) -> None:
        """See who still waits for the places that others were evicted from."""
        jobs = session.snapshot.jobs
        for beneficiary in list(self._awaited):
            row = jobs.index.get(beneficiary, NO_ROW)
            if row != NO_ROW and jobs.counts[row, TaskStatus.PIPELINED]:
                continue
            victims = self._awaited.pop(beneficiary)
            if row != NO_ROW and jobs.counts[row, TaskStatus.PENDING]:
                self._in_vain += sum(_has_left(session.snapshot, victim) for victim in victims)

    def lines(self) -> Iterator[str]:
        yield from _head("muster_action_seconds_total", "Time that actions took.")
        for action, seconds in self._seconds.items():
            yield f'muster_action_seconds_total{{action="{action}"}} {seconds:.6f}'
        name = "muster_eviction_attempts_total"
        yield from _head(name, "Turns in which a job looked for victims, by what came of it.")
        yield from _pairs(name, "outcome", self._attempts)
        name = "muster_eviction_victims_total"
        yield from _head(name, "Pods that were evicted, by the action and why they were chosen.")
        yield from _pairs(name, "reason", self._victims)
        name = "muster_evictions_in_vain_total"
        yield from _head(name, "Pods that were evicted for a job that then did not start; should stay at 0.")
        yield f"{name} {self._in_vain}"
        name = "muster_eviction_dry_runs_total"
        yield from _head(name, "Scenarios that were tried in the search for victims.")
        yield from (f'{name}{{action="{action}"}} {count}' for action, count in self._dry_runs.items())
        name = "muster_eviction_searches_cut_short_total"
        yield from _head(name, "Searches for victims that ended at a bound on dry runs or domains.")
        yield from (f'{name}{{action="{action}"}} {count}' for action, count in self._cut_short.items())


def _has_left(snapshot: Snapshot, victim: Evict) -> bool:
    """Whether a victim is not on its node any more, or is leaving it."""
    tasks, row = snapshot.tasks, snapshot.jobs.index.get(victim.job, NO_ROW)
    return not any(
        tasks.ids[task] == victim.pod
        and tasks.status[task] in (TaskStatus.RUNNING, TaskStatus.BOUND)
        and snapshot.nodes.names[int(tasks.node[task])] == victim.node
        for task in (snapshot.tasks_of(row).tolist() if row != NO_ROW else ())
    )


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} counter"


def _pairs(name: str, label: str, counts: Mapping[_Label, int]) -> Iterator[str]:
    for (action, value), count in counts.items():
        yield f'{name}{{action="{action}",{label}="{value}"}} {count}'
