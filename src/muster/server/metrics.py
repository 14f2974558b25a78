"""Counters, gauges and histograms in the text format that Prometheus reads.

Written by the service's thread, read by the HTTP thread; single updates need no lock, since a scrape may as well see
the one before. Names and meanings stand in `metric_table`; what Volcano's dashboards look for is made in
`volcano_metrics`. How queues stand takes a look at every job, so it is made once for each scrape, after the next cycle.

An eviction is in vain when the job for which it was made has, at the end of a later cycle, neither started a pod nor a
promise of a place, and still waits. A victim that stayed on its node, because the API server refused, lost nothing; and
a job that was deleted, or asks for no pod any more, is nobody's mistake.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from muster.api import KINDS
from muster.api.resources import unit_of
from muster.explain import QueueOverview, queue_overview
from muster.framework import Session
from muster.framework.reasons import QUEUE_MISSING
from muster.scheduler import CycleResult
from muster.server.metric_table import FAMILIES, Sample
from muster.server.volcano_metrics import volcano_lines
from muster.snapshot import NO_ROW, UNLIMITED, Quarantine, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Evict

log = logging.getLogger("muster.server")

#: What can be refused; there from the start, so that the first refusal shows as an increase.
_REFUSABLE: Final = ("bind", "evict", "nominate", "status", "annotations", "condition")
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: Of every resource of a queue, what is told.
_AMOUNTS: Final = ("quota", "limit", "fair_share", "held", "asked")
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

    def lines(self, name: str, labels: str = "", unit: int = 1) -> Iterator[str]:
        """The histogram; `labels` as they stand in braces, `unit`: how many of its units are a second."""
        total = 0
        before, alone = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
        bounds = _BOUNDS if unit == 1 else tuple(f"{bound * unit:g}" for bound in _BOUNDS)
        for bound, count in zip((*map(str, bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{before}le="{bound}"}} {total}'
        yield f"{name}_sum{alone} {self._sum * unit:.6f}"
        yield f"{name}_count{alone} {total}"


class Metrics:
    """What the service tells about itself."""

    def __init__(self) -> None:
        self._cycles = _Histogram()
        self._decisions: dict[str, int] = {"bind": 0, "evict": 0, "nominate": 0}
        self._refused = 0
        self._answers: dict[str, int] = dict.fromkeys(_REFUSABLE, 0)
        self._errors = 0
        self._requests: dict[str, _Histogram] = {}
        self._gauges: dict[str, list[Sample]] = {}
        self._reloads: dict[str, int] = {"ok": 0, "failed": 0}
        self._evicting: dict[str, int] = {}
        self._session: Session | None = None
        #: Whose queues the gauges tell of.
        self._looked_at: Session | None = None
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

    def record_request(self, method: str, seconds: float) -> None:
        """Note how long a request to the API server took; called by the one thread that sends them."""
        if method not in self._requests:
            self._requests[method] = _Histogram()
        self._requests[method].observe(seconds)

    def record_session(self, session: Session) -> None:
        """Note how the cluster looked at the end of a cycle."""
        self._session = session
        self._victims.look(session)
        snapshot, tasks = session.snapshot, session.snapshot.tasks
        ours = tasks.job != NO_ROW
        self._gauges["muster_pods"] = [
            ((status.label,), int((ours & (tasks.status == status)).sum()))
            for status in (TaskStatus.PENDING, TaskStatus.RUNNING)
        ]
        self._gauges["muster_nodes"] = [((), len(snapshot.nodes))]
        self._gauges["muster_jobs"] = [((), int(snapshot.jobs.live.sum()))]

    def record_leadership(self, *, is_leader: bool) -> None:
        self._gauges["muster_leader"] = [((), int(is_leader))]

    def record_waiting(self, seconds: float) -> None:
        """Note the longest that a pod can have waited for a decision."""
        self._gauges["muster_oldest_undecided_pod_seconds"] = [((), seconds)]

    def record_quarantine(self, quarantine: Quarantine, dropped: int) -> None:
        """Note what cannot be used, how often that has happened, and how often a plugin lost its place."""
        self._aside = dict.fromkeys(_KINDS, 0) | Counter(held.kind for held in quarantine)
        self._put_aside = dict.fromkeys(_KINDS, 0) | quarantine.counts
        self._dropped = dropped

    def record_reload(self, *, worked: bool) -> None:
        self._reloads["ok" if worked else "failed"] += 1

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        self._look_at_queues()
        return "\n".join(self._lines()) + "\n"

    def _look_at_queues(self) -> None:
        """Tell how queues were at the end of the last cycle: when somebody asks, so that no cycle pays for it."""
        session = self._session
        if session is None or session is self._looked_at:
            return
        self._looked_at = session
        try:
            self._gauges.update(_queue_gauges(queue_overview(session)))
        except Exception:  # what cannot be told costs nothing else that is
            log.exception("event=error what=metrics")

    def _lines(self) -> Iterator[str]:
        yield from FAMILIES["muster_cycle_seconds"].head()
        yield from self._cycles.lines("muster_cycle_seconds")
        yield from FAMILIES["muster_api_request_seconds"].head()
        for method, histogram in sorted(self._requests.copy().items()):
            yield from histogram.lines("muster_api_request_seconds", f'method="{method}"')
        samples: dict[str, Iterable[Sample]] = {
            "muster_decisions_total": _labelled(self._decisions),
            "muster_refused_total": [((), self._refused)],
            "muster_api_refusals_total": _labelled(self._answers),
            "muster_cycle_errors_total": [((), self._errors)],
            "muster_config_reloads_total": _labelled(self._reloads),
            "muster_quarantined": _labelled(self._aside),
            "muster_quarantines_total": _labelled(self._put_aside),
            "muster_plugins_dropped_total": [((), self._dropped)],
            "volcano_eviction_transactions_total": _labelled(self._evicting),
            **self._victims.samples(),
            **dict(sorted(self._gauges.items())),
        }
        for name, found in samples.items():
            yield from FAMILIES[name].lines(found)
        yield from FAMILIES["volcano_e2e_scheduling_latency_milliseconds"].head()
        yield from self._cycles.lines("volcano_e2e_scheduling_latency_milliseconds", unit=1000)
        if self._session is not None:
            yield from volcano_lines(self._session)


def _queue_gauges(tree: QueueOverview) -> dict[str, list[Sample]]:
    """How the queues stand, in the units that people use, and who waits."""
    found: dict[str, list[Sample]] = {f"muster_queue_{name}": [] for name in _AMOUNTS}
    waiting: list[Sample] = [((name, QUEUE_MISSING.code), n) for name, n in tree.missing]
    for queue in tree.walk():
        waiting += [((queue.name, reason.code), n) for reason, n in queue.reasons]
        for resource, amounts in queue.resources.items():
            unit = 1000 if unit_of(resource) == "milli" else 1
            for name in _AMOUNTS:
                amount: int | None = getattr(amounts, name)
                if amount is not None and amount < UNLIMITED and resource != "pods":
                    found[f"muster_queue_{name}"].append(((queue.name, resource), amount / unit))
    return {**found, "muster_waiting_jobs": waiting}


def _eviction(made: Evict) -> tuple[str, str]:
    """The action, and for whom it evicted."""
    return made.why.partition(":")[0], made.beneficiary


def _labelled(values: Mapping[str, float]) -> list[Sample]:
    return [((value,), number) for value, number in values.items()]


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

    def samples(self) -> dict[str, list[Sample]]:
        """What was counted, by the name of the metric."""
        return {
            "muster_action_seconds_total": _labelled(self._seconds),
            "muster_eviction_attempts_total": list(self._attempts.items()),
            "muster_eviction_victims_total": list(self._victims.items()),
            "muster_evictions_in_vain_total": [((), self._in_vain)],
            "muster_eviction_dry_runs_total": _labelled(self._dry_runs),
            "muster_eviction_searches_cut_short_total": _labelled(self._cut_short),
        }


def _has_left(snapshot: Snapshot, victim: Evict) -> bool:
    """Whether a victim is not on its node any more, or is leaving it."""
    tasks, row = snapshot.tasks, snapshot.jobs.index.get(victim.job, NO_ROW)
    return not any(
        tasks.ids[task] == victim.pod
        and tasks.status[task] in (TaskStatus.RUNNING, TaskStatus.BOUND)
        and snapshot.nodes.names[int(tasks.node[task])] == victim.node
        for task in (snapshot.tasks_of(row).tolist() if row != NO_ROW else ())
    )
