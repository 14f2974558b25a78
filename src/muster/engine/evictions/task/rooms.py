"""Making room for the tasks of one job: on which nodes, and at whose expense.

Callers: the task strategy. Nodes are tried in the order of their scores, ties by row. A node that was opened is filled
before the next one is, so that few jobs are hit. Whatever fails leaves no trace in the statement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards
from muster.engine.evictions.task.asking import Asking
from muster.engine.evictions.task.node_victims import NodeOffers, fewest_victims, share_out
from muster.engine.evictions.task.records import TaskReasons
from muster.engine.evictions.task.sticky import NodeScope
from muster.engine.evictions.task.supply import Supply
from muster.engine.placing import Goal, Scope, door_of
from muster.framework import FITS, Eviction, Session
from muster.framework.reasons import eviction_helps
from muster.kernels.placement import ANYHOW, FUTURE, fits
from muster.snapshot import NO_ROW, Board, Mask, Rows, Statement


class Rooms:
    """Places tasks of one job into one statement, evicting from one supply."""

    def __init__(self, session: Session, boards: Boards, asking: Asking, kind: Eviction, live: frozenset[int]) -> None:
        self._session = session
        self._boards = boards
        self._asking = asking
        self._kind = kind
        #: Tasks for which other pods matter.
        self._live = live
        # Where allocate runs, what is free has been given out, and what is left of it serves before anybody is
        # evicted. Without it preempt gives free room out itself, and goes by scores alone, as Volcano does.
        self._free_first = kind is Eviction.RECLAIM or session.has_action("allocate")
        #: How many candidates the last question left.
        self._named = 0

    def begin(self, job: int, statement: Statement, supply: Supply) -> None:
        """Turn to a job."""
        self._job = job
        self._queue = int(self._session.snapshot.jobs.queue[job])
        self._statement = statement
        self._door = door_of(self._session)
        self.supply = supply

    # -- without evictions ---------------------------------------------------------------------------------

    def use_nominated(self, task: int, scope: NodeScope) -> bool:
        """Put a task on the node that was set aside for it, if it will fit there without evicting anybody."""
        snapshot = self._session.snapshot
        node = int(snapshot.tasks.nominated[task])
        if node == NO_ROW or not scope.mask(len(snapshot.nodes))[node] or self._room_in_queue(task) == 0:
            return False
        if not self._board(task, FUTURE).current(snapshot)[node] > -np.inf:
            return False
        self._put(task, node)
        return True

    def use_free(self, tasks: Rows, scope: NodeScope, *, picks: bool) -> int:
        """Place equal tasks where there is or will be room anyway; return how many found it.

        `picks`: nodes are picked by their victims, so those that need none go first in any case.
        """
        task = int(tasks[0])
        tasks = tasks[: self._room_in_queue(task)]
        if len(tasks) == 0 or not (self._free_first or picks):
            return 0
        n_nodes = len(self._session.snapshot.nodes)
        where = Scope(mask=None if scope.covers(n_nodes) else scope.mask(n_nodes), is_final=True)
        # While more than one domain is open, the first task decides which it will be.
        wanted = tasks if scope.open is None else tasks[:1]
        return self._door.place(self._job, wanted, self._statement, where, (FUTURE,), Goal.FIRST).placed

    def _put(self, task: int, node: int) -> None:
        self._door.put(np.array([task], np.int32), np.array([node], np.int32), self._statement)

    def _board(self, task: int, mode: int) -> Board:
        if task in self._live:
            return self._boards.for_task(task, mode)
        return self._boards.get(int(self._session.snapshot.tasks.cls[task]), mode)

    def _room_in_queue(self, task: int) -> int:
        """How many such tasks the job's queue may hold beside what it has; across queues that was asked before."""
        if self._kind is Eviction.RECLAIM:
            return len(self._session.snapshot.tasks)
        return self._session.queue_slots(self._queue, self._session.snapshot.request(task))

    # -- with evictions ------------------------------------------------------------------------------------

    def make(self, tasks: Rows, scope: NodeScope) -> int:
        """Evict so that as many of the equal tasks as possible have a place; return how many: always the first."""
        one_by_one = int(tasks[0]) in self._live or not self._asking.at_once
        placed = 0
        barred = np.zeros(len(self._session.snapshot.nodes), np.bool_)
        width = len(tasks)
        while placed < len(tasks):
            nodes = self._best_first(int(tasks[placed]), scope, barred)
            if len(nodes) == 0:
                break
            if one_by_one:
                done = self._open_first(int(tasks[placed]), nodes)
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
        if self._free_first or slots.max() <= 1:
            return nodes, len(tasks)
        return nodes[:1], 1

    def _best_first(self, task: int, scope: NodeScope, barred: Mask) -> Rows:
        """Nodes where evictions could make room, best score first."""
        scores = self.scores(task)
        able = self.able(task, scope) & ~barred & (scores > -np.inf)
        nodes = np.flatnonzero(able)
        ordered: Rows = nodes[np.argsort(-scores[nodes], kind="stable")].astype(np.int32)
        return ordered

    def able(self, task: int, scope: NodeScope) -> Mask:
        """Nodes of the scope that would have room for the task if everybody who might be evicted went."""
        snapshot = self._session.snapshot
        mask: Mask = (self.supply.slots(snapshot.request(task)) > 0) & scope.mask(len(snapshot.nodes))
        return mask & self.supply.has_candidates if self._free_first else mask

    def scores(self, task: int) -> NDArray[np.float64]:
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
        offers = self._asking.offers(int(tasks[0]), nodes, self.supply)
        self._named = len(offers.candidates)
        counts = share_out(offers.slots(request), len(tasks))
        total = int(counts.sum())
        if total == 0:
            return 0
        mark = self._statement.mark()
        self._evict(offers.candidates, fewest_victims(offers, request, counts))
        if self._room_in_queue(int(tasks[0])) < total:
            self._statement.rollback(mark)
            return -1
        self._door.put(tasks[:total], np.repeat(nodes, counts), self._statement)
        self.supply.refresh(nodes)
        return total

    def _open_first(self, task: int, nodes: Rows) -> int:
        """Place a task on the first node where that works; return 1 or 0."""
        for node in nodes.tolist():
            if self.open(task, node):
                return 1
        return 0

    def open(self, task: int, node: int, proposed: Rows | None = None) -> bool:
        """Evict on one node what the task needs to be there, and put it there; `proposed` victims are tried first."""
        mark = self._statement.mark()
        if proposed is not None:
            self._evict(proposed, np.ones(len(proposed), np.bool_))
        if proposed is None or not self._fits(task, node):
            self._statement.rollback(mark)
            found = self._choose(task, node)
            if found is None:
                return False
            self._evict(*found)
        self._put(task, node)
        self.supply.refresh(np.array([node], np.int32))
        return True

    def victims(self, task: int, node: int) -> Rows | None:
        """Fewest victims on a node; None: it cannot be done. Leaves the statement as it was."""
        found = self._choose(task, node)
        return None if found is None else found[0][found[1]]

    def _choose(self, task: int, node: int) -> tuple[Rows, Mask] | None:
        """Candidates of a node and which of them go, the queue's limit and the other pods looked at."""
        offers = self._asking.offers(task, np.array([node], np.int32), self.supply)
        request = self._session.snapshot.request(task)
        if offers.slots(request)[0] == 0:
            return None
        chosen = fewest_victims(offers, request, np.ones(1, np.int64))
        if not self._works(task, node, offers.candidates[chosen]):
            more = self._more_victims(task, node, offers, chosen)
            if more is None:
                return None
            chosen = self._spare(task, node, offers, more)
        return offers.candidates, chosen

    def _more_victims(self, task: int, node: int, offers: NodeOffers, chosen: Mask) -> Mask | None:
        """Add victims in order, until nothing but free resources is in the way."""
        chosen = chosen.copy()
        for position in np.flatnonzero(~chosen).tolist():
            chosen[position] = True
            if self._works(task, node, offers.candidates[chosen]):
                return chosen
        return None

    def _spare(self, task: int, node: int, offers: NodeOffers, chosen: Mask) -> Mask:
        """Give victims back, dearest first, while the task can still be there."""
        for position in np.flatnonzero(chosen)[::-1].tolist():
            chosen[position] = False
            if not self._works(task, node, offers.candidates[chosen]):
                chosen[position] = True
        return chosen

    def _works(self, task: int, node: int, victims: Rows) -> bool:
        """Whether a task could be on a node without these victims; the statement is left as it was."""
        mark = self._statement.mark()
        self._statement.evict(victims)
        works = self._fits(task, node)
        self._statement.rollback(mark)
        return works

    def _fits(self, task: int, node: int) -> bool:
        """Whether a task could be on a node now, by resources, by its queue's limit and by other pods."""
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
        reasons = TaskReasons(self._session.snapshot, self._job, candidates, chosen)
        self._statement.evict(candidates[chosen], self._job, record=reasons)
