"""Exact search for places: which tasks of a gang go where, so that every minimum is met.

A gang is a list of parts, each followed by those inside it; each chooses one of its candidate sets of nodes inside the
set of the part around it, and its tasks go to nodes of that set. Tasks of one part, role and class are a kind. The
search goes depth first over parts, candidates and nodes, and turns back where a minimum is out of reach, where a set
cannot hold what is left, or where an equal state has failed before: nodes of one cell are interchangeable, and so are
cells of one colour, except those in which a part sits.
Plain-Python twin: tests/reference/search.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.kernels.jit import search_kernel

# What a part has chosen, beside candidates: to be where its parent is, or to do without a place.
_WITH_PARENT: Final = -1
_NOWHERE: Final = -2

#: There is no solution; the budget ended before that was known.
NONE: Final = -1
ENDED: Final = -2

# Columns of `parts`.
PARENT: Final = 0
#: Tasks without which it is not ready; 0: it is.
NEED: Final = 1
#: The entry of `Gang.needs` that it counts for when it is ready, -1: none.
POLICY: Final = 2
KIND_LO: Final = 3
KIND_HI: Final = 4
CAND_LO: Final = 5
CAND_HI: Final = 6
#: Equal to the part before it, in everything.
TWIN: Final = 7
PART_COLUMNS: Final = 8

# Columns of `kinds`.
ROLE: Final = 0
CLASS: Final = 1
COUNT: Final = 2

# Columns of `cands`.
NODE_LO: Final = 0
NODE_HI: Final = 1
CELL: Final = 2

# Columns of a frame; kind -1: it chooses the candidate of its part, else the node of the next task of that kind.
_PART: Final = 0
_KIND: Final = 1
_DONE: Final = 2
_OPTION: Final = 3
_INSIDE: Final = 4
_NODE: Final = 5
_FIRST: Final = 6

# Entries of `Desk.counts`.
_TOP: Final = 0
_PLACED: Final = 1
_STAMP: Final = 2
_KNOWN: Final = 3

# What entering a frame leads to.
_GO: Final = 0
_DEAD: Final = 1
_FOUND: Final = 2
_PASS: Final = 3

# Two hashes of 31 bits each, which differ by their factor: no product leaves 63 bits.
_MASK: Final = 2147483647
_F1: Final = 739982445
_F2: Final = 695872825


class Gang(NamedTuple):
    """What is to be placed, and where it may go; nothing of it changes."""

    #: int64[parts, PART_COLUMNS]: those inside a part follow it; the first has candidates, one without is where its
    #: parent is.
    parts: NDArray[np.intp]
    #: int64[kinds, 3]: in the order of parts.
    kinds: NDArray[np.intp]
    #: int64[classes, resources]
    requests: NDArray[np.int64]
    #: bool[classes, nodes]
    allowed: NDArray[np.bool_]
    #: int64[candidates, 3]: slice of `cand_nodes`, and the cell that it consists of (-1: of several).
    cands: NDArray[np.intp]
    #: Nodes, equal ones side by side.
    cand_nodes: NDArray[np.intp]
    #: int64[1 + roles + policies]: tasks of the job, tasks of roles, ready parts of policies.
    needs: NDArray[np.int64]
    #: int64[nodes, 2]: the cell of each node, and a number for the classes that may go there.
    nodes: NDArray[np.intp]
    #: int64[cells]: equal for cells that may be swapped.
    colors: NDArray[np.int64]


class Desk(NamedTuple):
    """The state of one search."""

    free: NDArray[np.int64]
    #: Hashes of the nodes of each cell, and of all.
    sums: NDArray[np.int64]
    total: NDArray[np.int64]
    #: What has been reached of `Gang.needs`, and what kinds and parts from one on could still add.
    have: NDArray[np.int64]
    to_come: NDArray[np.int64]
    ready_to_come: NDArray[np.int64]
    frames: NDArray[np.intp]
    keys: NDArray[np.int64]
    #: Keys of states that have failed, 0: empty.
    memo: NDArray[np.int64]
    #: The nodes of the candidate that each part has chosen bear its stamp.
    stamps: NDArray[np.int64]
    stamp_of: NDArray[np.int64]
    chosen: NDArray[np.intp]
    span: NDArray[np.intp]
    counts: NDArray[np.int64]
    #: Steps allowed, steps used.
    budget: NDArray[np.int64]
    placed: NDArray[np.intp]


@search_kernel
def _mix(seed: int, value: int, factor: int) -> int:
    """A number of 31 bits that depends on both."""
    wide = np.int64(value)
    mixed = (np.int64(seed) * 31 + (wide & _MASK) + ((wide >> 31) & _MASK)) & _MASK
    mixed = ((mixed ^ (mixed >> 15)) * factor) & _MASK
    mixed = ((mixed ^ (mixed >> 12)) * 1540483477) & _MASK
    return mixed ^ (mixed >> 15)  # type: ignore[return-value]


@search_kernel
def _hash_node(gang: Gang, desk: Desk, node: int, factor: int) -> int:
    """The state of a node: what is free on it, and which classes may go there."""
    mixed = _mix(17, gang.nodes[node, 1], factor)
    for r in range(desk.free.shape[1]):
        mixed = _mix(mixed, desk.free[node, r], factor)
    return mixed


@search_kernel
def _count_node(gang: Gang, desk: Desk, node: int, sign: int) -> None:
    """Take a node into the sums of its cell and the total (+1), or out of them (-1)."""
    cell = gang.nodes[node, 0]
    color, sums, total = gang.colors[cell], desk.sums, desk.total
    total[0] -= _mix(color, sums[cell, 0], _F1)
    total[1] -= _mix(color, sums[cell, 1], _F2)
    sums[cell, 0] = (sums[cell, 0] + sign * _hash_node(gang, desk, node, _F1)) & _MASK
    sums[cell, 1] = (sums[cell, 1] + sign * _hash_node(gang, desk, node, _F2)) & _MASK
    total[0] = (total[0] + _mix(color, sums[cell, 0], _F1)) & _MASK
    total[1] = (total[1] + _mix(color, sums[cell, 1], _F2)) & _MASK


@search_kernel
def _slots(gang: Gang, desk: Desk, cls: int, node: int, most: int) -> int:
    """How many tasks of a class a node can take, no more than `most`."""
    if not gang.allowed[cls, node]:
        return 0
    found = most
    for r in range(desk.free.shape[1]):
        need, free = gang.requests[cls, r], desk.free[node, r]
        if need > 0:
            found = min(found, free // need if free > 0 else 0)
    return found


@search_kernel
def _book(gang: Gang, desk: Desk, frame: int, node: int, sign: int) -> None:
    """Put the next task of a frame on a node (+1), or take it back (-1)."""
    p, k = desk.frames[frame, _PART], desk.frames[frame, _KIND]
    role, cls = gang.kinds[k, ROLE], gang.kinds[k, CLASS]
    _count_node(gang, desk, node, -1)
    for r in range(desk.free.shape[1]):
        desk.free[node, r] -= sign * gang.requests[cls, r]
    _count_node(gang, desk, node, +1)
    desk.have[0] += sign
    desk.have[1 + role] += sign
    policy = gang.parts[p, POLICY]
    if policy >= 0 and desk.frames[frame, _INSIDE] + 1 == gang.parts[p, NEED]:
        desk.have[policy] += sign
    desk.counts[_PLACED] += sign
    desk.frames[frame, _NODE] = node if sign > 0 else -1


@search_kernel
def _push(desk: Desk, part: int, kind: int, done: int, inside: int, first: int) -> None:
    """Open a frame; `first` is the first node to look at, as a position in `cand_nodes`."""
    desk.counts[_TOP] += 1
    frame = desk.frames[desk.counts[_TOP]]
    frame[_PART], frame[_KIND], frame[_DONE], frame[_INSIDE] = part, kind, done, inside
    frame[_OPTION], frame[_FIRST], frame[_NODE] = first - 1, first, -1


@search_kernel
def _out_of_reach(gang: Gang, desk: Desk, p: int, k: int, done: int, inside: int) -> bool:
    """Whether a minimum cannot be met any more, whatever comes."""
    first = gang.parts[p, KIND_LO] if k < 0 else k
    following = p if k < 0 or inside < gang.parts[p, NEED] else p + 1
    for n in range(gang.needs.shape[0]):
        coming = desk.to_come[first, n] + desk.ready_to_come[following, n]
        if n == 0 or (first < gang.kinds.shape[0] and gang.kinds[first, ROLE] + 1 == n):
            coming -= done
        if desk.have[n] + coming < gang.needs[n]:
            return True
    if k < 0:
        return False
    rest = inside - done
    for other in range(k, gang.parts[p, KIND_HI]):
        rest += gang.kinds[other, COUNT]
    least = max(gang.parts[p, NEED], 1 if gang.parts[p, KIND_HI] > gang.parts[p, KIND_LO] else 0)
    return bool(rest < least)


@search_kernel
def _mix_chosen(gang: Gang, desk: Desk, p: int, mixed: int, factor: int) -> int:
    """Mix in where a part is, and the state of the cell there: it may not be swapped while the part is in it."""
    cand = desk.chosen[p]
    mixed = _mix(mixed, cand + 7, factor)
    cell = gang.cands[cand, CELL] if cand >= 0 else -1
    return _mix(mixed, desk.sums[cell, 0 if factor == _F1 else 1], factor) if cell >= 0 else mixed


@search_kernel
def _key(gang: Gang, desk: Desk, p: int, k: int, inside: int, factor: int) -> int:
    """All that what can still be placed depends on."""
    mixed = _mix(_mix(p, k + 2, factor), inside, factor)
    for n in range(gang.needs.shape[0]):
        mixed = _mix(mixed, desk.have[n], factor)
    if k < 0 and gang.parts[p, TWIN]:
        mixed = _mix_chosen(gang, desk, p - 1, mixed, factor)
    around = p if k >= 0 else gang.parts[p, PARENT]
    while around >= 0:
        mixed = _mix_chosen(gang, desk, around, mixed, factor)
        around = gang.parts[around, PARENT]
    return _mix(mixed, desk.total[0 if factor == _F1 else 1], factor)


@search_kernel
def _memo_slot(desk: Desk, key: int) -> int:
    """Where a key is in the memo, or would be."""
    slot: int = key % desk.memo.shape[0]
    while desk.memo[slot] not in (0, key):
        slot = (slot + 1) % desk.memo.shape[0]
    return slot


@search_kernel
def _leave(desk: Desk) -> None:
    """Close a frame that has no solution, and remember that."""
    top = desk.counts[_TOP]
    key = desk.keys[top]
    if key != 0 and desk.counts[_KNOWN] < desk.memo.shape[0] // 2:
        slot = _memo_slot(desk, key)
        desk.counts[_KNOWN] += desk.memo[slot] == 0
        desk.memo[slot] = key
    desk.counts[_TOP] -= 1


@search_kernel
def _enter(gang: Gang, desk: Desk) -> int:
    """Look at a frame that was just opened: is it all, is it in vain, or is there something to choose?"""
    top = desk.counts[_TOP]
    frame = desk.frames[top]
    p, k, inside = frame[_PART], frame[_KIND], frame[_INSIDE]
    desk.keys[top] = 0
    if k < 0 or inside == 0 or inside >= gang.parts[p, NEED]:
        met = True
        for n in range(gang.needs.shape[0]):
            met = met and desk.have[n] >= gang.needs[n]
        if met:
            return _FOUND
    if p == gang.parts.shape[0] or _out_of_reach(gang, desk, p, k, frame[_DONE], inside):
        return _DEAD
    if k < 0 or frame[_DONE] == 0:
        key = (_key(gang, desk, p, k, inside, _F1) << 31) + _key(gang, desk, p, k, inside, _F2) + 1
        if desk.memo[_memo_slot(desk, key)] == key:
            return _DEAD
        desk.keys[top] = key
    return _PASS if k == gang.parts[p, KIND_HI] else _GO


@search_kernel
def _is_apart(gang: Gang, desk: Desk, p: int, cand: int) -> bool:
    """Whether a candidate has no node where the part around it is."""
    parent = gang.parts[p, PARENT]
    if parent < 0 or cand < 0:
        return False
    for at in range(gang.cands[cand, NODE_LO], gang.cands[cand, NODE_HI]):
        if desk.stamps[parent, gang.cand_nodes[at]] == desk.stamp_of[parent]:
            return False
    return True


@search_kernel
def _is_repeated(gang: Gang, desk: Desk, p: int, first: int, cand: int) -> bool:
    """Whether a candidate is in the same state as one of the same colour that was tried before it."""
    cell = gang.cands[cand, CELL] if cand >= 0 else -1
    if cell < 0:
        return False
    for other in range(first, cand):
        twin = gang.cands[other, CELL]
        if twin < 0 or gang.colors[twin] != gang.colors[cell]:
            continue
        same = desk.sums[twin, 0] == desk.sums[cell, 0] and desk.sums[twin, 1] == desk.sums[cell, 1]
        if same and not _is_apart(gang, desk, p, other):
            return True
    return False


@search_kernel
def _settle(gang: Gang, desk: Desk, p: int, cand: int) -> bool:
    """Let a part have a candidate (-1: where its parent is); False: what it needs has no room there."""
    parent, span = gang.parts[p, PARENT], desk.span
    span[p, 0] = span[parent, 0] if cand < 0 else gang.cands[cand, NODE_LO]
    span[p, 1] = span[parent, 1] if cand < 0 else gang.cands[cand, NODE_HI]
    desk.chosen[p] = cand
    desk.counts[_STAMP] += 1
    stamp = desk.stamp_of[p] = desk.counts[_STAMP]
    desk.budget[1] += 1 + (span[p, 1] - span[p, 0]) // 8
    is_empty = True
    for at in range(span[p, 0], span[p, 1]):
        node = gang.cand_nodes[at]
        if parent < 0 or desk.stamps[parent, node] == desk.stamp_of[parent]:
            desk.stamps[p, node] = stamp
            is_empty = False
    first, end = gang.parts[p, KIND_LO], gang.parts[p, KIND_HI]
    if is_empty or first == end:
        return not is_empty
    lacking, room = 0, 0
    for kind in range(first, end):
        wanted = gang.kinds[kind, COUNT]
        left = wanted
        for at in range(span[p, 0], span[p, 1]):
            node = gang.cand_nodes[at]
            if left > 0 and desk.stamps[p, node] == stamp:
                left -= _slots(gang, desk, gang.kinds[kind, CLASS], node, left)
        lacking += left
        room += wanted - left
    spare = desk.have[0] + desk.to_come[first, 0] - gang.needs[0]
    return bool(room >= max(1, gang.parts[p, NEED]) and lacking <= spare)


@search_kernel
def _choose_candidate(gang: Gang, desk: Desk) -> bool:
    """Open a frame with the next candidate of a part, at last one without the part; False: there is none left."""
    frame = desk.frames[desk.counts[_TOP]]
    p = frame[_PART]
    lo, hi = gang.parts[p, CAND_LO], gang.parts[p, CAND_HI]
    count = max(1, hi - lo)
    first = 0
    if gang.parts[p, TWIN]:
        # Equal parts take their candidates in order; if one does without, so do those behind it.
        first = count if desk.chosen[p - 1] == _NOWHERE else max(0, desk.chosen[p - 1] - lo)
    option = max(frame[_OPTION] + 1, first)
    while option < count:
        cand = lo + option if hi > lo else _WITH_PARENT
        useful = not _is_apart(gang, desk, p, cand) and not _is_repeated(gang, desk, p, lo + first, cand)
        if useful and _settle(gang, desk, p, cand):
            frame[_OPTION] = option
            _push(desk, p, gang.parts[p, KIND_LO], 0, 0, desk.span[p, 0])
            return True
        option += 1
    has_tasks = gang.parts[p, KIND_HI] > gang.parts[p, KIND_LO]
    frame[_OPTION] = max(option, count)
    if option > count or not has_tasks:
        return False
    desk.chosen[p] = _NOWHERE
    _push(desk, p + 1, -1, 0, 0, 0)
    return True


@search_kernel
def _is_like_the_one_before(gang: Gang, desk: Desk, p: int, at: int) -> bool:
    """Whether a node is in the same state as the one beside it, so that trying it is in vain too."""
    node, before = gang.cand_nodes[at], gang.cand_nodes[at - 1]
    if desk.stamps[p, before] != desk.stamp_of[p]:
        return False
    if gang.nodes[before, 0] != gang.nodes[node, 0] or gang.nodes[before, 1] != gang.nodes[node, 1]:
        return False
    same = True
    for r in range(desk.free.shape[1]):
        same = same and desk.free[before, r] == desk.free[node, r]
    return same


@search_kernel
def _choose_node(gang: Gang, desk: Desk) -> bool:
    """Open a frame with the next task of a kind on the next node, at last one without more of it; False: none left."""
    top = desk.counts[_TOP]
    frame = desk.frames[top]
    p, k = frame[_PART], frame[_KIND]
    if frame[_NODE] >= 0:
        _book(gang, desk, top, frame[_NODE], -1)
    at, end = frame[_OPTION] + 1, desk.span[p, 1]
    if frame[_DONE] == gang.kinds[k, COUNT]:
        at = max(at, end)
    while at < end:
        desk.budget[1] += 1
        node = gang.cand_nodes[at]
        fits = desk.stamps[p, node] == desk.stamp_of[p] and _slots(gang, desk, gang.kinds[k, CLASS], node, 1) > 0
        if fits and (at == frame[_FIRST] or not _is_like_the_one_before(gang, desk, p, at)):
            frame[_OPTION] = at
            place = desk.counts[_PLACED]
            desk.placed[place, 0], desk.placed[place, 1] = k, node
            _book(gang, desk, top, node, +1)
            # Equal tasks take their nodes in order.
            _push(desk, p, k, frame[_DONE] + 1, frame[_INSIDE] + 1, at)
            return True
        at += 1
    frame[_OPTION] = at
    if at > end:
        return False
    _push(desk, p, k + 1, 0, frame[_INSIDE], desk.span[p, 0])
    return True


@search_kernel
def search_places(gang: Gang, desk: Desk) -> int:
    """Find places that meet every minimum; return how many (they stand in `desk.placed`), NONE or ENDED."""
    for node in range(desk.free.shape[0]):
        _count_node(gang, desk, node, +1)
    _push(desk, 0, -1, 0, 0, 0)
    entering = True
    while desk.counts[_TOP] >= 0:
        top = desk.counts[_TOP]
        if desk.budget[1] > desk.budget[0]:
            return ENDED
        if entering:
            answer = _enter(gang, desk)
            if answer == _FOUND:
                return int(desk.counts[_PLACED])
            if answer == _DEAD:
                desk.counts[_TOP] -= 1
                entering = False
                continue
            if answer == _PASS:
                # The part has what it gets: the frame goes on with the next part.
                desk.counts[_TOP] -= 1
                _push(desk, desk.frames[top, _PART] + 1, -1, 0, 0, 0)
                continue
        entering = _choose_candidate(gang, desk) if desk.frames[top, _KIND] < 0 else _choose_node(gang, desk)
        if not entering:
            _leave(desk)
    return NONE


def packed(gang: Gang) -> Gang:
    """The same with every array in one piece, so that the search is compiled once."""
    return gang._replace(
        requests=np.ascontiguousarray(gang.requests),
        allowed=np.ascontiguousarray(gang.allowed),
        cands=np.ascontiguousarray(gang.cands),
        nodes=np.ascontiguousarray(gang.nodes),
    )


def make_desk(gang: Gang, free: NDArray[np.int64], steps: int, memory: int = 1 << 14) -> Desk:
    """A desk for one search among nodes with so much free, which takes so many steps at most."""
    n_parts, n_kinds, n_needs = len(gang.parts), len(gang.kinds), len(gang.needs)
    n_tasks = int(gang.kinds[:, COUNT].sum())
    to_come = np.zeros((n_kinds + 1, n_needs), np.int64)
    for k in range(n_kinds - 1, -1, -1):
        to_come[k] = to_come[k + 1]
        to_come[k, [0, 1 + gang.kinds[k, ROLE]]] += gang.kinds[k, COUNT]
    ready_to_come = np.zeros((n_parts + 1, n_needs), np.int64)
    for p in range(n_parts - 1, -1, -1):
        ready_to_come[p] = ready_to_come[p + 1]
        if gang.parts[p, POLICY] >= 0 and gang.parts[p, NEED] > 0:
            ready_to_come[p, gang.parts[p, POLICY]] += 1
    depth = n_tasks + n_kinds + n_parts + 3
    counts = np.zeros(4, np.int64)
    counts[_TOP] = -1
    return Desk(
        free=np.ascontiguousarray(free),
        sums=np.zeros((len(gang.colors), 2), np.int64),
        total=np.zeros(2, np.int64),
        have=np.zeros(n_needs, np.int64),
        to_come=to_come,
        ready_to_come=ready_to_come,
        frames=np.zeros((depth, 7), np.intp),
        keys=np.zeros(depth, np.int64),
        memo=np.zeros(memory, np.int64),
        stamps=np.zeros((n_parts, len(free)), np.int64),
        stamp_of=np.zeros(n_parts, np.int64),
        chosen=np.full(n_parts, -1, np.intp),
        span=np.zeros((n_parts, 2), np.intp),
        counts=counts,
        budget=np.array([steps, 0], np.int64),
        placed=np.zeros((n_tasks, 2), np.intp),
    )
