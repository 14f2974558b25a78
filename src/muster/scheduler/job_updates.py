"""What to write to PodGroups at the end of a cycle, and to pods without one: only what differs from what is there.

Stamps on PodGroups say when a gang last became complete, and since when it is broken: annotations survive a restart of
the scheduler, and that of a cluster's status.
Most jobs of a busy cluster run and go on running. What a job's status says follows from its PodGroup, its phase and the
counters of its roles and sub-groups, of which every task has one each. So whether those are still the same is asked for
all jobs at once, in columns, and only the others are looked at.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import KaiPodGroup, PodGroup, waits_for
from muster.api.names import KAI_STALE_STAMP, STALE_STAMP, START_STAMP
from muster.engine.evictions.departures import stale_jobs
from muster.framework import NO_CLASS, JobVerdict, Reason, Session, reason_number
from muster.framework.reasons import FITS, INSUFFICIENT, PROMISED
from muster.scheduler.job_statuses import JobStatus, job_statuses, no_evictions_text, unschedulable_jobs, verdict_text
from muster.snapshot import GroupTable, JobPhase, JobRecord, Mask, OperationKind, Rows, Snapshot, TaskStatus
from muster.snapshot.columns import BEST_EFFORT_PENDING, FINISHED_STATUSES
from muster.snapshot.messages import CONDITIONS, JobUpdate, conditions_of
from muster.snapshot.records import stamp_text

log = logging.getLogger("muster.scheduler")

#: Stands between why a job waits and what each action that evicts ran into.
_NO_EVICTIONS: Final = "; no evictions: "
#: A number that stands by itself, maybe with a unit; not part of a name or of a moment.
_COUNT: Final = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?:m|[kKMGTPE]i?)?(?![\w:/-])")
#: Changes of annotations; None removes one.
Stamps = dict[str, str | None]
_HELD = [TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING]


def updates_of(session: Session, unchanged: UnchangedJobs) -> list[JobUpdate]:
    """Return the updates of all jobs that changed, by job id; without a PodGroup only why they wait can change."""
    stamps = stamps_of(session)
    quiet = unchanged.jobs(session.snapshot)
    quiet[[*stamps, *session.verdicts, *session.snapshot.jobs.aside]] = False
    jobs = np.flatnonzero(session.snapshot.jobs.live & ~quiet).tolist()
    unschedulable = _by_nodes(session, unschedulable_jobs(session, jobs))
    updates = _updates(session, jobs, unschedulable, stamps)
    index = session.snapshot.jobs.index
    quiet[jobs] = True
    quiet[[*unschedulable, *(index[update.job] for update in updates)]] = False
    unchanged.remember(session.snapshot, quiet)
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


def stamps_of(session: Session) -> Mapping[int, Stamps]:
    """What to change on the PodGroups of jobs, by row; jobs without changes are left out."""
    records = session.snapshot.jobs.records
    now = stamp_text(session.now)
    found: dict[int, Stamps] = {}
    for job in _started(session).tolist():
        found.setdefault(job, {})[START_STAMP] = now
    stale = stale_jobs(session.snapshot)
    for job in np.flatnonzero(stale).tolist():
        if records[job].stale_since is None:
            found.setdefault(job, {})[STALE_STAMP] = now
    for job in np.flatnonzero(session.snapshot.jobs.live & ~stale).tolist():
        if records[job].stale_since is not None:
            found.setdefault(job, {}).update(dict.fromkeys(_stale_keys(records[job])))
    return found


def _stale_keys(record: JobRecord) -> list[str]:
    return [key for key in (STALE_STAMP, KAI_STALE_STAMP) if key in record.annotations]


def _started(session: Session) -> Rows:
    """Gangs of which tasks are bound in this cycle and none was before: growth is no new start."""
    jobs = session.snapshot.jobs
    held: Mask = jobs.counts[:, _HELD].sum(axis=1) > 0
    held[_jobs_of(session, OperationKind.EVICT, on_node=True)] = True
    bound = _jobs_of(session, OperationKind.ALLOCATE)
    complete = np.array([session.job_deficit(job) == 0 for job in bound.tolist()], np.bool_)
    return bound[complete & ~held[bound]]


def _jobs_of(session: Session, kind: OperationKind, *, on_node: bool = False) -> Rows:
    """Jobs with committed operations of a kind, each once; `on_node`: on pods that are on a node."""
    table = session.snapshot.tasks
    found = [
        operation.tasks
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is kind
    ]
    if not found:
        return np.empty(0, np.int32)
    tasks = np.concatenate(found)
    if on_node:
        tasks = np.array([task for task in tasks.tolist() if table.pods[task].spec.node_name], np.int32)
    jobs: Rows = np.unique(table.job[tasks])
    return jobs[jobs >= 0]


@dataclass(frozen=True, slots=True)
class _Seen:
    """How jobs were at the end of a cycle."""

    quiet: Mask
    records: list[JobRecord]
    phases: NDArray[np.int8]
    roles: _Counted
    subgroups: _Counted
    #: Rows mean the same only in the same generation of snapshots.
    generation: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counters, and whose they were: a row that was given back may be another job's by now, or nobody's."""

    job: Rows
    counts: Rows

    @classmethod
    def of(cls, table: GroupTable) -> _Counted:
        return cls(table.job.copy(), table.counts.copy())

    def changed_jobs(self, table: GroupTable) -> Rows:
        """Jobs of which a row differs, is new, or is gone."""
        known = min(len(table.counts), len(self.counts))
        is_same = (table.counts[:known] == self.counts[:known]).all(axis=1) & (table.job[:known] == self.job[:known])
        others = ~is_same
        jobs: Rows = np.concatenate(
            [table.job[:known][others], self.job[:known][others], table.job[known:], self.job[known:]]
        )
        return jobs[jobs >= 0]


class UnchangedJobs:
    """Jobs about which there was nothing to say in the last cycle, and that have not changed since.

    Rows keep their numbers while they live.
    """

    def __init__(self) -> None:
        self._seen: _Seen | None = None

    def jobs(self, snapshot: Snapshot) -> Mask:
        """Which jobs are as they were when there was nothing to say about them."""
        n_jobs = len(snapshot.jobs)
        seen = self._seen
        same: Mask = np.zeros(n_jobs, np.bool_)
        if seen is None or seen.generation != snapshot.generation:
            return same
        known = min(n_jobs, len(seen.records))
        identical = map(operator.is_, snapshot.jobs.records[:known], seen.records[:known])
        same[:known] = seen.quiet[:known] & np.fromiter(identical, np.bool_, known)
        same[:known] &= snapshot.jobs.phase[:known] == seen.phases[:known]
        for table, before in ((snapshot.roles, seen.roles), (snapshot.subgroups, seen.subgroups)):
            changed = before.changed_jobs(table)
            same[changed[changed < n_jobs]] = False
        return same

    def remember(self, snapshot: Snapshot, quiet: Mask) -> None:
        """Note the jobs about which there is nothing to say now."""
        jobs = snapshot.jobs
        counted = _Counted.of(snapshot.roles), _Counted.of(snapshot.subgroups)
        self._seen = _Seen(quiet, jobs.records, jobs.phase.copy(), *counted, snapshot.generation)
