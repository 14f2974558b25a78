"""In which order jobs, queues, sub-groups, tasks and victims come, by what plugins say. Part of the session.

Every order is total: where plugins see no difference, age and name decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.framework.plugin import overrides
from muster.framework.questions import Questions
from muster.snapshot import Amounts, Pieces, Rows


class OrderQuestions(Questions):
    """Who comes first."""

    #: The methods that order jobs, and beside each the one that orders them as victims, where there is one.
    _victim_order: list[tuple[Callable[..., Any], Callable[..., Any] | None]]

    def job_key(self, job: int) -> tuple[Any, ...]:
        """Order of a job among the jobs of its queue."""
        jobs = self.snapshot.jobs
        keys = [ask(job) for ask in self._points.flat["job_order"]]
        return (*keys, float(jobs.created[job]), jobs.records[job].id)

    def queue_key(self, queue: int) -> tuple[Any, ...]:
        """Order of a queue among all queues."""
        record = self.snapshot.queues.records[queue]
        keys = [ask(queue) for ask in self._points.flat["queue_order"]]
        return (*keys, record.created, record.name)

    def queue_turn_key(self, queue: int, job: int, leaving: Amounts | None = None) -> tuple[Any, ...]:
        """Order of a queue among its siblings when queues take turns down the tree; see `Plugin.queue_turn`."""
        record = self.snapshot.queues.records[queue]
        keys = [ask(queue, job, leaving) for ask in self._points.flat["queue_turn"]]
        return (*keys, record.created, record.name)

    def victim_key(self, job: int, left: Rows) -> tuple[Any, ...]:
        """Order of a job of which `left` is left, as `job_key`; victims of a queue go from the last to the first."""
        jobs = self.snapshot.jobs
        keys = [for_victim(job, left) if for_victim else ask(job) for ask, for_victim in self._victim_order]
        return (*keys, float(jobs.created[job]), jobs.records[job].id)

    def sort_victims(self, jobs: Rows, left: Pieces) -> Rows:
        """Order jobs by `victim_key`, with what is left of each."""
        table, rows = self.snapshot.jobs, jobs.tolist()
        columns = [_numbers([table.records[job].id for job in rows]), table.created[jobs]]
        for ask, for_victim in reversed(self._victim_order):
            plugin = ask.__self__
            if overrides(plugin, "victim_orders"):
                columns.append(plugin.victim_orders(jobs, left))
            elif for_victim:
                columns.append(_numbers([for_victim(job, left[piece]) for piece, job in enumerate(rows)]))
            else:
                columns.append(_numbers([ask(job) for job in rows]))
        ordered: Rows = jobs[np.lexsort(columns)]
        return ordered

    def subgroup_key(self, subgroup: int) -> tuple[Any, ...]:
        """Order of a sub-group among those of its job."""
        table = self.snapshot.subgroups
        keys = [ask(subgroup) for ask in self._points.flat["subgroup_order"]]
        return (*keys, int(table.index[subgroup]), table.names[subgroup])

    def sort_tasks(self, tasks: Rows) -> Rows:
        """Order tasks by job row, then by the plugins' keys, then by index, age and uid."""
        owners = self.snapshot.tasks.job[tasks]
        by_job = np.argsort(owners, kind="stable")
        ordered: Rows = tasks[by_job]
        follows = np.flatnonzero(owners[by_job[1:]] == owners[by_job[:-1]])
        if len(follows):  # tasks that are alone in their job need no key
            shared = np.zeros(len(tasks), np.bool_)
            shared[follows] = shared[follows + 1] = True
            ordered[shared] = self._sort_by_keys(ordered[shared])
        return ordered

    def _sort_by_keys(self, tasks: Rows) -> Rows:
        table = self.snapshot.tasks
        keys: list[NDArray[Any]] = [ask(tasks) for ask in self._points.flat["task_order"]]
        ordered: Rows = tasks[np.lexsort([table.rank[tasks], *reversed(keys), table.job[tasks]])]
        return ordered


def _numbers(keys: Sequence[Any]) -> NDArray[Any]:
    """Numbers that stand to each other as the keys do."""
    numbers = np.zeros(len(keys), np.int32)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    numbers[order] = np.cumsum([False, *(keys[one] != keys[next_one] for one, next_one in pairwise(order))])
    return numbers
