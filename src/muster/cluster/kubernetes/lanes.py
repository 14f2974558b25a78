"""Requests on their way: a bounded number at once, in the order given.

Urgent ones (binding, evicting, nominating) and others (statuses, conditions) go in lanes of their own, so that no
binding waits behind a report; while many urgent ones are under way, reports wait, and later trickle: they take the
server's time from what somebody waits for. A report that has not been sent yet is replaced by a newer one about the
same thing.
An errand that has to wait for something says so (`Later`); it takes up no worker meanwhile and keeps no lane busy.
Lanes live in the backend's event loop; `submit` is called from other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

log = logging.getLogger("muster.kubernetes")

#: How long a lane lets another one go first, and how often it looks whether it still has to.
_PATIENCE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05
#: Between two errands of a lane that has waited that long while the other one is busy still.
_TRICKLE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Later:
    """Not now: run me again when this is over."""

    until: Callable[[], Awaitable[object]]


#: Sends something; the answer is "" or what is wrong.
Send = Callable[[], Awaitable[str | Later]]


@dataclass(frozen=True, slots=True)
class Errand:
    """Something to send."""

    #: What it is about; a newer errand takes the place of a waiting one.
    about: Hashable
    run: Send
    #: Told the answer, in the event loop.
    done: Callable[[str], None]


class Lane:
    """Workers that take errands one by one."""

    def __init__(self, name: str, n_workers: int, first: Lane | None = None) -> None:
        #: The lane that goes first.
        self._first = first
        self._n_workers = n_workers
        #: While the other lane is busy: when one errand may go all the same.
        self._next_at: float | None = None
        self._n_submitted = 0
        self._n_settled = 0
        #: Errands that wait for something else than a worker.
        self._put_off: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Hashable, Errand] = {}
        self._order: asyncio.Queue[Hashable] = asyncio.Queue()
        self._workers = [self._loop.create_task(self._work(), name=f"{name}-{number}") for number in range(n_workers)]

    def submit(self, errands: Sequence[Errand]) -> None:
        """Take errands up; from any thread, but always the same one. They are dropped when the loop has ended."""
        self._n_submitted += len(errands)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, errands)

    def is_busy(self) -> bool:
        """Whether more than half of the workers have something to do; from any thread."""
        return self._n_submitted - self._n_settled - len(self._put_off) > self._n_workers // 2

    async def drain(self) -> None:
        """Wait until everything that was submitted is answered."""
        await self._order.join()

    async def stop(self) -> None:
        """Drop what is waiting and end the workers."""
        tasks = [*self._workers, *self._put_off]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, errands: Sequence[Errand]) -> None:
        for errand in errands:
            if errand.about in self._waiting:
                self._n_settled += 1
            else:
                self._order.put_nowait(errand.about)
            self._waiting[errand.about] = errand

    async def _work(self) -> None:
        while True:
            about = await self._order.get()
            await self._give_way()
            errand = self._waiting.pop(about)
            answer: str | Later
            try:
                answer = await errand.run()
            except Exception as fault:  # noqa: BLE001  # a bug in one errand must not take the worker along
                answer = _broken(errand, fault)
            if isinstance(answer, Later):
                task = self._loop.create_task(self._resume(errand, answer))
                self._put_off.add(task)
                task.add_done_callback(self._put_off.discard)
            else:
                self._settle(errand, answer)

    def _settle(self, errand: Errand, answer: str) -> None:
        self._n_settled += 1
        errand.done(answer)
        self._order.task_done()

    async def _resume(self, errand: Errand, later: Later) -> None:
        """Put an errand back in line when what it waits for is over."""
        try:
            await later.until()
        except Exception as fault:  # noqa: BLE001  # whatever broke, the errand needs an answer
            self._settle(errand, _broken(errand, fault))
            return
        if errand.about in self._waiting:
            self._n_settled += 1  # a newer one has taken its place
        else:
            self._waiting[errand.about] = errand
            self._order.put_nowait(errand.about)
        self._order.task_done()  # after the line has it again: whoever drains the lane must not miss it

    async def _give_way(self) -> None:
        """Wait while the other lane is busy; if that takes too long, let one go now and then."""
        while self._first is not None and self._first.is_busy():
            moment = self._loop.time()
            if self._next_at is None:
                self._next_at = moment + _PATIENCE_SECONDS
            if moment >= self._next_at:
                self._next_at = moment + _TRICKLE_SECONDS
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self._next_at = None


def _broken(errand: Errand, fault: Exception) -> str:
    log.error("event=error errand=%r", errand.about, exc_info=fault)
    return f"{type(fault).__name__}: {fault}"
