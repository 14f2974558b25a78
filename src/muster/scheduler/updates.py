"""What to write to PodGroups at the end of a cycle, and to pods without one: only what differs from what is there."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from muster.api import KaiPodGroup, PodGroup, waits_for
from muster.framework import JobVerdict, Reason, Session, reason_number
from muster.framework.reasons import FITS, INSUFFICIENT, PROMISED
from muster.framework.verdicts import NO_CLASS
from muster.scheduler.settled import Settled
from muster.scheduler.stamps import Stamps, stamps_of
from muster.scheduler.statuses import JobStatus, job_statuses, no_evictions_text, unschedulable_jobs, verdict_text
from muster.snapshot import JobPhase, Snapshot, TaskStatus
from muster.snapshot.columns import BEST_EFFORT_PENDING, FINISHED_STATUSES
from muster.snapshot.messages import CONDITIONS, JobUpdate, conditions_of

log = logging.getLogger("muster.scheduler")

#: Stands between why a job waits and what each action that evicts ran into.
_NO_EVICTIONS: Final = "; no evictions: "
#: A number that stands by itself, maybe with a unit; not part of a name or of a moment.
_COUNT: Final = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?:m|[kKMGTPE]i?)?(?![\w:/-])")


def updates_of(session: Session, settled: Settled) -> list[JobUpdate]:
    """Return the updates of all jobs that changed, by job id; without a PodGroup only why they wait can change."""
    stamps = stamps_of(session)
    quiet = settled.jobs(session.snapshot)
    quiet[[*stamps, *session.verdicts, *session.snapshot.jobs.aside]] = False
    jobs = np.flatnonzero(session.snapshot.jobs.live & ~quiet).tolist()
    unschedulable = _by_nodes(session, unschedulable_jobs(session, jobs))
    updates = _updates(session, jobs, unschedulable, stamps)
    index = session.snapshot.jobs.index
    quiet[jobs] = True
    quiet[[*unschedulable, *(index[update.job] for update in updates)]] = False
    settled.remember(session.snapshot, quiet)
    return updates


def finished_jobs(snapshot: Snapshot, updates: Iterable[JobUpdate]) -> list[str]:
    """Jobs of which all pods have finished and nothing is left to write: their PodGroup says so, or there is none."""
    jobs = snapshot.jobs
    ended = jobs.counts[:, FINISHED_STATUSES].sum(axis=1)
    is_over = (ended > 0) & (ended == jobs.counts[:, :BEST_EFFORT_PENDING].sum(axis=1))
    rows = np.flatnonzero(jobs.live & is_over & ((jobs.phase == JobPhase.COMPLETED) | ~jobs.has_group))
    told = {update.job for update in updates}
    return [job for job in (jobs.records[row].id for row in rows.tolist()) if job not in told]


def _by_nodes(session: Session, verdicts: Mapping[int, JobVerdict]) -> Mapping[int, JobVerdict]:
    """The verdicts, but "lack free resources" only where some node would take the task if it had room."""
    reasons: dict[int, Reason] = {}
    found = dict(verdicts)
    for job, verdict in verdicts.items():
        if verdict.reason is INSUFFICIENT and verdict.cls != NO_CLASS:
            if verdict.cls not in reasons:
                reasons[verdict.cls] = _against_all(session, verdict.cls) or verdict.reason
            found[job] = replace(verdict, reason=reasons[verdict.cls])
    return found


def _against_all(session: Session, cls: int) -> Reason | None:
    """What most nodes have against a class, if each has something against it."""
    verdicts = session.node_verdicts(cls)
    if not len(verdicts) or bool((verdicts == FITS).any()):
        return None
    numbers, counts = np.unique(verdicts, return_counts=True)
    known = [(-int(n), reason_number(int(number))) for number, n in zip(numbers, counts, strict=True)]
    return min(known, key=lambda pair: (pair[0], pair[1].code))[1]


def _updates(
    session: Session, jobs: Sequence[int], unschedulable: Mapping[int, JobVerdict], stamps: Mapping[int, Stamps]
) -> list[JobUpdate]:
    records = session.snapshot.jobs.records
    updates = []
    for job, status in job_statuses(session, jobs, unschedulable).items():
        try:
            update = _update_if_any(session, job, status, unschedulable.get(job), stamps.get(job, {}))
        except Exception:  # whatever is wrong with one object, the others are told how they are
            log.exception("event=error job=%s what=report", records[job].id)
            continue
        if update is not None:
            updates.append(update)
    return sorted(updates, key=lambda update: update.job)


def _update_if_any(
    session: Session, job: int, status: JobStatus, verdict: JobVerdict | None, stamps: Stamps
) -> JobUpdate | None:
    """What to write about a job; None: all of it stands there already."""
    record = session.snapshot.jobs.records[job]
    message = "" if verdict is None else _message(session, job, verdict)
    if record.source is not None:
        update = _update(record.id, status, verdict, message, stamps)
        return update if _differs(update, record.source) else None
    if verdict is None or _is_told(session, job, verdict):
        return None
    return replace(_update(record.id, status, verdict, message, {}), has_group=False)


def _message(session: Session, job: int, verdict: JobVerdict) -> str:
    """Why a job waits, and what stood in the way of evicting for it."""
    why = verdict_text(verdict)
    no_evictions = "" if verdict.reason is PROMISED else no_evictions_text(session, job)
    return f"{why}{_NO_EVICTIONS}{no_evictions}" if no_evictions else why


def _update(job: str, status: JobStatus, verdict: JobVerdict | None, message: str, stamps: Stamps) -> JobUpdate:
    return JobUpdate(
        job=job,
        phase=status.phase.label,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        unschedulable=None if verdict is None else verdict.reason.code,
        message=message,
        is_scheduled=verdict is None and status.phase in (JobPhase.RUNNING, JobPhase.COMPLETED),
        pending=status.pending,
        annotations=stamps,
    )


def _is_told(session: Session, job: int, verdict: JobVerdict) -> bool:
    """Whether all waiting pods of a job say the reason already."""
    tasks = session.snapshot.tasks
    return all(
        waits_for(tasks.pods[task], verdict.reason.code)
        for task in session.snapshot.tasks_of(job).tolist()
        if tasks.status[task] == TaskStatus.PENDING
    )


def _differs(update: JobUpdate, group: PodGroup | KaiPodGroup) -> bool:
    status = group.status
    if update.annotations:
        return True
    if isinstance(group, KaiPodGroup) and update.pending != group.status.pending:
        return True
    if (update.phase, update.running) != (status.phase, status.running):
        return True
    if (update.succeeded, update.failed) != (status.succeeded, status.failed):
        return True
    wanted = conditions_of(update)
    standing = {
        known.type: (known.reason, known.message)
        for known in status.conditions
        if known.type in CONDITIONS and known.status == "True"
    }
    return wanted != standing and _without_counts(wanted) != _without_counts(standing)


def _without_counts(conditions: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str, str]]:
    """Conditions without the numbers in what is said of evictions.

    These change with every pod that starts or ends, for all jobs that wait: none is written for that alone.
    """
    parts = {kind: (reason, message.partition(_NO_EVICTIONS)) for kind, (reason, message) in conditions.items()}
    return {kind: (reason, said[0], _COUNT.sub("", said[2])) for kind, (reason, said) in parts.items()}
