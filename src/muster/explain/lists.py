"""All jobs and all nodes of a session, a row each: how they stand, who is next in line and why, what is free.

Reads a session after its actions have run, and changes nothing. The line is the one that the scheduler would serve
next: queue by queue in their order, and within a queue by what the plugins say, then by age and name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from muster.api import Pod, PodGroup, Quantity, format_amount, to_base
from muster.engine.lines import Line
from muster.explain.model import JobState, Json, Named, amounts_json
from muster.explain.text import waiting_reason
from muster.explain.why import Whys
from muster.framework import Session, points
from muster.framework.reasons import PROMISED
from muster.snapshot import NO_ROW, Rows, Snapshot, TaskStatus
from muster.snapshot.columns import N_COUNTS
from muster.snapshot.records import created_seconds

_ON_NODE = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.RELEASING,
    TaskStatus.UNKNOWN,
)
_STARTING = (TaskStatus.ALLOCATED, TaskStatus.BINDING)
#: By status, so that thousands of jobs are looked at in a moment: whether a task has a node, and whether it has ended.
_HAS_NODE = np.isin(np.arange(N_COUNTS), _ON_NODE)
_HAS_ENDED = np.isin(np.arange(N_COUNTS), (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.GONE))


class ListState(StrEnum):
    """Where a job stands, in a list."""

    RUNNING = "running"
    #: It has its minimum, and more pods of it wait.
    GROWING = "growing"
    #: It gets its nodes in this cycle.
    STARTING = "starting"
    #: Its nodes are promised to it, and pods have yet to leave them.
    PROMISED = "promised"
    WAITING = "waiting"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a job stands in line."""

    #: Among all jobs that wait, and among those of its queue; both count from 1.
    overall: int
    in_queue: int
    #: Why it is not further ahead in its queue: what it stands behind, and what decided that.
    why: str

    def to_json(self) -> Json:
        return {"overall": self.overall, "inQueue": self.in_queue, "why": self.why}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job."""

    job: str
    queue: str
    state: ListState
    #: Pods that have a node, those that have none, and how many have to have one.
    placed: int
    pending: int
    minimum: int
    priority: int
    #: Seconds since it was made, and since its first pod started; None: none has.
    age: float
    running: float | None
    place: LinePlace | None
    #: Code and text; "" if nothing of it waits.
    reason: str
    nodes: tuple[str, ...]
    #: What all of its pods ask for.
    asks: Named
    #: Seconds until it is expected to start; None: not known, or it has.
    starts_in: float | None = None
    #: Kind and name of what made its pods: the name of a job is often made up, and this one people know.
    owner: tuple[str, str] | None = None

    def to_json(self) -> Json:
        return {
            "job": self.job,
            "owner": None if self.owner is None else {"kind": self.owner[0], "name": self.owner[1]},
            "queue": self.queue,
            "state": self.state.value,
            "placed": self.placed,
            "pending": self.pending,
            "minimum": self.minimum,
            "priority": self.priority,
            "ageSeconds": round(self.age, 3),
            "runningSeconds": None if self.running is None else round(self.running, 3),
            "line": None if self.place is None else self.place.to_json(),
            "reason": self.reason,
            "startsInSeconds": self.starts_in,
            "nodes": list(self.nodes),
            "asks": amounts_json(self.asks),
        }


def job_rows(session: Session, now: float, starts: Mapping[str, float] | None = None) -> list[JobRow]:
    """All jobs as of a session or of a later `now`: those in line first, then the others by state, queue and name.

    `starts`: when jobs are expected to get nodes, in seconds since the epoch.
    """
    whys = Whys(session)
    live = np.flatnonzero(session.snapshot.jobs.live).tolist()
    rows = {job: _job_row(whys, job, now) for job in live}
    places = _places(session, [job for job, row in rows.items() if row.state is ListState.WAITING])
    expected = {job: round(max(0.0, moment - now), 6) for job, moment in (starts or {}).items()}
    done = [replace(row, place=places.get(job), starts_in=_start(row, expected)) for job, row in rows.items()]
    states = list(ListState)
    return sorted(
        done,
        key=lambda row: (
            row.place is None,
            row.place.overall if row.place else 0,
            -states.index(row.state),
            row.queue,
            row.job,
        ),
    )


def _start(row: JobRow, expected: Mapping[str, float]) -> float | None:
    if row.state is ListState.STARTING:
        return 0.0
    return expected.get(row.job) if row.state in (ListState.WAITING, ListState.PROMISED) else None


def _job_row(whys: Whys, job: int, now: float) -> JobRow:
    session = whys.session
    snapshot = session.snapshot
    record, tasks = snapshot.jobs.records[job], snapshot.tasks_of(job)
    known = whys.of(job)
    statuses = snapshot.tasks.status[tasks]
    held = tasks[_HAS_NODE[statuses] & (snapshot.tasks.node[tasks] != NO_ROW)]
    begun = [
        moment.timestamp()
        for task in held.tolist()
        if (moment := snapshot.tasks.pods[task].status.start_time) is not None
    ]
    alive = tasks[~_HAS_ENDED[statuses]]
    asked = snapshot.axis.amounts(snapshot.classes.requests[snapshot.tasks.cls[alive], 0].sum(axis=0))
    return JobRow(
        job=record.id,
        queue=record.queue,
        state=_list_state(session, job, known.state, known.code),
        placed=len(held),
        pending=sum(int(snapshot.jobs.counts[job, status]) for status in (TaskStatus.PENDING, TaskStatus.PIPELINED)),
        minimum=record.min_member,
        priority=int(snapshot.jobs.priority[job]),
        age=max(0.0, now - (record.created or _oldest(snapshot, tasks, now))),
        running=max(0.0, now - min(begun)) if begun else None,
        place=None,
        reason=waiting_reason(known),
        nodes=tuple(sorted({snapshot.nodes.names[node] for node in snapshot.tasks.node[held].tolist()})),
        asks={name: amount for name, amount in asked.items() if name != "pods"},
        owner=next((owner for task in tasks[:1].tolist() for owner in _owners(snapshot.tasks.pods[task])), None),
    )


def _oldest(snapshot: Snapshot, tasks: Rows, now: float) -> float:
    """When the first of some pods was made: those whose PodGroup is gone, or not there yet, have no other age."""
    return min((created_seconds(snapshot.tasks.pods[task].metadata) for task in tasks.tolist()), default=now)


def _owners(pod: Pod) -> Iterator[tuple[str, str]]:
    for owner in pod.metadata.owner_references:
        if owner.controller and owner.kind != PodGroup.__name__:
            yield owner.kind, owner.name


def _list_state(session: Session, job: int, state: JobState, code: str) -> ListState:
    if state is JobState.WAITING:
        return ListState.PROMISED if code == PROMISED.code else ListState.WAITING
    if state is JobState.FINISHED:
        return ListState.FINISHED
    counts = session.snapshot.jobs.counts[job]
    ran = sum(int(counts[status]) for status in _ON_NODE if status not in _STARTING)
    if not ran and any(counts[status] for status in _STARTING):
        return ListState.STARTING
    return ListState.RUNNING if state is JobState.RUNNING else ListState.GROWING


def _places(session: Session, waiting: Iterable[int]) -> dict[int, LinePlace]:
    """The line as it would be served next; who names a queue that cannot be served stands in none."""
    queues, owners = session.snapshot.queues, session.snapshot.jobs.queue
    is_tree = bool(session.asked(points.QUEUE_TURN))
    above = set(queues.parent.tolist()) if is_tree else set()
    able = [
        job
        for job in waiting
        if owners[job] != NO_ROW and int(owners[job]) not in queues.broken and int(owners[job]) not in above
    ]
    line = Line(session, able, is_tree=is_tree)
    places: dict[int, LinePlace] = {}
    last: dict[int, tuple[int, int]] = {}
    for overall in range(1, len(able) + 1):
        job = line.pop()
        if job is None:
            break
        in_queue, ahead = last.get(int(owners[job]), (0, NO_ROW))
        why = "first of its queue" if ahead == NO_ROW else _behind(session, job, ahead)
        places[job] = LinePlace(overall, in_queue + 1, why)
        last[int(owners[job])] = (in_queue + 1, job)
    return places


def _behind(session: Session, job: int, ahead: int) -> str:
    """What put a job behind another of its queue."""
    name = session.snapshot.jobs.records[ahead].id
    for ask in session.asked(points.JOB_ORDER):
        if ask(job) != ask(ahead):
            plugin = getattr(ask, "__self__", None)
            return f"behind {name} by {getattr(plugin, 'orders_by', '') or getattr(plugin, 'name', 'a plugin')}"
    created = session.snapshot.jobs.created
    return f"behind {name} by {'age' if created[job] != created[ahead] else 'name'}"


# -- nodes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node: its state, what it offers and what is used of it, and the jobs that have pods there."""

    name: str
    state: str
    #: By resource, in base units.
    allocatable: Named
    used: Named
    pods: int
    jobs: tuple[str, ...]
    taints: tuple[str, ...]

    def free(self, resource: str) -> int:
        """What is left of a resource."""
        return max(0, self.allocatable.get(resource, 0) - self.used.get(resource, 0))

    def to_json(self) -> Json:
        names = sorted(self.allocatable)
        return {
            "name": self.name,
            "state": self.state,
            "allocatable": {name: format_amount(name, self.allocatable[name]) for name in names},
            "used": {name: format_amount(name, self.used.get(name, 0)) for name in names},
            "free": {name: format_amount(name, self.free(name)) for name in names},
            "pods": self.pods,
            "jobs": list(self.jobs),
            "taints": list(self.taints),
        }


def node_rows(session: Session, only: Iterable[int] | None = None) -> list[NodeRow]:
    """All nodes, or some of them by their rows, by name."""
    snapshot = session.snapshot
    tasks, nodes, axis = snapshot.tasks, snapshot.nodes, snapshot.axis
    pods: dict[int, list[int]] = {}
    for task in np.flatnonzero((tasks.node != NO_ROW) & np.isin(tasks.status, _ON_NODE)).tolist():
        pods.setdefault(int(tasks.node[task]), []).append(task)
    used = nodes.used()
    rows = []
    for row in range(len(nodes)) if only is None else only:
        own = pods.get(row, [])
        owners = {int(tasks.job[task]) for task in own} - {NO_ROW}
        rows.append(
            NodeRow(
                name=nodes.names[row],
                state=node_state(session, row),
                allocatable=_offered(session, row),
                used=axis.amounts(used[row]),
                pods=len(own),
                jobs=tuple(sorted(snapshot.jobs.records[job].id for job in owners)),
                taints=tuple(_taints(session, row)),
            )
        )
    return sorted(rows, key=lambda known: known.name)


def _offered(session: Session, row: int) -> Named:
    """What a node offers, resources included that no pod asks for."""
    nodes = session.snapshot.nodes
    offered: Mapping[str, Quantity] = {} if nodes.aside[row] else nodes.objects[row].status.allocatable
    return {name: to_base(name, amount) for name, amount in offered.items()}


def node_state(session: Session, row: int) -> str:
    """Whether a node takes new pods: "ready", or what keeps them away."""
    nodes = session.snapshot.nodes
    if nodes.aside[row]:
        return "quarantined"
    if not nodes.ready[row]:
        return "not ready"
    return "cordoned" if nodes.objects[row].spec.unschedulable else "ready"


def _taints(session: Session, row: int) -> Iterator[str]:
    for taint in session.snapshot.nodes.objects[row].spec.taints:
        yield f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def scarce_resource(snapshot: Snapshot) -> str:
    """What a picture of the nodes is about: the device of which there is most, GPUs first; CPUs where there is none."""
    total = snapshot.nodes.allocatable().sum(axis=0)
    devices = [name for name in snapshot.axis.names if "/" in name and total[snapshot.axis.index[name]] > 0]
    return min(
        devices,
        key=lambda name: (not name.endswith("/gpu"), -int(total[snapshot.axis.index[name]]), name),
        default="cpu",
    )
