"""Events of Kubernetes: what `kubectl describe` shows of our decisions, and of gangs that wait.

`DecisionEvents` says what is worth one, in the scheduler's thread. Decisions are told when the server has carried them
out. Those of a gang are told together, once, on its PodGroup; its pods get theirs as far as there is room for details.
That a gang waits is told when the reason changes, not with every number in it.
`EventSender` sends them, in the API thread. They have the older form, with a count and the times of the first and the
last: that is what people's tools read. They are no state: at most so many a second are sent, what cannot be sent in
time is dropped (first what is told of the gang as well), and nothing waits for them. The same about the same object
within some minutes is one event with a count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal

import msgspec

from muster.api import KubeObject, Pod
from muster.cluster.kubernetes.client.requests import FORBIDDEN, MERGE_PATCH, NOT_LEADER, ApiError, Client
from muster.snapshot.messages import Bind, Evict, JobUpdate, Nominate, QuarantineUpdate

log = logging.getLogger("muster.kubernetes")

Json = dict[str, Any]  # Any: a document
_Made = Bind | Evict | Nominate

_CONTROLLER: Final = "muster"
_MAX_NOTE: Final = 1000
_MAX_NAME: Final = 230
#: Events that wait to be sent, of each of the two kinds.
_MAX_WAITING: Final = 5000
_PER_SECOND: Final = 50.0
#: Of those, at most so many that are told of the gang as well.
_DETAILS_PER_SECOND: Final = 20.0
#: The same while decisions are being sent that somebody waits for.
_PER_SECOND_WHEN_BUSY: Final = 2.0
_BURST: Final = 25.0
#: Seconds for which repeated events are counted, and between two writings of the count.
_SERIES_S: Final = 600.0
_COUNT_S: Final = 30.0
_MAX_SERIES: Final = 2000
#: Seconds that a request has to be answered after the end.
_GOODBYE_S: Final = 2.0
#: Seconds for which nothing is told in a namespace where that was forbidden.
_CLOSED_S: Final = 60.0
_MAX_NODES: Final = 6
_WORDS: Final[dict[type, tuple[str, str]]] = {
    Bind: ("Scheduled", "Binding"),
    Evict: ("Evict", "Evicting"),
    Nominate: ("Nominated", "Nominating"),
}


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """Something to tell about an object."""

    regarding: KubeObject
    reason: str
    action: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    related: KubeObject | None = None
    #: Those of the same object, reason and series are counted instead of told again; "": each is told.
    series: str = ""
    #: Whether the same is told of the gang, so that this may be left out.
    is_detail: bool = False


class DecisionEvents:
    """Makes events of answers and of reasons to wait."""

    def __init__(
        self, tell: Callable[[Sequence[KubeEvent]], None], group_of_job: Callable[[str], KubeObject | None]
    ) -> None:
        self._tell = tell
        self._group = group_of_job

    def answers(self) -> JobAnswers:
        """The decisions of one cycle of one kind, whose answers are awaited."""
        return JobAnswers(self._tell_of_job)

    def waits(self, update: JobUpdate, group: KubeObject | None, pods: Sequence[Pod]) -> None:
        """Tell that a job waits, if it does: of its PodGroup, and of the pods as far as there is room for details."""
        if update.unschedulable is None:
            return
        told = partial(KubeEvent, action="Scheduling", note=update.message, type="Warning", series=update.unschedulable)
        events = [] if group is None or not update.has_group else [told(group, "Unschedulable")]
        events += [told(pod, "FailedScheduling", is_detail=group is not None) for pod in pods]
        self._tell(events)

    def is_aside(self, update: QuarantineUpdate) -> None:
        """Tell that an object cannot be used, or can again."""
        if update.reason:
            note = f"cannot be used: {update.reason}"
            event = KubeEvent(update.object, "Quarantined", "Reading", note, type="Warning", series=update.reason)
        else:
            event = KubeEvent(update.object, "Usable", "Reading", "can be used again")
        self._tell([event])

    def waits_for_claims(self, made: Bind, pod: Pod, claims: Sequence[str]) -> None:
        """Tell that a pod has a node, and waits for its volumes."""
        note = f"will go to {made.node} when its volumes are ready: {', '.join(claims)}"
        self._tell([KubeEvent(pod, "WaitingForVolumes", "Binding", note, is_detail=self._group(made.job) is not None)])

    def was_given_back(self, made: Bind, pod: Pod, why: str) -> None:
        """Tell that a pod could not have its node."""
        note = f"could not go to {made.node}: {why}"
        self._tell([KubeEvent(pod, "FailedScheduling", "Binding", note, type="Warning", series=made.node)])

    def _tell_of_job(self, job: str, done: Sequence[tuple[_Made, Pod]]) -> None:
        made = done[0][0]
        reason, action = _WORDS[type(made)]
        group = self._group(job)
        other = self._group(made.beneficiary) if isinstance(made, Evict) and made.beneficiary else None
        events = []
        if group is not None:
            events.append(KubeEvent(group, reason, action, gang_note([each for each, _ in done]), related=other))
        kind: Literal["Normal", "Warning"] = "Warning" if isinstance(made, Evict) else "Normal"
        events += [
            KubeEvent(pod, reason, action, _pod_note(each), type=kind, related=other, is_detail=group is not None)
            for each, pod in done
        ]
        self._tell(events)


class JobAnswers:
    """Counts the answers for each job; tells of those that were good when the last one is in."""

    def __init__(self, tell: Callable[[str, Sequence[tuple[_Made, Pod]]], None]) -> None:
        self._tell = tell
        self._n_open: Counter[str] = Counter()
        self._done: dict[str, list[tuple[_Made, Pod]]] = {}

    def expect(self, made: _Made, pod: Pod) -> Callable[[str], None]:
        """Await one more answer; returns what to call with it: "" or what is wrong."""
        self._n_open[made.job] += 1

        def answered(error: str) -> None:
            self._n_open[made.job] -= 1
            if not error:
                self._done.setdefault(made.job, []).append((made, pod))
            if not self._n_open[made.job] and made.job in self._done:
                self._tell(made.job, self._done.pop(made.job))

        return answered


def gang_note(made: Sequence[_Made]) -> str:
    """Say what happened to some pods of a gang: how many, where, and why."""
    nodes = Counter(each.node for each in made)
    listed = [name if count == 1 else f"{name} ×{count}" for name, count in sorted(nodes.items())]
    more = f" and {len(listed) - _MAX_NODES} more" if len(listed) > _MAX_NODES else ""
    where = ", ".join(listed[:_MAX_NODES]) + more
    pods = "1 pod" if len(made) == 1 else f"{len(made)} pods"
    first = made[0]
    if isinstance(first, Bind):
        return f"placed {pods} on {where} ({first.why})"
    if isinstance(first, Nominate):
        return f"{pods} will go to {where} ({first.why})" if first.node else f"{pods}: no node is promised any more"
    return f"evicted {pods} from {where}{_for(first)}: {first.why}"


def _pod_note(made: _Made) -> str:
    if isinstance(made, Bind):
        return f"Successfully assigned {made.pod} to {made.node} ({made.why})"
    if isinstance(made, Nominate):
        return f"will go to {made.node} ({made.why})" if made.node else f"no node is promised any more: {made.why}"
    return f"evicted from {made.node}{_for(made)}: {made.why}"


def _for(made: Evict) -> str:
    return f" for {made.beneficiary}" if made.beneficiary else ""


@dataclass(slots=True)
class _Series:
    """An event that repeats."""

    path: str
    began: float
    written: float
    count: int = 1


class EventSender:
    """Sends events while it may, and drops what is too much."""

    def __init__(
        self,
        client: Client,
        may_act: Callable[[], bool],
        is_busy: Callable[[], bool] = lambda: False,
        is_still: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_busy`, `is_still`: whether many decisions are being sent, or none; details wait for stillness."""
        self._client = client
        self._may_act = may_act
        self._is_busy = is_busy
        self._is_still = is_still
        self._loop = asyncio.get_running_loop()
        self._main: deque[KubeEvent] = deque(maxlen=_MAX_WAITING)
        self._details: deque[KubeEvent] = deque(maxlen=_MAX_WAITING)
        self._arrived = asyncio.Event()
        self._series: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._instance = socket.gethostname()[:120] or _CONTROLLER
        #: Until when namespaces are left out that take no events.
        self._closed: dict[str, float] = {}
        self._is_stopping = False
        self._worker = self._loop.create_task(self._work(), name="events")

    def tell(self, events: Iterable[KubeEvent]) -> None:
        """Take events up; from any thread. They are dropped when the loop has ended."""
        events = list(events)
        if not events:
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, events)

    async def stop(self) -> None:
        """Send no more; what is being sent gets a moment to be answered, so that it is known whether it was."""
        self._is_stopping = True
        self._arrived.set()
        await asyncio.wait([self._worker], timeout=_GOODBYE_S)
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def _take(self, events: Iterable[KubeEvent]) -> None:
        for each in events:
            (self._details if each.is_detail else self._main).append(each)
        self._arrived.set()

    # -- sending -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        left, seen = _BURST, time.monotonic()
        while not self._is_stopping:
            await self._arrived.wait()
            event = self._next()
            if event is None:
                self._arrived.clear()
                continue
            moment = time.monotonic()
            rate = self._rate(event)
            left, seen = min(_BURST, left + (moment - seen) * rate), moment
            if left < 1:
                await asyncio.sleep((1 - left) / rate)
            if self._may_act() and not self._is_stopping:
                left -= await self._send(event)

    def _rate(self, event: KubeEvent) -> float:
        """How many like this one may be sent a second."""
        if self._is_busy() or (event.is_detail and not self._is_still()):
            return _PER_SECOND_WHEN_BUSY
        return _DETAILS_PER_SECOND if event.is_detail else _PER_SECOND

    def _next(self) -> KubeEvent | None:
        waiting = self._main or self._details
        return waiting.popleft() if waiting else None

    async def _send(self, event: KubeEvent) -> int:
        """Send an event, or count it; return how many requests that took. Never raises."""
        try:
            return await self._tell_or_count(event)
        except ApiError as fault:
            log.log(logging.INFO if fault.retryable else logging.WARNING, "event=event-failed error=%r", str(fault))
            # We may not; or the namespace is about to go, which says nothing of others.
            if fault.status == FORBIDDEN and fault.reason != NOT_LEADER:
                self._close(_namespace(event))
        except Exception:  # a bug in telling must not stop the scheduler
            log.exception("event=error what=event reason=%s", event.reason)
        return 1

    async def _tell_or_count(self, event: KubeEvent) -> int:
        if self._is_closed(_namespace(event)):
            return 0
        key = (event.regarding.metadata.uid, event.reason, event.series)
        known = self._series.get(key) if event.series else None
        moment = time.monotonic()
        if known is None or moment - known.began > _SERIES_S:
            path = await self._create(event)
            if event.series:
                self._remember(key, _Series(path, moment, moment))
            return 1
        known.count += 1
        if moment - known.written < _COUNT_S:
            return 0
        known.written = moment
        body = {"count": known.count, "lastTimestamp": _seconds(), "message": event.note[:_MAX_NOTE]}
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
        return self._closed.get(namespace, 0.0) > time.monotonic()

    def _remember(self, key: tuple[str, str, str], series: _Series) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        if len(self._series) > _MAX_SERIES:
            self._series.popitem(last=False)

    async def _create(self, event: KubeEvent) -> str:
        """Make an event; return its path."""
        namespace = _namespace(event)
        collection = f"/api/v1/namespaces/{namespace}/events"
        name = f"{event.regarding.name[:_MAX_NAME].rstrip('-.')}.{time.time_ns():x}"
        document = self._document(event, {"name": name, "namespace": namespace})
        await self._client.send("POST", collection, msgspec.json.encode(document), attempts=1)
        return f"{collection}/{name}"

    def _document(self, event: KubeEvent, metadata: Json) -> Json:
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
            "action": event.action,
            "reason": event.reason,
            "type": event.type,
            "involvedObject": _reference(event.regarding),
            "message": event.note[:_MAX_NOTE],
        }
        if event.related is not None:
            document["related"] = _reference(event.related)
        return document


def _namespace(event: KubeEvent) -> str:
    """Where an event stands; that of an object of the whole cluster in the namespace that everybody has."""
    return event.regarding.namespace or "default"


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
