"""Plain-Python twin of muster.kernels.placement: slow, obvious, no boards, no blocks, no touch log."""

from __future__ import annotations

import math
from typing import Any

from muster.kernels.placement import (
    ANYHOW,
    BALANCED,
    BINPACK,
    FREE_AMOUNT,
    FUTURE,
    IDLE,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
)
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED

Planes = list[list[list[int]]]


def fits(state: Planes, request: list[int], row: int, mode: int) -> bool:
    for r, need in enumerate(request):
        idle = state[ALLOCATABLE][row][r] - state[USED][row][r]
        future = idle + state[RELEASING][row][r] - state[PIPELINED][row][r]
        if mode != ANYHOW and need > 0 and (need > future or (mode != FUTURE and need > idle)):
            return False
    return True


def score(state: Planes, requests: list[list[int]], terms: list[list[float]], row: int) -> float:
    total = 0.0
    for kind, weight, *weights in terms:
        if kind in (LEAST_ALLOCATED, MOST_ALLOCATED):
            points = _spread(state, requests[1], row, kind, weights)
        elif kind == BALANCED:
            points = _balanced(state, requests[0], row, weights)
        elif kind == BINPACK:
            points = _binpack(state, requests[0], row, weights)
        else:
            points = _free(state, row, kind, weights)
        total += points * weight
    return total


def _spread(state: Planes, wanted: list[int], row: int, kind: float, weights: list[float]) -> float:
    points, total = 0, 0
    for r, weight in enumerate(weights):
        capacity = state[ALLOCATABLE][row][r]
        if weight <= 0 or capacity <= 0:
            continue
        requested = state[SCORED][row][r] + wanted[r]
        used = 100 if requested > capacity else requested * 100 // capacity
        free = 0 if requested > capacity else (capacity - requested) * 100 // capacity
        points += (free if kind == LEAST_ALLOCATED else used) * int(weight)
        total += int(weight)
    return float(points // total) if total else 0.0


def _balanced(state: Planes, request: list[int], row: int, weights: list[float]) -> float:
    gain = _balance(state, request, row, weights) - _balance(state, [0] * len(request), row, weights)
    return 50.0 + math.trunc((50 + gain) / 2)


def _balance(state: Planes, request: list[int], row: int, weights: list[float]) -> int:
    fractions = []
    for r, weight in enumerate(weights):
        capacity = state[ALLOCATABLE][row][r]
        if weight > 0 and capacity > 0:
            used = state[USED][row][r] - state[RELEASING][row][r] + state[PIPELINED][row][r] + request[r]
            fractions.append(min(used / capacity, 1.0))
    if not fractions:
        return 0
    mean = 0.0
    for fraction in fractions:
        mean += fraction
    mean /= len(fractions)
    variance = 0.0
    for fraction in fractions:
        variance += (fraction - mean) * (fraction - mean)
    return int((1.0 - math.sqrt(variance / len(fractions))) * 100)


def _binpack(state: Planes, request: list[int], row: int, weights: list[float]) -> float:
    points, total = 0.0, 0.0
    for r, weight in enumerate(weights):
        if request[r] <= 0 or weight == 0:
            continue
        capacity, used = state[ALLOCATABLE][row][r], state[USED][row][r] + request[r]
        if 0 < capacity < used:
            return 0.0
        if capacity > 0:
            points += (used if weight > 0 else capacity - used) * abs(weight) / capacity
        total += abs(weight)
    return points / total * 100 if total else 0.0


def _free(state: Planes, row: int, kind: float, weights: list[float]) -> float:
    total = 0.0
    for r, weight in enumerate(weights):
        capacity = state[ALLOCATABLE][row][r]
        if capacity > 0:
            free = capacity - state[USED][row][r] + state[RELEASING][row][r] - state[PIPELINED][row][r]
            total += weight * free / (1 if kind == FREE_AMOUNT else capacity)
    return total


def place_run(
    state: Planes,
    requests: list[list[int]],
    terms: list[list[float]],
    fixed: list[float],
    mode: int,
    rows: range,
    n_tasks: int,
) -> list[int]:
    """Rows of the tasks placed, all of them among `rows`; `state` is changed."""
    placed: list[int] = []
    for _ in range(n_tasks):
        best: tuple[float, int] | None = None
        for row in rows:
            base = fixed[row]
            if base == -math.inf or not fits(state, requests[0], row, mode):
                continue
            key = (-(base + score(state, requests, terms, row)), row)
            if best is None or key < best:
                best = key
        if best is None:
            break
        row = best[1]
        plane = USED if mode == IDLE else PIPELINED
        for r in range(len(requests[0])):
            state[plane][row][r] += requests[0][r]
            state[SCORED][row][r] += requests[1][r]
        placed.append(row)
    return placed


def count_slots(state: Planes, request: list[int], fixed: list[float], mode: int, rows: range) -> list[int]:
    """Put tasks on each node, one after the other, until one does not fit; `state` is left as it was."""
    plane = USED if mode == IDLE else PIPELINED
    slots = []
    for row in rows:
        count = 0
        while fixed[row] > -math.inf and fits(state, request, row, mode):
            count += 1
            for r, amount in enumerate(request):
                state[plane][row][r] += amount
        for r, amount in enumerate(request):
            state[plane][row][r] -= count * amount
        slots.append(count)
    return slots


def move_tasks(
    state: Planes,
    requests: list[list[list[int]]],
    tasks: list[tuple[int, int]],
    change: tuple[int, int, int],
    log: list[int],
) -> None:
    """Change `state` for each task (class, node) that has a node, and write the node into `log`."""
    plane, times, scored_times = change
    for cls, row in tasks:
        if row < 0:
            continue
        for r, (amount, scored) in enumerate(zip(*requests[cls], strict=True)):
            state[plane][row][r] += times * amount
            state[SCORED][row][r] += scored_times * scored
        log.append(row)


def to_lists(array: Any) -> Any:
    return array.tolist()
