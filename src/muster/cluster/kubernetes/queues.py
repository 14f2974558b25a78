"""Queues: `root` and `default` are made where Volcano's queues are known and lack them; what queues hold is written.

Volcano's scheduler makes them when it starts, and its controllers and webhooks count on it. A queue that was there once
and is gone was deleted by somebody who wanted that; it is not made again before the next start. Used by the backend in
the scheduler's thread.
Where KAI's or Volcano's own controllers write the same fields, they may see things otherwise. Who writes what was just
written over leaves it standing for a while, longer each time, so that two do not write against each other for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from muster.api import KaiQueue, Queue
from muster.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from muster.cluster.groups import AnyQueue, updated_queue
from muster.cluster.kubernetes import acting, calls, statuses
from muster.cluster.kubernetes.assumptions import Assumptions, with_use
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.lanes import Errand
from muster.cluster.kubernetes.pending import Pending
from muster.snapshot.messages import Event, Failure, QueueUpdate

log = logging.getLogger("muster.kubernetes")

#: Seconds between attempts to make a queue, or to write the same status; and in the long run.
_AGAIN_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 600.0
#: What may be taken back from the queue.
_RECLAIMABLE: Final = {ROOT_QUEUE: False, DEFAULT_QUEUE: True}


class StandardQueues:
    """Knows which of them still have to be made."""

    def __init__(self, room: EngineRoom, pending: Pending, *, wanted: bool) -> None:
        self._room = room
        self._pending = pending
        #: When to ask for those that nobody has seen.
        self._missing = dict.fromkeys(_RECLAIMABLE if wanted else (), 0.0)
        #: What was refused is said once.
        self._told: set[str] = set()

    def observe(self, event: Event) -> None:
        """A queue of either family is there: names are shared."""
        if isinstance(event.object, Queue | KaiQueue):
            self._missing.pop(event.object.name, None)

    def make_missing(self) -> None:
        """Ask for those that nobody has seen yet."""
        resource = self._room.resource(Queue)
        if not self._missing or resource is None or not self._room.may_act():
            return
        moment = time.monotonic()
        for name in [name for name, at in self._missing.items() if at <= moment]:
            self._missing[name] = moment + _AGAIN_SECONDS
            send = partial(acting.write, self._room.client, calls.make_queue(resource, name, _RECLAIMABLE[name]))
            self._room.reports.submit([self._pending.errand((Queue, name, "make"), send, partial(self._heard, name))])

    def _heard(self, name: str, error: str) -> None:
        if not error:
            log.info("event=queue-made queue=%s", name)
        elif not isinstance(error, acting.Race) and name not in self._told:
            self._told.add(name)
            log.warning("event=refused what='queue' object=%s error=%r", name, error)


@dataclass(slots=True)
class _Told:
    """A status as it was last written, and until when it is not written again."""

    update: QueueUpdate
    until: float
    seconds: float = _AGAIN_SECONDS


class QueueReports:
    """Writes what queues hold."""

    def __init__(self, room: EngineRoom, assumptions: Assumptions, pending: Pending) -> None:
        self._room = room
        self._assumptions = assumptions
        self._pending = pending
        self._told: dict[tuple[type, str], _Told] = {}

    def update_queues(self, updates: Sequence[QueueUpdate]) -> list[Failure]:
        failures: list[Failure] = []
        errands: list[Errand] = []
        for update in updates:
            queue = self._find(update.name)
            resource = None if queue is None else self._room.resource(type(queue))
            if queue is None or resource is None:
                failures.append(Failure(update, "the queue is gone"))
                continue
            changed = updated_queue(queue, update)
            if self._is_due(queue, update):
                call = statuses.write_queue(resource, changed, self._assumptions.find(type(queue), queue.key))
                send = partial(acting.write, self._room.client, call)
                errands.append(self._pending.assume_report(with_use(queue, update), send))
        self._room.reports.submit(errands)
        return failures

    def _find(self, name: str) -> AnyQueue | None:
        return self._assumptions.find_assumed(Queue, name) or self._assumptions.find_assumed(KaiQueue, name)

    def _is_due(self, queue: AnyQueue, update: QueueUpdate) -> bool:
        """Whether to write: not what was written a moment ago, though it does not stand there any more."""
        moment, place = time.monotonic(), (type(queue), queue.key)
        told = self._told.get(place)
        if told is None or told.update != update:
            self._told[place] = _Told(update, moment + _AGAIN_SECONDS)
            return True
        if moment < told.until:
            return False
        told.seconds = min(2 * told.seconds, _LONGEST_SECONDS)
        told.until = moment + told.seconds
        return True
