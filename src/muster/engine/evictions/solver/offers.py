"""What a step of growth has been offered so far: units by node and by job, and all their tasks in one column.

Callers: the solver's search, which adds one unit after the other and asks who stands on the nodes of the last one.
A step may be offered thousands of units, so an answer costs what it says and not what was offered.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.engine.evictions.solver.pool import Unit
from muster.snapshot import Rows


class Offers:
    """Units in the order in which they were offered, after the victims that a search has already."""

    def __init__(self, recorded: Rows) -> None:
        self._units: list[Unit] = []
        self._by_node: dict[int, set[int]] = {}
        self._by_job: dict[int, list[int]] = {}
        #: `recorded` and the tasks of all units; only the first `_count` are filled.
        self._tasks = recorded.copy()
        self._count = len(recorded)

    def add(self, unit: Unit) -> None:
        """One more unit is offered."""
        self._by_job.setdefault(unit.job, []).append(len(self._units))
        for node in unit.nodes:
            self._by_node.setdefault(node, set()).add(unit.job)
        self._units.append(unit)
        end = self._count + len(unit.tasks)
        if end > len(self._tasks):
            self._tasks = np.resize(self._tasks, 2 * end)
        self._tasks[self._count : end] = unit.tasks
        self._count = end

    def jobs_on(self, node: int) -> frozenset[int]:
        """Jobs of which something on the node was offered."""
        return frozenset(self._by_node.get(node, ()))

    def tasks_of(self, jobs: Iterable[int]) -> Rows:
        """All tasks of these jobs that were offered, in the order of the offers."""
        positions = sorted(position for job in jobs for position in self._by_job[job])
        return np.concatenate([self._units[position].tasks for position in positions])

    def everybody(self) -> Rows:
        """The victims that there were already, and everybody who was offered."""
        return self._tasks[: self._count]
