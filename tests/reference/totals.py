"""Plain-Python twins of muster.kernels.totals."""

from __future__ import annotations

from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED


def book_on_nodes(
    state: list[list[list[int]]],
    requests: list[list[list[int]]],
    cls: list[int],
    node: list[int],
    releasing: list[bool],
) -> None:
    for c, row, leaving in zip(cls, node, releasing, strict=True):
        if row < 0:
            continue
        for r, (amount, scored) in enumerate(zip(*requests[c], strict=True)):
            state[USED][row][r] += amount
            state[SCORED][row][r] += scored
            if leaving:
                state[RELEASING][row][r] += amount


def sum_requests(requests: list[list[list[int]]], cls: list[int], group: list[int], totals: list[list[int]]) -> None:
    for c, row in zip(cls, group, strict=True):
        if row >= 0:
            for r, amount in enumerate(requests[c][0]):
                totals[row][r] += amount


def future_total(state: list[list[list[int]]], ready: list[bool], total: list[int]) -> None:
    for row, is_ready in enumerate(ready):
        for r in range(len(total)):
            idle = state[ALLOCATABLE][row][r] - state[USED][row][r]
            free = idle + state[RELEASING][row][r] - state[PIPELINED][row][r]
            total[r] += free if is_ready and free > 0 else 0


def move_requests(
    requests: list[list[list[int]]], cls: list[int], group: list[int], totals: list[list[int]], sign: int
) -> None:
    for c, row in zip(cls, group, strict=True):
        if row >= 0:
            for r, amount in enumerate(requests[c][0]):
                totals[row][r] += sign * amount


def move_counts(counts: list[list[int]], group: list[int], before: list[int], after: int, sign: int) -> None:
    for row, state in zip(group, before, strict=True):
        counts[row][state] -= sign
        counts[row][after] += sign


def count_tasks(counts: list[list[int]], group: list[int], state: list[int], extra: list[bool]) -> None:
    for row, column, is_extra in zip(group, state, extra, strict=True):
        if row < 0 or column < 0:
            continue
        counts[row][column] += 1
        if is_extra:
            counts[row][-1] += 1


def add_rows(totals: list[list[int]], group: list[int], amounts: list[list[int]]) -> None:
    for row, own in zip(group, amounts, strict=True):
        if row >= 0:
            totals[row] = [total + amount for total, amount in zip(totals[row], own, strict=True)]
