"""What a simulation led to, as plain data: decisions, jobs, nodes.

`SimulationResult.to_json` is the documented output of `muster simulate --output json`; the tables are made from
the same fields. The final picture is taken from the cluster after the last cycle, so pods that were bound in it
count. Everything is sorted or in the order of decisions: equal input gives equal output, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muster.api import to_base
from muster.api.resources import format_amount
from muster.engine.waiting import has_promise
from muster.explain import refine_verdict
from muster.framework import JobVerdict, Session
from muster.framework.reasons import NOT_TRIED, PROMISED
from muster.scheduler import CycleResult
from muster.scheduler.job_statuses import job_status, leaving_counts, verdict_text
from muster.snapshot import NO_ROW, Aside, JobPhase, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Decision, Evict

_ON_NODE = (TaskStatus.BOUND, TaskStatus.RUNNING)
_ROOM = (*_ON_NODE, TaskStatus.RELEASING, TaskStatus.UNKNOWN)


@dataclass(frozen=True, slots=True)
class JobReport:
    """How one job ended up. `running` counts pods that have a node; `reason` is empty unless the job waits."""

    phase: str
    running: int
    pending: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeReport:
    """How one node ended up; amounts as people write them, pods by name."""

    allocatable: dict[str, str]
    used: dict[str, str]
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a simulation led to."""

    #: Seconds since the epoch at which it began.
    start: float
    cycles: list[CycleResult]
    jobs: dict[str, JobReport]
    nodes: dict[str, NodeReport]
    #: True: it ended because nothing would change any more; False: a limit was reached.
    settled: bool
    #: What could not be used at the end, by kind, namespace and name; None: the objects are a user's own.
    quarantined: tuple[Aside, ...] | None = None
    last_session: Session | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        """Return the documented JSON form."""
        return {
            "decisions": [_decision(made, cycle, self.start) for cycle in self.cycles for made in cycle.decisions],
            "jobs": {
                name: {
                    "phase": job.phase,
                    "running": job.running,
                    "pending": job.pending,
                    "reason": job.reason,
                }
                for name, job in self.jobs.items()
            },
            "nodes": {
                name: {"allocatable": node.allocatable, "used": node.used, "pods": list(node.pods)}
                for name, node in self.nodes.items()
            },
            "cycles": len(self.cycles),
            **({} if self.quarantined is None else {"quarantined": [aside.to_json() for aside in self.quarantined]}),
        }


def _decision(made: Decision, cycle: CycleResult, start: float) -> dict[str, Any]:  # Any: JSON
    return {
        "cycle": cycle.number,
        "time": round(cycle.time - start, 6),
        "kind": type(made).__name__.lower(),
        "pod": made.pod,
        "node": made.node,
        "job": made.job,
        "beneficiary": "" if isinstance(made, Bind) else made.beneficiary,
        "why": made.why,
        **({"record": made.record} if isinstance(made, Evict) and made.record is not None else {}),
    }


def report_jobs(snapshot: Snapshot, session: Session | None) -> dict[str, JobReport]:
    """Report on every job of the final picture, by id; reasons come from the last session."""
    verdicts = _verdicts(session)
    leaving = leaving_counts(snapshot)
    reports = {}
    for job in np.flatnonzero(snapshot.jobs.live).tolist():
        name = snapshot.jobs.records[job].id
        # Unknown is for gangs that lost members: some run, and the minimum is not there.
        broken = snapshot.jobs.ready_count(job) < int(snapshot.jobs.min_member[job])
        status = job_status(snapshot, job, leaving[job], unschedulable=broken)
        waits = status.pending > 0 and status.phase is not JobPhase.RUNNING
        counts = snapshot.jobs.counts[job]
        reports[name] = JobReport(
            phase=status.phase.label,
            running=sum(int(counts[known]) for known in _ON_NODE),
            pending=status.pending,
            reason=verdict_text(verdicts.get(name) or JobVerdict(NOT_TRIED)) if waits else "",
        )
    return dict(sorted(reports.items()))


def _verdicts(session: Session | None) -> dict[str, JobVerdict]:
    if session is None:
        return {}
    records = session.snapshot.jobs.records
    # Tasks of one class find the same nodes, so each class is looked at once however many jobs wait.
    refined: dict[tuple[str, int], JobVerdict] = {}
    verdicts: dict[str, JobVerdict] = {}
    for job, said in session.verdicts.items():
        verdict = JobVerdict(PROMISED) if has_promise(session, job) else said
        key = (verdict.reason.code, verdict.cls)
        if verdict.detail:
            verdicts[records[job].id] = verdict
            continue
        if key not in refined:
            refined[key] = refine_verdict(session, verdict)
        verdicts[records[job].id] = refined[key]
    return verdicts


def report_nodes(snapshot: Snapshot) -> dict[str, NodeReport]:
    """Report on every node of the final picture, by name."""
    nodes, axis = snapshot.nodes, snapshot.axis
    pods = _pods_by_node(snapshot)
    reports = {}
    for row, name in sorted(enumerate(nodes.names), key=lambda known: known[1]):
        offered = {} if nodes.aside[row] else nodes.objects[row].status.allocatable
        used = axis.amounts(nodes.used()[row])
        reports[name] = NodeReport(
            allocatable={
                resource: format_amount(resource, to_base(resource, offered[resource])) for resource in sorted(offered)
            },
            used={resource: format_amount(resource, used[resource]) for resource in sorted(used)},
            pods=tuple(sorted(pods[row])),
        )
    return reports


def _pods_by_node(snapshot: Snapshot) -> list[list[str]]:
    tasks = snapshot.tasks
    pods: list[list[str]] = [[] for _ in snapshot.nodes.names]
    for task in np.flatnonzero((tasks.node != NO_ROW) & np.isin(tasks.status, _ROOM)).tolist():
        pods[tasks.node[task]].append(tasks.ids[task])
    return pods
