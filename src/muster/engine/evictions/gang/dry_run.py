"""Dry runs for a gang: evict in the statement, place the gang at the one door, note what would be, undo everything.

Also the two searches over lists of victims that need nothing but dry runs: the shortest prefix, and what goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muster.engine.evictions.gang.need import GangNeed
from muster.engine.placing import EVERYWHERE, Goal, Scope, door_of
from muster.framework import Session
from muster.snapshot import Operation, Rows, Statement

#: Victims -> whether the beneficiary has a place when they are gone.
Works = Callable[[Rows], bool]


class DryRun:
    """Tries victims for one beneficiary; its statement is as it was after every trial."""

    def __init__(self, session: Session, need: GangNeed, statement: Statement, goal: Goal = Goal.START) -> None:
        self._session = session
        self._goal = goal
        self._door = door_of(session)
        self._need = need
        self._statement = statement

    def anywhere(self) -> list[Operation] | None:
        """Placements without any victim, in the best domain that has room; None: there is none."""
        return self._try(self._need.tasks[:0], EVERYWHERE)

    def within(self, domain: int, victims: Rows) -> list[Operation] | None:
        """Placements inside a domain when the victims are gone; None: the beneficiary does not fit."""
        return self._try(victims, Scope(domain))

    def _try(self, victims: Rows, scope: Scope) -> list[Operation] | None:
        """Note what would be placed without the victims, and undo everything."""
        need, statement = self._need, self._statement
        self._session.tally.dry_runs += 1
        mark = statement.mark()
        if len(victims):
            statement.evict(victims, need.job)
        placing = statement.mark()
        outcome = self._door.place(need.job, need.tasks, statement, scope, goal=self._goal)
        placements = statement.operations[placing:]
        statement.rollback(mark)
        return placements if outcome and placements else None

    def queue_has_room(self, victims: Rows) -> bool:
        """Whether the beneficiary's queue may hold every class of what is needed when the victims are gone."""
        session, statement = self._session, self._statement
        queue = int(session.snapshot.jobs.queue[self._need.job])
        mark = statement.mark()
        statement.evict(victims, self._need.job)
        room = all(session.queue_slots(queue, demand.request) >= demand.count for demand in self._need.demands)
        statement.rollback(mark)
        return room


def shortest_prefix(count: int, works: Callable[[int], bool]) -> int | None:
    """The smallest k up to `count` for which `works(k)`, which stays true once it is; None: not even for all.

    Doubling, then halving: a short answer among many units costs few trials.
    """
    low, high = -1, 0
    while not works(high):
        if high == count:
            return None
        low, high = high, min(count, max(1, 2 * high))
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def give_back(units: Sequence[Rows], works: Works) -> list[Rows]:
    """Units that cannot be done without, of a list that works; the last ones are the dearest and go back first.

    Blocks are tried before their halves, so that many needless units cost few trials.
    """
    kept: list[Rows] = list(units)

    def tried(lo: int, hi: int) -> None:
        """Try to give units lo..hi back; those after them are settled."""
        without = [*kept[:lo], *kept[hi:]]
        if works(_joined(without)):
            kept[lo:hi] = [_NOBODY] * (hi - lo)
        elif hi - lo > 1:
            middle = (lo + hi) // 2
            tried(middle, hi)
            tried(lo, middle)

    if kept:
        tried(0, len(kept))
    return [unit for unit in kept if len(unit)]


_NOBODY: Rows = np.empty(0, np.int32)


def _joined(units: Sequence[Rows]) -> Rows:
    tasks: Rows = np.concatenate(units) if units else _NOBODY
    return tasks
