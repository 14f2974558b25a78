"""Which pending tasks and jobs may be placed at all, before any node is looked at; and who may pass a queue's gate."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from muster.api import Pod
from muster.api.names import QUEUE_GATE
from muster.engine.constraints import why_not_placeable
from muster.framework import JobVerdict, Session
from muster.framework.reasons import (
    DEVICE_CLAIM,
    GPU_PART,
    GROUP_MISSING,
    NAMESPACE_ENDING,
    NOT_ADMITTED,
    QUARANTINED,
    QUEUE_FULL,
    QUEUE_OVERUSED,
)
from muster.framework.reasons import GATED as GATED_REASON
from muster.snapshot import GATED, NO_ROW, READY_STATUSES, JobPhase, Rows, TaskStatus

_HOLDS = {"gpu-part": GPU_PART, "device-claim": DEVICE_CLAIM, "namespace": NAMESPACE_ENDING}
#: Members of an enum are slow to look up, and these are asked for with every job that waits.
_PENDING = int(JobPhase.PENDING)


def schedulable_tasks(session: Session) -> Rows:
    """Pending tasks without scheduling gates, ordered by job and then as the plugins order them."""
    tasks = session.snapshot.pending_tasks()
    ungated: Rows = tasks[(session.snapshot.tasks.flags[tasks] & GATED) == 0]
    return session.sort_tasks(ungated)


def gated_jobs(session: Session) -> list[int]:
    """Jobs with pending tasks that are held back; a later word on what else waits replaces `gated_verdict`."""
    tasks = session.snapshot.pending_tasks()
    held = tasks[(session.snapshot.tasks.flags[tasks] & GATED) != 0]
    jobs: list[int] = np.unique(session.snapshot.tasks.job[held]).tolist()
    return jobs


def gated_verdict(session: Session, job: int) -> JobVerdict:
    """What holds pods of a job back: what is not served here, else their scheduling gates."""
    snapshot = session.snapshot
    held = [task for task in snapshot.tasks_of(job).tolist() if task in snapshot.holds] if snapshot.holds else []
    if not held:
        return JobVerdict(GATED_REASON)
    hold = snapshot.holds[min(held, key=snapshot.tasks.ids.__getitem__)]
    return JobVerdict(_HOLDS[hold.kind], hold.detail)


def tasks_by_job(session: Session, tasks: Rows) -> list[tuple[int, Rows]]:
    """Cut tasks that are ordered by job into one piece per job."""
    return list(zip(*cut_by_job(session, tasks), strict=True))


def cut_by_job(session: Session, tasks: Rows) -> tuple[list[int], list[Rows]]:
    """As `tasks_by_job`: the jobs, and the piece of each."""
    if len(tasks) == 0:
        return [], []
    owners = session.snapshot.tasks.job[tasks]
    starts = np.flatnonzero(np.diff(owners, prepend=owners[0] - 1))
    bounds = [*starts.tolist(), len(tasks)]
    return owners[starts].tolist(), [tasks[start:end] for start, end in pairwise(bounds)]


def has_promise(session: Session, job: int) -> bool:
    """Whether a job that is not ready has been promised all that it needs, and waits for others to leave."""
    is_waiting = session.snapshot.jobs.counts[job, TaskStatus.PIPELINED] and session.job_deficit(job) > 0
    return bool(is_waiting) and session.job_pipelined_deficit(job) == 0


def why_not_schedulable(session: Session, job: int) -> JobVerdict | None:
    """Why a job may not be placed in this cycle; None: it may."""
    jobs = session.snapshot.jobs
    if job in jobs.aside:
        return JobVerdict(QUARANTINED, jobs.aside[job])
    if not jobs.has_group[job]:
        return JobVerdict(GROUP_MISSING, jobs.records[job].id)
    refusal = session.why_queue_refuses(job)
    if refusal is not None:
        return refusal
    if jobs.phase[job] == _PENDING:
        return session.verdicts.get(job) or JobVerdict(NOT_ADMITTED)
    rejection = session.job_valid(job) or why_not_placeable(session, job)
    return None if rejection is None else JobVerdict(rejection.reason, rejection.detail)


# -- the gate of the queue -----------------------------------------------------------------------------------------
# A pod with the gate is invisible to autoscalers, so that no node is added for what only the queue's limit holds back.
# The gate is taken off when the queue may hold the pod, whether or not a node can; the pod is placed in a later cycle.
# What a gang lacks to its minimum passes together, then one pod at a time. A pod that has passed and has no node yet
# keeps its place in the queue before those that still wait: it is known by the annotation of the same name.
# Pods that have other gates too wait for whoever set those.


def open_gates(session: Session) -> None:
    """Note the pods that may lose their gate, and why the others wait."""
    candidates = _waiting_for_queue(session)
    if not len(candidates):
        return
    passed = _passed(session)
    for job, tasks in sorted(tasks_by_job(session, candidates), key=lambda entry: session.job_key(entry[0])):
        if job == NO_ROW or why_not_schedulable(session, job) is not None:
            continue
        queue = int(session.snapshot.jobs.queue[job])
        ahead = passed.setdefault(queue, [])
        for together in _by_turns(session, job, tasks.tolist()):
            refusal = _refusal(session, job, [*ahead, *together])
            if refusal is not None:
                session.record(job, refusal)
                break
            ahead += together
            session.ungated += together


def waits_for_queue(pod: Pod) -> bool:
    """Whether the queue's gate is all that holds a pod back."""
    gates = pod.spec.scheduling_gates
    return len(gates) == 1 and gates[0].name == QUEUE_GATE


def _waiting_for_queue(session: Session) -> Rows:
    table = session.snapshot.tasks
    tasks = session.snapshot.pending_tasks()
    held = [task for task in tasks[(table.flags[tasks] & GATED) != 0].tolist() if waits_for_queue(table.pods[task])]
    return session.sort_tasks(np.array(held, np.int32)) if held else np.empty(0, np.int32)


def _passed(session: Session) -> dict[int, list[int]]:
    """Tasks that lost their gate and wait for a node, by queue."""
    snapshot, found = session.snapshot, dict[int, list[int]]()
    tasks = snapshot.pending_tasks()
    for task in tasks[(snapshot.tasks.flags[tasks] & GATED) == 0].tolist():
        job = int(snapshot.tasks.job[task])
        if job != NO_ROW and snapshot.tasks.pods[task].metadata.annotations.get(QUEUE_GATE) == "true":
            found.setdefault(int(snapshot.jobs.queue[job]), []).append(task)
    return found


def _by_turns(session: Session, job: int, tasks: list[int]) -> Iterable[list[int]]:
    """Which tasks pass together: those without which the gang cannot start, then each alone."""
    jobs = session.snapshot.jobs
    held = sum(int(jobs.counts[job, status]) for status in READY_STATUSES)
    own = session.snapshot.tasks_of(job)
    waiting = session.snapshot.pending_tasks()
    ungated = np.isin(own, waiting[(session.snapshot.tasks.flags[waiting] & GATED) == 0]).sum()
    needed = min(len(tasks), max(1, int(jobs.min_member[job]) - held - int(ungated)))
    yield tasks[:needed]
    for task in tasks[needed:]:
        yield [task]


def _refusal(session: Session, job: int, tasks: list[int]) -> JobVerdict | None:
    """Why the queue may not hold these tasks beside what it holds; None: it may."""
    snapshot = session.snapshot
    queue, rows = int(snapshot.jobs.queue[job]), np.array(tasks, np.int32)
    if session.overused(queue):
        return JobVerdict(QUEUE_OVERUSED)
    rejection = session.over_capacity(job, rows)
    if rejection is not None:
        return JobVerdict(rejection.reason, rejection.detail)
    total = snapshot.classes.requests[snapshot.tasks.cls[rows], 0].sum(axis=0)
    return None if session.queue_slots(queue, total) > 0 else JobVerdict(QUEUE_FULL, snapshot.jobs.records[job].queue)
