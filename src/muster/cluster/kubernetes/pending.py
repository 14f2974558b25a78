"""Changes between the decision and the watch that shows them: sent, answered, confirmed.

`assume` counts a change as made and returns the errand that makes it. A refusal takes it back at once. An answer that
no event follows makes us look at the pod ourselves: only what is known not to have happened is given back, because
room that is given away twice is worse than room that is held too long. Used in the scheduler's thread; errands run in
the other.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from muster.api import Pod
from muster.cluster.kubernetes import acting
from muster.cluster.kubernetes.assumptions import Assumption, Assumptions
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.inbox import Inbox
from muster.cluster.kubernetes.lanes import Errand, Send

log = logging.getLogger("muster.kubernetes")

#: Told the answer in the scheduler's thread: "" or what is wrong.
Answered = Callable[[str], None]


class Pending:
    """Everything that is on its way."""

    def __init__(self, inbox: Inbox, room: EngineRoom, assumptions: Assumptions, confirm_s: float) -> None:
        self._inbox = inbox
        self._room = room
        self._assumptions = assumptions
        self._confirm_s = confirm_s
        #: How often what was refused, by the first word of its topic.
        self.refused: Counter[str] = Counter()
        #: Answered, and not confirmed yet: when to look, oldest first.
        self._unconfirmed: deque[tuple[float, Assumption]] = deque()

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
        """The same for a report, which a newer one on the same topic may overtake before it is sent."""
        self._assumptions.hold(assumption)
        about = (assumption.of, assumption.key, assumption.topic)
        return self.errand(about, send, partial(self._settle_report, assumption))

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
            _, assumption = self._unconfirmed.popleft()
            if not self._assumptions.is_held(assumption):
                continue
            pod = self._assumptions.find(Pod, assumption.key) if assumption.of is Pod else None
            if pod is None:
                self._assumptions.release(assumption)
                continue
            send = partial(acting.confirm, self._room.client, pod, assumption.is_confirmed_by)
            self._room.urgent.submit([self.errand(assumption, send, partial(self._settle, assumption))])

    def _settle_report(self, assumption: Assumption, error: str) -> None:
        """A report that was refused counts as made for a while: it would be made again at once, in vain."""
        if error and self._room.may_act() and self._assumptions.is_held(assumption):
            self._note_refusal(assumption, error)
            error = ""
        self._settle(assumption, error)

    def _settle(self, assumption: Assumption, error: str) -> None:
        if error:
            if self._assumptions.release(assumption):
                self._note_refusal(assumption, error)
        elif self._assumptions.is_held(assumption):
            self._unconfirmed.append((time.monotonic() + self._confirm_s, assumption))

    def _note_refusal(self, assumption: Assumption, error: str) -> None:
        self.refused[assumption.topic.partition(" ")[0]] += 1
        log.warning("event=refused what=%r object=%s error=%r", assumption.topic, assumption.key, error)
