"""What a job needs before it may start: the pending tasks that its minimum lacks, no more.

Elastic growth beyond the minimum never evicts anybody, so a job that is ready needs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.evictions.gang.clearing import Demand
from muster.engine.evictions.surplus import roles_hold
from muster.engine.gangs import required_subgroups
from muster.framework import FITS, Session
from muster.snapshot import BEST_EFFORT_PENDING, READY_STATUSES, Amounts, Mask, Rows, TaskStatus

_SETTLED: Final = [*READY_STATUSES, TaskStatus.PIPELINED, BEST_EFFORT_PENDING]


@dataclass(frozen=True, slots=True)
class GangNeed:
    """The tasks that must be placed, in order, and what they ask for."""

    job: int
    tasks: Rows
    #: Sum of the requests.
    request: Amounts
    #: The same by class, the largest class first.
    demands: tuple[Demand, ...]
    #: Whether places tell exactly if the tasks fit: one class, and neither other pods nor sub-groups matter.
    exact: bool


def gang_need(session: Session, job: int, tasks: Rows) -> GangNeed:
    """What the tasks, of which there is at least one, ask for."""
    boards, live = boards_of(session), session.live_tasks()
    classes, counts = np.unique(session.snapshot.tasks.cls[tasks], return_counts=True)
    requests = session.snapshot.classes.requests[classes, 0]
    share = (requests / np.maximum(session.total, 1)).max(axis=1)
    order = np.lexsort((classes, -share))
    demands = tuple(
        Demand(requests[k], int(counts[k]), boards.verdicts(int(classes[k])) == FITS) for k in order.tolist()
    )
    exact = len(classes) == 1 and not session.snapshot.jobs.records[job].sub_groups and live.isdisjoint(tasks.tolist())
    return GangNeed(job, tasks, (requests * counts[:, None]).sum(axis=0), demands, exact)


def needed_tasks(session: Session, job: int, pending: Rows) -> Rows:
    """The first pending tasks that make the job ready: what roles and sub-groups lack, then any up to the minimum."""
    missing = session.job_pipelined_deficit(job)
    if missing <= 0:
        return pending[:0]
    required = _lacked_by_roles(session, job, pending) | _lacked_by_subgroups(session, job, pending)
    others = np.flatnonzero(~required)[: max(0, missing - int(required.sum()))]
    required[others] = True
    tasks: Rows = pending[required]
    return tasks if len(tasks) >= missing else pending[:0]


def _lacked_by_roles(session: Session, job: int, pending: Rows) -> Mask:
    snapshot = session.snapshot
    mask: Mask = np.zeros(len(pending), np.bool_)
    if not roles_hold(snapshot, np.array([job], np.int32))[0]:
        return mask
    own = snapshot.tasks.role[pending]
    for role in snapshot.jobs.roles[job]:
        lacking = int(snapshot.roles.minimum[role]) - _placed(snapshot.roles.counts[role])
        mask[np.flatnonzero(own == role)[: max(0, lacking)]] = True
    return mask


def _placed(counts: Rows) -> int:
    return int(counts[_SETTLED].sum())


def _lacked_by_subgroups(session: Session, job: int, pending: Rows) -> Mask:
    mask: Mask = np.zeros(len(pending), np.bool_)
    if not session.snapshot.jobs.records[job].sub_groups:
        return mask
    own = session.snapshot.tasks.subgroup[pending]
    for subgroup in sorted(required_subgroups(session, job)):
        lacking = session.subgroup_pipelined_deficit(subgroup)
        mask[np.flatnonzero(own == subgroup)[:lacking]] = True
    return mask
