"""The division of resources among sibling queues: quotas first, then what is left over by priority and weight.

Pure functions on columns. A *claim* is one queue's wish for one resource; claims that draw on the same *pot* (what a
parent has of a resource) are divided among each other, all pots of a level of the tree at once. Everybody gets what
its quota and its demand allow, even if that is more than there is. What is left goes to the claims of the highest
priority first, in proportion to their weights among those that want more, in whole units (one GPU, one milli-CPU, one
byte) unless less is wanted. The units that rounding leaves go one by one to the largest remainders, then by rank.
Amounts are exact; the result does not depend on the order of the claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import UNLIMITED, Amounts, Mask, Rows

#: Weights are counted in integers whose sum per pot stays below this, so that products with amounts fit int64.
_WEIGHT_BUDGET: Final = 2**31
#: What weights that are not whole, or too large, are scaled to; leaves room for rounding up.
_SCALED_WEIGHTS: Final = 2.0**30

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claims:
    """What queues want of the pots; one row per queue and resource."""

    #: The pot that a claim draws on.
    pot: Rows
    #: Given before anything is divided, UNLIMITED: as much as the pot holds.
    quota: Amounts
    #: The most that the queue can use: what it asks for, and no more than its limit.
    demand: Amounts
    weight: Weights
    #: What the queue has had in the past, as a fraction of the cluster.
    usage: Weights
    priority: Rows
    #: Who comes first among equals: by age, then by name.
    rank: Rows
    #: Base units in a whole unit.
    unit: Amounts


@dataclass(slots=True)
class _Division:
    """A division on its way."""

    left: Amounts
    share: Amounts
    #: By how much a claim missed its part when that was rounded down, in base units.
    missed: NDArray[np.float64]


def divide(pots: Amounts, claims: Claims, k: float = 0.0) -> tuple[Amounts, Amounts]:
    """Divide pots; return what each claim gets and what is left of each pot.

    `k` says how strongly past usage counts against a claim's weight; 0: not at all.
    """
    quota = np.where(claims.quota >= UNLIMITED, pots[claims.pot], claims.quota)
    share: Amounts = np.minimum(quota, claims.demand)
    left = pots.copy()
    np.subtract.at(left, claims.pot, share)
    return divide_surplus(np.maximum(left, 0), claims, share, k)


def divide_surplus(pots: Amounts, claims: Claims, share: Amounts, k: float = 0.0) -> tuple[Amounts, Amounts]:
    """As `divide`, for what is left after every claim has got `share`."""
    division = _Division(pots.copy(), share.copy(), np.zeros(len(share)))
    wanting = (claims.demand > share) & (claims.weight != 0) & (pots[claims.pot] > 0)
    priorities = np.unique(claims.priority[wanting])[::-1].tolist()
    for priority in priorities:
        _give_by_weight(division, claims, np.flatnonzero(wanting & (claims.priority == priority)), k)
    for priority in priorities:
        _give_remainders(division, claims, wanting & (claims.priority == priority))
    return division.share, division.left


def _give_by_weight(division: _Division, claims: Claims, rows: NDArray[np.intp], k: float) -> None:
    """Give claims of one priority their parts, in rounds: what some do not need goes to the others."""
    while len(rows):
        pot = claims.pot[rows]
        weights, total = _whole_weights(claims, rows, len(division.left), k)
        part, broken = _proportion(division.left[pot], weights, total[pot])
        need = claims.demand[rows] - division.share[rows]
        content = need <= part
        given = np.where(content, need, part - part % claims.unit[rows])
        missed = (part - given) + broken / np.maximum(total[pot], 1)
        # A part that came out even tells nothing about who was rounded down most, so an earlier one stands.
        division.missed[rows] = np.where(content, 0, np.where(missed > 0, missed, division.missed[rows]))
        division.share[rows] += given
        np.subtract.at(division.left, pot, given)
        again = np.zeros(len(division.left), np.bool_)
        again[pot[content & (missed > 0)]] = True
        again &= division.left > 0
        rows = rows[~content & again[pot]]


def _whole_weights(claims: Claims, rows: NDArray[np.intp], n_pots: int, k: float) -> tuple[Amounts, Amounts]:
    """Weights as integers, and their sums per pot; the sums stay below the budget."""
    pot, weight = claims.pot[rows], claims.weight[rows]
    total = np.bincount(pot, weight, n_pots)
    known = total[pot] != 0
    if k:
        part = np.divide(weight, total[pot], out=np.zeros_like(weight), where=known)
        weight = part + k * (part - claims.usage[rows])
    else:
        # A pot whose weights are all negative is divided like one whose weights are all positive.
        weight = np.where(known, weight * np.sign(total[pot]), 0)
    weight = np.maximum(weight, 0)
    total = np.bincount(pot, weight, n_pots)
    odd = np.zeros(n_pots, np.bool_)
    odd[pot[weight != np.floor(weight)]] = True
    odd |= total >= _WEIGHT_BUDGET // 2
    scale = np.divide(_SCALED_WEIGHTS, total, out=np.ones_like(total), where=odd & (total > 0))
    whole = np.maximum(np.rint(weight * scale[pot]), weight > 0).astype(np.int64)
    sums: Amounts = np.zeros(n_pots, np.int64)
    np.add.at(sums, pot, whole)
    return whole, sums


def _proportion(amount: Amounts, weight: Amounts, total: Amounts) -> tuple[Amounts, Amounts]:
    """Return amount x weight / total, rounded down, and what the division leaves; exact, without large products."""
    divisor = np.maximum(total, 1)
    times, rest = np.divmod(amount, divisor)
    part, broken = np.divmod(rest * weight, divisor)
    return times * weight + part, broken


def _give_remainders(division: _Division, claims: Claims, members: Mask) -> None:
    """Give one unit each to the claims that were rounded down most, while there is something left."""
    rows = np.flatnonzero(members & (division.missed > 0) & (division.left[claims.pot] > 0))
    if len(rows) == 0:
        return
    rows = rows[np.lexsort((claims.rank[rows], -division.missed[rows], claims.pot[rows]))]
    pot = claims.pot[rows]
    wish = np.minimum(claims.unit[rows], claims.demand[rows] - division.share[rows])
    before = np.cumsum(wish) - wish
    starts = np.flatnonzero(np.diff(pot, prepend=-1))
    before -= np.repeat(before[starts], np.diff(np.append(starts, len(rows))))
    given = np.clip(division.left[pot] - before, 0, wish)
    division.share[rows] += given
    np.subtract.at(division.left, pot, given)
