"""Changes between the decision and the watch that shows them: sent, answered, confirmed.

`assume` counts a change as made and returns the request that makes it. A refusal takes it back at once. An answer that
no event follows makes us look at the pod ourselves: only what is known not to have happened is given back, because
room that is given away twice is worse than room that is held too long. `InFlight` is used in the scheduler's thread.
The coroutines below it run in the API thread, many at once. Each sends one decision and returns "" when it holds, else
what is wrong; none raises. A request without an answer may have been carried out, so the pod is looked at before
anything is given back.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Final

from muster.api import KubeObject, Pod
from muster.cluster.kubernetes.client.kinds import ObjectDecoder
from muster.cluster.kubernetes.client.requests import NOT_FOUND, ApiError, Client
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumption, Assumptions
from muster.cluster.kubernetes.sending.calls import Call
from muster.cluster.kubernetes.sending.queues import Inbox, Request, Send

log = logging.getLogger("muster.kubernetes")

#: Told the answer in the scheduler's thread: "" or what is wrong.
Answered = Callable[[str], None]

#: The longest that a report which is refused again and again rests, in seconds.
LONGEST_REST_SECONDS: Final = 300.0
_RESTS: Final = "it was refused before, and rests"
GONE: Final = "the pod is gone"
REPLACED: Final = "the object is gone, or was made anew"

_POD: Final = ObjectDecoder(Pod)


class Race(str):
    """What is wrong where somebody else was faster: the next decision may well hold."""

    __slots__ = ()


class NoAnswer(str):
    """What is wrong where the server gave no answer, or none that says no: trying again may well help."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Rest:
    """A report that was refused: until when nothing is sent on its topic."""

    until: float
    seconds: float
    error: str


class InFlight:
    """Everything that is on its way."""

    def __init__(self, inbox: Inbox, api: ApiThread, assumptions: Assumptions, confirm_s: float) -> None:
        self._inbox = inbox
        self._api = api
        self._assumptions = assumptions
        self._confirm_s = confirm_s
        #: How often what was refused, by the first word of its topic.
        self.refused: Counter[str] = Counter()
        #: Answered, and not confirmed yet: a heap of when to look.
        self._unconfirmed: list[tuple[float, int, Assumption]] = []
        self._number = count()
        #: Reports that were refused, by what they are about.
        self._rests: dict[object, _Rest] = {}

    def assume(self, assumption: Assumption, send: Send, answered: Answered | None = None) -> Request:
        """Count a change as made, and return the request that makes it."""
        self._assumptions.hold(assumption)
        return self.carry_out(assumption, send, answered)

    def carry_out(self, assumption: Assumption, send: Send, answered: Answered | None = None) -> Request:
        """Return the request that makes a change which counts as made already."""

        def settle(error: str) -> None:
            self._settle(assumption, error)
            if answered is not None:
                answered(error)

        return self.request(assumption, send, settle)

    def assume_report(
        self,
        assumption: Assumption,
        send: Send,
        *,
        is_patient: bool = False,
        is_passing: bool = False,
        patience_s: float = 0.0,
    ) -> Request:
        """The same for a report, which a newer one on the same topic may overtake before it is sent.

        While one that was refused rests, its successors do not go out either. The rest: see `Request`.
        """
        self._assumptions.hold(assumption)
        about = _about(assumption)
        rest = self._rests.get(about)
        is_resting = rest is not None and rest.until > time.monotonic()
        settle = partial(self._settle_report, assumption)
        request = self.request(about, _send_nothing if is_resting else send, settle)
        return replace(request, is_patient=is_patient, is_passing=is_passing, patience_s=patience_s)

    def request(self, about: object, send: Send, settle: Answered) -> Request:
        """A request whose answer is read by the scheduler's thread, at its next poll."""

        def done(error: str) -> None:
            self._inbox.put_answer(partial(settle, error), is_urgent=bool(error))

        return Request(about, send, done)

    def give_back(self, assumption: Assumption, why: str) -> None:
        """Take a change back that was never sent."""
        self._settle(assumption, why)

    def look_at_overdue(self) -> None:
        """Look at pods whose change was accepted but never seen; reports that nobody confirmed are let go."""
        moment = time.monotonic()
        while self._unconfirmed and self._unconfirmed[0][0] <= moment:
            _, _, assumption = heapq.heappop(self._unconfirmed)
            if not self._assumptions.is_held(assumption):
                continue
            pod = self._assumptions.find(Pod, assumption.key) if assumption.of is Pod else None
            if pod is None:
                self._assumptions.release(assumption)
                continue
            send = partial(confirm, self._api.client, pod, assumption.is_confirmed_by)
            self._api.urgent.submit([self.request(assumption, send, partial(self._settle, assumption))])

    def _settle_report(self, assumption: Assumption, error: str) -> None:
        """A report that was refused counts as made for a while: it would be made again at once, in vain.

        If it is refused again, the while is twice as long; that it is refused is said once. One on an object that is
        gone is none: the watch will say so.
        """
        about = _about(assumption)
        if not error:
            self._rests.pop(about, None)
        elif error == REPLACED:
            self._look_in(self._confirm_s, assumption)
            return
        elif self._api.may_act() and self._assumptions.is_held(assumption):
            seconds = self._confirm_s
            if error != _RESTS:
                seconds = self._rest(about, assumption, error)
            elif (rest := self._rests.get(about)) is not None:
                seconds = max(0.0, rest.until - time.monotonic())
            self._look_in(seconds, assumption)
            return
        self._settle(assumption, error)

    def _rest(self, about: object, assumption: Assumption, error: str) -> float:
        """Note a refusal; return how long the report rests. Where nobody answered, trying again may well help."""
        known = self._rests.get(about)
        again = known is not None and not isinstance(error, NoAnswer)
        seconds = min(2 * known.seconds, LONGEST_REST_SECONDS) if known is not None and again else self._confirm_s
        moment = time.monotonic()
        old = [each for each, rest in self._rests.items() if rest.until < moment - LONGEST_REST_SECONDS]
        for each in old:  # most likely gone for good
            del self._rests[each]
        self._rests[about] = _Rest(moment + seconds, seconds, error)
        self._note_refusal(assumption, error, is_known=known is not None and known.error == error)
        return seconds

    def _look_in(self, seconds: float, assumption: Assumption) -> None:
        heapq.heappush(self._unconfirmed, (time.monotonic() + seconds, next(self._number), assumption))

    def _settle(self, assumption: Assumption, error: str) -> None:
        if error:
            if self._assumptions.release(assumption):
                self._note_refusal(assumption, error)
        elif self._assumptions.is_held(assumption):
            self._look_in(self._confirm_s, assumption)

    def _note_refusal(self, assumption: Assumption, error: str, *, is_known: bool = False) -> None:
        self.refused[assumption.topic.partition(" ")[0]] += 1
        level = logging.DEBUG if is_known else logging.WARNING
        log.log(level, "event=refused what=%r object=%s error=%r", assumption.topic, assumption.key, error)


def _about(assumption: Assumption) -> object:
    return assumption.of, assumption.key, assumption.topic


async def _send_nothing() -> str:
    return _RESTS


async def bind_pod(client: Client, pod: Pod, node: str) -> str:
    """Put a pod on a node."""
    try:
        await _send(client, calls.bind(pod, node))
    except ApiError as fault:
        if fault.status == NOT_FOUND:
            return GONE
        # A conflict may be our own earlier attempt that got through although its answer was lost.
        if fault.status == 409 or fault.retryable:
            return await _where(client, pod, node, said(fault))
        return said(fault)
    return ""


async def _where(client: Client, pod: Pod, node: str, error: str) -> str:
    """Return "" when the pod turns out to be on the node after all."""
    try:
        seen = await _read(client, pod)
    except ApiError:
        return error
    if seen is None or seen.spec.node_name == node:
        return GONE if seen is None else ""
    return Race(f"the pod is on node {seen.spec.node_name} already") if seen.spec.node_name else error


async def confirm(client: Client, pod: Pod, is_confirmed_by: Callable[[KubeObject], bool]) -> str:
    """Look whether a change that no watch has shown has been made; "" as well when that cannot be found out."""
    try:
        seen = await _read(client, pod)
    except ApiError:
        return ""
    if seen is None:
        return GONE
    return "" if is_confirmed_by(seen) else "the server accepted it, but it was not done"


async def _read(client: Client, pod: Pod) -> Pod | None:
    """A pod as it is now; None: it is gone, or another one has its name. Raises ApiError."""
    try:
        found, _ = _POD.decode_or_stub(await _send(client, calls.read(pod)))
    except ApiError as fault:
        if fault.status == NOT_FOUND:
            return None
        raise
    return found if isinstance(found, Pod) and found.metadata.uid == pod.metadata.uid else None


async def write(client: Client, *wanted: Call) -> str:
    """Send calls that may be repeated without harm, one after the other."""
    try:
        for call in wanted:
            await _send(client, call)
    except ApiError as fault:
        return said(fault)
    return ""


async def write_once(client: Client, call: Call) -> str:
    """Send what is good to know but changes nothing."""
    with contextlib.suppress(ApiError):
        await client.send(call.method, call.path, call.body, content_type=call.content_type, attempts=1)
    return ""


def said(fault: ApiError) -> str:
    """What is wrong, by what the server answered."""
    if fault.status == 409:
        return Race(fault)
    return NoAnswer(fault) if fault.retryable else str(fault)


async def _send(client: Client, call: Call) -> bytes:
    return await client.send(call.method, call.path, call.body, content_type=call.content_type)


async def write_status(api: ApiThread, thing: KubeObject, call: Call) -> str:
    """Write a report, unless it has waited too long: a server that writes a status does not look at the uid."""
    if not api.is_there(thing):
        return REPLACED
    try:
        await _send(api.client, call)
    except ApiError as fault:
        return REPLACED if fault.status == NOT_FOUND else said(fault)
    return ""


def log_refusal(what: str, thing: KubeObject, error: str) -> None:
    """Take in the answer to something that nobody waits for."""
    if error:
        log.warning("event=refused what=%r object=%s error=%r", what, thing.key, error)
