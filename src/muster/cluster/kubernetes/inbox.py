"""What happened since the scheduler last asked: events of the watches and answers to what was sent.

Written by the event loop, read by the scheduler's thread. Nobody waits for anybody: taking is a swap under a lock.
News that can change no decision (a pod has started, a status that we wrote ourselves) wakes the reader too, but only
after a while, so that it comes together with more of its kind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from muster.snapshot.messages import Event

Settle = Callable[[], None]

#: How long news that is not urgent may wait for company, in seconds.
CALM_SECONDS: Final = 0.5


class Inbox:
    """Events and answers that wait to be read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._answers: list[Settle] = []
        self._arrived = threading.Event()
        self._pressing = threading.Event()

    def put_events(self, events: Sequence[Event], *, is_urgent: bool = True) -> None:
        with self._lock:
            self._events.extend(events)
        self._ring(is_urgent=is_urgent)

    def put_answer(self, settle: Settle, *, is_urgent: bool = True) -> None:
        """Leave something for the scheduler's thread to do."""
        with self._lock:
            self._answers.append(settle)
        self._ring(is_urgent=is_urgent)

    def take(self) -> tuple[list[Event], list[Settle]]:
        """Return everything, and forget it."""
        with self._lock:
            self._arrived.clear()
            self._pressing.clear()
            events, self._events = self._events, []
            answers, self._answers = self._answers, []
        return events, answers

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to take; False when nothing came in time."""
        if not self._arrived.wait(timeout_s):
            return False
        self._pressing.wait(CALM_SECONDS)
        return True

    def _ring(self, *, is_urgent: bool) -> None:
        if is_urgent:
            self._pressing.set()
        self._arrived.set()
