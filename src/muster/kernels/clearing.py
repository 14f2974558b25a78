"""Which units to evict so that nodes get room for a number of equal tasks, at the least cost.

A unit is what goes together: one task, or what a gang has in a domain. Its *pieces* are what it holds on each node.
Greedy: of all nodes, the one where one more place costs the least per place gained is cleared; places that a unit
frees elsewhere count too. In the end every unit that is not needed is given back, the last ones first, so that no
unit of the answer can be done without.
Plain-Python twins: tests/reference/clearing.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.kernels.jit import kernel

#: Rows of `pieces`: the unit and the node of each piece, pieces in order of nodes; then pieces in order of units.
UNIT: Final = 0
NODE: Final = 1
BY_UNIT: Final = 2
#: goal = [places needed, node to clear first (-1: the cheapest)]
NEEDED: Final = 0
FIRST: Final = 1
#: A unit with more pieces than this is judged by the node in question alone: its reach costs too much to look at.
WIDE: Final = 32


@kernel
def count_places(free: NDArray[np.int64], request: NDArray[np.int64]) -> int:
    """How many tasks fit into what one node has free."""
    room = np.int64(2**31 - 1)
    for r in range(request.shape[0]):
        if request[r] > 0:
            room = min(room, max(free[r], 0) // request[r])
    return int(room)


@kernel
def _pick(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    cost: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    node: int,
    picks: NDArray[np.intp],
    missing: NDArray[np.float64],
) -> int:
    """Pick pieces on a node that make room for one more task, the best value first; -1: nothing does."""
    target = count_places(free[node], request) + 1
    short = False
    for r in range(request.shape[0]):
        missing[r] = float(target * request[r] - free[node, r]) if request[r] > 0 else 0.0
        short = short or missing[r] > 0
    count = 0
    while short:
        best = -1
        best_value = np.inf
        for k in range(starts[node], starts[node + 1]):
            unit = pieces[UNIT, k]
            if chosen[unit] or cost[unit] == np.inf:
                continue
            taken = False
            for p in range(count):
                taken = taken or picks[p] == k
            if taken:
                continue
            use = 0.0
            for r in range(request.shape[0]):
                if missing[r] > 0:
                    use += min(float(amounts[k, r]), missing[r]) / missing[r]
            if use > 0 and cost[unit] / use < best_value:
                best = k
                best_value = cost[unit] / use
        if best < 0:
            return -1
        picks[count] = best
        count += 1
        short = False
        for r in range(request.shape[0]):
            missing[r] -= float(amounts[best, r])
            short = short or (request[r] > 0 and missing[r] > 0)
    return _drop_needless(request, pieces, amounts, cost, picks, count, missing)


@kernel
def _drop_needless(
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    cost: NDArray[np.float64],
    picks: NDArray[np.intp],
    count: int,
    missing: NDArray[np.float64],
) -> int:
    """Drop picks that later ones made needless, the dearest first; `missing` is what is left to find (not positive)."""
    while True:
        worst = -1
        for p in range(count):
            needless = True
            for r in range(request.shape[0]):
                if request[r] > 0 and missing[r] + float(amounts[picks[p], r]) > 0:
                    needless = False
            if needless and (worst < 0 or cost[pieces[UNIT, picks[p]]] > cost[pieces[UNIT, picks[worst]]]):
                worst = p
        if worst < 0:
            return count
        for r in range(request.shape[0]):
            missing[r] += float(amounts[picks[worst], r])
        for p in range(worst, count - 1):
            picks[p] = picks[p + 1]
        count -= 1


@kernel
def _move(
    free: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    unit: int,
    sign: int,
) -> None:
    """Add to what is free, or take back, all that a unit holds."""
    base = free.shape[0] + 1
    for b in range(starts[base + unit], starts[base + unit + 1]):
        k = pieces[BY_UNIT, b]
        for r in range(free.shape[1]):
            free[pieces[NODE, k], r] += sign * amounts[k, r]


@kernel
def _gain(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    picks: NDArray[np.intp],
    count: int,
    places: NDArray[np.int64],
) -> int:
    """How many places the picked units would bring altogether; one, if they reach too far to look."""
    base = free.shape[0] + 1
    reach = 0
    for p in range(count):
        unit = pieces[UNIT, picks[p]]
        reach += starts[base + unit + 1] - starts[base + unit]
    if reach > WIDE * count:
        return 1
    for p in range(count):
        _move(free, pieces, amounts, starts, pieces[UNIT, picks[p]], 1)
    gained = 0
    for p in range(count):
        unit = pieces[UNIT, picks[p]]
        for b in range(starts[base + unit], starts[base + unit + 1]):
            node = pieces[NODE, pieces[BY_UNIT, b]]
            if places[node] >= 0:
                gained += count_places(free[node], request) - places[node]
                places[node] = -places[node] - 1  # seen
    for p in range(count):
        unit = pieces[UNIT, picks[p]]
        _move(free, pieces, amounts, starts, unit, -1)
        for b in range(starts[base + unit], starts[base + unit + 1]):
            node = pieces[NODE, pieces[BY_UNIT, b]]
            if places[node] < 0:
                places[node] = -places[node] - 1
    return gained


@kernel
def _offer(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    cost: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    node: int,
    picks: NDArray[np.intp],
    missing: NDArray[np.float64],
    places: NDArray[np.int64],
    offers: NDArray[np.float64],
) -> None:
    """Note what one more place on a node costs, and how many places come with it."""
    count = _pick(free, request, pieces, amounts, starts, cost, chosen, node, picks, missing)
    offers[0, node] = np.inf
    offers[1, node] = 1.0
    if count < 0:
        return
    total = 0.0
    for p in range(count):
        total += cost[pieces[UNIT, picks[p]]]
    offers[0, node] = total
    offers[1, node] = float(_gain(free, request, pieces, amounts, starts, picks, count, places))


@kernel
def _choose(
    free: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    chosen: NDArray[np.bool_],
    picks: NDArray[np.intp],
    count: int,
    stale: NDArray[np.bool_],
) -> None:
    """Take the picked units, and mark the nodes where something has changed."""
    base = free.shape[0] + 1
    for p in range(count):
        unit = pieces[UNIT, picks[p]]
        chosen[unit] = True
        _move(free, pieces, amounts, starts, unit, 1)
        for b in range(starts[base + unit], starts[base + unit + 1]):
            stale[pieces[NODE, pieces[BY_UNIT, b]]] = True


@kernel
def _best_offer(offers: NDArray[np.float64], left: int) -> int:
    """The node where a place costs the least; the first among equals, -1 if nobody offers any."""
    best = -1
    best_price = np.inf
    for node in range(offers.shape[1]):
        price = offers[0, node] / min(offers[1, node], float(left))
        if price < best_price:
            best_price = price
            best = node
    return best


@kernel
def clear_nodes(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    cost: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    goal: NDArray[np.int64],
) -> int:
    """Choose units until the nodes hold the places needed; return how many they hold then.

    free     int64[n_nodes, n_resources]     INOUT  grows by what chosen units hold; negative: no task may go there
    request  int64[n_resources]              IN     one task; some entry > 0
    pieces   int64[3, n_pieces]              IN     see the constants above
    amounts  int64[n_pieces, n_resources]    IN
    starts   int64[n_nodes + n_units + 2]    IN     where the pieces of each node, then of each unit, begin
    cost     float64[n_units]                IN     inf: not to be had; the last units are the dearest by policy
    chosen   bool[n_units]                   INOUT  units chosen before stay chosen (and are in `free` already)
    goal     int64[2]                        IN     NEEDED, FIRST
    Fewer places than needed: all that could be done was done, and nothing is given back.
    """
    n_nodes = free.shape[0]
    largest = 1
    for node in range(n_nodes):
        largest = max(largest, starts[node + 1] - starts[node])
    picks = np.empty(largest, np.intp)
    missing = np.empty(request.shape[0], np.float64)
    places = np.empty(n_nodes, np.int64)
    offers = np.empty((2, n_nodes), np.float64)
    stale = np.zeros(n_nodes, np.bool_)
    fixed = chosen.copy()
    have = np.int64(0)
    for node in range(n_nodes):
        places[node] = count_places(free[node], request)
        have += places[node]
    for node in range(n_nodes if have < goal[NEEDED] else 0):
        _offer(free, request, pieces, amounts, starts, cost, chosen, node, picks, missing, places, offers)
    first = goal[FIRST]
    while have < goal[NEEDED]:
        node = first if first >= 0 and offers[0, first] < np.inf else _best_offer(offers, goal[NEEDED] - have)
        first = -1
        if node < 0:
            return int(have)
        count = _pick(free, request, pieces, amounts, starts, cost, chosen, node, picks, missing)
        _choose(free, pieces, amounts, starts, chosen, picks, count, stale)
        for other in range(n_nodes):
            if stale[other]:
                have -= places[other]
                places[other] = count_places(free[other], request)
                have += places[other]
        _spread_stale(pieces, starts, chosen, stale)
        for other in range(n_nodes):
            if stale[other]:
                stale[other] = False
                _offer(free, request, pieces, amounts, starts, cost, chosen, other, picks, missing, places, offers)
    spare = _give_back(free, request, pieces, amounts, starts, chosen, fixed, places, have - goal[NEEDED])
    return int(goal[NEEDED] + spare)


@kernel
def _give_back(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    chosen: NDArray[np.bool_],
    fixed: NDArray[np.bool_],
    places: NDArray[np.int64],
    spare: int,
) -> int:
    """Give units back, the last ones first, while there are places to spare; return how many are still to spare."""
    base = free.shape[0] + 1
    n_units = chosen.shape[0]
    for back in range(n_units):
        unit = n_units - 1 - back
        if chosen[unit] and not fixed[unit]:
            loss = _loss(free, request, pieces, amounts, starts, unit, places)
            if loss <= spare:
                chosen[unit] = False
                spare -= loss
                _move(free, pieces, amounts, starts, unit, -1)
                for b in range(starts[base + unit], starts[base + unit + 1]):
                    other = pieces[NODE, pieces[BY_UNIT, b]]
                    places[other] = count_places(free[other], request)
    return spare


@kernel
def _spread_stale(
    pieces: NDArray[np.intp], starts: NDArray[np.intp], chosen: NDArray[np.bool_], stale: NDArray[np.bool_]
) -> None:
    """Mark also the nodes of units that have a piece on a stale node: what those units bring has changed."""
    base = stale.shape[0] + 1
    before = stale.copy()
    for node in range(stale.shape[0]):
        if not before[node]:
            continue
        for k in range(starts[node], starts[node + 1]):
            unit = pieces[UNIT, k]
            if chosen[unit] or starts[base + unit + 1] - starts[base + unit] > WIDE:
                continue
            for b in range(starts[base + unit], starts[base + unit + 1]):
                stale[pieces[NODE, pieces[BY_UNIT, b]]] = True


@kernel
def _loss(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    pieces: NDArray[np.intp],
    amounts: NDArray[np.int64],
    starts: NDArray[np.intp],
    unit: int,
    places: NDArray[np.int64],
) -> int:
    """How many places go when a unit is given back."""
    base = free.shape[0] + 1
    _move(free, pieces, amounts, starts, unit, -1)
    lost = 0
    for b in range(starts[base + unit], starts[base + unit + 1]):
        node = pieces[NODE, pieces[BY_UNIT, b]]
        lost += places[node] - count_places(free[node], request)
    _move(free, pieces, amounts, starts, unit, 1)
    return int(lost)
