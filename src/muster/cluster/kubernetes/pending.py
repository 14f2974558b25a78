"""Changes between the decision and the watch that shows them: sent, answered, confirmed.

`assume` counts a change as made and returns the errand that makes it. A refusal takes it back at once. An answer that
no event follows makes us look at the pod ourselves: only what is known not to have happened is given back, because
room that is given away twice is worse than room that is held too long. Used in the scheduler's thread; errands run in
the other.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from muster.api import Pod
from muster.cluster.kubernetes import acting
from muster.cluster.kubernetes.assumptions import Assumption, Assumptions
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.inbox import Inbox
from muster.cluster.kubernetes.lanes import Errand, Send

log = logging.getLogger("muster.kubernetes")

#: Told the answer in the scheduler's thread: "" or what is wrong.
Answered = Callable[[str], None]

#: The longest that a report which is refused again and again rests, in seconds.
LONGEST_REST_SECONDS: Final = 300.0
_RESTS: Final = "it was refused before, and rests"


@dataclass(frozen=True, slots=True)
class _Rest:
    """A report that was refused: until when nothing is sent on its topic."""

    until: float
    seconds: float
    error: str


class Pending:
    """Everything that is on its way."""

    def __init__(self, inbox: Inbox, room: EngineRoom, assumptions: Assumptions, confirm_s: float) -> None:
        self._inbox = inbox
        self._room = room
        self._assumptions = assumptions
        self._confirm_s = confirm_s
        #: How often what was refused, by the first word of its topic.
        self.refused: Counter[str] = Counter()
        #: Answered, and not confirmed yet: a heap of when to look.
        self._unconfirmed: list[tuple[float, int, Assumption]] = []
        self._number = count()
        #: Reports that were refused, by what they are about.
        self._rests: dict[object, _Rest] = {}

    def assume(self, assumption: Assumption, send: Send, answered: Answered | None = None) -> Errand:
        """Count a change as made, and return the errand that makes it."""
        self._assumptions.hold(assumption)
        return self.carry_out(assumption, send, answered)

    def carry_out(self, assumption: Assumption, send: Send, answered: Answered | None = None) -> Errand:
        """Return the errand that makes a change which counts as made already."""

        def settle(error: str) -> None:
            self._settle(assumption, error)
            if answered is not None:
                answered(error)

        return self.errand(assumption, send, settle)

    def assume_report(self, assumption: Assumption, send: Send) -> Errand:
        """The same for a report, which a newer one on the same topic may overtake before it is sent.

        While one that was refused rests, its successors do not go out either.
        """
        self._assumptions.hold(assumption)
        about = _about(assumption)
        rest = self._rests.get(about)
        is_resting = rest is not None and rest.until > time.monotonic()
        return self.errand(about, _send_nothing if is_resting else send, partial(self._settle_report, assumption))

    def errand(self, about: object, send: Send, settle: Answered) -> Errand:
        """An errand whose answer is read by the scheduler's thread, at its next poll."""
        return Errand(about, send, lambda error: self._inbox.put_answer(partial(settle, error), is_urgent=bool(error)))

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
            send = partial(acting.confirm, self._room.client, pod, assumption.is_confirmed_by)
            self._room.urgent.submit([self.errand(assumption, send, partial(self._settle, assumption))])

    def _settle_report(self, assumption: Assumption, error: str) -> None:
        """A report that was refused counts as made for a while: it would be made again at once, in vain.

        If it is refused again, the while is twice as long; that it is refused is said once.
        """
        about = _about(assumption)
        if not error:
            self._rests.pop(about, None)
        elif self._room.may_act() and self._assumptions.is_held(assumption):
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
        again = known is not None and not isinstance(error, acting.Unheard)
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
