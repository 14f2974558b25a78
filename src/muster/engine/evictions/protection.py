"""Protected gangs: who must keep its minimum gives what it can spare, and no more, whoever chooses the victims.

Who is protected is said by the pool (`muster.engine.evictions.candidates`). A gang that is below its minimum already
has nothing to spare.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.surplus import holds_minimum, spare_tasks
from muster.snapshot import BEST_EFFORT, READY_STATUSES, Mask, Rows, Snapshot, TaskStatus


def spared_by(snapshot: Snapshot, protected: Rows, tasks: Rows) -> Mask:
    """Which tasks may go together, taken in the order given, so that every protected gang keeps its minimum."""
    mask: Mask = np.ones(len(tasks), np.bool_)
    if len(protected):
        concerned = np.flatnonzero(np.isin(snapshot.tasks.job[tasks], protected))
        mask[concerned] = spare_tasks(snapshot, tasks[concerned])
    return mask


def keep_minimum(snapshot: Snapshot, jobs: Rows, taken: Rows, moved: Rows) -> bool:
    """Whether each of the jobs that loses a task has its minimum without those in `taken`.

    `moved` have a place elsewhere and count as there. The answer is the same before and after the statement has
    evicted and moved them. A job that is below its minimum loses nothing.
    """
    table = snapshot.tasks
    for job in jobs[np.isin(jobs, table.job[taken])].tolist():
        own = snapshot.tasks_of(job)
        status = table.status[own]
        needs_no_place = (status == TaskStatus.PENDING) & ((table.flags[own] & BEST_EFFORT) != 0)
        here = np.isin(status, READY_STATUSES) | needs_no_place | np.isin(own, moved)
        if not holds_minimum(snapshot, job, own[here & ~np.isin(own, taken)]):
            return False
    return True
