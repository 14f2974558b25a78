"""Whether those for whom room is made still need it.

An eviction may wait for seconds: for a promise, for a disruption budget. If its beneficiary was deleted meanwhile, or
has found room elsewhere, nobody has to leave any more. The scheduler's thread looks with every poll; errands ask in the
event loop, before every attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NOT_NEEDED: Final = "nobody needs the room any more"


class Beneficiary:
    """A job for which evictions are under way."""

    def __init__(self) -> None:
        self.n_open = 0
        #: Written by the scheduler's thread, read by the event loop.
        self.is_waiting = True

    def needs_room(self) -> bool:
        """Whether anybody would have to leave for it."""
        return self.is_waiting


class Beneficiaries:
    """All of them, by job. In the scheduler's thread only."""

    def __init__(self) -> None:
        self._known: dict[str, Beneficiary] = {}

    def of(self, job: str) -> Beneficiary:
        """The job, for which evictions are about to be asked for; so it waits."""
        known = self._known.setdefault(job, Beneficiary())
        known.is_waiting = True
        return known

    def open(self, job: str) -> Beneficiary:
        """One more eviction for a job is asked for."""
        known = self.of(job)
        known.n_open += 1
        return known

    def close(self, job: str) -> None:
        """One of them was answered."""
        known = self._known[job]
        known.n_open -= 1
        if not known.n_open:
            del self._known[job]

    def look(self, is_waiting: Callable[[str], bool]) -> None:
        """Find out which of them still wait."""
        for job, known in self._known.items():
            known.is_waiting = is_waiting(job)
