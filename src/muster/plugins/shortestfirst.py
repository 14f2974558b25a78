"""Shortest first: jobs of a queue in the order of the run times that are expected of them (SJF).

Jobs that nobody knows anything about come last. Large jobs may starve; `reservation` with the order `shortest` keeps
them from it.
"""

from __future__ import annotations

import math
from typing import ClassVar

from muster.framework.plugin import OrderKey, Plugin


class ShortestFirst(Plugin):
    """Order jobs by expected run time."""

    name = "shortestfirst"
    summary = "Jobs of a queue in the order of their expected run times, the shortest first."
    wants_run_times: ClassVar[bool] = True

    def job_order(self, job: int) -> OrderKey:
        snapshot = self.session.snapshot
        pods = (snapshot.tasks.pods[task] for task in snapshot.tasks_of(job).tolist())
        found = self.session.run_times.of(snapshot.jobs.records[job], pods)
        return math.inf if found is None else found.seconds
