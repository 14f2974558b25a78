"""Making room on nodes for the tasks of one job: where, and at whose expense.

Nodes are tried in the order of their scores, ties by row. A node that was opened is filled before the next one is, so
that few jobs are hit. Whatever fails leaves no trace in the simulation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards
from muster.engine.evictions.simulation import Simulation
from muster.engine.evictions.task.offers import (
    CandidateFilter,
    NodeOffers,
    NodeRecords,
    Supply,
    fewest_victims,
    share_out,
)
from muster.engine.evictions.task.sticky import NodeScope
from muster.engine.placing import Goal, Scope
from muster.framework import FITS, Eviction, Session
from muster.framework.reasons import eviction_helps
from muster.kernels.placement import ANYHOW, FUTURE, fits
from muster.snapshot import NO_ROW, Board, Mask, Rows


class NodeEvictions:
    """Places tasks of one job at a time, evicting from one supply."""

    def __init__(
        self, session: Session, boards: Boards, candidates: CandidateFilter, kind: Eviction, live: frozenset[int]
    ) -> None:
        self._session = session
        self._boards = boards
        self._candidates = candidates
        self._kind = kind
        #: Tasks for which other pods matter.
        self._live = live
        # Where allocate runs, what is free has been given out, and what is left of it serves before anybody is
        # evicted. Without it preempt gives free room out itself, and goes by scores alone, as Volcano does.
        self._free_first = kind is Eviction.RECLAIM or session.has_action("allocate")
        #: How many candidates the last question left.
        self._named = 0

    def begin(self, simulation: Simulation, supply: Supply) -> None:
        """Turn to a job."""
        self._queue = int(self._session.snapshot.jobs.queue[simulation.job])
        self._simulation = simulation
        self.supply = supply

    # -- without evictions ---------------------------------------------------------------------------------

    def use_nominated(self, task: int, scope: NodeScope) -> bool:
        """Put a task on the node that was set aside for it, if it will fit there without evicting anybody."""
        snapshot = self._session.snapshot
        node = int(snapshot.tasks.nominated[task])
        if node == NO_ROW or not scope.mask(len(snapshot.nodes))[node] or self._room_in_queue(task) == 0:
            return False
        board = (
            self._boards.for_task(task, FUTURE)
            if task in self._live
            else self._boards.get(int(snapshot.tasks.cls[task]), FUTURE)
        )
        if not board.current(snapshot)[node] > -np.inf:
            return False
        self._put(task, node)
        return True

    def use_free(self, tasks: Rows, scope: NodeScope, *, picks: bool) -> int:
        """Place equal tasks where there is or will be room anyway; return how many found it.

        `picks`: nodes are picked by their victims, so those that need none go first in any case.
        """
        tasks = tasks[: self._room_in_queue(int(tasks[0]))]
        if len(tasks) == 0 or not (self._free_first or picks):
            return 0
        n_nodes = len(self._session.snapshot.nodes)
        where = Scope(mask=None if scope.covers(n_nodes) else scope.mask(n_nodes), is_final=True)
        # While more than one domain is open, the first task decides which it will be.
        wanted = tasks if scope.open is None else tasks[:1]
        return self._simulation.place(wanted, where, (FUTURE,), Goal.FIRST).placed

    def _put(self, task: int, node: int) -> None:
        self._simulation.put(np.array([task], np.int32), np.array([node], np.int32))

    def _room_in_queue(self, task: int) -> int:
        """How many such tasks the job's queue may hold beside what it has; across queues that was asked before."""
        if self._kind is Eviction.RECLAIM:
            return len(self._session.snapshot.tasks)
        return self._session.queue_slots(self._queue, self._session.snapshot.request(task))

    # -- with evictions ------------------------------------------------------------------------------------

    def make(self, tasks: Rows, scope: NodeScope) -> int:
        """Evict so that as many of the equal tasks as possible have a place; return how many: always the first."""
        one_by_one = int(tasks[0]) in self._live or not self._candidates.at_once
        placed = 0
        barred = np.zeros(len(self._session.snapshot.nodes), np.bool_)
        width = len(tasks)
        while placed < len(tasks):
            nodes, scores = self.able(int(tasks[placed]), scope)
            nodes = nodes[np.argsort(-scores, kind="stable")]
            nodes = nodes[~barred[nodes]]
            if len(nodes) == 0:
                break
            if one_by_one:
                done = int(any(self.open(int(tasks[placed]), node) for node in nodes.tolist()))
                if not done:
                    break
            else:
                nodes, count = self._picked(tasks[placed:], nodes[:width])
                done = self._open_many(tasks[placed : placed + count], nodes)
                one_by_one = done < 0
            if done > 0:
                placed += done
                width = len(tasks) - placed
            elif done == 0 and self._named == 0:
                barred[nodes] = True
                width *= 2
            elif done == 0:
                # Together they may use up what one of them alone may have, so the first is asked about alone.
                barred[nodes] = len(nodes) == 1
                width = 1
        return placed

    def _picked(self, tasks: Rows, nodes: Rows) -> tuple[Rows, int]:
        """Nodes for one question, and for how many tasks.

        By score a node is chosen anew for every task, so more than one task is served at once only where no node can
        take a second one.
        """
        slots = self.supply.slots(self._session.snapshot.request(int(tasks[0])), nodes)
        return (nodes, len(tasks)) if self._free_first or slots.max() <= 1 else (nodes[:1], 1)

    def able(self, task: int, scope: NodeScope) -> tuple[Rows, NDArray[np.float64]]:
        """Nodes of the scope that would have room for the task if everybody who might be evicted went; their scores."""
        snapshot, scores = self._session.snapshot, self._scores(task)
        mask: Mask = (self.supply.slots(snapshot.request(task)) > 0) & scope.mask(len(snapshot.nodes))
        if self._free_first:
            mask &= self.supply.has_candidates
        nodes = np.flatnonzero(mask & (scores > -np.inf)).astype(np.int32)
        return nodes, scores[nodes]

    def _scores(self, task: int) -> NDArray[np.float64]:
        """Scores of all nodes, full ones too; -inf where evictions cannot help."""
        session = self._session
        cls = int(session.snapshot.tasks.cls[task])
        if task not in self._live:
            return self._boards.get(cls, ANYHOW).current(session.snapshot)
        fixed = self._boards.fixed(cls)
        live_scores, verdicts = session.task_scores(task), session.task_verdicts(task)
        if live_scores is not None:
            fixed = fixed + live_scores
        if verdicts is not None:
            fixed = np.where(eviction_helps(verdicts), fixed, -np.inf)
        board = Board.make(session.snapshot.classes.requests[cls], self._boards.terms(cls), fixed, ANYHOW)
        return board.current(session.snapshot)

    def _open_many(self, tasks: Rows, nodes: Rows) -> int:
        """Place equal tasks on nodes in order; return how many; -1: together they are more than the queue may hold."""
        request = self._session.snapshot.request(int(tasks[0]))
        offers = self._candidates.offers(int(tasks[0]), nodes, self.supply)
        self._named = len(offers.candidates)
        counts = share_out(offers.slots(request), len(tasks))
        total = int(counts.sum())
        if total == 0:
            return 0
        mark = self._simulation.statement.mark()
        self._evict(offers.candidates, fewest_victims(offers, request, counts))
        if self._room_in_queue(int(tasks[0])) < total:
            self._simulation.statement.rollback(mark)
            return -1
        self._simulation.put(tasks[:total], np.repeat(nodes, counts))
        self.supply.refresh(nodes)
        return total

    def open(self, task: int, node: int, proposed: Rows | None = None) -> bool:
        """Evict on one node what the task needs to be there, and put it there; `proposed` victims are tried first."""
        mark = self._simulation.statement.mark()
        if proposed is not None:
            self._evict(proposed, np.ones(len(proposed), np.bool_))
        if proposed is None or not self._fits(task, node):
            self._simulation.statement.rollback(mark)
            found = self._choose(task, node)
            if found is None:
                return False
            self._evict(*found)
        self._put(task, node)
        self.supply.refresh(np.array([node], np.int32))
        return True

    def victims(self, task: int, node: int) -> Rows:
        """Fewest victims on a node; nobody: it cannot be done. Leaves the simulation as it was."""
        candidates, chosen = self._choose(task, node) or (np.empty(0, np.int32), np.empty(0, np.bool_))
        return candidates[chosen]

    def _choose(self, task: int, node: int) -> tuple[Rows, Mask] | None:
        """Candidates of a node and which of them go, the queue's limit and the other pods looked at."""
        offers = self._candidates.offers(task, np.array([node], np.int32), self.supply)
        request = self._session.snapshot.request(task)
        if offers.slots(request)[0] == 0:
            return None
        chosen = fewest_victims(offers, request, np.ones(1, np.int64))
        if self._works(task, node, offers.candidates[chosen]):
            return offers.candidates, chosen
        more = self._more_victims(task, node, offers, chosen)
        return None if more is None else (offers.candidates, more)

    def _more_victims(self, task: int, node: int, offers: NodeOffers, chosen: Mask) -> Mask | None:
        """Add victims in order until nothing but free resources is in the way; then spare the dearest."""
        for position in np.flatnonzero(~chosen).tolist():
            chosen[position] = True
            if self._works(task, node, offers.candidates[chosen]):
                break
        else:
            return None
        for position in np.flatnonzero(chosen)[::-1].tolist():
            chosen[position] = False
            chosen[position] = not self._works(task, node, offers.candidates[chosen])
        return chosen

    def _works(self, task: int, node: int, victims: Rows) -> bool:
        """Whether a task could be on a node without these victims: by resources, its queue's limit and other pods."""
        return self._simulation.without(victims, lambda: self._fits(task, node))

    def _fits(self, task: int, node: int) -> bool:
        session = self._session
        cls = int(session.snapshot.tasks.cls[task])
        if not fits(session.snapshot.nodes.state, session.snapshot.classes.requests[cls, 0], node, FUTURE):
            return False
        if self._room_in_queue(task) == 0:
            return False
        verdicts = session.task_verdicts(task) if task in self._live else None
        return verdicts is None or bool(verdicts[node] == FITS)

    def _evict(self, candidates: Rows, chosen: Mask) -> None:
        """Evict for the job, and note why these."""
        records = NodeRecords(self._session.snapshot, self._simulation.job, candidates, chosen)
        self._simulation.evict(candidates[chosen], records)
