"""The cheapest bundles to evict in a domain, found from places alone: how many of the gang's tasks each node can take.

For a gang of equal tasks places are exact, so what is found here is feasible and minimal without a trial. For mixed
gangs it is a proposal that the dry run checks. Costs of bundles are compared level by level (safe before whole, then by
policy), so that nothing dear is taken because it is efficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.gang.bundles import Bundles
from muster.engine.evictions.supply import Demand
from muster.kernels.clearing import clear_nodes
from muster.snapshot import Amounts, Mask, Rows, Snapshot, run_bounds, slots_in

#: Where a task may not go counts as having less than nothing free.
_CLOSED: Final = -(2**60)
#: One bundle of a level outweighs everything below it.
_LEVEL: Final = 1e6
#: So many levels fit into the range of numbers.
MAX_LEVELS: Final = 45
#: What comes later in the order costs a little more, so that between equals the order decides and not the place.
_LATER: Final = 1e-5
#: Pieces × places up to which a proposal is worth improving; beyond, greedy is good enough.
_SMALL: Final = 6144
#: Pieces × places that are looked at, in all, to improve one.
_EFFORT: Final = 100_000


def weighed(losses: NDArray[np.float64], levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """What bundles in order cost, by what their gangs lose: levels outweigh each other.

    They count from 0; those too far below the highest are not told apart.
    """
    # Something that holds nothing of what is wanted is no free gift.
    base = np.maximum(losses, 1e-9) * (1 + _LATER * np.arange(len(losses)) / max(1, len(losses)))
    weight = np.maximum(levels - max(0, int(levels.max(initial=0)) - MAX_LEVELS + 1), 0)
    costs: NDArray[np.float64] = base * _LEVEL ** weight.astype(np.float64)
    return costs


class Clearing:
    """Bundles laid out over what has room: the nodes of a domain, from number `first` on, or a queue."""

    def __init__(
        self,
        snapshot: Snapshot,
        bundles: Bundles,
        costs: NDArray[np.float64],
        free: Amounts,
        nodes: Rows,
        first: int,
    ) -> None:
        self._costs = costs
        self._lo = first
        self._free = free
        inside = np.flatnonzero((nodes >= 0) & (nodes < len(free)))
        requests = snapshot.classes.requests[snapshot.tasks.cls[bundles.tasks[inside]], 0]
        self._lay_out(nodes[inside].astype(np.int64), bundles.owners()[inside], requests, len(free))

    @classmethod
    def on_nodes(
        cls, snapshot: Snapshot, bundles: Bundles, costs: NDArray[np.float64], span: tuple[int, int]
    ) -> Clearing:
        """Of the nodes lo..hi."""
        lo, hi = span
        free = snapshot.nodes.future_idle(np.s_[lo:hi])
        return cls(snapshot, bundles, costs, free, snapshot.tasks.node[bundles.tasks] - lo, lo)

    @classmethod
    def in_queue(cls, snapshot: Snapshot, bundles: Bundles, costs: NDArray[np.float64], room: Amounts) -> Clearing:
        """Of a queue that has this room when all the bundles are gone; it is one place for everybody."""
        held = snapshot.classes.requests[snapshot.tasks.cls[bundles.tasks], 0].sum(axis=0)
        return cls(snapshot, bundles, costs, (room - held)[None], np.zeros(len(bundles.tasks), np.intp), 0)

    def _lay_out(self, nodes: NDArray[np.int64], units: NDArray[np.int64], requests: Amounts, n_nodes: int) -> None:
        """Sum tasks up to pieces (what a bundle holds on a node), sorted by node and, once more, by bundle."""
        keys = nodes * len(self._costs) + units
        order = np.argsort(keys, kind="stable")
        firsts = run_bounds(keys[order])[:-1]
        self._amounts = np.add.reduceat(requests[order], firsts, axis=0) if len(firsts) else requests
        piece_node, piece_unit = nodes[order][firsts], units[order][firsts]
        by_unit = np.argsort(piece_unit, kind="stable")
        self._pieces = np.stack((piece_unit, piece_node, by_unit)).astype(np.intp)
        by_node = np.searchsorted(piece_node, np.arange(n_nodes + 1))
        starts = np.searchsorted(piece_unit[by_unit], np.arange(len(self._costs) + 1))
        self._starts = np.concatenate((by_node, starts)).astype(np.intp)

    def plan(self, demands: Sequence[Demand], before: Mask | None = None, *, polish: bool = False) -> Mask | None:
        """Bundles whose eviction gives every demand its places; None: there are none. Larger demands come first.

        Those that cost infinitely much are not taken, those chosen `before` go in any case.
        """
        chosen: Mask = np.zeros(len(self._costs), np.bool_) if before is None else before
        taken = np.zeros_like(self._free)
        for demand in demands:
            free = self._open(demand, chosen, taken)
            found = self._run(free, demand, chosen, self._costs)
            if found is None:
                return None
            chosen = self._improve(free, demand, chosen, found) if polish and self.rounds(demands) > 0 else found
            if len(demands) > 1:
                self._take(demand, chosen, taken)
        return chosen

    def rounds(self, demands: Sequence[Demand]) -> int:
        """How many plans for these demands are worth improving."""
        if len(demands) > 1 or self._size(demands[0]) > _SMALL:
            return 0
        nodes = len(np.unique(self._pieces[1]))
        return 1 + _EFFORT // (self._size(demands[0]) * max(1, nodes))

    def _size(self, demand: Demand) -> int:
        return max(1, len(self._amounts) * demand.count)

    def cost(self, chosen: Mask) -> float:
        return float(self._costs[chosen].sum())

    def _open(self, demand: Demand, chosen: Mask, taken: Amounts) -> Amounts:
        """What is free for a demand when the chosen bundles are gone and earlier demands have had their places."""
        free = self._free - taken
        if chosen.any():
            gone = chosen[self._pieces[0]]
            np.add.at(free, self._pieces[1][gone], self._amounts[gone])
        free[~demand.nodes[self._lo : self._lo + len(free)]] = _CLOSED
        return free

    def _take(self, demand: Demand, chosen: Mask, taken: Amounts) -> None:
        """Take the places of a demand, on the nodes in their order."""
        free = self._open(demand, chosen, taken)
        places = slots_in(free, demand.request)
        ends = np.minimum(np.cumsum(places), demand.count)
        taken += np.diff(ends, prepend=0)[:, None] * demand.request

    def _run(
        self, free: Amounts, demand: Demand, before: Mask, costs: NDArray[np.float64], first: int = -1
    ) -> Mask | None:
        chosen = before.copy()
        goal = np.array([demand.count, first], np.int64)
        places = clear_nodes(
            free.copy(), demand.request, self._pieces, self._amounts, self._starts, costs, chosen, goal
        )
        return chosen if places >= demand.count else None

    def _improve(self, free: Amounts, demand: Demand, before: Mask, best: Mask) -> Mask:
        """Begin at every node in turn, then do without each chosen bundle in turn, and keep what is cheapest.

        As far as the effort allows: at nodes that cost the least first, without bundles that cost the most.
        """
        tries = _EFFORT // self._size(demand)

        def cheaper(costs: NDArray[np.float64], first: int = -1) -> Mask:
            """What is found that way, if it is cheaper than the best so far."""
            other = self._run(free, demand, before, costs, first)
            return best if other is None or self.cost(other) >= self.cost(best) * (1 - 1e-9) else other

        bundle, node, _ = self._pieces
        by_cost = np.argsort(np.bincount(node, self._costs[bundle]), kind="stable")
        for first in by_cost[np.isin(by_cost, node)][:tries].tolist():
            best = cheaper(self._costs, first)
        banned = before.copy()
        for _ in range(tries):
            left = np.flatnonzero(best & ~banned)
            if len(left) == 0:
                break
            dearest = left[np.lexsort((left, self._costs[left]))[-1]]
            banned[dearest] = True
            best = cheaper(np.where(np.arange(len(best)) == dearest, np.inf, self._costs))
        return best
