"""Which gangs are broken: some of their pods run, but too few for what they are made for.

Callers: the action that evicts such gangs, and the scheduler, which stamps them. A pod that is leaving does not
count as one that runs; a task that is promised a place does, as the gang is on its way to be whole again.
"""

from __future__ import annotations

import numpy as np

from muster.engine.evictions.surplus import job_surplus
from muster.snapshot import Mask, Snapshot, TaskStatus

#: The cluster knows of these; tasks placed in this very cycle cannot make a gang broken.
_RUNNING = [TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING]


def stale_jobs(snapshot: Snapshot) -> Mask:
    """Jobs that run below a minimum: their own, of a role, of sub-groups.

    Never those of which a pod has succeeded, or of which something was put aside.
    """
    jobs = snapshot.jobs
    runs = jobs.counts[:, _RUNNING].any(axis=1)
    finishing = jobs.counts[:, TaskStatus.SUCCEEDED] > 0
    suspects: Mask = jobs.live & runs & ~finishing
    suspects[list(jobs.aside)] = False  # who is missing may be among what cannot be read
    if not suspects.any():
        return np.zeros(len(jobs), np.bool_)
    return suspects & (job_surplus(snapshot, promised=True) < 0)
