"""What a simulation led to, as plain data: decisions, jobs, nodes.

`SimulationResult.to_json` is the documented output of `muster simulate --output json`; the tables are made from
the same fields. The final picture is taken from the cluster after the last cycle, so pods that were bound in it
count. Everything is sorted or in the order of decisions: equal input gives equal output, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muster.api import KubeObject, Pod, group_of, to_base
from muster.api.objects.batch import Job, JobFlow
from muster.api.objects.workloads import ForeignWorkload, foreign_types
from muster.api.reading.load import Unusable
from muster.api.resources import format_amount
from muster.cluster import MemoryCluster
from muster.controllers.played.controller import player_of
from muster.explain import Whys
from muster.framework import Session
from muster.framework.reasons import NOT_TRIED
from muster.scheduler import CycleResult
from muster.scheduler.job_statuses import job_status, leaving_counts
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
class WorkloadReport:
    """How something ended up of which controllers made pods; `message` says why it is in its phase."""

    kind: str
    phase: str
    running: int = 0
    pending: int = 0
    succeeded: int = 0
    failed: int = 0
    retries: int = 0
    message: str = ""
    #: The PodGroup that it has while it is not finished.
    pod_group: str = ""

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        """Return the documented JSON form."""
        return {
            "kind": self.kind,
            "phase": self.phase,
            "running": self.running,
            "pending": self.pending,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "retries": self.retries,
            "message": self.message,
            "podGroup": self.pod_group,
        }


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
    quarantined: tuple[Aside | Unusable, ...] | None = None
    last_session: Session | None = field(default=None, repr=False, compare=False)
    #: What pods were made of, by namespace and name.
    workloads: dict[str, WorkloadReport] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        """Return the documented JSON form."""
        return {
            "decisions": [decision_json(made, cycle, self.start) for cycle in self.cycles for made in cycle.decisions],
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
            **(
                {"workloads": {name: each.to_json() for name, each in self.workloads.items()}} if self.workloads else {}
            ),
            **({} if self.quarantined is None else {"quarantined": [aside.to_json() for aside in self.quarantined]}),
        }


def decision_json(made: Decision, cycle: CycleResult, start: float) -> dict[str, Any]:  # Any: JSON
    """Return the documented JSON form of one decision; its time counts from `start`."""
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


def report_workloads(cluster: MemoryCluster) -> dict[str, WorkloadReport]:
    """Report on everything of which pods were made, by namespace and name; of two with one name the kind is added."""
    reports = {}
    for flow in cluster.store.all(JobFlow):
        done = f"{len(flow.status.completed_jobs)} of {len(flow.spec.flows)} Jobs are complete"
        reports[flow.key] = WorkloadReport(flow.kind, flow.status.state.phase or "Pending", message=done)
    for job in cluster.store.all(Job):
        status = job.status
        reports[job.key] = WorkloadReport(
            kind=job.kind,
            phase=status.state.phase or "Pending",
            running=status.running,
            pending=status.pending,
            succeeded=status.succeeded,
            failed=status.failed,
            retries=status.retry_count,
            message=status.state.message,
            pod_group=f"{job.namespace}/{job.name}-{job.metadata.uid}",
        )
    for thing, report in _foreign_reports(cluster):
        reports[thing.key if thing.key not in reports else f"{thing.key} ({thing.kind})"] = report
    return dict(sorted(reports.items()))


def _foreign_reports(cluster: MemoryCluster) -> Iterator[tuple[ForeignWorkload, WorkloadReport]]:
    """Report on workloads of others, those that were made of another together with it."""
    things = [thing for kind in foreign_types() for thing in cluster.store.all(kind) if player_of(thing) is not None]
    by_uid: dict[str, KubeObject] = {thing.metadata.uid: thing for thing in things}
    by_uid |= {pod.metadata.uid: pod for pod in cluster.store.all(Pod)}
    pods: dict[str, list[Pod]] = {}
    for pod in cluster.store.all(Pod):
        if (top := _top_owner(pod, by_uid)) is not pod:
            pods.setdefault(top.metadata.uid, []).append(pod)
    for thing in things:
        if _top_owner(thing, by_uid) is thing:
            yield thing, _foreign_report(thing, pods.get(thing.metadata.uid, []))


def _top_owner(thing: KubeObject, by_uid: Mapping[str, KubeObject]) -> KubeObject:
    while owners := [by_uid[each.uid] for each in thing.metadata.owner_references if each.uid in by_uid]:
        thing = owners[0]
    return thing


def _foreign_report(thing: ForeignWorkload, pods: Sequence[Pod]) -> WorkloadReport:
    counts = Counter(pod.status.phase for pod in pods)
    waiting = [pod for pod in pods if pod.status.phase == "Pending"]
    groups = [group for pod in (*waiting, *pods) if (group := group_of(pod)) is not None]
    policy = thing.spec.get("runPolicy")
    is_suspended = thing.spec.get("suspend") is True or (isinstance(policy, dict) and policy.get("suspend") is True)
    ranked = ((is_suspended, "Suspended"), (counts["Running"], "Running"), (waiting or not pods, "Pending"))
    phase = next((word for holds, word in ranked if holds), "Failed" if counts["Failed"] else "Completed")
    message = "" if pods or is_suspended else "no pod was made"
    if progress := thing.status.get("progress"):  # its parts may be others' workloads, with reports of their own
        ends = {"Succeeded": "Completed", "Failed": "Failed"}
        phase = ends.get(thing.status["phase"], phase if pods else "Running")
        message = f"{progress.replace('/', ' of ')} steps are done"
    return WorkloadReport(
        kind=thing.kind,
        phase=phase,
        running=counts["Running"],
        pending=counts["Pending"],
        succeeded=counts["Succeeded"],
        failed=counts["Failed"],
        message=message,
        pod_group=f"{thing.namespace}/{groups[0]}" if groups else "",
    )


def report_jobs(snapshot: Snapshot, session: Session | None) -> dict[str, JobReport]:
    """Report on every job of the final picture, by id; reasons come from the last session."""
    whys = None if session is None else Whys(session)
    leaving = leaving_counts(snapshot)
    reports = {}
    for job in np.flatnonzero(snapshot.jobs.live).tolist():
        name = snapshot.jobs.records[job].id
        # Unknown is for gangs that lost members: some run, and the minimum is not there.
        broken = snapshot.jobs.ready_count(job) < int(snapshot.jobs.min_member[job])
        status = job_status(snapshot, job, leaving[job], unschedulable=broken)
        waits = status.phase not in (JobPhase.RUNNING, JobPhase.COMPLETED)
        counts = snapshot.jobs.counts[job]
        reports[name] = JobReport(
            phase=status.phase.label,
            running=sum(int(counts[known]) for known in _ON_NODE),
            pending=status.pending,
            reason=_why(whys, name) if waits else "",
        )
    return dict(sorted(reports.items()))


def _why(whys: Whys | None, name: str) -> str:
    """Why a job waited in the last session; one that came after it had no turn."""
    row = None if whys is None else whys.session.snapshot.jobs.index.get(name)
    if whys is None or row is None:
        return f"{NOT_TRIED.code}: {NOT_TRIED.text}"
    return whys.reason(row)


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
