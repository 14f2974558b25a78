"""Jobs in the log: a line when one starts and a line when it has ended, so that the log can be replayed.

    event=job-start job=team-a/train queue=research owner=ann created=1767225600 pods=2 asks=cpu=16,nvidia.com/gpu=16
    event=job-end job=team-a/train seconds=3600

The decisions themselves do not say what a job asked for, when it came and how long it ran. Jobs that ran when the
scheduler began were told of by the one before it. Whether somebody has ended is looked at now and then: every cycle
would cost more than it tells.
"""

from __future__ import annotations

import logging
from typing import Final

import numpy as np

from muster.api import format_amount
from muster.framework import Session
from muster.framework.run_times import owner_of
from muster.scheduler.cycle import CycleResult
from muster.snapshot.messages import Bind

log = logging.getLogger("muster.scheduler")
#: Seconds between two looks at who has ended.
_LOOK_S: Final = 5.0


class JobLog:
    """Writes the lines of one scheduler."""

    def __init__(self) -> None:
        #: Jobs that run, and since when.
        self._since: dict[str, float] | None = None
        self._looked = 0.0

    def note(self, session: Session, result: CycleResult) -> None:
        """Tell who has started in a cycle, and who has ended since the last look."""
        if not log.isEnabledFor(logging.INFO):
            return
        jobs, now = session.snapshot.jobs, result.time
        if self._since is None:
            running = np.flatnonzero(jobs.allocated.any(axis=1)).tolist()
            started = [(jobs.records[row].id, jobs.records[row].started) for row in running]
            bound = {made.job for made in result.decisions if isinstance(made, Bind)}
            self._since = {job: since for job, since in started if since is not None and job not in bound}
        for job in dict.fromkeys(made.job for made in result.decisions if isinstance(made, Bind)):
            row = jobs.index.get(job)
            if row is not None and session.job_deficit(row) == 0 and job not in self._since:
                self._since[job] = now
                log.info("event=job-start %s", _told(session, row))
        if now - self._looked >= _LOOK_S:
            self._looked = now
            self._look(session, now)

    def _look(self, session: Session, now: float) -> None:
        assert self._since is not None
        jobs = session.snapshot.jobs
        for job in [job for job in self._since if job not in jobs.index]:
            log.info("event=job-end job=%s seconds=%g", job, round(now - self._since.pop(job), 1))


def _told(session: Session, row: int) -> str:
    snapshot, record = session.snapshot, session.snapshot.jobs.records[row]
    tasks = snapshot.tasks_of(row)
    asked = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].sum(axis=0)
    amounts = (
        f"{name}={format_amount(name, int(amount))}"
        for name, amount in zip(snapshot.axis.names, asked.tolist(), strict=True)
        if amount and name != "pods"
    )
    owner = owner_of(record, snapshot.tasks.pods[int(tasks[0])] if len(tasks) else None).replace(" ", "-")
    return (
        f"job={record.id} queue={record.queue} owner={owner} created={record.created:.0f} pods={len(tasks)} "
        f"asks={','.join(amounts)}"
    )
