"""Every metric of the scheduler and what to be woken up for: names and meanings that operators rely on, in one table.

What is served, the reference page, the dashboard and the alert rules are made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]
#: Values of the labels, in their order, and the number.
Sample = tuple[tuple[str, ...], float]

#: Where a family is shown: a row of the dashboard. Volcano's names are there for dashboards that exist.
QUEUES: Final = "Queues"
GANGS: Final = "Gangs"
ACTIONS: Final = "Actions"
EVICTIONS: Final = "Evictions"
SERVER: Final = "API server"
HEALTH: Final = "Health"
VOLCANO: Final = "Volcano's names"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its labels."""

    name: str
    kind: Kind
    row: str
    text: str
    labels: tuple[str, ...] = ()
    #: Of the last cycle: stands still on a replica that does not lead.
    of_leader: bool = False
    #: Of the number: seconds, or a mere count.
    unit: Literal["", "s"] = ""

    def head(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} {self.kind}"

    def lines(self, samples: Iterable[Sample]) -> Iterator[str]:
        """The family as Prometheus reads it."""
        yield from self.head()
        for values, number in samples:
            pairs = ",".join(f'{label}="{value}"' for label, value in zip(self.labels, values, strict=True))
            yield f"{self.name}{{{pairs}}} {number:.15g}" if pairs else f"{self.name} {number:.15g}"


def _of_queues(name: str, text: str) -> Family:
    return Family(f"muster_queue_{name}", "gauge", QUEUES, text, ("queue", "resource"), of_leader=True)


def _volcanos_amounts(name: str, text: str) -> Iterator[Family]:
    for tail, labels in (
        ("milli_cpu", ("queue_name",)),
        ("memory_bytes", ("queue_name",)),
        ("scalar_resources", ("queue_name", "resource")),
    ):
        yield Family(f"volcano_queue_{name}_{tail}", "gauge", VOLCANO, text, labels, of_leader=True)


_AMOUNTS: Final = "CPUs, bytes or devices"
_TABLE: Final = (
    _of_queues("quota", f"What a queue was promised, where it was promised something: {_AMOUNTS}."),
    _of_queues("limit", f"The most that a queue may hold, where there is a limit: {_AMOUNTS}."),
    _of_queues("fair_share", f"What a queue may have now, where a plugin shares out: {_AMOUNTS}."),
    _of_queues("held", f"What the pods of a queue, and of those below it, hold: {_AMOUNTS}."),
    _of_queues("asked", f"What they hold and what waiting pods ask for: {_AMOUNTS}."),
    Family(
        "muster_waiting_jobs",
        "gauge",
        GANGS,
        "Jobs with pods that wait, by the code of the reason; queue is the one they name, there or not.",
        ("queue", "reason"),
        of_leader=True,
    ),
    Family("muster_jobs", "gauge", GANGS, "Jobs that have not finished.", of_leader=True),
    Family(
        "muster_pods",
        "gauge",
        GANGS,
        "Pods of our jobs, by status.",
        ("status",),
        of_leader=True,
    ),
    Family("muster_nodes", "gauge", GANGS, "Nodes that this scheduler works on.", of_leader=True),
    Family("muster_cycle_seconds", "histogram", ACTIONS, "Duration of scheduling cycles.", unit="s"),
    Family("muster_action_seconds_total", "counter", ACTIONS, "Time that actions took.", ("action",), unit="s"),
    Family(
        "muster_decisions_total", "counter", ACTIONS, "Decisions sent to the cluster: bind, evict, nominate.", ("kind",)
    ),
    Family(
        "muster_eviction_attempts_total",
        "counter",
        EVICTIONS,
        "Turns in which a job looked for victims, by what came of it: made-room, or why nobody was evicted.",
        ("action", "outcome"),
    ),
    Family(
        "muster_eviction_victims_total",
        "counter",
        EVICTIONS,
        "Pods that were evicted, by the action and why they were chosen.",
        ("action", "reason"),
    ),
    Family(
        "muster_evictions_in_vain_total",
        "counter",
        EVICTIONS,
        "Pods that were evicted for a job that lost its promise before it started, and still waits; should stay at 0.",
    ),
    Family(
        "muster_eviction_dry_runs_total",
        "counter",
        EVICTIONS,
        "Scenarios that were tried in the search for victims.",
        ("action",),
    ),
    Family(
        "muster_eviction_searches_cut_short_total",
        "counter",
        EVICTIONS,
        "Searches for victims that ended at maxTrialsPerJob, maxTrialsPerCycle or maxDomains with more to try.",
        ("action",),
    ),
    Family(
        "muster_api_request_seconds",
        "histogram",
        SERVER,
        "Time from a request to its whole answer, or to giving it up; watches are left out.",
        ("method",),
        unit="s",
    ),
    Family(
        "muster_api_refusals_total",
        "counter",
        SERVER,
        "Decisions and reports that the API server refused, or did not answer in time.",
        ("kind",),
    ),
    Family(
        "muster_refused_total",
        "counter",
        SERVER,
        "Decisions that could not be sent, because their pod had gone or changed.",
    ),
    Family("muster_leader", "gauge", HEALTH, "1 while this replica decides."),
    Family(
        "muster_oldest_undecided_pod_seconds",
        "gauge",
        HEALTH,
        "How long a waiting pod may have been without a decision of any cycle.",
        unit="s",
    ),
    Family("muster_cycle_errors_total", "counter", HEALTH, "Cycles that broke off: a fault in a plugin or in Muster."),
    Family(
        "muster_config_reloads_total",
        "counter",
        HEALTH,
        "Configurations read again: ok, or failed and left alone.",
        ("result",),
    ),
    Family("muster_quarantined", "gauge", HEALTH, "Objects that cannot be used; see /debug/quarantine.", ("kind",)),
    Family(
        "muster_quarantines_total",
        "counter",
        HEALTH,
        "Objects that were put aside because of what they say.",
        ("kind",),
    ),
    Family(
        "muster_plugins_dropped_total",
        "counter",
        HEALTH,
        "Plugins that failed three times in a row and were left out for a minute.",
    ),
    Family("volcano_e2e_scheduling_latency_milliseconds", "histogram", VOLCANO, "Duration of scheduling cycles."),
    Family(
        "volcano_eviction_transactions_total",
        "counter",
        VOLCANO,
        "Jobs for which pods were evicted, by the action that did so.",
        ("action",),
    ),
    Family("volcano_unschedule_job_count", "gauge", VOLCANO, "Jobs that wait for their minimum.", of_leader=True),
    *_volcanos_amounts("allocated", "What the pods of a queue hold."),
    *_volcanos_amounts("request", "What the pods of a queue hold and what its waiting pods ask for."),
    *_volcanos_amounts("deserved", "What a queue is entitled to; with fairshare, its quota."),
    *_volcanos_amounts("capacity", "The most that a queue may hold."),
    Family("volcano_queue_weight", "gauge", VOLCANO, "Weight of a queue.", ("queue_name",), of_leader=True),
    Family(
        "volcano_queue_overused",
        "gauge",
        VOLCANO,
        "1 while a queue has all that it is entitled to.",
        ("queue_name",),
        of_leader=True,
    ),
    Family(
        "volcano_queue_share",
        "gauge",
        VOLCANO,
        "What a queue holds, in parts of what it is entitled to; the largest part.",
        ("queue_name",),
        of_leader=True,
    ),
)
FAMILIES: Final = {family.name: family for family in _TABLE}


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person should look at."""

    name: str
    #: In PromQL, of the families above.
    when: str
    #: For how long it has to hold, as Prometheus writes durations.
    lasts: str
    severity: Literal["critical", "warning", "info"]
    summary: str
    #: What to do.
    remedy: str


ALERTS: Final = (
    Alert(
        "MusterHasNoLeader",
        "sum by (namespace, job) (muster_leader) != 1",
        "1m",
        "critical",
        "{{ $value }} replicas decide, and one should",
        "look at the replicas' logs for event=lease; with none, nothing is scheduled",
    ),
    Alert(
        "MusterIsGone",
        "absent(muster_leader)",
        "5m",
        "critical",
        "no scheduler tells metrics",
        "look at the Deployment, and whether Prometheus finds the Service",
    ),
    Alert(
        "MusterPodsUndecided",
        "muster_oldest_undecided_pod_seconds > 60",
        "1m",
        "critical",
        "pods may have waited {{ $value | humanizeDuration }} without a decision of any cycle",
        "look at the log for event=error, and at muster_cycle_seconds",
    ),
    Alert(
        "MusterCyclesBreakOff",
        "increase(muster_cycle_errors_total[10m]) > 0",
        "0m",
        "warning",
        "cycles broke off by a fault in a plugin or in Muster",
        "the log has the trace, at event=error",
    ),
    Alert(
        "MusterCyclesSlow",
        "histogram_quantile(0.99, sum by (namespace, job, le) (rate(muster_cycle_seconds_bucket[10m]))) > 5",
        "15m",
        "warning",
        "one cycle in a hundred takes {{ $value | humanizeDuration }} or more",
        "muster_action_seconds_total says which action it is; maxTrialsPerCycle bounds the search for victims",
    ),
    Alert(
        "MusterConfigurationRefused",
        'increase(muster_config_reloads_total{result="failed"}[10m]) > 0',
        "0m",
        "warning",
        "a new configuration was refused, and the old one is in force",
        "the log says why at event=config-refused; `muster config check` says it beforehand",
    ),
    Alert(
        "MusterObjectsAside",
        "sum by (namespace, job, kind) (muster_quarantined and on (instance) muster_leader == 1) > 0",
        "15m",
        "warning",
        "{{ $value }} objects of kind {{ $labels.kind }} cannot be used",
        "/debug/quarantine names them and says what is wrong",
    ),
    Alert(
        "MusterPluginDropped",
        "increase(muster_plugins_dropped_total[10m]) > 0",
        "0m",
        "warning",
        "a plugin failed three times in a row and was left out for a minute",
        "the log names it at event=plugin-dropped",
    ),
    Alert(
        "MusterEvictionsInVain",
        "increase(muster_evictions_in_vain_total[1h]) > 0",
        "0m",
        "warning",
        "{{ $value }} pods were evicted for jobs that then did not start",
        "see who took the room: nodes that went away, or pods of other schedulers",
    ),
    Alert(
        "MusterApiServerSlow",
        "histogram_quantile(0.99, sum by (namespace, job, le) (rate(muster_api_request_seconds_bucket[10m]))) > 1",
        "10m",
        "warning",
        "one request to the API server in a hundred takes {{ $value | humanizeDuration }} or more",
        "look at the API server and at its priority and fairness settings",
    ),
    Alert(
        "MusterApiServerRefuses",
        "sum by (namespace, job) (rate(muster_api_refusals_total[10m]))"
        " > 0.1 * sum by (namespace, job) (rate(muster_api_request_seconds_count[10m]))",
        "10m",
        "warning",
        "the API server refuses more than a tenth of what is sent",
        "the log says what and why at event=refused",
    ),
    Alert(
        "MusterQueueBelowQuota",
        "(muster_queue_held < muster_queue_quota and muster_queue_held < muster_queue_asked)"
        " and on (instance) muster_leader == 1",
        "1h",
        "info",
        "queue {{ $labels.queue }} has asked for its quota of {{ $labels.resource }} for an hour and does not have it",
        "`muster queue show --cluster` says who borrows it, `muster explain JOB --cluster` what stands in the way",
    ),
)
