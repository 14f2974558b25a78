"""Keeping up with an API server: one reflector per kind lists once, then follows a watch.

A reflector runs inside the API thread's event loop and hands events to a sink. It keeps the last version of every
object, so that it can tell what changed while nobody watched: after a gap (the server forgot the version, 410) it lists
anew and reports only differences. Versions that differ in nothing Muster reads are not reported at all.
An object that cannot be read is reported as such, with what is left of it, and does not stop the others. A kind that
may be listed but not watched is listed again and again; for one that may not be read at all, see `kinds.Rights`.
`catch_up` is for those who must know what others wrote: a stream that is silent may be up to date, or late. A short
watch tells, because the server ends one with a bookmark; where it sends none, a new list does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from muster.api import KubeObject, Node, Pod
from muster.cluster.kubernetes.client.kinds import LISTED, WATCH_LINE, ObjectDecoder, Resource, Rights, is_same
from muster.cluster.kubernetes.client.requests import (
    FORBIDDEN,
    GONE,
    NOT_FOUND,
    WATCH_SECONDS,
    ApiError,
    Backoff,
    Client,
    Selection,
    decode_cut,
    status_error,
)
from muster.snapshot.messages import Event

log = logging.getLogger("muster.kubernetes")

#: Bookmarks come two seconds before the end of a watch; a shorter one would have none.
_SHORT_WATCH_SECONDS: Final = 3
#: A watch that ends sooner than this, by itself, is no reason to open the next one at once.
_TOO_SOON_SECONDS: Final = 1.0
#: The longest pause after something went wrong, and while somebody waits for us.
_LIMIT_SECONDS: Final = 5.0
_HURRIED_SECONDS: Final = 0.5
#: For how long events of pods, of which there are many, wait for each other after some have come.
_GATHER_SECONDS: Final = 0.01
_ALIVE: Final = frozenset({"", "Pending", "Running"})


class Sink(Protocol):
    """Takes events; `is_urgent`: at least one of them may change a decision."""

    def __call__(self, events: list[Event], *, is_urgent: bool) -> None: ...


class Reflector:
    """Follows all objects of one kind."""

    def __init__(self, client: Client, resource: Resource, sink: Sink, selector: str | Selection = "") -> None:
        self._client = client
        self._selector = selector
        self._resource = resource
        self._sink = sink
        self._decoder = ObjectDecoder(resource.type)
        self._rights = Rights(resource, asyncio.get_running_loop().time)
        self._known: dict[str, KubeObject] = {}
        #: Whether something that is about to be reported may change a decision.
        self._is_urgent = False
        #: Up to where everything has been reported; "": a list is needed.
        self._version = ""
        #: When the last complete list began, by the event loop's clock.
        self._listed_at = 0.0
        #: The version that somebody waits for; set when it was seen.
        self._target = 0
        self._reached = asyncio.Event()
        self._hurry = asyncio.Event()
        #: Whether there has been a watch that the server accepted.
        self._has_watched = False
        #: Set when the first list is through.
        self.synced = asyncio.Event()
        #: Why nothing could be listed yet, "" if nothing is known to be wrong.
        self.trouble = ""
        #: Lists so far; more than one means that there was a gap.
        self.n_lists = 0
        #: When the server last told how things are, or that it never will; None: it does not have to.
        self._heard_at: float | None = time.monotonic()

    @property
    def kind(self) -> type[KubeObject]:
        """What is followed."""
        return self._resource.type

    def find(self, key: str) -> KubeObject | None:
        """The last version of an object, however little it differs from those before."""
        return self._known.get(key)

    def silent_s(self) -> float:
        """For how long nothing has come that says how things are; from any thread."""
        return 0.0 if self._heard_at is None else time.monotonic() - self._heard_at

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = Backoff(first_s=0.2, limit_s=_LIMIT_SECONDS)
        clock = asyncio.get_running_loop().time
        while True:
            try:
                if not self._version:
                    await self._list()
                began = clock()
                await self._follow()
                if clock() - began >= _TOO_SOON_SECONDS:
                    backoff.reset()
                elif not self._is_behind():
                    await self._rest(backoff.next_s())
            except msgspec.DecodeError as fault:  # no line of a watch: a proxy's page, or a torn stream
                log.warning("event=watch-unreadable kind=%s error=%r", self._resource.plural, str(fault))
                await self._rest(backoff.next_s())
            except ApiError as fault:
                if fault.status == FORBIDDEN:
                    await self._rest(self._take_refusal(fault))
                else:
                    self._take_fault(fault)
                    await self._rest(backoff.next_s(fault.retry_after_s))

    def _take_fault(self, fault: ApiError) -> None:
        log.info("event=watch-broken kind=%s error=%r", self._resource.plural, str(fault))
        if fault.status == GONE:
            self._version = ""
        if fault.status == NOT_FOUND:  # the kind itself was removed
            self._expect_nothing()
        if not self.synced.is_set():
            self.trouble = f"{self._resource.plural}: {fault}"

    def _take_refusal(self, fault: ApiError) -> float:
        """What to do without the right to list or to watch; returns how long to wait. Raises BackendError."""
        verb = "watch" if self._version else "list"
        wait = self._rights.refuse(verb, fault, is_start=not self._has_watched)
        self._version = ""
        if self._rights.is_left_out:
            self._expect_nothing()
        return wait

    def _expect_nothing(self) -> None:
        """Let nobody wait for what cannot be read; what is known stays as it is."""
        self._target = 0
        self._reached.set()
        self.synced.set()
        self._heard_at = None

    async def _rest(self, seconds: float) -> None:
        """Wait; not for long when somebody waits for us."""
        if self._is_behind():
            await asyncio.sleep(min(seconds, _HURRIED_SECONDS))
            return
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def catch_up(self, since: float) -> None:
        """Return when everything that had been written at a moment of the loop's clock is reported. Raises ApiError."""
        await self.synced.wait()
        if self._listed_at >= since:
            return
        try:
            self._target = _number(await self._client.newest_version(self._resource.path))
        except ApiError as fault:
            if fault.status == NOT_FOUND or (fault.status == FORBIDDEN and self._rights.is_left_out):
                return
            raise
        if not self._is_behind():
            self._target = 0
            return
        self._reached.clear()
        self._hurry.set()
        await self._reached.wait()

    def _is_behind(self) -> bool:
        return _number(self._version) < self._target

    def _advance(self, version: str) -> None:
        self._version = version
        if not self._is_behind():
            self._target = 0
            self._reached.set()

    # -- listing -------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Take in everything. Raises ApiError."""
        present: set[str] = set()
        version = ""
        began = asyncio.get_running_loop().time()
        self._hurry.clear()  # it is what anybody who waits for us needs
        async for page in self._client.pages(self._resource.path, self._selector):
            self._emit(self._take_listed(item, present) for item in page.items)
            version = page.metadata.resource_version
        # Let go only after the last page: a list that breaks off says nothing about what is gone.
        self._emit(self._take_gone(key) for key in sorted(self._known.keys() - present))
        self.n_lists += 1
        self._heard_at = time.monotonic()
        self._listed_at = began
        self._advance(version)
        self.synced.set()

    def _take_listed(self, body: msgspec.Raw, present: set[str]) -> Event | None:
        thing, fault = self._decoder.decode_or_stub(body)
        present.add(thing.key)
        return self._take(thing, fault)

    # -- watching ------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follow one watch to its end, a short one if somebody waits for what it will say. Raises ApiError."""
        if self._is_behind():
            await self._watch(_SHORT_WATCH_SECONDS)
            if self._is_behind():
                self._version = ""
            return
        self._hurry.clear()
        tasks = [asyncio.create_task(self._watch(WATCH_SECONDS)), asyncio.create_task(self._wait_for_hurry())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_hurry(self) -> None:
        await self._hurry.wait()

    async def _watch(self, seconds: int) -> None:
        """Follow one watch to its end. Raises ApiError."""
        path, gather_s = self._resource.path, _GATHER_SECONDS if self.kind is Pod else 0.0
        async for lines in self._client.watch(path, self._version, self._selector, seconds, gather_s):
            self._has_watched = True
            self._heard_at = time.monotonic()
            self._rights.grant()
            events = []
            version = self._version
            try:
                for text in lines:
                    event, seen = self._take_line(text)
                    version = seen or version
                    events.append(event)
            finally:  # a line that says that the stream is over does not undo those before it
                self._emit(events)
                self._advance(version)

    def _take_line(self, text: bytes) -> tuple[Event | None, str]:
        line = decode_cut(WATCH_LINE, text, depth=1)
        if line.type == "ERROR":
            raise status_error(0, bytes(line.object))
        if line.type == "BOOKMARK":
            return None, LISTED.decode(line.object).metadata.resource_version
        thing, fault = self._decoder.decode_or_stub(line.object)
        version = thing.metadata.resource_version
        if line.type == "DELETED":
            self._known.pop(thing.key, None)
            self._is_urgent = True
            return Event("DELETED", thing), version
        return self._take(thing, fault), version

    # -- both ----------------------------------------------------------------------------------------------

    def _take(self, thing: KubeObject, fault: str) -> Event | None:
        old = self._known.get(thing.key)
        self._known[thing.key] = thing
        if old is not None and is_same(old, thing):
            return None
        if fault:
            self._is_urgent = True
            return Event("UNREADABLE", thing, fault)
        if old is None:
            self._is_urgent = True
            return Event("ADDED", thing)
        self._is_urgent |= not can_wait(old, thing)
        return Event("MODIFIED", thing)

    def _take_gone(self, key: str) -> Event:
        self._is_urgent = True
        return Event("DELETED", self._known.pop(key))

    def _emit(self, events: Iterable[Event | None]) -> None:
        made = [event for event in events if event is not None]
        is_urgent, self._is_urgent = self._is_urgent, False
        if made:
            self._sink(made, is_urgent=is_urgent)


def _number(version: str) -> int:
    """Versions of one resource count up; 0 is before all of them."""
    return int(version) if version.isdecimal() else 0


def can_wait(old: KubeObject, new: KubeObject) -> bool:
    """Whether a change gives nobody room, and nobody something to decide."""
    if isinstance(new, Pod):
        assert isinstance(old, Pod)
        return _pod_can_wait(old, new)
    if isinstance(new, Node):
        return False
    spec = getattr(new, "spec", None)
    return spec is not None and spec == getattr(old, "spec", None)


def _pod_can_wait(old: Pod, new: Pod) -> bool:
    if new.metadata.deletion_timestamp is not None or new.status.phase not in _ALIVE:
        return False
    return bool(new.spec.node_name) or new.spec == old.spec
