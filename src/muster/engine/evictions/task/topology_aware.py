"""Topology-aware preemption: dry runs on many nodes, and the node whose victims matter least is taken.

Callers: the task strategy when `enableTopologyAwarePreemption` is set. As many nodes are tried as the arguments ask
for, beginning at a random one (the session's seed decides), and the search ends with enough candidates. They are
compared by their victims: lowest highest priority, lowest sum of priorities, fewest, latest start; ties by row.
(The name is Volcano's: it is about rules between pods on nodes, not about the network.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.task.asking import Asking
from muster.engine.evictions.task.node_victims import fewest_victims
from muster.engine.evictions.task.rooms import Rooms
from muster.engine.evictions.task.sticky import NodeScope
from muster.framework import Session
from muster.snapshot import Rows

#: Makes every priority positive, so that one victim of negative priority counts less than two.
_PRIORITY_OFFSET = 2**31


@dataclass(frozen=True, slots=True)
class CandidateOptions:
    """How many candidates are looked for."""

    percentage: int = 10
    at_least: int = 1
    at_most: int = 100

    def count(self, n_nodes: int) -> int:
        """A part of the nodes, within the bounds, and never more than there are."""
        wanted = max(n_nodes * self.percentage // 100, self.at_least)
        return min(wanted, self.at_most, n_nodes)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Nodes that work, and whom each one costs."""

    nodes: Rows
    #: Victims, node by node; every node has some.
    victims: Rows
    #: Position of each victim's node.
    where: NDArray[np.int64]
    #: Whether all victims were allowed in one answer: then those of several nodes may go.
    together: bool = False

    def __len__(self) -> int:
        return len(self.nodes)

    def first(self, count: int) -> Candidates:
        kept = self.where < count
        return Candidates(self.nodes[:count], self.victims[kept], self.where[kept], self.together)

    def and_then(self, other: Candidates) -> Candidates:
        return Candidates(
            np.concatenate((self.nodes, other.nodes)),
            np.concatenate((self.victims, other.victims)),
            np.concatenate((self.where, other.where + len(self))),
        )


def _gather(nodes: Rows, victims: Rows, where: NDArray[np.int64]) -> Candidates:
    """Candidates from victims in any order, with the positions of their nodes; nodes without victims are dropped."""
    order = np.argsort(where, kind="stable")
    used, positions = np.unique(where[order], return_inverse=True)
    return Candidates(nodes[used], victims[order], positions)


class NodePicker:
    """Finds the best of several nodes for one task."""

    def __init__(
        self, session: Session, rooms: Rooms, asking: Asking, options: CandidateOptions, live: frozenset[int]
    ) -> None:
        self._session = session
        self._rooms = rooms
        self._asking = asking
        self._options = options
        #: Tasks for which other pods matter.
        self._live = live
        #: Start of each task's pod; not a number: not looked at yet.
        self._started = np.full(len(session.snapshot.tasks), np.nan)

    def open_best(self, tasks: Rows, scope: NodeScope) -> int:
        """Make room for equal tasks where it costs least; return how many found it: always the first.

        One search serves them all as long as its candidates last, each node being used once.
        """
        task = int(tasks[0])
        able = self._rooms.able(task, scope) & (self._rooms.scores(task) > -np.inf)
        nodes = np.flatnonzero(able).astype(np.int32)
        if len(nodes) == 0:
            return 0
        offset = self._session.rng.randrange(len(nodes))
        candidates = self._candidates(task, np.roll(nodes, -offset), self._options.count(len(nodes)))
        placed = 0
        for position in self._ranked(candidates).tolist():
            first, last = np.searchsorted(candidates.where, (position, position + 1))
            # Who may go alone may be one too many after others have gone, so plugins are asked again.
            known = candidates.victims[first:last] if candidates.together or not placed else None
            placed += self._rooms.open(int(tasks[placed]), int(candidates.nodes[position]), known)
            if placed == len(tasks):
                break
        return placed

    def _candidates(self, task: int, nodes: Rows, wanted: int) -> Candidates:
        """Dry runs until there are enough candidates."""
        found = self._dry_run(task, nodes[:wanted])
        for start in range(wanted, len(nodes), wanted):
            if len(found) >= wanted:
                break
            found = found.and_then(self._dry_run(task, nodes[start : start + wanted]))
        return found.first(wanted)

    def _dry_run(self, task: int, nodes: Rows) -> Candidates:
        """Nodes that work, in the order given."""
        positions = np.arange(len(nodes))
        if task in self._live or not self._asking.at_once:
            return _gather(nodes, *self._alone(task, nodes, positions))
        offers = self._asking.line_up(task, nodes, self._rooms.supply)
        refused = offers.where[~self._asking.allowed(task, offers.candidates, self._rooms.supply)]
        # Nodes are alternatives: one must not lose victims because another has used up what a plugin counts.
        complete = ~np.isin(positions, refused)
        request = self._session.snapshot.request(task)
        chosen = fewest_victims(offers, request, np.where(complete, np.minimum(offers.slots(request), 1), 0))
        victims, where = offers.candidates[chosen], offers.where[chosen]
        left = positions[~np.isin(positions, where)]
        if len(left) == 0:
            return Candidates(nodes, victims, where, together=True)
        more, places = self._alone(task, nodes, left)
        return _gather(nodes, np.concatenate((victims, more)), np.concatenate((where, places)))

    def _alone(self, task: int, nodes: Rows, positions: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
        """Victims on nodes that are asked about one by one, and the positions of their nodes."""
        victims: list[Rows] = [np.empty(0, np.int32)]
        counts = []
        for position in positions.tolist():
            found = self._rooms.victims(task, int(nodes[position]))
            counts.append(0 if found is None else len(found))
            if found is not None:
                victims.append(found)
        return np.concatenate(victims), np.repeat(positions, counts)

    def _ranked(self, candidates: Candidates) -> NDArray[np.intp]:
        """Positions of candidates, the one whose victims matter least first."""
        if len(candidates) == 0:
            return np.empty(0, np.intp)
        starts = np.flatnonzero(np.diff(candidates.where, prepend=-1))
        priority = self._session.snapshot.tasks.priority[candidates.victims].astype(np.int64)
        highest = np.maximum.reduceat(priority, starts)
        total = np.add.reduceat(priority + _PRIORITY_OFFSET, starts)
        count = np.diff(np.append(starts, len(priority)))
        # A victim that is not the dearest of its node counts as started at the end of time.
        dearest = priority == highest[candidates.where]
        began = np.where(dearest, self._start_times(candidates.victims), np.inf)
        earliest = np.minimum.reduceat(began, starts)
        return np.lexsort((candidates.nodes, -earliest, count, total, highest))

    def _start_times(self, tasks: Rows) -> NDArray[np.float64]:
        """When pods started, seconds since the epoch; those that have not count as starting now."""
        pods = self._session.snapshot.tasks.pods
        for task in tasks[np.isnan(self._started[tasks])].tolist():
            start = pods[task].status.start_time
            self._started[task] = self._session.now if start is None else start.timestamp()
        return self._started[tasks]
