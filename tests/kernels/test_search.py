"""The exact search for places says the same as trying everything, and what it finds holds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from muster.kernels.search import (
    CLASS,
    COUNT,
    ENDED,
    KIND_HI,
    KIND_LO,
    NEED,
    NONE,
    PART_COLUMNS,
    POLICY,
    ROLE,
    Gang,
    make_desk,
    search_places,
)
from muster.snapshot import NO_ROW
from tests.reference.search import can_be_placed


def random_gang(seed: int, *, nested: bool = False, twins: bool = False) -> tuple[Gang, np.ndarray]:
    """A gang on a tree of racks inside spines: nodes 0..n in order, so that every domain is a slice.

    `nested`: some of its parts are inside another one, which has a rack of its own; `twins`: they come in pairs.
    """
    rng = random.Random(seed)
    racks: list[tuple[int, int]] = []
    spines: list[tuple[int, int]] = []
    at = 0
    for _ in range(rng.randint(1, 2)):
        begin = at
        for _ in range(rng.randint(1, 3)):
            size = rng.randint(1, 2)
            racks.append((at, at + size))
            at += size
        spines.append((begin, at))
    n_classes = rng.randint(1, 2)
    requests = np.array([[rng.randint(1, 3), rng.randint(0, 1)] for _ in range(n_classes)], np.int64)
    allowed = np.array([[rng.random() < 0.9 for _ in range(at)] for _ in range(n_classes)], np.bool_)
    free = np.array([[rng.randint(0, 4), rng.randint(0, 2)] for _ in range(at)], np.int64)
    cands = [[lo, hi, NO_ROW] for lo, hi in spines] + [[lo, hi, rack] for rack, (lo, hi) in enumerate(racks)]
    parts = [[NO_ROW, 0, NO_ROW, 0, 0, 0, len(spines), 0]]
    kinds: list[list[int]] = []
    n_roles = rng.randint(1, 2)
    left = 4
    inside = nested
    if nested:
        parts.append([0, 0, NO_ROW, 0, 0, len(spines), len(cands), 0])
    for _ in range(rng.randint(1, 3)):
        begin, total = len(kinds), 0
        for cls in range(n_classes):
            count = min(left, rng.randint(0, 2))
            if count:
                kinds.append([rng.randrange(n_roles), cls, count])
                total, left = total + count, left - count
        if total == 0:
            continue
        policy = 1 + n_roles if rng.random() < 0.7 else NO_ROW
        where = [len(spines), len(cands)] if rng.random() < 0.7 else [0, 0]
        # Those inside another part follow it at once.
        inside = inside and rng.random() < 0.7
        parts.append([int(inside), rng.randint(0, total), policy, begin, len(kinds), *where, 0])
        if twins:
            kinds += kinds[begin:]
            parts.append([*parts[-1][:KIND_LO], parts[-1][KIND_HI], len(kinds), *where, 1])
    if not kinds:
        return random_gang(seed + 10_000, nested=nested, twins=twins)
    total = sum(kind[2] for kind in kinds)
    needs = [rng.randint(1, total), *[rng.randint(0, 1) for _ in range(n_roles)], rng.randint(0, 2)]
    colors = {}
    for rack, (lo, _) in enumerate(racks):
        spine = next(s for s, (begin, end) in enumerate(spines) if begin <= lo < end)
        colors[rack] = spine
    nodes = [
        [rack, hash(tuple(allowed[:, row].tolist())) % 97]
        for rack, (lo, hi) in enumerate(racks)
        for row in range(lo, hi)
    ]
    gang = Gang(
        parts=np.array(parts, np.intp).reshape(-1, PART_COLUMNS),
        kinds=np.array(kinds, np.intp),
        requests=requests,
        allowed=allowed,
        cands=np.array(cands, np.intp),
        cand_nodes=np.arange(at, dtype=np.intp),
        needs=np.array(needs, np.int64),
        nodes=np.array(nodes, np.intp),
        colors=np.array([colors[rack] for rack in range(len(racks))], np.int64),
    )
    return gang, free


@pytest.mark.parametrize("seed", range(80))
def test_it_finds_places_exactly_when_there_are_some(seed: int) -> None:
    gang, free = random_gang(seed)
    desk = make_desk(gang, free.copy(), 1_000_000)
    found = search_places(gang, desk)
    assert found != ENDED
    assert (found != NONE) == can_be_placed(gang, free)


@pytest.mark.parametrize("seed", range(120))
def test_a_rack_in_which_a_part_sits_is_not_taken_for_an_equal_one(seed: int) -> None:
    gang, free = random_gang(seed, nested=True)
    desk = make_desk(gang, free.copy(), 1_000_000)
    assert (search_places(gang, desk) != NONE) == can_be_placed(gang, free)


@pytest.mark.parametrize("seed", range(120))
def test_a_part_that_is_where_its_parent_is_leaves_places_to_its_equals(seed: int) -> None:
    gang, free = random_gang(seed, twins=True)
    desk = make_desk(gang, free.copy(), 1_000_000)
    assert (search_places(gang, desk) != NONE) == can_be_placed(gang, free)


@pytest.mark.parametrize("seed", range(80))
def test_what_it_finds_fits_and_meets_every_minimum(seed: int) -> None:
    gang, free = random_gang(seed)
    desk = make_desk(gang, free.copy(), 1_000_000)
    found = search_places(gang, desk)
    if found == NONE:
        return
    placed = desk.placed[:found]
    left = free.copy()
    have = np.zeros(len(gang.needs), np.int64)
    for kind, node in placed.tolist():
        role, cls = gang.kinds[kind, ROLE], gang.kinds[kind, CLASS]
        assert gang.allowed[cls, node]
        left[node] -= gang.requests[cls]
        have[[0, 1 + role]] += 1
    assert (left >= 0).all()
    for part in gang.parts:
        inside = int(((placed[:, 0] >= part[KIND_LO]) & (placed[:, 0] < part[KIND_HI])).sum())
        assert inside == 0 or inside >= part[NEED]
        have[part[POLICY]] += part[POLICY] >= 0 and inside >= part[NEED] > 0
    assert (have >= gang.needs).all()
    assert all(int((placed[:, 0] == kind).sum()) <= gang.kinds[kind, COUNT] for kind in range(len(gang.kinds)))


def test_it_stops_when_its_steps_are_used_up() -> None:
    gang, free = random_gang(1)
    assert search_places(gang, make_desk(gang, free.copy(), 0)) == ENDED
