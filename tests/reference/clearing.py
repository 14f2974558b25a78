"""A plain-Python twin of muster.kernels.clearing, written from its description: units as sets, nodes as dicts."""

from __future__ import annotations

from dataclasses import dataclass

WIDE = 32


@dataclass
class Problem:
    """Units are numbered in order; what a unit holds is {node: amounts}."""

    free: list[list[int]]
    request: list[int]
    units: list[dict[int, list[int]]]
    cost: list[float]


def places(free: list[int], request: list[int]) -> int:
    return min(max(have, 0) // asked for have, asked in zip(free, request, strict=True) if asked > 0)


def clear(problem: Problem, needed: int, first: int = -1) -> tuple[int, list[bool]]:
    """Choose units; return the places that the nodes hold then, and who was chosen."""
    chosen: list[int] = []
    while (have := total(problem, chosen)) < needed:
        offers = {node: offer(problem, chosen, node) for node in range(len(problem.free))}
        open_nodes = [node for node, picks in offers.items() if picks is not None]
        if not open_nodes:
            return have, flags(problem, chosen)
        if first in open_nodes:
            best = first
        else:
            best = min(open_nodes, key=lambda node: (price(problem, chosen, offers[node] or [], needed - have), node))
        first = -1
        chosen += offers[best] or []
    for unit in sorted(chosen, reverse=True):
        rest = [other for other in chosen if other != unit]
        if total(problem, rest) >= needed:
            chosen = rest
    return total(problem, chosen), flags(problem, chosen)


def flags(problem: Problem, chosen: list[int]) -> list[bool]:
    return [unit in chosen for unit in range(len(problem.units))]


def freed(problem: Problem, chosen: list[int], node: int) -> list[int]:
    free = list(problem.free[node])
    for unit in chosen:
        for r, amount in enumerate(problem.units[unit].get(node, [])):
            free[r] += amount
    return free


def total(problem: Problem, chosen: list[int]) -> int:
    return sum(places(freed(problem, chosen, node), problem.request) for node in range(len(problem.free)))


def price(problem: Problem, chosen: list[int], picks: list[int], left: int) -> float:
    reach = sum(len(problem.units[unit]) for unit in picks)
    gain = 1 if reach > WIDE * len(picks) else total(problem, chosen + picks) - total(problem, chosen)
    return sum(problem.cost[unit] for unit in picks) / min(gain, left)


def offer(problem: Problem, chosen: list[int], node: int) -> list[int] | None:
    """Units that make room for one more task on a node, the best value first; None: nothing does."""
    free = freed(problem, chosen, node)
    target = places(free, problem.request) + 1
    missing = [target * asked - have if asked > 0 else 0 for asked, have in zip(problem.request, free, strict=True)]
    picks: list[int] = []
    while any(amount > 0 for amount in missing):
        here = [
            unit
            for unit, held in enumerate(problem.units)
            if node in held and unit not in chosen and unit not in picks and problem.cost[unit] != float("inf")
        ]
        value = {unit: worth(problem, unit, node, missing) for unit in here}
        useful = [unit for unit in here if value[unit] < float("inf")]
        if not useful:
            return None
        best = min(useful, key=lambda unit: (value[unit], unit))
        picks.append(best)
        missing = [amount - held for amount, held in zip(missing, problem.units[best][node], strict=True)]
    return without_needless(problem, picks, node, missing)


def worth(problem: Problem, unit: int, node: int, missing: list[int]) -> float:
    use = sum(
        min(held, amount) / amount
        for held, amount in zip(problem.units[unit][node], missing, strict=True)
        if amount > 0
    )
    return problem.cost[unit] / use if use > 0 else float("inf")


def without_needless(problem: Problem, picks: list[int], node: int, missing: list[int]) -> list[int]:
    while True:
        needless = [
            unit
            for unit in picks
            if all(
                asked <= 0 or amount + held <= 0
                for asked, amount, held in zip(problem.request, missing, problem.units[unit][node], strict=True)
            )
        ]
        if not needless:
            return picks
        worst = max(needless, key=lambda unit: (problem.cost[unit], -picks.index(unit)))
        missing = [amount + held for amount, held in zip(missing, problem.units[worst][node], strict=True)]
        picks = [unit for unit in picks if unit != worst]
