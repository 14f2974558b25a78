"""Which pending tasks and jobs may be placed at all, before any node is looked at."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import numpy as np

from muster.engine.constraints import why_not_placeable
from muster.engine.gangs import NOBODY, requests_of
from muster.framework import JobVerdict, Session
from muster.framework.reasons import (
    DEVICE_CLAIM,
    GPU_PART,
    GROUP_MISSING,
    NAMESPACE_ENDING,
    NOT_ADMITTED,
    NOT_TRIED,
    QUARANTINED,
)
from muster.framework.reasons import GATED as GATED_REASON
from muster.snapshot import BEST_EFFORT, GATED, NO_ROW, JobPhase, Rows, Snapshot, TaskStatus, run_bounds

_HOLDS = {"gpu-part": GPU_PART, "device-claim": DEVICE_CLAIM, "namespace": NAMESPACE_ENDING}
#: Members of an enum are slow to look up, and these are asked for with every job that waits.
_PENDING = int(JobPhase.PENDING)
_NOT_TRIED = JobVerdict(NOT_TRIED)
#: From so many jobs on, asking about all at once is faster than one by one.
_MANY = 4


def pending_tasks(session: Session, *, gated: bool) -> Rows:
    """Pending tasks, those that are held back or the others."""
    tasks = session.snapshot.pending_tasks()
    wanted: Rows = tasks[((session.snapshot.tasks.flags[tasks] & GATED) != 0) == gated]
    return wanted


def schedulable_tasks(session: Session, *, best_effort: bool | None = None) -> Rows:
    """Pending tasks without scheduling gates, ordered by job and then as the plugins order them; to be read only.

    `best_effort`: only those that ask for nothing, or only the others.
    """
    touched, tasks = cast("tuple[int, Rows]", session.workspace.get("schedulable", (NO_ROW, NOBODY)))
    if touched != session.snapshot.touched:  # else the answer is that of the last time
        tasks = session.sort_tasks(pending_tasks(session, gated=False))
        session.workspace["schedulable"] = session.snapshot.touched, tasks
    if best_effort is None:
        return tasks
    wanted: Rows = tasks[((session.snapshot.tasks.flags[tasks] & BEST_EFFORT) != 0) == best_effort]
    return wanted


def tell_gated(session: Session) -> None:
    """Note what holds tasks of jobs back; a later word on what else waits replaces it."""
    for job in sorted(set(session.snapshot.tasks.job[pending_tasks(session, gated=True)].tolist())):
        session.record(job, gated_verdict(session, job))


def queue_holds(session: Session, job: int, tasks: Rows) -> bool:
    """Whether the queue of a job may hold all these tasks beside what it holds."""
    return session.queue_slots(int(session.snapshot.jobs.queue[job]), requests_of(session.snapshot, tasks)) > 0


def soon_anew(session: Session) -> Rows:
    """Tasks that have been asked to leave, and will be made anew when they have: not those that are overdue."""
    snapshot, pods = session.snapshot, session.snapshot.tasks.pods
    leaving = np.flatnonzero((snapshot.tasks.status == TaskStatus.RELEASING) & (snapshot.tasks.job != NO_ROW))
    ends = ((task, pods[task].metadata.deletion_timestamp) for task in leaving.tolist())
    timely = [task for task, end in ends if end is not None and end.timestamp() >= session.now]
    return made_anew(snapshot, np.array(timely, np.intp))


def made_anew(snapshot: Snapshot, tasks: Rows, *, has_owner: bool = True) -> Rows:
    """Those of the tasks that somebody makes anew when they are gone, by a PodGroup or as an owner; or the others."""
    records, job, pods = snapshot.jobs.records, snapshot.tasks.job, snapshot.tasks.pods
    lone = [task for task in tasks.tolist() if records[job[task]].source is None]
    lost = [task for task in lone if not pods[task].metadata.owner_references]
    chosen: Rows = tasks[np.isin(tasks, lost, invert=has_owner)]
    return chosen


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
    owners = session.snapshot.tasks.job[tasks]
    if len(tasks) < 2:  # one is the usual case, and arrays are slow to begin
        return [(owner, tasks) for owner in owners.tolist()]
    return [(int(owners[start]), tasks[start:end]) for start, end in pairwise(run_bounds(owners).tolist())]


def why_not_schedulable(session: Session, job: int) -> JobVerdict | None:
    """Why a job may not be placed in this cycle; None: it may."""
    jobs = session.snapshot.jobs
    if job in jobs.aside:
        return JobVerdict(QUARANTINED, jobs.aside[job])
    if not jobs.has_group[job]:
        return JobVerdict(GROUP_MISSING, _named_group(session, job))
    refusal = session.why_queue_refuses(job)
    if refusal is not None:
        return refusal
    if jobs.phase[job] == _PENDING:
        return session.verdicts.get(job) or JobVerdict(NOT_ADMITTED)
    rejection = session.job_valid(job) or why_not_placeable(session, job)
    return None if rejection is None else JobVerdict(rejection.reason, rejection.detail)


def _named_group(session: Session, job: int) -> str:
    """The PodGroup that the pods of a job name, in the words of whoever has to make it."""
    snapshot = session.snapshot
    pods = [snapshot.tasks.pods[task] for task in snapshot.tasks_of(job)[:1].tolist()]
    native = next((pod.spec.scheduling_group for pod in pods if pod.spec.scheduling_group is not None), None)
    record = snapshot.jobs.records[job]
    return record.id if native is None else f"{record.namespace}/{native.pod_group_name} of scheduling.k8s.io"


def _surely_schedulable(session: Session, waiting: list[int]) -> set[int]:
    """Those of many jobs that may be placed, as far as it can be told for all at once."""
    if len(waiting) < _MANY:
        return set()
    jobs, rows = session.snapshot.jobs, np.array(waiting, np.intp)
    queues = jobs.queue[rows]
    open_ones = [
        queue
        for queue, job in dict(zip(queues.tolist(), waiting, strict=True)).items()
        if session.why_queue_refuses(job) is None
    ]
    sure = np.isin(queues, open_ones) & jobs.has_group[rows] & (jobs.phase[rows] != _PENDING) & ~jobs.has_network[rows]
    return set(rows[sure & session.surely_valid(rows)].tolist()).difference(jobs.aside)


def placeable_jobs(session: Session, tasks: Rows, *, tell: bool = False) -> dict[int, Rows]:
    """Tasks, which are ordered by job, of the jobs that may be placed; `tell`: the verdicts on all are noted.

    Several actions ask about the very same tasks while nothing is placed: they get the same answer.
    """
    last = session.workspace.get("placeable", (None, 0, {}))
    asked, n_faults, known = cast("tuple[Rows, int, dict[int, Rows]]", last)
    if not tell and asked is tasks and n_faults == len(session.faults):
        return dict(known)
    found: dict[int, Rows] = {}
    pieces = tasks_by_job(session, tasks)
    sure = _surely_schedulable(session, [job for job, _ in pieces])
    if tell:
        session.verdicts.update(dict.fromkeys(sure, _NOT_TRIED))
    for job, own in pieces:
        if job in sure:
            found[job] = own
            continue
        with session.turn(job):
            verdict = why_not_schedulable(session, job)
            if tell:
                session.record(job, verdict or _NOT_TRIED)
            if verdict is None:
                found[job] = own
    session.workspace["placeable"] = tasks, len(session.faults), found
    return dict(found)
