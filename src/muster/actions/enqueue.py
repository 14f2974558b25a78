"""Enqueue: admit waiting jobs to their queues while the queues and the cluster can take them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from muster.engine.lines import Line
from muster.framework import Action, JobVerdict, Session
from muster.framework.reasons import QUEUE_MISSING
from muster.snapshot import NO_ROW, JobPhase


class Enqueue(Action):
    """Go through queues and their waiting jobs in order; a job without minResources is always admitted."""

    name: ClassVar[str] = "enqueue"
    summary: ClassVar[str] = "Admit waiting jobs to their queues while queues and cluster can take them."

    def run(self, session: Session) -> None:
        jobs = session.snapshot.jobs
        waiting = []
        for job in np.flatnonzero(jobs.live & (jobs.phase == JobPhase.PENDING)).tolist():
            if jobs.queue[job] == NO_ROW:
                session.record(job, JobVerdict(QUEUE_MISSING, jobs.records[job].queue))
            elif jobs.has_group[job]:
                waiting.append(job)
        line = Line(session, waiting)
        while (first := line.pop()) is not None:
            with session.turn(first):
                rejection = None if jobs.records[first].min_resources is None else session.why_not_admitted(first)
                if rejection is None:
                    session.admit(first)
                else:
                    session.record(first, JobVerdict(rejection.reason, rejection.detail))
