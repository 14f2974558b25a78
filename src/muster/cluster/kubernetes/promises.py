"""Requests that wait for others: room is promised before it is made, and made whole or not at all.

A scheduler that dies between the two must leave a nomination without an eviction, which the next one takes back, rather
than an eviction without a beneficiary. And where a disruption budget may keep one of the pods that have to leave, the
others must not leave for nothing: those that budgets guard go first. Made in the scheduler's thread, settled in the
event loop. Those who wait must be submitted after those they wait for, or they would take up all workers of the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

#: Sends something; the answer is "" or what is wrong.
Send = Callable[[], Awaitable[str]]


class _Round:
    """Requests of one cycle for one job."""

    def __init__(self) -> None:
        self._n_open = 0
        self._n_worked = 0
        self._n_refused = 0
        self._settled = asyncio.Event()

    def with_one_more(self, send: Send) -> Send:
        """Count a request in; returns the sending that tells the others how it went."""
        self._n_open += 1

        async def counted() -> str:
            error = "it broke off"
            try:
                error = await send()
            finally:
                self._n_open -= 1
                self._n_worked += not error
                self._n_refused += bool(error)
                if not self._n_open:
                    self._settled.set()
            return error

        return counted

    async def _settle(self) -> None:
        if self._n_open:
            await self._settled.wait()


class Promise(_Round):
    """The nominations of one job in one cycle."""

    def before(self, send: Send) -> Send:
        """Return the sending that waits for the promise, and is dropped when nobody could be promised anything."""

        async def evict() -> str:
            await self._settle()
            return await send() if self._n_worked else "none of those it would make room for could be nominated"

        return evict


class Clearance(_Round):
    """The evictions for one job in one cycle that disruption budgets have a say in.

    Those of earlier cycles that are not answered yet count too: the scheduler takes it that those pods leave.
    """

    def __init__(self, earlier: Clearance | None = None) -> None:
        super().__init__()
        self._earlier = earlier

    def before(self, send: Send) -> Send:
        """Return the eviction that waits for them, and is dropped when one of them was refused."""

        async def evict() -> str:
            return await send() if await self.is_given() else "another pod that would have to leave as well may not"

        return evict

    async def is_given(self) -> bool:
        """Whether none of them was refused, when all are answered."""
        await self._settle()
        return not self._n_refused and (self._earlier is None or await self._earlier.is_given())


class Clearances:
    """What is not answered yet, by the job for which room is made. In the scheduler's thread only."""

    def __init__(self) -> None:
        self._open: dict[str, list[Clearance]] = {}

    def next_for(self, job: str) -> Clearance:
        """The clearance of another cycle."""
        earlier = self._open.get(job)
        return Clearance(earlier[-1] if earlier else None)

    def open(self, job: str, clearance: Clearance) -> None:
        """One more of its evictions has been asked for."""
        self._open.setdefault(job, []).append(clearance)

    def close(self, job: str, clearance: Clearance) -> None:
        """One of its evictions was answered, and the scheduler will hear of it."""
        self._open[job].remove(clearance)
        if not self._open[job]:
            del self._open[job]
