"""Weighted water filling in exact integers: divide one resource among queues by weight, within bounds.

Called by the proportion plugin once per resource when a session opens. The result never depends on the order
of the queues, never exceeds the total (unless the floors alone do), and what rounding leaves over (less than
one unit per queue) is given to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence


def water_fill(total: int, weights: Sequence[int], floors: Sequence[int], caps: Sequence[int]) -> list[int]:
    """Divide `total` by weight so that every part lies between its floor and its cap (a floor wins).

    As in Volcano, each queue first gets its plain weighted part within its bounds, and what is left is then
    poured on top by weight until caps are reached; a floor above the plain part is therefore not held
    against the queue later. Where the floors push the sum above the total, Volcano promises more than there
    is; here the parts above their floors shrink by weight until the sum fits.
    """
    bounds = [(floor, max(floor, cap)) for floor, cap in zip(floors, caps, strict=True)]
    sum_of_weights = sum(weights)
    if sum_of_weights == 0:
        return [floor for floor, _ in bounds]
    parts = [
        min(max(total * weight // sum_of_weights, floor), cap)
        for weight, (floor, cap) in zip(weights, bounds, strict=True)
    ]
    spare = total - sum(parts)
    if spare < 0:
        return _squeeze(total, weights, bounds)
    return _pour(spare, weights, parts, [cap for _, cap in bounds])


def _pour(spare: int, weights: Sequence[int], parts: list[int], caps: Sequence[int]) -> list[int]:
    """Add `spare` on top of the parts, by weight, none above its cap."""
    open_ = [i for i, weight in enumerate(weights) if weight > 0 and parts[i] < caps[i]]
    while open_ and spare > 0:
        weight = sum(weights[i] for i in open_)
        # The level only rises from here, so whoever is full at the plain division stays full.
        full = [i for i in open_ if (caps[i] - parts[i]) * weight <= spare * weights[i]]
        if not full:
            for i in open_:
                parts[i] += spare * weights[i] // weight
            break
        for i in full:
            spare -= caps[i] - parts[i]
            parts[i] = caps[i]
        open_ = [i for i in open_ if parts[i] < caps[i]]
    return parts


def _squeeze(total: int, weights: Sequence[int], bounds: Sequence[tuple[int, int]]) -> list[int]:
    """Find the level at which the parts, each its weight times the level within its bounds, sum to the total."""
    parts = [floor for floor, _ in bounds]
    if sum(parts) >= total:
        return parts
    open_ = list(range(len(weights)))
    left = total
    while open_:
        weight = sum(weights[i] for i in open_)
        if weight == 0:
            break
        # Amounts times `weight`, so that nothing is rounded while deciding.
        below = {i: gap for i in open_ if (gap := bounds[i][0] * weight - left * weights[i]) > 0}
        above = {i: gap for i in open_ if (gap := left * weights[i] - bounds[i][1] * weight) > 0}
        if not below and not above:
            for i in open_:
                parts[i] = left * weights[i] // weight
            break
        # The side that is further off decides for good: the final level cannot lie on its far side.
        balance = sum(below.values()) - sum(above.values())
        settled = {i: bounds[i][0] for i in below} if balance >= 0 else {}
        if balance <= 0:
            settled.update({i: bounds[i][1] for i in above})
        for i, part in settled.items():
            parts[i] = part
            left -= part
        open_ = [i for i in open_ if i not in settled]
    return parts
