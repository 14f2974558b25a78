"""Propose: try the domain first that a look-ahead expects to win, and spare the other trials if it fits.

The full search tries every domain of the lowest tier that has a solution, with all sub-groups in each. For jobs
with sub-groups this plugin predicts the outcome from slot counts and puts the winner into a gradient of its own,
before the tier that it is from. Lower tiers that may have a solution stay in front of it, and if the proposal does
not fit the search goes on as if there were none: the plugin can save work, not lose a solution.
Jobs without sub-groups have no use for it: their domains are tried best first anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.constraints import job_constraint, job_domain
from muster.engine.domains import gradients, holding
from muster.engine.gangs import by_subgroup
from muster.framework.plugin import Plugin
from muster.plugins.domain_books import pending_tasks_of
from muster.plugins.look_ahead import LookAhead
from muster.snapshot import BEST_EFFORT, GATED, NO_ROW, Rows


class Propose(Plugin):
    """Predict the best domain for jobs with sub-groups."""

    name = "propose"
    summary = "Tries the network domain first that a look-ahead expects to suit a job with sub-groups best."

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        session = self.session
        snapshot = session.snapshot
        if subgroup != NO_ROW or not snapshot.jobs.records[job].sub_groups:
            return None
        # Where part of the job runs already, nearness decides, and few domains are left to try.
        if job_domain(snapshot, job) != NO_ROW:
            return None
        steps = gradients(snapshot.topology, job_constraint(session, job), scope, NO_ROW)
        tasks = self._tasks(job)
        if len(tasks) == 0 or all(len(step) == 1 for step in steps):
            return None
        return self._with_proposal(job, tasks, steps)

    def _with_proposal(self, job: int, tasks: Rows, steps: list[Rows]) -> list[Rows]:
        """Put the winner of the lowest tier that is expected to have one in front of its tier."""
        session = self.session
        boards = boards_of(session)
        needed = max(1, session.job_deficit(job))
        answer: list[Rows] = []
        for number, step in enumerate(steps):
            possible = holding(session, boards, tasks, needed, step)
            if len(possible) == 0:
                continue
            winner = NO_ROW
            if len(possible) > 1:
                winner = LookAhead(session, boards, job, by_subgroup(session, job, tasks), possible).best()
            if winner == NO_ROW:
                answer.append(possible)
                continue
            return [*answer, np.array([winner], np.int32), possible, *steps[number + 1 :]]
        return answer

    def _tasks(self, job: int) -> Rows:
        """What allocate will place of the job, in the same order."""
        snapshot = self.session.snapshot
        tasks = pending_tasks_of(snapshot, job, NO_ROW)
        tasks = tasks[(snapshot.tasks.flags[tasks] & (BEST_EFFORT | GATED)) == 0]
        return self.session.sort_tasks(tasks)
