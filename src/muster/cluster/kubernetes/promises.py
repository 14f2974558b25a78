"""Room is promised before it is made: evictions wait for the nominations of those they make room for.

A scheduler that dies between the two must leave a nomination without an eviction, which the next one takes back, rather
than an eviction without a beneficiary. So every nomination of a job stands before the first eviction for it is sent;
and when one of them is refused, nobody leaves: the gang is not what the plan was made for. Made in the scheduler's
thread, settled in the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from muster.cluster.kubernetes.lanes import Later, Send


class Promise:
    """The nominations of one job in one cycle."""

    def __init__(self) -> None:
        self._n_open = 0
        self._n_refused = 0
        self._settled = asyncio.Event()

    def with_one_more(self, nominate: Callable[[], Awaitable[str]]) -> Send:
        """Count a nomination in; returns the sending that tells the evictions how it went."""
        self._n_open += 1

        async def counted() -> str:
            error = "it broke off"
            try:
                error = await nominate()
            finally:
                self._n_open -= 1
                self._n_refused += bool(error)
                if not self._n_open:
                    self._settled.set()
            return error

        return counted

    def before(self, send: Send) -> Send:
        """Return the sending that waits for the promise, and is dropped when it could not be given."""

        async def evict() -> str | Later:
            if self._n_open:
                return Later(self._settled.wait)
            return await self.error() or await send()

        return evict

    async def error(self) -> str:
        """What is wrong with it, "" if nothing, when all are answered."""
        if self._n_open:
            await self._settled.wait()
        return "not all of those it would make room for could be nominated" if self._n_refused else ""
