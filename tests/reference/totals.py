"""Plain-Python twins of muster.kernels.totals."""

from __future__ import annotations

from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, SCORED, USED
from muster.kernels.totals import ABSENT, HOLDS, LEAVES, OCCUPIES, WAITS


def tally_tasks(
    tasks: list[dict[str, int]],
    requests: list[list[list[int]]],
    kinds: list[int],
    state: list[list[list[int]]],
    counts: dict[str, list[list[int]]],
    held: list[list[int]],
    wanted: list[list[int]],
) -> set[int]:
    """Tasks are mappings of columns; flags: 2: asks for nothing, 4: held back, 8: may go."""
    unwilling = set()
    for task in tasks:
        kind, (request, scoring) = kinds[task["status"]], requests[task["cls"]]
        if kind & ABSENT:
            continue
        for owner in ("job", "role", "subgroup"):
            if task[owner] >= 0:
                counts[owner][task[owner]][task["status"]] += 1
                counts[owner][task[owner]][-1] += bool(kind & WAITS) and task["flags"] & 6 == 2
        if task["job"] >= 0:
            if not task["flags"] & 8:
                unwilling.add(task["job"])
            for r, amount in enumerate(request):
                held[task["job"]][r] += amount * bool(kind & HOLDS)
                wanted[task["job"]][r] += amount * bool(kind & WAITS and not kind & HOLDS)
        if task["node"] >= 0 and kind & OCCUPIES:
            for r, (amount, scored) in enumerate(zip(request, scoring, strict=True)):
                state[USED][task["node"]][r] += amount
                state[SCORED][task["node"]][r] += scored
                state[RELEASING][task["node"]][r] += amount * bool(kind & LEAVES)
    return unwilling


def is_countable(
    requests: list[list[list[int]]], allocatable: list[list[int]], n_tasks: int, most: int, ceiling: int, machine: int
) -> bool:
    for r, column in enumerate(zip(*allocatable, strict=True)):
        largest = max(*column, *(amounts[r] for both in requests for amounts in both))
        asked = max(both[0][r] for both in requests)
        is_small = float(sum(column)) + float(largest) * n_tasks <= most and largest <= ceiling
        if not is_small or asked > max(sum(column), machine):
            return False
    return True


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
    requests: list[list[list[int]]],
    tasks: list[int],
    cls: list[int],
    job: list[int],
    queue: list[int],
    preemptible: list[bool],
    upward: list[list[int]],
    held: list[list[int]],
    own: list[list[int]],
    tree: list[list[int]],
    tree_firm: list[list[int]],
    sign: int,
) -> None:
    for task in tasks:
        owner = job[task]
        if owner < 0:
            continue
        leaf = queue[owner]
        line = [row for row in upward[leaf] if row >= 0] if leaf >= 0 else []
        rows = [held[owner], *([own[leaf]] if leaf >= 0 else []), *(tree[row] for row in line)]
        if not preemptible[owner]:
            rows += [tree_firm[row] for row in line]
        for totals in rows:
            for r, amount in enumerate(requests[cls[task]][0]):
                totals[r] += sign * amount


def move_counts(
    counts: list[list[int]], group: list[int], tasks: list[int], before: list[int], after: int, sign: int
) -> None:
    for task, state in zip(tasks, before, strict=True):
        if group[task] >= 0:
            counts[group[task]][state] -= sign
            counts[group[task]][after] += sign


def add_rows(totals: list[list[int]], group: list[int], amounts: list[list[int]]) -> None:
    for row, own in zip(group, amounts, strict=True):
        if row >= 0:
            totals[row] = [total + amount for total, amount in zip(totals[row], own, strict=True)]
