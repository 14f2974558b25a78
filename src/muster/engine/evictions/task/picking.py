"""Topology-aware preemption: dry runs on many nodes, and the node whose victims matter least is taken.

As many nodes are tried as the arguments ask for, beginning at a random one (the session's seed decides), and the search
ends with enough of them. They are compared by their victims: lowest highest priority, lowest sum of priorities, fewest,
latest start; ties by row. (The name is Volcano's: it is about rules between pods on nodes, not about the network.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.simulation import joined
from muster.engine.evictions.task.node_evictions import NodeEvictions
from muster.engine.evictions.task.offers import CandidateFilter, fewest_victims
from muster.engine.evictions.task.sticky import NodeScope
from muster.framework import Session
from muster.snapshot import Rows

#: Makes every priority positive, so that one victim of negative priority counts less than two.
_PRIORITY_OFFSET = 2**31


@dataclass(frozen=True, slots=True)
class PickOptions:
    """How many nodes are looked for."""

    percentage: int = 10
    at_least: int = 1
    at_most: int = 100

    def count(self, n_nodes: int) -> int:
        """A part of the nodes, within the bounds, and never more than there are."""
        wanted = max(n_nodes * self.percentage // 100, self.at_least)
        return min(wanted, self.at_most, n_nodes)


class NodePicker:
    """Finds the best of several nodes for one task."""

    def __init__(
        self,
        session: Session,
        evictions: NodeEvictions,
        candidates: CandidateFilter,
        options: PickOptions,
        live: frozenset[int],
    ) -> None:
        self._session = session
        self._evictions = evictions
        self._candidates = candidates
        self._options = options
        #: Tasks for which other pods matter.
        self._live = live
        #: Start of each task's pod; not a number: not looked at yet.
        self._started = np.full(len(session.snapshot.tasks), np.nan)

    def open_best(self, tasks: Rows, scope: NodeScope) -> int:
        """Make room for equal tasks where it costs least; return how many found it: always the first.

        One search serves them all as long as its nodes last, each being used once.
        """
        task = int(tasks[0])
        nodes, _ = self._evictions.able(task, scope)
        if len(nodes) == 0:
            return 0
        offset = self._session.rng.randrange(len(nodes))
        found, together = self._found(task, np.roll(nodes, -offset), self._options.count(len(nodes)))
        placed = 0
        for node in self._ranked(found):
            # Who may go alone may be one too many after others have gone; then plugins are asked again.
            known = found[node] if together or not placed else None
            placed += self._evictions.open(int(tasks[placed]), node, known)
            if placed == len(tasks):
                break
        return placed

    def _found(self, task: int, nodes: Rows, wanted: int) -> tuple[dict[int, Rows], bool]:
        """Nodes that work, in the order given, and whom each one costs; dry runs until there are enough.

        Also whether all victims were allowed in one answer: then those of several nodes may go.
        """
        found: dict[int, Rows] = {}
        together: dict[int, Rows] = {}
        at_once = task not in self._live and self._candidates.at_once
        for start in range(0, len(nodes), wanted):
            part = nodes[start : start + wanted]
            together = self._together(task, part) if at_once else {}
            for node in part.tolist():
                victims = together[node] if node in together else self._evictions.victims(task, node)
                if len(victims):
                    found[node] = victims
            if len(found) >= wanted:
                break
        return {node: found[node] for node in list(found)[:wanted]}, len(together) == len(found)

    def _together(self, task: int, nodes: Rows) -> dict[int, Rows]:
        """Victims on the nodes of which nobody was refused, by one question about all of them.

        Nodes are alternatives: one must not lose victims because another has used up what a plugin counts.
        """
        supply, request = self._evictions.supply, self._session.snapshot.request(task)
        offers = self._candidates.line_up(task, nodes, supply)
        refused = offers.where[~self._candidates.allowed(task, offers.candidates, supply)]
        complete = ~np.isin(np.arange(len(nodes)), refused)
        chosen = fewest_victims(offers, request, np.where(complete, np.minimum(offers.slots(request), 1), 0))
        victims, where = offers.candidates[chosen], offers.where[chosen]
        bounds = np.flatnonzero(np.diff(where, prepend=-1))
        return dict(zip(nodes[where[bounds]].tolist(), np.split(victims, bounds[1:]), strict=False))

    def _ranked(self, found: dict[int, Rows]) -> list[int]:
        """The nodes, the one whose victims matter least first."""
        if not found:
            return []
        nodes, victims = np.array(list(found), np.int32), joined(list(found.values()))
        counts = np.array([len(own) for own in found.values()])
        starts = np.cumsum(counts) - counts
        priority = self._session.snapshot.tasks.priority[victims].astype(np.int64)
        highest = np.maximum.reduceat(priority, starts)
        total = np.add.reduceat(priority + _PRIORITY_OFFSET, starts)
        # A victim that is not the dearest of its node counts as started at the end of time.
        dearest = priority == np.repeat(highest, counts)
        earliest = np.minimum.reduceat(np.where(dearest, self._start_times(victims), np.inf), starts)
        ranked: list[int] = nodes[np.lexsort((nodes, -earliest, counts, total, highest))].tolist()
        return ranked

    def _start_times(self, tasks: Rows) -> NDArray[np.float64]:
        """When pods started, seconds since the epoch; those that have not count as starting now."""
        pods = self._session.snapshot.tasks.pods
        for task in tasks[np.isnan(self._started[tasks])].tolist():
            start = pods[task].status.start_time
            self._started[task] = self._session.now if start is None else start.timestamp()
        return self._started[tasks]
