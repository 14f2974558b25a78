"""The queue's gate: a pod with it is invisible to autoscalers, so that no node is added for what a limit holds back.

The gate is taken off when the queue may hold the pod, whether or not a node can; the pod is placed in a later cycle.
What a gang lacks to its minimum passes together, then one pod at a time. A pod that has passed and has no node yet
keeps its place in the queue before those that still wait: it is known by the annotation of the same name. Pods that
have other gates too wait for whoever set those.
"""

from __future__ import annotations

import numpy as np

from muster.api import Pod
from muster.api.names import QUEUE_GATE
from muster.engine.waiting import pending_tasks, placeable_jobs, queue_holds
from muster.framework import JobVerdict, Session
from muster.framework.reasons import QUEUE_FULL, QUEUE_OVERUSED
from muster.snapshot import Rows


def open_gates(session: Session) -> None:
    """Note the pods that may lose their gate, and why the others wait."""
    pods, jobs = session.snapshot.tasks.pods, session.snapshot.jobs
    held = [task for task in pending_tasks(session, gated=True).tolist() if waits_for_queue(pods[task])]
    if not held:
        return
    passed, candidates = _passed(session), session.sort_tasks(np.array(held, np.intp))
    for job, tasks in sorted(placeable_jobs(session, candidates).items(), key=lambda entry: session.job_key(entry[0])):
        ahead = passed.setdefault(int(jobs.queue[job]), [])
        ungated = int(np.count_nonzero(session.snapshot.tasks.job[pending_tasks(session, gated=False)] == job))
        needed = int(jobs.min_member[job]) - jobs.ready_count(job) - ungated
        for together in map(np.ndarray.tolist, np.split(tasks, range(max(1, needed), len(tasks)))):
            refusal = _refusal(session, job, np.array([*ahead, *together], np.intp))
            if refusal is not None:
                session.record(job, refusal)
                break
            ahead += together
            session.ungated += together


def waits_for_queue(pod: Pod) -> bool:
    """Whether the queue's gate is all that holds a pod back."""
    gates = pod.spec.scheduling_gates
    return len(gates) == 1 and gates[0].name == QUEUE_GATE


def _passed(session: Session) -> dict[int, list[int]]:
    """Tasks that lost their gate and wait for a node, by queue."""
    snapshot, found = session.snapshot, dict[int, list[int]]()
    for task in pending_tasks(session, gated=False).tolist():
        if snapshot.tasks.pods[task].metadata.annotations.get(QUEUE_GATE) == "true":
            found.setdefault(int(snapshot.jobs.queue[snapshot.tasks.job[task]]), []).append(task)
    return found


def _refusal(session: Session, job: int, tasks: Rows) -> JobVerdict | None:
    """Why the queue may not hold these tasks beside what it holds; None: it may."""
    if session.overused(int(session.snapshot.jobs.queue[job])):
        return JobVerdict(QUEUE_OVERUSED)
    rejection = session.over_capacity(job, tasks)
    if rejection is not None:
        return JobVerdict(rejection.reason, rejection.detail)
    is_full = not queue_holds(session, job, tasks)
    return JobVerdict(QUEUE_FULL, session.snapshot.jobs.records[job].queue) if is_full else None
