"""Counters, gauges and histograms in the text format that Prometheus reads.

Written by the service's thread, read by the HTTP thread; single updates need no lock, since a scrape may as well see
the one before. Names and meanings are part of what operators rely on, and stand here only; those under which Volcano's
dashboards know them, in `volcano_metrics`.

An eviction is in vain when the job for which it was made has, at the end of a later cycle, neither started a pod nor a
promise of a place, and still waits. A victim that stayed on its node, because the API server refused, lost nothing; and
a job that was deleted, or asks for no pod any more, is nobody's mistake.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from muster.api import KINDS
from muster.framework import Session
from muster.scheduler import CycleResult
from muster.server.volcano_metrics import volcano_lines
from muster.snapshot import NO_ROW, Quarantine, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Evict

#: What can be refused; there from the start, so that the first refusal shows as an increase.
_REFUSABLE: Final = ("bind", "evict", "nominate", "status", "annotations", "condition")
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_GAUGES: Final = {
    "muster_pods": "Pods of jobs that this scheduler serves.",
    "muster_nodes": "Nodes that this scheduler works on.",
    "muster_jobs": "Jobs that this scheduler serves.",
    "muster_oldest_undecided_pod_seconds": "How long a waiting pod may have been without a decision of any cycle.",
    "muster_leader": "1 while this replica decides.",
}
#: Kinds that can be put aside; there from the start, and never more.
_KINDS: Final = tuple(sorted({kind for _, kind in KINDS}))
_Label = tuple[str, str]


class _Histogram:
    """How often a duration stayed below each bound."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, unit: int = 1) -> Iterator[str]:
        """The histogram; `unit`: how many of its units are a second."""
        total = 0
        bounds = _BOUNDS if unit == 1 else tuple(f"{bound * unit:g}" for bound in _BOUNDS)
        for bound, count in zip((*map(str, bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum * unit:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """What the service tells about itself."""

    def __init__(self) -> None:
        self._cycles = _Histogram()
        self._decisions: dict[str, int] = {"bind": 0, "evict": 0, "nominate": 0}
        self._refused = 0
        self._answers: dict[str, int] = dict.fromkeys(_REFUSABLE, 0)
        self._errors = 0
        self._gauges: dict[str, float] = {}
        self._reloads: dict[str, int] = {"ok": 0, "failed": 0}
        self._evicting: dict[str, int] = {}
        self._session: Session | None = None
        self._aside: dict[str, int] = dict.fromkeys(_KINDS, 0)
        self._put_aside: dict[str, int] = dict.fromkeys(_KINDS, 0)
        self._dropped = 0
        self._victims = EvictionMetrics()

    def record_cycle(self, result: CycleResult, seconds: float) -> None:
        """Count a cycle and what it decided."""
        self._cycles.observe(seconds)
        for made in result.decisions:
            self._decisions[type(made).__name__.lower()] += 1
        for action, _ in {_eviction(made) for made in result.decisions if isinstance(made, Evict)}:
            self._evicting[action] = self._evicting.get(action, 0) + 1
        self._victims.record(result)
        self._refused += len(result.failures)
        self._errors += result.error is not None

    def record_refusals(self, refused: Mapping[str, int]) -> None:
        """Note how often the cluster has refused what so far."""
        self._answers.update(refused)

    def record_session(self, session: Session) -> None:
        """Note how the cluster looked at the end of a cycle."""
        self._session = session
        self._victims.look(session)
        snapshot, tasks = session.snapshot, session.snapshot.tasks
        ours = tasks.job != NO_ROW
        for status in (TaskStatus.PENDING, TaskStatus.RUNNING):
            self._gauges[f'muster_pods{{status="{status.label}"}}'] = int((ours & (tasks.status == status)).sum())
        self._gauges["muster_nodes"] = len(snapshot.nodes)
        self._gauges["muster_jobs"] = int(snapshot.jobs.live.sum())

    def record_leadership(self, *, is_leader: bool) -> None:
        self._gauges["muster_leader"] = int(is_leader)

    def record_waiting(self, seconds: float) -> None:
        """Note the longest that a pod can have waited for a decision."""
        self._gauges["muster_oldest_undecided_pod_seconds"] = seconds

    def record_quarantine(self, quarantine: Quarantine, dropped: int) -> None:
        """Note what cannot be used, how often that has happened, and how often a plugin lost its place."""
        self._aside = dict.fromkeys(_KINDS, 0) | Counter(held.kind for held in quarantine)
        self._put_aside = dict.fromkeys(_KINDS, 0) | quarantine.counts
        self._dropped = dropped

    def record_reload(self, *, worked: bool) -> None:
        self._reloads["ok" if worked else "failed"] += 1

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("muster_cycle_seconds", "histogram", "Duration of scheduling cycles.")
        yield from self._cycles.lines("muster_cycle_seconds")
        yield from _head("muster_decisions_total", "counter", "Decisions sent to the cluster.")
        yield from _labelled("muster_decisions_total", "kind", self._decisions)
        yield from _head("muster_refused_total", "counter", "Decisions that could not be sent at all.")
        yield f"muster_refused_total {self._refused}"
        yield from _head("muster_api_refusals_total", "counter", "Decisions and reports that the API server refused.")
        yield from _labelled("muster_api_refusals_total", "kind", self._answers)
        yield from _head("muster_cycle_errors_total", "counter", "Cycles that broke off.")
        yield f"muster_cycle_errors_total {self._errors}"
        yield from _head("muster_config_reloads_total", "counter", "Configurations read again.")
        yield from _labelled("muster_config_reloads_total", "result", self._reloads)
        yield from _head("muster_quarantined", "gauge", "Objects that cannot be used; see /debug/quarantine.")
        yield from _labelled("muster_quarantined", "kind", self._aside)
        yield from _head("muster_quarantines_total", "counter", "Objects that were put aside because of what they say.")
        yield from _labelled("muster_quarantines_total", "kind", self._put_aside)
        yield from _head("muster_plugins_dropped_total", "counter", "Plugins that failed too often and were left out.")
        yield f"muster_plugins_dropped_total {self._dropped}"
        yield from self._victims.lines()
        told: set[str] = set()
        for name, value in sorted(self._gauges.items()):
            family = name.partition("{")[0]
            if family not in told:
                told.add(family)
                yield from _head(family, "gauge", _GAUGES[family])
            yield f"{name} {value:g}"
        yield from self._volcano_lines()

    def _volcano_lines(self) -> Iterator[str]:
        """What dashboards for Volcano look for."""
        name = "volcano_e2e_scheduling_latency_milliseconds"
        yield from _head(name, "histogram", "Duration of scheduling cycles.")
        yield from self._cycles.lines(name, unit=1000)
        name = "volcano_eviction_transactions_total"
        yield from _head(name, "counter", "Jobs for which pods were evicted, by the action that did so.")
        yield from _labelled(name, "action", self._evicting)
        if self._session is not None:
            yield from volcano_lines(self._session)


def _eviction(made: Evict) -> tuple[str, str]:
    """The action, and for whom it evicted."""
    return made.why.partition(":")[0], made.beneficiary


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labelled(name: str, label: str, values: Mapping[str, int]) -> Iterator[str]:
    for value, count in values.items():
        yield f'{name}{{{label}="{value}"}} {count}'


# -- what evicting came to -------------------------------------------------------------------------------------


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
        yield from _head("muster_action_seconds_total", "counter", "Time that actions took.")
        for action, seconds in self._seconds.items():
            yield f'muster_action_seconds_total{{action="{action}"}} {seconds:.6f}'
        name = "muster_eviction_attempts_total"
        yield from _head(name, "counter", "Turns in which a job looked for victims, by what came of it.")
        yield from _pairs(name, "outcome", self._attempts)
        name = "muster_eviction_victims_total"
        yield from _head(name, "counter", "Pods that were evicted, by the action and why they were chosen.")
        yield from _pairs(name, "reason", self._victims)
        name = "muster_evictions_in_vain_total"
        yield from _head(name, "counter", "Pods that were evicted for a job that then did not start; should stay at 0.")
        yield f"{name} {self._in_vain}"
        name = "muster_eviction_dry_runs_total"
        yield from _head(name, "counter", "Scenarios that were tried in the search for victims.")
        yield from (f'{name}{{action="{action}"}} {count}' for action, count in self._dry_runs.items())
        name = "muster_eviction_searches_cut_short_total"
        yield from _head(name, "counter", "Searches for victims that ended at a bound on dry runs or domains.")
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


def _pairs(name: str, label: str, counts: Mapping[_Label, int]) -> Iterator[str]:
    for (action, value), count in counts.items():
        yield f'{name}{{action="{action}",{label}="{value}"}} {count}'
