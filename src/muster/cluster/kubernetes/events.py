"""Events of Kubernetes: what `kubectl describe` shows of our decisions.

They have the older form, with a count and the times of the first and the last: that is what people's tools read.
They are news, not state: at most so many a second are sent, what cannot be sent in time is dropped (first what is
told of the gang as well), and nothing waits for them. The same news about the same object within some minutes is one
event with a count. Lives in the backend's event loop; `tell` is called from other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from muster.api import KubeObject
from muster.cluster.kubernetes.client import FORBIDDEN, MERGE_PATCH, NOT_LEADER, ApiError, Client

log = logging.getLogger("muster.kubernetes")

Json = dict[str, Any]  # Any: a document

_CONTROLLER: Final = "muster"
_MAX_NOTE: Final = 1000
_MAX_NAME: Final = 230
#: News that wait to be sent, of each of the two kinds.
_MAX_WAITING: Final = 5000
_PER_SECOND: Final = 50.0
#: The same while decisions are being sent that somebody waits for.
_PER_SECOND_WHEN_BUSY: Final = 2.0
_BURST: Final = 25.0
#: Seconds for which repeated news are counted, and between two writings of the count.
_SERIES_S: Final = 600.0
_COUNT_S: Final = 30.0
_MAX_SERIES: Final = 2000
#: Seconds that a request has to be answered after the end.
_GOODBYE_S: Final = 2.0
#: Seconds for which nothing is told in a namespace where that was forbidden.
_CLOSED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class News:
    """Something to tell about an object."""

    regarding: KubeObject
    reason: str
    action: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    related: KubeObject | None = None
    #: News of the same object, reason and series are counted instead of told again; "": each is told.
    series: str = ""
    #: Whether the same is told of the gang, so that this may be left out.
    is_detail: bool = False


@dataclass(slots=True)
class _Series:
    """An event that repeats."""

    path: str
    began: float
    written: float
    count: int = 1


class EventSender:
    """Sends news while it may, and drops what is too much."""

    def __init__(
        self, client: Client, may_act: Callable[[], bool], is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._client = client
        self._may_act = may_act
        self._is_busy = is_busy
        self._loop = asyncio.get_running_loop()
        self._main: deque[News] = deque(maxlen=_MAX_WAITING)
        self._details: deque[News] = deque(maxlen=_MAX_WAITING)
        self._arrived = asyncio.Event()
        self._series: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._instance = socket.gethostname()[:120] or _CONTROLLER
        #: Until when namespaces are left out that take no events.
        self._closed: dict[str, float] = {}
        self._is_stopping = False
        self._worker = self._loop.create_task(self._work(), name="events")

    def tell(self, news: Iterable[News]) -> None:
        """Take news up; from any thread. They are dropped when the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, list(news))

    async def stop(self) -> None:
        """Send no more; what is being sent gets a moment to be answered, so that it is known whether it was."""
        self._is_stopping = True
        self._arrived.set()
        await asyncio.wait([self._worker], timeout=_GOODBYE_S)
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def _take(self, news: Iterable[News]) -> None:
        for each in news:
            (self._details if each.is_detail else self._main).append(each)
        self._arrived.set()

    # -- sending -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        left, seen = _BURST, time.monotonic()
        while not self._is_stopping:
            await self._arrived.wait()
            news = self._next()
            if news is None:
                self._arrived.clear()
                continue
            moment = time.monotonic()
            rate = _PER_SECOND_WHEN_BUSY if self._is_busy() else _PER_SECOND
            left, seen = min(_BURST, left + (moment - seen) * rate), moment
            if left < 1:
                await asyncio.sleep((1 - left) / rate)
            if self._may_act() and not self._is_stopping:
                left -= await self._send(news)

    def _next(self) -> News | None:
        waiting = self._main or self._details
        return waiting.popleft() if waiting else None

    async def _send(self, news: News) -> int:
        """Send one piece of news, or count it; return how many requests that took. Never raises."""
        try:
            return await self._tell_or_count(news)
        except ApiError as fault:
            log.log(logging.INFO if fault.retryable else logging.WARNING, "event=event-failed error=%r", str(fault))
            if (
                fault.status == FORBIDDEN and fault.reason != NOT_LEADER
            ):  # we may not; or the namespace is about to go, which says nothing of others
                self._close(_namespace(news))
        except Exception:  # a bug in telling must not stop the scheduler
            log.exception("event=error errand=event reason=%s", news.reason)
        return 1

    async def _tell_or_count(self, news: News) -> int:
        if self._is_closed(_namespace(news)):
            return 0
        key = (news.regarding.metadata.uid, news.reason, news.series)
        known = self._series.get(key) if news.series else None
        moment = time.monotonic()
        if known is None or moment - known.began > _SERIES_S:
            path = await self._create(news)
            if news.series:
                self._remember(key, _Series(path, moment, moment))
            return 1
        known.count += 1
        if moment - known.written < _COUNT_S:
            return 0
        known.written = moment
        body = {"count": known.count, "lastTimestamp": _seconds(), "message": news.note[:_MAX_NOTE]}
        try:
            await self._client.send(
                "PATCH", known.path, msgspec.json.encode(body), content_type=MERGE_PATCH, attempts=1
            )
        except ApiError as fault:
            if fault.status != 404:
                raise
            del self._series[key]  # the server has forgotten it; the next one is told anew
        return 1

    def _close(self, namespace: str) -> None:
        """Leave a namespace out for a while, and forget those whose while is over: they may be gone."""
        moment = time.monotonic()
        self._closed = {name: until for name, until in self._closed.items() if until > moment}
        self._closed[namespace] = moment + _CLOSED_S

    def _is_closed(self, namespace: str) -> bool:
        until = self._closed.get(namespace)
        if until is not None and until <= time.monotonic():
            del self._closed[namespace]
            return False
        return until is not None

    def _remember(self, key: tuple[str, str, str], series: _Series) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        if len(self._series) > _MAX_SERIES:
            self._series.popitem(last=False)

    async def _create(self, news: News) -> str:
        """Make an event; return its path."""
        namespace = _namespace(news)
        collection = f"/api/v1/namespaces/{namespace}/events"
        name = f"{news.regarding.name[:_MAX_NAME].rstrip('-.')}.{time.time_ns():x}"
        document = self._document(news, {"name": name, "namespace": namespace})
        await self._client.send("POST", collection, msgspec.json.encode(document), attempts=1)
        return f"{collection}/{name}"

    def _document(self, news: News, metadata: Json) -> Json:
        now = _seconds()
        document: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": metadata,
            "source": {"component": _CONTROLLER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": _CONTROLLER,
            "reportingInstance": self._instance,
            "action": news.action,
            "reason": news.reason,
            "type": news.type,
            "involvedObject": _reference(news.regarding),
            "message": news.note[:_MAX_NOTE],
        }
        if news.related is not None:
            document["related"] = _reference(news.related)
        return document


def _namespace(news: News) -> str:
    """Where an event stands; that of an object of the whole cluster in the namespace that everybody has."""
    return news.regarding.namespace or "default"


def _reference(thing: KubeObject) -> Json:
    return {
        "apiVersion": thing.api_version,
        "kind": thing.kind,
        "namespace": thing.namespace,
        "name": thing.name,
        "uid": thing.metadata.uid,
    }


def _seconds() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
