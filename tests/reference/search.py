"""The exact search for places, written as plainly as possible: every choice, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from muster.kernels.search import (
    CAND_HI,
    CAND_LO,
    CLASS,
    COUNT,
    KIND_HI,
    KIND_LO,
    NEED,
    NODE_HI,
    NODE_LO,
    PARENT,
    POLICY,
    ROLE,
    Gang,
)


def can_be_placed(gang: Gang, free: NDArray[np.int64]) -> bool:
    """Whether some choice of candidates and nodes meets every minimum."""
    return _from_part(gang, free.copy(), 0, {}, np.zeros(len(gang.needs), np.int64))


def _from_part(
    gang: Gang, free: NDArray[np.int64], p: int, nodes_of: dict[int, frozenset[int]], have: NDArray[np.int64]
) -> bool:
    if (have >= gang.needs).all():
        return True
    if p == len(gang.parts):
        return False
    part = gang.parts[p]
    for nodes in _candidates(gang, p, nodes_of):
        tasks = [k for k in range(part[KIND_LO], part[KIND_HI]) for _ in range(gang.kinds[k, COUNT])]
        for inside, left, gained in _spread(gang, free, tasks, sorted(nodes), have):
            if tasks and inside < max(1, part[NEED]):
                continue
            if part[POLICY] >= 0 and part[NEED] > 0:
                gained[part[POLICY]] += 1
            if _from_part(gang, left, p + 1, {**nodes_of, p: nodes}, gained):
                return True
    return bool(part[KIND_HI] > part[KIND_LO]) and _from_part(gang, free, p + 1, nodes_of, have)


def _candidates(gang: Gang, p: int, nodes_of: dict[int, frozenset[int]]) -> Iterator[frozenset[int]]:
    part = gang.parts[p]
    around = nodes_of.get(int(part[PARENT]))
    if part[CAND_LO] == part[CAND_HI]:
        assert around is not None
        yield around
    for cand in range(part[CAND_LO], part[CAND_HI]):
        found = frozenset(gang.cand_nodes[gang.cands[cand, NODE_LO] : gang.cands[cand, NODE_HI]].tolist())
        found = found if around is None else found & around
        if found:
            yield found


def _spread(
    gang: Gang, free: NDArray[np.int64], tasks: list[int], nodes: list[int], have: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Every way to put some of the tasks on nodes: how many, what is free then, and what has been reached."""
    if not tasks:
        yield 0, free.copy(), have.copy()
        return
    k, rest = tasks[0], tasks[1:]
    request = gang.requests[gang.kinds[k, CLASS]]
    for node in nodes:
        if gang.allowed[gang.kinds[k, CLASS], node] and (free[node] >= request).all():
            less = free.copy()
            less[node] -= request
            more = have.copy()
            more[[0, 1 + gang.kinds[k, ROLE]]] += 1
            for inside, left, gained in _spread(gang, less, rest, nodes, more):
                yield inside + 1, left, gained
    yield from _spread(gang, free, rest, nodes, have)
