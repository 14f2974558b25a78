"""The two ways between the scheduler's thread and the API thread. Nobody waits for anybody.

`RequestQueue` takes requests there: a bounded number at once, in the order given. Urgent ones (binding, evicting,
nominating) and others (statuses, conditions) have queues of their own, so that no binding waits behind a report; while
many urgent ones are under way, reports wait, and later trickle: they take the server's time from what somebody waits
for. Those that nobody acts upon (`is_patient`) wait until no urgent one is under way; if that goes on, they are sent at
the pace at which they come, some seconds late, or more (`patience_s`) if only we read them. A report that has not been
sent yet is replaced by a newer one about the same thing, for which those that say how things are at the moment
(`is_passing`) wait a little: the pods of a gang start and end one by one, and one word on all is enough. A request that
has to wait for something says so (`Later`); it takes up no worker meanwhile and keeps no queue busy.
`Inbox` brings back what happened since the scheduler last asked: events of the watches and answers to what was sent.
What can change no decision (a pod has started, a status that we wrote ourselves) wakes the reader too, but only after a
while, so that it comes together with more of its kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.snapshot.messages import Event

log = logging.getLogger("muster.kubernetes")

#: How long a queue yields to another one, and how often it looks whether it still has to.
_PATIENCE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05
#: Between two requests of a queue that has waited that long while the other one is busy still.
_TRICKLE_SECONDS: Final = 0.2
#: For how long a passing request waits for a newer one; with each that comes anew, though not for longer than patience.
_SETTLE_SECONDS: Final = 1.0
#: For how long after the last request more of them are expected.
_LINGER_SECONDS: Final = 0.2
#: How long what is not urgent may wait for company, in seconds.
CALM_SECONDS: Final = 0.5

Settle = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Later:
    """Not now: run me again when this is over."""

    until: Callable[[], Awaitable[object]]


#: Sends something; the answer is "" or what is wrong.
Send = Callable[[], Awaitable[str | Later]]


@dataclass(frozen=True, slots=True)
class Request:
    """Something to send."""

    #: What it is about; a newer request takes the place of a waiting one.
    about: Hashable
    run: Send
    #: Told the answer, in the event loop.
    done: Callable[[str], None]
    #: Whether it may wait until the queue that its own yields to is still.
    is_patient: bool = False
    #: Whether a patient one may soon be out of date, and so waits for a newer one.
    is_passing: bool = False
    #: How long a patient one waits beyond the time that all have, in seconds.
    patience_s: float = 0.0


@dataclass(slots=True)
class _Patience:
    """How long a patient request waits for a newer one at most, and if none comes any more."""

    at_most: float
    #: Until when it gives way to the other queue in any case.
    yields_until: float
    until: float = 0.0

    def look_at(self, request: Request, now: float) -> None:
        """A request has come, the first or a newer one."""
        self.until = min(self.at_most, now + _SETTLE_SECONDS if request.is_passing else now)


class RequestQueue:
    """Workers that take requests one by one."""

    def __init__(self, name: str, n_workers: int, yields_to: RequestQueue | None = None) -> None:
        self._yields_to = yields_to
        self._n_workers = n_workers
        #: While the other queue is busy: when one request may go all the same.
        self._next_at: float | None = None
        self._n_submitted = 0
        self._n_settled = 0
        self._settled_at = -_LINGER_SECONDS
        #: Requests that wait for something else than a worker.
        self._put_off: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Hashable, Request] = {}
        self._order: asyncio.Queue[Hashable] = asyncio.Queue()
        #: What waits with patience, in order.
        self._patient: dict[Hashable, _Patience] = {}
        self._is_ending = False
        self._has_patient = asyncio.Event()
        self._pacing = self._loop.create_task(self._let_go(), name=f"{name}-patient")
        self._workers = [self._loop.create_task(self._work(), name=f"{name}-{number}") for number in range(n_workers)]

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests up; from any thread, but always the same one. They are dropped when the loop has ended."""
        if not requests:
            return  # waking the loop costs more than most requests do
        self._n_submitted += len(requests)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, requests)

    def is_busy(self) -> bool:
        """Whether more than half of the workers have something to do; from any thread."""
        return self._n_submitted - self._n_settled - len(self._put_off) > self._n_workers // 2

    def is_still(self) -> bool:
        """Whether nothing is under way, nor has been a moment ago; inside the loop."""
        is_empty = self._n_submitted - self._n_settled - len(self._put_off) <= 0
        return is_empty and self._loop.time() - self._settled_at >= _LINGER_SECONDS

    async def drain(self) -> None:
        """Wait until everything that was submitted is answered."""
        self._is_ending = True
        while self._patient:
            await asyncio.sleep(_LOOK_SECONDS)
        await self._order.join()

    async def stop(self) -> None:
        """Drop what is waiting and end the workers."""
        tasks = [*self._workers, self._pacing, *self._put_off]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, requests: Sequence[Request]) -> None:
        moment = self._loop.time()
        for request in requests:
            is_patient = request.is_patient and self._yields_to is not None
            if request.about in self._waiting:
                self._n_settled += 1
                if (patience := self._patient.get(request.about)) is not None:
                    if is_patient:
                        patience.look_at(request, moment)
                    else:
                        self._put_in_line([request.about])
            elif is_patient:
                self._patient[request.about] = patience = _Patience(
                    moment + _PATIENCE_SECONDS, moment + request.patience_s
                )
                patience.look_at(request, moment)
                self._has_patient.set()
            else:
                self._order.put_nowait(request.about)
            self._waiting[request.about] = request

    def _put_in_line(self, patient: Sequence[Hashable]) -> None:
        for about in patient:
            del self._patient[about]
            self._order.put_nowait(about)

    async def _let_go(self) -> None:
        """Put what has waited for its like in line: all when the other queue is still, else so many as keep pace."""
        patience_ends: float | None = None
        while True:
            await self._has_patient.wait()
            moment = self._loop.time()
            ripe = [about for about, each in self._patient.items() if each.until <= moment or self._is_ending]
            if self._yields_to is None or self._yields_to.is_still():
                patience_ends = None
                self._put_in_line(ripe)
            elif patience_ends is None:
                patience_ends = moment + _PATIENCE_SECONDS
            elif moment >= patience_ends and self._order.empty():
                is_ending = self._is_ending
                tired = {about for about, each in self._patient.items() if each.yields_until <= moment or is_ending}
                n_due = max(1, round(len(tired) * _LOOK_SECONDS / _PATIENCE_SECONDS))
                self._put_in_line([about for about in ripe if about in tired][:n_due])
            if not self._patient:
                self._has_patient.clear()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _work(self) -> None:
        while True:
            about = await self._order.get()
            await self._give_way()
            request = self._waiting.pop(about)
            answer: str | Later
            try:
                answer = await request.run()
            except Exception as fault:  # noqa: BLE001  # a bug in one request must not take the worker along
                answer = _broken(request, fault)
            if isinstance(answer, Later):
                task = self._loop.create_task(self._resume(request, answer))
                self._put_off.add(task)
                task.add_done_callback(self._put_off.discard)
            else:
                self._settle(request, answer)

    def _settle(self, request: Request, answer: str) -> None:
        self._n_settled += 1
        self._settled_at = self._loop.time()
        request.done(answer)
        self._order.task_done()

    async def _resume(self, request: Request, later: Later) -> None:
        """Put a request back in line when what it waits for is over."""
        try:
            await later.until()
        except Exception as fault:  # noqa: BLE001  # whatever broke, the request needs an answer
            self._settle(request, _broken(request, fault))
            return
        if request.about in self._waiting:
            self._n_settled += 1  # a newer one has taken its place
        else:
            self._waiting[request.about] = request
            self._order.put_nowait(request.about)
        self._order.task_done()  # after the line has it again: whoever drains the queue must not miss it

    async def _give_way(self) -> None:
        """Wait while the other queue is busy; if that takes too long, let one go now and then."""
        while self._yields_to is not None and self._yields_to.is_busy():
            moment = self._loop.time()
            if self._next_at is None:
                self._next_at = moment + _PATIENCE_SECONDS
            if moment >= self._next_at:
                self._next_at = moment + _TRICKLE_SECONDS
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self._next_at = None


def _broken(request: Request, fault: Exception) -> str:
    log.error("event=error request=%r", request.about, exc_info=fault)
    return f"{type(fault).__name__}: {fault}"


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

    def wait(self, timeout_s: float, calm_s: float = CALM_SECONDS) -> bool:
        """Wait until there is something to take, and for its company; False when nothing came in time."""
        if not self._arrived.wait(timeout_s):
            return False
        self._pressing.wait(calm_s)
        return True

    def _ring(self, *, is_urgent: bool) -> None:
        if is_urgent:
            self._pressing.set()
        self._arrived.set()
