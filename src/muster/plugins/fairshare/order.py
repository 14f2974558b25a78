"""Whose turn it is among sibling queues, by their fair shares.

Keys are plain tuples, so the order is total: queues within their fair share, queues that stay within their quota with
the job in question, higher priority, queues that touch nothing they have no share of, the smaller part of what they
may keep (with the job, or without the victims that leave), the smaller part as it is, and the smaller entitlement.
KAI compares entitlements only where one is smaller in every resource, else by age, which can run in circles; here
the first resource that differs decides. Age and name come last and are added by the session.
Keys are asked for very often; nothing here allocates more than the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster.plugins.fairshare.tree import FairShares
from muster.snapshot import UNLIMITED

#: How much a whole unit weighs that a queue holds without any share of the resource.
_NO_SHARE_PENALTY: Final = 1000

TurnKey = tuple[bool, bool, int, bool, float, float, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Entitled:
    """One queue's entitlements, as plain numbers."""

    #: Column, quota, what makes one whole, and whether the queue has any share.
    columns: list[tuple[int, int, float, bool]]
    #: Column and fair share of the resources that must all be exceeded.
    core: list[tuple[int, int]]
    #: What it may keep, in column order.
    keeps: tuple[int, ...]


class QueueTurns:
    """The order of queues for one session."""

    def __init__(self, shares: FairShares, priorities: Sequence[int]) -> None:
        self._shares = shares
        self._priorities = priorities
        self._keeps = shares.allocatable()
        #: Of queues that somebody asked about, made when first asked.
        self._known: dict[int, _Entitled] = {}

    def key(self, queue: int, held: Sequence[int], wanted: Sequence[int], leaving: Sequence[int]) -> TurnKey:
        """Where a queue stands that holds `held`, with a job that wants `wanted` and victims that hold `leaving`."""
        mine = self._known.get(queue) or self._entitled(queue)
        beyond_quota = trespasses = False
        now = later = 0.0
        for column, quota, whole, has_share in mine.columns:
            have = held[column]
            with_job = have + wanted[column]
            beyond_quota = beyond_quota or with_job > quota
            trespasses = trespasses or (with_job > 0 and not has_share)
            now = max(now, have / whole)
            later = max(later, (with_job - leaving[column]) / whole)
        over = bool(mine.core) and all(held[column] > fair for column, fair in mine.core)
        return over, beyond_quota, -self._priorities[queue], trespasses, later, now, mine.keeps

    def dominant_share(self, queue: int, held: Sequence[int]) -> float:
        """How much of what it may keep a queue has, of the resource it has most of."""
        mine = self._known.get(queue) or self._entitled(queue)
        return max((held[column] / whole for column, _, whole, _ in mine.columns), default=0.0)

    def _entitled(self, queue: int) -> _Entitled:
        shares = self._shares
        keeps: list[int] = self._keeps[queue].tolist()
        quota: list[int] = shares.quota[queue].tolist()
        columns = [
            (column, quota[column], self._whole(column, keeps[column]), keeps[column] > 0) for column in shares.columns
        ]
        core = [(column, int(shares.fair[queue, column])) for column in shares.core]
        known = self._known[queue] = _Entitled(columns, core, tuple(keeps[column] for column in shares.columns))
        return known

    def _whole(self, column: int, keeps: int) -> float:
        """What makes one whole of a resource; an amount without any share of it counts a thousandfold."""
        whole = int(self._shares.total[column]) if keeps >= UNLIMITED else keeps
        return whole or int(self._shares.units[column]) / _NO_SHARE_PENALTY
