"""What queues have had in the past: resource-seconds over a window, the older the less they count.

Kept by the scheduler from one cycle to the next, if a plugin asks for it (`Plugin.history`), and handed to sessions as
`Session.usage`: per queue and resource, the part of the cluster that the queue held, between 0 and 1. Between two
cycles queues hold what they had when the first one ended. A queue holds what the queues below it hold.
It lives in memory: after a restart counting begins anew.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.framework import Registry, SchedulerConfig, UsageHistory
from muster.snapshot import Snapshot

#: Queue and resource; the queue "" stands for the capacity of the cluster.
_Key = tuple[str, str]
_CAPACITY: Final = ""
#: The window moves on in steps of this part of it.
_STEPS: Final = 128


@dataclass(slots=True)
class _Stretch:
    """A part of the window: what was held in it, in resource-seconds as they count at its end."""

    start: float
    end: float
    sums: dict[_Key, float] = field(default_factory=dict)


class UsageMeter:
    """Adds up what queues hold while time passes."""

    def __init__(self, history: UsageHistory) -> None:
        self._window = history.window_s
        self._half_life = history.half_life_s
        self._held: dict[_Key, int] = {}
        self._stretches: deque[_Stretch] = deque()
        #: The sum of all stretches, as they count at `_at`.
        self._sums: dict[_Key, float] = {}
        self._at: float | None = None

    def advance(self, now: float) -> None:
        """Let time pass; queues hold what they held. A clock that goes back is waited for."""
        if self._at is None or now - self._at > self._window:
            # What is older than the window is of no interest.
            self._stretches.clear()
            self._sums.clear()
            self._at = now if self._at is None else now - self._window
        while self._at < now:
            step = min(now - self._at, self._window / _STEPS)
            self._pass(self._at, now if now - self._at <= step else self._at + step)

    def hold(self, snapshot: Snapshot) -> None:
        """From now on, queues hold what the snapshot says."""
        axis, queues = snapshot.axis, snapshot.queues
        self._held = {(_CAPACITY, name): amount for name, amount in axis.amounts(snapshot.total()).items()}
        for row, record in enumerate(queues.records):
            for name, amount in axis.amounts(queues.tree_allocated[row]).items():
                self._held[record.name, name] = amount

    def fractions(self) -> Mapping[str, Mapping[str, float]]:
        """Per queue and resource: what it had, in parts of what there was."""
        found: dict[str, dict[str, float]] = {}
        for (queue, name), amount in sorted(self._sums.items()):
            there_was = self._sums.get((_CAPACITY, name), 0.0)
            if queue != _CAPACITY and there_was > 0:
                found.setdefault(queue, {})[name] = amount / there_was
        return found

    def _pass(self, start: float, end: float) -> None:
        """Add what is held between two moments that are near to each other, and forget what has left the window."""
        fading = self._fading(end - start)
        seconds = self._counted_seconds(end - start)
        stretch = self._stretch(start)
        for sums in (self._sums, stretch.sums):
            for key in sums:
                sums[key] *= fading
            for key, amount in self._held.items():
                sums[key] = sums.get(key, 0.0) + amount * seconds
        stretch.end = end
        self._at = end
        while self._stretches and self._stretches[0].end <= end - self._window:
            self._forget(self._stretches.popleft(), end)

    def _stretch(self, start: float) -> _Stretch:
        """The stretch that a moment belongs to, a new one when the last is long enough."""
        if not self._stretches or start - self._stretches[-1].start >= self._window / _STEPS:
            self._stretches.append(_Stretch(start, start))
        return self._stretches[-1]

    def _forget(self, stretch: _Stretch, now: float) -> None:
        fading = self._fading(now - stretch.end)
        still_there = {key for known in self._stretches for key in known.sums}
        for key, amount in stretch.sums.items():
            if key in still_there:
                self._sums[key] = max(0.0, self._sums[key] - amount * fading)
            else:
                del self._sums[key]

    def _fading(self, seconds: float) -> float:
        """What one resource-second counts after a while."""
        return 1.0 if self._half_life is None else math.exp2(-seconds / self._half_life)

    def _counted_seconds(self, seconds: float) -> float:
        """How many seconds a stretch counts at its end: its later seconds count more than its earlier ones."""
        if self._half_life is None:
            return seconds
        return self._half_life / math.log(2) * -math.expm1(-seconds / self._half_life * math.log(2))


def meter_for(config: SchedulerConfig, registry: Registry) -> UsageMeter | None:
    """A meter for the first configured plugin that asks for one; None: nobody does."""
    asked = [plugin.history for plugin in registry.make_plugins(config)]
    history = next((found for found in asked if found is not None), None)
    return None if history is None else UsageMeter(history)
