"""Making room on nodes for the tasks of one job: where, and at whose expense.

Nodes are tried in order: by their scores, ties by row. A node that was opened is filled before the next one is, so that
few jobs are hit. Whatever fails leaves no trace in the simulation. Plugins are asked by `Session.evictable`; what they
allow is cut down to what protected gangs, PodDisruptionBudgets and, across queues, deserved shares allow, whatever tier
said yes.

Topology-aware preemption (the name is Volcano's: it is about rules between pods on nodes, not about the network) orders
nodes by their victims: lowest highest priority, lowest sum of priorities, fewest, latest start; ties by row. Dry runs
are made on as many nodes as the arguments ask for, beginning at a random one (the session's seed decides).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import boards_of
from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.options import TaskOptions
from muster.engine.evictions.restraint import have_too_much
from muster.engine.evictions.simulation import Simulation, joined, trim
from muster.engine.evictions.supply import Supply
from muster.engine.evictions.surplus import spare_of_protected
from muster.engine.evictions.task.offers import NodeOffers, NodeRecords, fewest_victims, share_out, victim_order
from muster.engine.evictions.task.sticky import NodeScope
from muster.engine.placing import Goal, Scope
from muster.framework import FITS, Eviction, Evictor, Session
from muster.kernels.placement import ANYHOW, FUTURE, fits
from muster.snapshot import BEST_EFFORT, NO_ROW, Mask, Rows, run_bounds

#: Makes every priority positive, so that one victim of negative priority counts less than two.
_PRIORITY_OFFSET = 2**31


class Rooms:
    """Places tasks of one job at a time, evicting from one supply."""

    def __init__(self, session: Session, kind: Eviction, budgets: Budgets, options: TaskOptions) -> None:
        self._session = session
        self._kind = kind
        self._budgets = budgets
        self._options = options
        self._boards = boards_of(session)
        #: Whether one question to plugins may be about many nodes.
        self.at_once = session.has_steady_victims(kind)
        #: Tasks for which other pods matter.
        self._live = session.live_tasks()
        # Where allocate runs, what is free has been given out, and what is left of it serves before anybody is
        # evicted. Without it preempt gives free room out itself, and goes by scores alone, as Volcano does.
        self._free_first = kind is Eviction.RECLAIM or session.has_action("allocate")
        #: There, reclaim promises free room on nodes where somebody could go, and only there, as Volcano does, too.
        self.promises_beside = kind is Eviction.RECLAIM and not session.has_action("allocate")

    def begin(self, simulation: Simulation, supply: Supply) -> None:
        """Turn to a job."""
        self._queue = int(self._session.snapshot.jobs.queue[simulation.job])
        self._simulation = simulation
        self._supply = supply

    def place(self, tasks: Rows, scope: NodeScope) -> int:
        """Give equal tasks places; return how many, always the first: where one was set aside, is free, or is made."""
        node = int(self._session.snapshot.tasks.nominated[tasks[0]])
        if node != NO_ROW:
            own = scope.of(np.arange(len(self._session.snapshot.nodes)) == node)
            if self._use_free(tasks[:1], own):
                return 1
        if self._free_first or self._options.topology_aware:
            placed = self._use_free(tasks, scope.of(self._supply.has_candidates)) if self.promises_beside else 0
            if placed := placed or self._use_free(tasks, scope.mask):
                return placed
        return self._open_first(tasks, self._nodes(int(tasks[0]), scope))

    def _use_free(self, tasks: Rows, nodes: Mask | None) -> int:
        """Place equal tasks where there is or will be room anyway; return how many found it."""
        tasks = tasks[: self._room_in_queue(int(tasks[0]))]
        return self._simulation.place(tasks, Scope(mask=nodes, is_final=True), (FUTURE,), Goal.FIRST).placed

    def _room_in_queue(self, task: int) -> int:
        """How many such tasks the job's queue may hold beside what it has; across queues that was asked before."""
        if self._kind is Eviction.RECLAIM:
            return len(self._session.snapshot.tasks)
        return self._session.queue_slots(self._queue, self._session.snapshot.request(task))

    # -- with evictions ------------------------------------------------------------------------------------

    def _nodes(self, task: int, scope: NodeScope) -> Rows:
        """Nodes of the scope that would have room for the task if everybody who might be evicted went, in order."""
        snapshot, boards = self._session.snapshot, self._boards
        cls = int(snapshot.tasks.cls[task])
        board = boards.for_task(task, ANYHOW) if task in self._live else boards.get(cls, ANYHOW)
        scores = board.current(snapshot)
        mask = scope.of((self._supply.slots(snapshot.request(task)) > 0) & (scores > -np.inf))
        if self._free_first:
            mask = mask & self._supply.has_candidates
        nodes = np.flatnonzero(mask).astype(np.intp)
        if not self._options.topology_aware or len(nodes) == 0:
            return nodes[np.argsort(-scores[nodes], kind="stable")]
        offset = self._session.rng.randrange(len(nodes))
        return _by_victims(self._session, self._found(task, np.roll(nodes, -offset), self._options.count(len(nodes))))

    def _asks_together(self, task: int) -> bool:
        """Whether one question may be about many nodes."""
        return self.at_once and task not in self._live

    def _open_first(self, tasks: Rows, nodes: Rows) -> int:
        """Open the first of the nodes that give room, as many as one question allows; return for how many tasks."""
        together, request = self._asks_together(int(tasks[0])), self._session.snapshot.request(int(tasks[0]))
        start, width, alone = 0, len(tasks), not together
        # Else a node is chosen anew for every task: several are served at once where no node can take a second one.
        fills = self._free_first and not self._options.topology_aware
        while start < len(nodes):
            part, count = nodes[start : start + width], len(tasks)
            if alone or not (fills or self._supply.slots(request, part).max() <= 1):
                part, count = part[:1], 1
            placed, named = self._open(tasks[:count], part)
            if placed:
                return placed
            if named and (len(part) > 1 or count > 1):
                alone = True  # together they may use up what one of them alone may have
            else:
                start += len(part)
                width, alone = (width if named else 2 * width), named or not together
        return 0

    def _open(self, tasks: Rows, nodes: Rows) -> tuple[int, bool]:
        """Evict on nodes what equal tasks need to be there, and put them there.

        Return how many tasks have a place, always the first, and whether somebody may be evicted there at all.
        """
        offers, counts, chosen = self._ask(tasks, nodes)
        total, named = int(counts.sum()), len(offers.candidates) > 0
        if chosen is None:
            return 0, named
        mark = self._simulation.statement.mark()
        records = NodeRecords(self._session.snapshot, self._simulation.job, offers.candidates, chosen)
        self._simulation.evict(offers.candidates[chosen], records)
        if self._room_in_queue(int(tasks[0])) < total:
            self._simulation.statement.rollback(mark)
            return 0, named
        self._simulation.put(tasks[:total], np.repeat(nodes, counts))
        return total, named

    def _ask(self, tasks: Rows, nodes: Rows) -> tuple[NodeOffers, NDArray[np.int64], Mask | None]:
        """Who may go on nodes, how many of the equal tasks each of them gets, and who goes; None: they get no place."""
        task, request = int(tasks[0]), self._session.snapshot.request(int(tasks[0]))
        offers = self._offers(task, nodes)
        counts = share_out(offers.slots(request), len(tasks))
        # Nodes that are compared by their victims are alternatives: none goes before the first.
        works = counts[0] > 0 if self._options.topology_aware else counts.any()
        chosen = fewest_victims(offers, request, counts) if works else None
        if chosen is not None and len(nodes) == len(tasks) == 1:
            chosen = self._enough(task, int(nodes[0]), offers, chosen)
        return offers, counts, chosen

    def _enough(self, task: int, node: int, offers: NodeOffers, chosen: Mask) -> Mask | None:
        """Who of a node's candidates goes, as few as possible, the queue's limit and the other pods looked at.

        Where the fewest do not do, victims are added in order until nothing is in the way; then the dearest stay.
        """

        def works(victims: Rows) -> bool:
            return self._simulation.without(victims, lambda: self._fits(task, node))

        if works(offers.candidates[chosen]):
            return chosen
        for position in np.flatnonzero(~chosen).tolist():
            chosen[position] = True
            if works(offers.candidates[chosen]):
                victims = trim(offers.candidates[chosen].tolist(), lambda kept: works(np.array(kept, np.intp)))
                return np.isin(offers.candidates, victims)
        return None

    def _fits(self, task: int, node: int) -> bool:
        """Whether a task could be on a node now: by resources, its queue's limit and other pods."""
        session = self._session
        request = session.snapshot.request(task)
        if not fits(session.snapshot.nodes.state, request, node, FUTURE) or self._room_in_queue(task) == 0:
            return False
        verdicts = session.task_verdicts(task) if task in self._live else None
        return verdicts is None or bool(verdicts[node] == FITS)

    # -- who may go ----------------------------------------------------------------------------------------------

    def _offers(self, task: int, nodes: Rows) -> NodeOffers:
        """What the nodes could offer to the task together: whoever is named may go with all others that are named."""
        everybody = self._line_up(task, nodes)
        return everybody.keep(self._allowed(task, everybody.candidates))

    def _line_up(self, task: int, nodes: Rows) -> NodeOffers:
        """All candidates on the nodes, in the order in which they would go; nobody has been asked yet."""
        snapshot = self._session.snapshot
        candidates, where = self._supply.on(nodes)
        if snapshot.tasks.flags[task] & BEST_EFFORT:
            # Who asks for nothing takes nothing from pods that ask for something.
            alike = (snapshot.tasks.flags[candidates] & BEST_EFFORT) != 0
            candidates, where = candidates[alike], where[alike]
        candidates = victim_order(self._session, candidates, where, self._simulation.job)
        held = snapshot.classes.requests[snapshot.tasks.cls[candidates], 0]
        return NodeOffers(snapshot.nodes.future_idle(nodes), candidates, held, where)

    def _allowed(self, task: int, candidates: Rows) -> Mask:
        """Which candidates the task may evict, all of them together, taken in the order given."""
        session = self._session
        evictor = Evictor(self._simulation.job, np.array([task], np.intp))
        mask: Mask = np.isin(candidates, session.evictable(self._kind, evictor, candidates))
        mask[mask] = spare_of_protected(session.snapshot, self._supply.found.protected, candidates[mask])
        if self._budgets:
            mask[mask] = self._budgets.allowed(candidates[mask])
        if self._kind is Eviction.RECLAIM:
            mask[mask] = have_too_much(session, candidates[mask], session.snapshot.request(task) > 0)
        return mask

    # -- nodes by their victims ----------------------------------------------------------------------------------

    def _found(self, task: int, nodes: Rows, wanted: int) -> dict[int, Rows]:
        """Nodes that work, in the order given, and whom each one costs; dry runs until there are enough."""
        found: dict[int, Rows] = {}
        for start in range(0, len(nodes), wanted):
            part = nodes[start : start + wanted]
            together = self._together(task, part) if self._asks_together(task) else {}
            for node in part.tolist():
                if node in together:
                    found[node] = together[node]
                else:
                    offers, _, chosen = self._ask(np.array([task], np.intp), np.array([node], np.intp))
                    if chosen is not None and chosen.any():
                        found[node] = offers.candidates[chosen]
            if len(found) >= wanted:
                break
        return dict(islice(found.items(), wanted))

    def _together(self, task: int, nodes: Rows) -> dict[int, Rows]:
        """Victims on the nodes of which nobody was refused, by one question about all of them.

        Nodes are alternatives: one must not lose victims because another has used up what a plugin counts.
        """
        request = self._session.snapshot.request(task)
        offers = self._line_up(task, nodes)
        refused = offers.where[~self._allowed(task, offers.candidates)]
        complete = ~np.isin(np.arange(len(nodes)), refused)
        chosen = fewest_victims(offers, request, np.where(complete, np.minimum(offers.slots(request), 1), 0))
        victims, where = offers.candidates[chosen], offers.where[chosen]
        starts = run_bounds(where)[:-1]
        return dict(zip(nodes[where[starts]].tolist(), np.split(victims, starts[1:]), strict=False))


def _by_victims(session: Session, found: Mapping[int, Rows]) -> Rows:
    """Nodes with their victims, the one whose victims matter least first."""
    if not found:
        return np.empty(0, np.intp)
    nodes, victims = np.array(list(found), np.intp), joined(list(found.values()))
    counts = np.array([len(own) for own in found.values()])
    starts = np.cumsum(counts) - counts
    priority = session.snapshot.tasks.priority[victims].astype(np.int64)
    highest = np.maximum.reduceat(priority, starts)
    total = np.add.reduceat(priority + _PRIORITY_OFFSET, starts)
    # A victim that is not the dearest of its node counts as started at the end of time, one that has not as now.
    pods = session.snapshot.tasks.pods
    begun = (pods[task].status.start_time for task in victims.tolist())
    started = np.array([session.now if start is None else start.timestamp() for start in begun])
    dearest = priority == np.repeat(highest, counts)
    earliest = np.minimum.reduceat(np.where(dearest, started, np.inf), starts)
    ranked: Rows = nodes[np.lexsort((nodes, -earliest, counts, total, highest))]
    return ranked
