"""What becomes of jobs in one run: who starts when and where, who waits and why, who goes, for whom and at what cost.

Told from the decisions of the run and from the pictures before and after it. Jobs that run all the time and about which
nothing was decided are not listed. Lost work is what evicted pods did since they started, in GPU-seconds; if an
eviction takes a gang below its minimum, what the rest of it did is lost as well, since a gang begins again together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from muster.api import Pod
from muster.api.resources import is_gpu, pod_request
from muster.cluster.embedded_server import Store
from muster.explain import Whys
from muster.simulate import Run
from muster.snapshot import NO_ROW, READY_STATUSES, Snapshot, TaskStatus
from muster.snapshot.messages import Bind, Decision, Evict
from muster.whatif.changes import Scene
from muster.whatif.estimates import Basis, Estimates, job_of

Json = dict[str, Any]  # Any: the values of a document are of many types
_ON_NODE = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
_RAN = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING)


class Outcome(StrEnum):
    """How a run goes for a job, in one word."""

    #: It had its minimum at the beginning and keeps it, or ends.
    RUNS = "runs"
    #: It did not run, and does at the end, or has ended.
    STARTS = "starts"
    WAITS = "waits"
    #: It ran and has lost its minimum.
    EVICTED = "evicted"
    #: It lost its minimum and has it again.
    RESTARTS = "restarts"
    #: Somebody deleted it.
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Eviction:
    """Pods of a job that go at one moment for the same sake."""

    #: Seconds from the beginning.
    at_s: float
    #: The job for which they go; "": for none.
    beneficiary: str
    #: The action that decided it, or the change that did it itself.
    action: str
    #: Pods with the nodes that they leave.
    pods: tuple[tuple[str, str], ...]
    #: Pods that are to go on elsewhere.
    moved: int
    #: What is lost of the work that was done.
    lost_gpu_s: float
    lost_pod_s: float
    #: Whether the gang has less than its minimum afterwards.
    breaks: bool

    def to_json(self) -> Json:
        return {
            "atSeconds": round(self.at_s, 3),
            "beneficiary": self.beneficiary,
            "action": self.action,
            "pods": [{"pod": pod, "node": node} for pod, node in self.pods],
            "moved": self.moved,
            "lostGpuSeconds": round(self.lost_gpu_s, 3),
            "lostPodSeconds": round(self.lost_pod_s, 3),
            "breaksGang": self.breaks,
        }


@dataclass(frozen=True, slots=True)
class JobFate:
    """What becomes of one job."""

    job: str
    queue: str
    outcome: Outcome
    #: Seconds from the beginning until it has its minimum, for the last time; None: it had it, or never gets it.
    starts_s: float | None
    #: Pods that have a node at the end, those that have none, and how many have to have one.
    placed: int
    pending: int
    minimum: int
    #: Why it waits; "" if it does not.
    reason: str
    #: Where its pods are, or were until they ended.
    nodes: tuple[str, ...]
    evictions: tuple[Eviction, ...] = ()
    #: What the start rests on; None where nobody has to end before it.
    basis: Basis | None = None

    @property
    def lost_gpu_s(self) -> float:
        return sum(each.lost_gpu_s for each in self.evictions)

    @property
    def n_evicted(self) -> int:
        return sum(len(each.pods) for each in self.evictions)

    @property
    def n_moved(self) -> int:
        return sum(each.moved for each in self.evictions)

    def to_json(self) -> Json:
        return {
            "queue": self.queue,
            "outcome": self.outcome.value,
            "startsInSeconds": None if self.starts_s is None else round(self.starts_s, 3),
            "startRestsOn": None if self.basis is None else self.basis.to_json(),
            "placed": self.placed,
            "pending": self.pending,
            "minimum": self.minimum,
            "reason": self.reason,
            "nodes": list(self.nodes),
            "evictions": [each.to_json() for each in self.evictions],
            "lostGpuSeconds": round(self.lost_gpu_s, 3),
        }


class _Held(NamedTuple):
    """A pod on a node: its GPUs, and since when it does what would be lost."""

    gpus: float
    since: float
    node: str


@dataclass(slots=True)
class _Life:
    """A job while its decisions are gone through."""

    minimum: int
    #: Pods that have a node.
    held: dict[str, _Held]
    ran: bool
    runs: bool
    started_at: float | None = None
    was_broken: bool = False
    evictions: list[Eviction] = field(default_factory=list)


def job_fates(scene: Scene, before: Snapshot) -> dict[str, JobFate]:
    """What becomes of jobs, by id; `before`: the picture from which the run began, before any change."""
    run, estimates = scene.run, scene.estimates
    after = run.scheduler.observe()
    began = run.cycles[0].time if run.cycles else run.cluster.now()
    told = _Telling(run.cluster.store, before, after, began)
    told.hear(began, scene.evicted)
    for cycle in run.cycles:
        told.hear(cycle.time, cycle.decisions)
    waiting = {after.jobs.records[row].id for row in _waiting(after)} | {
        before.jobs.records[row].id for row in _waiting(before)
    }
    gone = {record.id for row, record in enumerate(before.jobs.records) if before.jobs.live[row]} - set(
        after.jobs.index
    )
    session = run.scheduler.last_session
    whys = None if session is None else Whys(session)
    ends = _ends(run, estimates)
    return {job: _fate(job, told, after, whys, ends, estimates) for job in sorted({*told.lives, *waiting, *gone})}


def _waiting(snapshot: Snapshot) -> list[int]:
    jobs = snapshot.jobs
    pending = jobs.counts[:, [TaskStatus.PENDING, TaskStatus.PIPELINED]].sum(axis=1)
    return np.flatnonzero(jobs.live & (pending > 0)).tolist()


class _Telling:
    """Goes through the decisions of a run."""

    def __init__(self, store: Store, before: Snapshot, after: Snapshot, began: float) -> None:
        self._store = store
        self.before = before
        self.after = after
        self.began = began
        self.lives: dict[str, _Life] = {}

    def life(self, job: str) -> _Life:
        """What is known of a job so far."""
        known = self.lives.get(job)
        if known is None:
            row = self.before.jobs.index.get(job)
            minimum = self._minimum(job)
            held = {} if row is None else _held(self.before, row, self.began)
            ran = row is not None and bool(held) and len(held) + _done(self.before, row) >= minimum
            known = self.lives[job] = _Life(minimum, held, ran, ran)
        return known

    def _minimum(self, job: str) -> int:
        for snapshot in (self.after, self.before):
            row = snapshot.jobs.index.get(job)
            if row is not None:
                return snapshot.jobs.records[row].min_member
        return 1

    def hear(self, at: float, decisions: Iterable[Decision]) -> None:
        """Take in what was decided at one moment: evictions first, as they make the room."""
        made = list(decisions)
        for job, beneficiary, action, alike in _together([each for each in made if isinstance(each, Evict)]):
            self._evict(at, self.life(job), beneficiary, action, alike)
        for each in made:
            if isinstance(each, Bind):
                life = self.life(each.job)
                life.held[each.pod] = _Held(self._gpus(each.pod), at, each.node)
                if not life.runs and len(life.held) >= life.minimum:
                    life.runs, life.started_at = True, at

    def _evict(self, at: float, life: _Life, beneficiary: str, action: str, pods: Sequence[Evict]) -> None:
        lost = [life.held.pop(each.pod, _Held(0.0, at, "")) for each in pods]
        breaks = life.runs and len(life.held) < life.minimum
        if breaks:
            lost += life.held.values()
            life.held = {pod: known._replace(since=at) for pod, known in life.held.items()}
            life.runs, life.was_broken = False, True
        life.evictions.append(
            Eviction(
                at_s=at - self.began,
                beneficiary=beneficiary,
                action=action,
                pods=tuple((each.pod, each.node) for each in pods),
                moved=sum(bool(each.record and each.record.get("movesTo")) for each in pods),
                lost_gpu_s=sum(known.gpus * max(0.0, at - known.since) for known in lost),
                lost_pod_s=sum(max(0.0, at - known.since) for known in lost),
                breaks=breaks,
            )
        )

    def _gpus(self, pod: str) -> float:
        present = self._store.get(Pod, pod)
        return 0.0 if present is None else gpus_of(present)


def _together(evictions: Sequence[Evict]) -> Iterator[tuple[str, str, str, list[Evict]]]:
    """Evictions of one moment by job, beneficiary and action, in the order in which they were decided."""
    found: dict[tuple[str, str, str], list[Evict]] = {}
    for each in evictions:
        found.setdefault((each.job, each.beneficiary, each.why.partition(":")[0]), []).append(each)
    for (job, beneficiary, action), alike in found.items():
        yield job, beneficiary, action, alike


def gpus_of(pod: Pod) -> float:
    """How many GPUs a pod asks for, parts as parts."""
    return sum(amount for name, amount in pod_request(pod).items() if is_gpu(name) or name.endswith("/gpu")) / 1000


def _held(snapshot: Snapshot, job: int, now: float) -> dict[str, _Held]:
    tasks = snapshot.tasks
    held = {}
    for task in snapshot.tasks_of(job).tolist():
        if tasks.node[task] != NO_ROW and tasks.status[task] in _RAN:
            began = tasks.pods[task].status.start_time
            since = now if began is None else began.timestamp()
            held[tasks.ids[task]] = _Held(gpus_of(tasks.pods[task]), since, snapshot.nodes.names[tasks.node[task]])
    return held


def _done(snapshot: Snapshot, job: int) -> int:
    return int(snapshot.jobs.counts[job, TaskStatus.SUCCEEDED])


def _fate(
    job: str,
    told: _Telling,
    after: Snapshot,
    whys: Whys | None,
    ends: Sequence[tuple[float, str]],
    estimates: Estimates,
) -> JobFate:
    life = told.life(job)
    row = after.jobs.index.get(job)
    starts = None if life.started_at is None else life.started_at - told.began
    if row is None:
        known = told.before.jobs.index.get(job)
        queue = "" if known is None else told.before.jobs.records[known].queue
        # A pod that nobody owns is not made anew when it has been evicted.
        outcome = Outcome.EVICTED if life.evictions else Outcome.DELETED
        return JobFate(job, queue, outcome, None, 0, 0, life.minimum, "", (), tuple(life.evictions))
    tasks = after.tasks_of(row)
    placed = tasks[np.isin(after.tasks.status[tasks], _ON_NODE) & (after.tasks.node[tasks] != NO_ROW)]
    pending = sum(int(after.jobs.counts[row, status]) for status in (TaskStatus.PENDING, TaskStatus.PIPELINED))
    outcome = _outcome(life, after, row)
    waits = outcome in (Outcome.WAITS, Outcome.EVICTED)
    basis = None
    if starts:
        ended = {name for moment, name in ends if moment <= told.began + starts and name != job}
        found = estimates.basis(ended)
        basis = found if sum(found.jobs.values()) else None
    return JobFate(
        job=job,
        queue=after.jobs.records[row].queue,
        outcome=outcome,
        starts_s=None if waits else starts,
        placed=len(placed),
        pending=pending,
        minimum=life.minimum,
        reason=_reason(whys, job) if waits else "",
        nodes=tuple(sorted({known.node for known in life.held.values()})),
        evictions=tuple(life.evictions),
        basis=basis,
    )


def _outcome(life: _Life, after: Snapshot, row: int) -> Outcome:
    ready = sum(int(after.jobs.counts[row, status]) for status in READY_STATUSES)
    if life.runs and (ready >= life.minimum or not life.was_broken):
        if life.was_broken:
            return Outcome.RESTARTS
        return Outcome.RUNS if life.ran else Outcome.STARTS
    return Outcome.EVICTED if life.was_broken else Outcome.WAITS


def _reason(whys: Whys | None, job: str) -> str:
    row = None if whys is None else whys.session.snapshot.jobs.index.get(job)
    return "" if whys is None or row is None else whys.reason(row)


def ended_by(run: Run, estimates: Estimates, moment: float) -> set[str]:
    """Jobs of which pods had ended by a moment of the run, as far as somebody had expected it."""
    return {job for at, job in _ends(run, estimates) if at <= moment}


def _ends(run: Run, estimates: Estimates) -> list[tuple[float, str]]:
    """When jobs ended during the run, as far as somebody had expected it."""
    found = []
    for pod in run.cluster.store.all(Pod):
        if pod.status.phase not in ("Succeeded", "Failed") or job_of(pod) not in estimates.expected:
            continue
        moments = [each.state.terminated.finished_at for each in pod.status.container_statuses if each.state.terminated]
        found += [(moment.timestamp(), job_of(pod)) for moment in moments if moment is not None]
    return found
