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
from muster.engine.evictions.departures import stale_jobs_now
from muster.explain import Whys
from muster.framework import NO_CLASS, JobVerdict, Session, Verdicts
from muster.scheduler.job_statuses import (
    JobStatus,
    growing_jobs,
    have_ended,
    job_status,
    job_statuses,
    leaving_counts,
    phases_after,
    unschedulable_jobs,
    verdict_text,
)
from muster.snapshot import NO_ROW, GroupTable, JobPhase, JobRecord, Mask, OperationKind, Rows, Snapshot, TaskStatus
from muster.snapshot.messages import CONDITIONS, JobUpdate, conditions_of
from muster.snapshot.records import stamp_text

log = logging.getLogger("muster.scheduler")

#: Seconds after which numbers in what is said of a waiting job are counted again.
NUMBERS_S: Final = 300.0
#: A number that stands by itself, maybe with a unit; not part of a name or of a moment.
_COUNT: Final = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?:m|[kKMGTPE]i?)?(?![\w:/-])")
#: Changes of annotations; None removes one.
Stamps = dict[str, str | None]
#: These follow each other.
_HELD = slice(TaskStatus.BINDING, TaskStatus.RUNNING + 1)


def updates_of(session: Session, unchanged: UnchangedJobs) -> list[JobUpdate]:
    """Return the updates of all jobs that changed, by job id; without a PodGroup only why they wait can change."""
    stamps = stamps_of(session)
    quiet = unchanged.jobs(session.snapshot)
    quiet[[*stamps, *session.verdicts, *session.snapshot.jobs.aside]] = False
    jobs = np.flatnonzero(session.snapshot.jobs.live & ~quiet).tolist()
    waiting = unschedulable_jobs(session, jobs)
    growing = growing_jobs(session, [job for job in jobs if job not in waiting])
    told = unchanged.reasons.told(session, waiting | growing)
    unschedulable = {job: told[job] for job in waiting}
    updates = _updates(session, jobs, unschedulable, stamps)
    updates += _growth_updates(session, {job: told[job] for job in growing})
    index = session.snapshot.jobs.index
    quiet[jobs] = True
    quiet[[*told, *(index[update.job] for update in updates)]] = False
    unchanged.remember(session.snapshot, quiet)
    return updates


def bare_updates_of(session: Session, before: NDArray[np.int8]) -> list[JobUpdate]:
    """Only what later cycles decide by: phases that differ from those `before` the cycle, and stamps; no reasons.

    For whoever runs cycles without anybody who reads statuses; what is not said here changes no decision.
    """
    snapshot, jobs = session.snapshot, session.snapshot.jobs
    stamps = stamps_of(session)
    stale = stale_jobs_now(session)
    rows = np.flatnonzero(jobs.live & jobs.has_source & (phases_after(snapshot, stale) != before)).tolist()
    rows = sorted({*rows, *stamps}, key=lambda job: jobs.records[job].id)
    if not rows:
        return []
    leaving = leaving_counts(snapshot) if jobs.counts[:, TaskStatus.RELEASING].any() else [0] * len(jobs)
    return [
        _update(
            jobs.records[job].id,
            job_status(snapshot, job, leaving[job], unschedulable=bool(stale[job])),
            None,
            stamps.get(job, {}),
        )
        for job in rows
    ]


def finished_jobs(snapshot: Snapshot, updates: Iterable[JobUpdate]) -> list[str]:
    """Jobs of which all pods have finished and nothing is left to write: their PodGroup says so, or there is none."""
    jobs = snapshot.jobs
    rows = np.flatnonzero(jobs.live & have_ended(jobs.counts.T)).tolist()
    if not rows:
        return []
    told = {update.job for update in updates}
    is_said = (jobs.phase == JobPhase.COMPLETED) | ~jobs.has_group
    over = (jobs.records[row] for row in rows if is_said[row] or not _keeps_counts(jobs.records[row].source))
    return [record.id for record in over if record.id not in told]


def _updates(
    session: Session, jobs: Sequence[int], unschedulable: Mapping[int, _Told], stamps: Mapping[int, Stamps]
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


def _growth_updates(session: Session, growing: Mapping[int, _Told]) -> list[JobUpdate]:
    """Why pods beyond a minimum wait; nothing of that is said of the job, which runs."""
    statuses = job_statuses(session, growing, ())
    updates = [
        replace(_update(session.snapshot.jobs.records[job].id, statuses[job], why, {}), has_group=False)
        for job, why in growing.items()
        if not _is_told(session, job, why.code)
    ]
    return sorted(updates, key=lambda update: update.job)


def _update_if_any(
    session: Session, job: int, status: JobStatus, why: _Told | None, stamps: Stamps
) -> JobUpdate | None:
    """What to write about a job; None: all of it stands there already."""
    record = session.snapshot.jobs.records[job]
    if record.source is not None:
        update = _update(record.id, status, why, stamps)
        return update if _differs(update, record.source) else None
    if why is None or _is_told(session, job, why.code):
        return None
    return replace(_update(record.id, status, why, {}), has_group=False)


def _update(job: str, status: JobStatus, why: _Told | None, stamps: Stamps) -> JobUpdate:
    return JobUpdate(
        job=job,
        phase=status.phase.label,
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        unschedulable=None if why is None else why.code,
        message="" if why is None else why.message,
        is_scheduled=why is None and status.phase in (JobPhase.RUNNING, JobPhase.COMPLETED),
        pending=status.pending,
        annotations=stamps,
    )


def _is_told(session: Session, job: int, code: str) -> bool:
    """Whether all waiting pods of a job say the reason already."""
    tasks, own = session.snapshot.tasks, session.snapshot.tasks_of(job)
    waiting = own[tasks.status[own] == TaskStatus.PENDING]
    return all(waits_for(tasks.pods[task], code) for task in waiting.tolist())


def _differs(update: JobUpdate, group: PodGroup | KaiPodGroup) -> bool:
    status = group.status
    if update.annotations:
        return True
    if _keeps_counts(group):
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
    return wanted != standing


def _keeps_counts(group: PodGroup | KaiPodGroup | None) -> bool:
    """Whether the server keeps phase and counts; newer definitions of KAI's do not, and then nothing waits for them.

    They are written together with a condition, so a condition without a phase says so.
    """
    if not isinstance(group, KaiPodGroup) or group.status.phase:
        return True
    return not any(known.type in CONDITIONS for known in group.status.conditions)


@dataclass(frozen=True, slots=True)
class _Told:
    """What is said of a job that waits, since when, and what it follows from."""

    code: str
    message: str
    since: float
    verdict: tuple[object, ...]
    #: What nodes have against the task that found none; another array once nodes have changed.
    nodes: Verdicts | None


class ToldReasons:
    """What is said of jobs that wait: another reason at once, other numbers now and then.

    Numbers change with every pod that starts or ends, for all jobs that wait. None is counted again, or written, for
    that alone until the last ones are `NUMBERS_S` old.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def told(self, session: Session, verdicts: Mapping[int, JobVerdict]) -> dict[int, _Told]:
        """What is said of each job, by row."""
        whys, records = Whys(session), session.snapshot.jobs.records
        found: dict[int, _Told] = {}
        for job, verdict in verdicts.items():
            known = self._told.get(records[job].id)
            follows = _follows(session, job, verdict)
            nodes = session.node_verdicts(verdict.cls) if verdict.cls != NO_CLASS else None
            if known is None or (known.verdict, id(known.nodes)) != (follows, id(nodes)) or _is_old(session, known):
                code, message = _message(whys, job)
                # Of a gang that is over, and was never whole, there is nothing else to say.
                code, message = code or verdict.reason.code, message or verdict_text(verdict)
                known = _Told(code, message, session.now, follows, nodes)
            found[job] = known
        self._told = {records[job].id: known for job, known in found.items()}
        return found


def _message(whys: Whys, job: int) -> tuple[str, str]:
    try:
        return whys.message(job)
    except Exception:  # a plugin that cannot answer costs a job its numbers, and others nothing
        log.exception("event=error job=%s what=reason", whys.session.snapshot.jobs.records[job].id)
        return "", ""


def _is_old(session: Session, told: _Told) -> bool:
    return session.now - told.since >= NUMBERS_S


def _follows(session: Session, job: int, verdict: JobVerdict) -> tuple[object, ...]:
    """What a message follows from, but for its numbers."""
    evictions = session.no_evictions.get(job, {}).items()
    ran_into = tuple((action, why.reason.code, _COUNT.sub("", why.detail)) for action, why in evictions)
    return (verdict.reason.code, verdict.cls, _COUNT.sub("", verdict.detail), ran_into)


def stamps_of(session: Session) -> Mapping[int, Stamps]:
    """What to change on the PodGroups of jobs, by row; jobs without changes are left out."""
    jobs, records = session.snapshot.jobs, session.snapshot.jobs.records
    started, stale = _started(session), stale_jobs_now(session)
    now = stamp_text(session.now) if started or stale.any() else ""
    found: dict[int, Stamps] = {job: {START_STAMP: now} for job in started}
    for job in (stale != jobs.is_stamped_stale).nonzero()[0].tolist():
        if stale[job]:
            found.setdefault(job, {})[STALE_STAMP] = now
        elif jobs.live[job]:
            found.setdefault(job, {}).update(dict.fromkeys(_stale_keys(records[job])))
    return found


def _stale_keys(record: JobRecord) -> list[str]:
    return [key for key in (STALE_STAMP, KAI_STALE_STAMP) if key in record.annotations]


def _started(session: Session) -> list[int]:
    """Gangs of which tasks are bound in this cycle and none was before: growth is no new start."""
    bound = _jobs_of(session, OperationKind.ALLOCATE)
    if not bound:
        return []
    counts = session.snapshot.jobs.counts
    held = {job for job in bound if counts[job, _HELD].any()} | _jobs_of(session, OperationKind.EVICT, on_node=True)
    return [job for job in sorted(bound - held) if session.job_deficit(job) == 0]


def _jobs_of(session: Session, kind: OperationKind, *, on_node: bool = False) -> set[int]:
    """Jobs with committed operations of a kind; `on_node`: on pods that are on a node."""
    table = session.snapshot.tasks
    found: set[int] = set()
    for committed in session.committed:
        for operation in committed.operations:
            if operation.kind is kind:
                tasks = operation.tasks
                if on_node:
                    tasks = np.array([task for task in tasks.tolist() if table.pods[task].spec.node_name], np.intp)
                found.update(table.job[tasks].tolist())
    found.discard(NO_ROW)
    return found


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
        self.reasons = ToldReasons()

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
