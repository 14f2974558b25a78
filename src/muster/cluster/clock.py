"""Time that moves only when told to, and an agenda of what happens when.

Things due at the same moment happen in the order they were put down,
so a run depends on its input alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

T = TypeVar("T")
#: Objects can carry no moment outside of these, in seconds since the epoch: 1970 and the end of 9998.
_FIRST: Final = 0.0
_LAST: Final = 253_370_764_799.0


def within_calendar(seconds: float) -> float:
    """The moment, or the nearest one that objects can carry: somebody's object may come from year 1 or 9999."""
    return min(max(seconds, _FIRST), _LAST)


def stamp_of(seconds: float) -> datetime:
    """A moment as objects carry it."""
    return datetime.fromtimestamp(within_calendar(seconds), UTC)


class VirtualClock:
    """Seconds since the epoch, by hand."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def stamp(self) -> datetime:
        """The present moment as objects carry it."""
        return stamp_of(self._now)

    def move_to(self, moment: float) -> None:
        """Set the clock; it never goes back."""
        self._now = max(self._now, moment)

    def advance(self, seconds: float) -> None:
        """Move the clock on by some seconds."""
        self.move_to(self._now + seconds)


class Agenda(Generic[T]):
    """What happens when."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._put_down = 0

    def add(self, at: float, happening: T) -> None:
        """Put something down for a moment."""
        heapq.heappush(self._heap, (at, self._put_down, happening))
        self._put_down += 1

    def next_at(self) -> float | None:
        """When the next thing is due; None when nothing is."""
        return self._heap[0][0] if self._heap else None

    def play(self, clock: VirtualClock, until: float, happen: Callable[[T], None]) -> None:
        """Let everything happen that is due by `until`, each at its own moment, then set the clock to it."""
        while self._heap and self._heap[0][0] <= until:
            at, _, happening = heapq.heappop(self._heap)
            clock.move_to(at)
            happen(happening)
        clock.move_to(until)
