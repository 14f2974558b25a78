"""The two queues that everybody relies on, `root` and `default`: made where Volcano's queues are known and lack them.

Volcano's scheduler makes them when it starts, and its controllers and webhooks count on it. A queue that was there once
and is gone was deleted by somebody who wanted that; it is not made again before the next start. Used by the backend in
the scheduler's thread.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Final

from muster.api import KaiQueue, Queue
from muster.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from muster.cluster.kubernetes import acting, calls
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.pending import Pending
from muster.snapshot.events import Event

log = logging.getLogger("muster.kubernetes")

#: Seconds between attempts to make a queue.
_AGAIN_SECONDS: Final = 15.0
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
