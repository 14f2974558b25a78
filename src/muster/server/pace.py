"""How long to rest between cycles: briefly where they bring something, longer where they only take time from others.

So do controllers between rounds of planning: longer where what is planned now would only join the line.

A cycle costs the other threads the processor and, on a small machine, the API server, too. Two things say that the
next one can wait a moment: that those before decided nothing although news kept coming (the pods of a large gang are
being made one by one), and that the server is slow to answer (what is decided now only joins the line). A first cycle
after calm never waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: The least pause between cycles, so that events that belong together are seen together.
LEAST_S: Final = 0.02
#: The longest that one which follows from fruitless cycles may be, and one which follows from slow answers.
_LONGEST_S: Final = 0.16
_LONGEST_FOR_ANSWERS_S: Final = 0.4
#: After so many fruitless cycles in a row, more of them make no difference.
_LONGEST_RUN: Final = 10
#: Of the time that passes, cycles take at most about this part while events pour in.
_BUSY_PART: Final = 0.25
#: So many times as long as an answer takes is rested.
_ANSWERS: Final = 3.0
#: The part that each answer has in what is known of the last ones, and for how many seconds that counts.
_NEW: Final = 0.1
_ANSWERS_COUNT_S: Final = 1.0
#: After so many seconds without a cycle the next one is the first again.
_CALM_S: Final = 0.1
#: The same for rounds of planning: the least pause while many plans are under way, and after a round that took long (a
#: Job has thousands of pods) so many times as long, up to a limit.
_LEAST_WHEN_BUSY_S: Final = 0.1
_PLANS: Final = 4.0
_LONGEST_AFTER_PLANS_S: Final = 0.25


def planning_pause_s(took_s: float, *, is_busy: bool) -> float:
    """How long controllers wait after a round of planning; `is_busy`: many plans are under way."""
    return max(_LEAST_WHEN_BUSY_S if is_busy else LEAST_S, min(took_s * _PLANS, _LONGEST_AFTER_PLANS_S))


class Pace:
    """The rests of one scheduler. `answered` may be called from another thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answer_s = 0.0
        self._answered_at = -_ANSWERS_COUNT_S
        self._n_fruitless = 0
        #: Until when the last rest was to last.
        self._rested_at = 0.0

    def answered(self, method: str, seconds: float) -> None:
        """A request was answered after so long; only changes count, since lists take as long as they are."""
        if method != "GET":
            self._answer_s += (seconds - self._answer_s) * _NEW
            self._answered_at = self._clock()

    def rest_s(self, cycle_s: float, *, is_fruitful: bool) -> float:
        """How long to rest after a cycle that has just ended, and took so long."""
        now = self._clock()
        if is_fruitful or now - cycle_s - self._rested_at > _CALM_S:
            self._n_fruitless = 0
        rest = min(LEAST_S * float(1 << min(self._n_fruitless, _LONGEST_RUN)), _LONGEST_S)
        if now - self._answered_at < _ANSWERS_COUNT_S:
            rest = max(rest, min(self._answer_s * _ANSWERS, _LONGEST_FOR_ANSWERS_S))
        self._n_fruitless += not is_fruitful
        rest = max(rest, cycle_s * (1 - _BUSY_PART) / _BUSY_PART)
        self._rested_at = now + rest
        return rest
