"""How long to wait before trying again.

Waits double up to a limit and are shortened at random by up to half, so that clients that lost the same server do not
come back in step. The randomness decides nothing but the moment of a retry.
"""

from __future__ import annotations

from random import SystemRandom
from typing import Final

_RANDOM: Final = SystemRandom()


class Backoff:
    """A growing wait, in seconds."""

    def __init__(self, first_s: float = 0.05, limit_s: float = 5.0) -> None:
        self._first = first_s
        self._limit = limit_s
        self._next = first_s

    def next_s(self, at_least_s: float = 0.0) -> float:
        """The next wait; never shorter than what a server asked for."""
        wait, self._next = self._next, min(self._next * 2, self._limit)
        return max(at_least_s, wait * _RANDOM.uniform(0.5, 1.0))

    def reset(self) -> None:
        """It worked: the next trouble starts with a short wait again."""
        self._next = self._first
