"""The scheduling gate that waits for a queue: taken off pods whose queue has room for them.

A pod with the gate is invisible to autoscalers, so that no node is added for what only the queue's limit holds back.
The gate is taken off when the queue may hold the pod, whether or not a node can; the pod is placed in a later cycle.
What a gang lacks to its minimum passes together, then one pod at a time. A pod that has passed and has no node yet
keeps its place in the queue before those that still wait: it is known by the annotation of the same name.
Pods that have other gates too wait for whoever set those.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.api import Pod
from muster.api.names import QUEUE_GATE
from muster.engine.waiting import tasks_by_job, why_not_schedulable
from muster.framework import JobVerdict, Session
from muster.framework.reasons import QUEUE_FULL, QUEUE_OVERUSED
from muster.snapshot import GATED, NO_ROW, READY_STATUSES, Rows


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
