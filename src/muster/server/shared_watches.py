"""What the scheduler's watches bring, handed on to controllers in the same process.

A second watch of all pods costs the API server and us as much as the first. So controllers that run beside a scheduler
hear of the kinds that both follow from its watches, object for object as the server tells them; alone they watch for
themselves. What comes before they listen is kept for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from muster.api import KubeObject, Pod
from muster.api.names import JOB_NAME
from muster.cluster.kubernetes.client.reflector import Sink
from muster.snapshot.messages import Event

_LOOK_SECONDS: Final = 0.05


class Source(Protocol):
    """A cluster that is followed already."""

    def share(self, kinds: Collection[type[KubeObject]], sink: Sink) -> frozenset[type[KubeObject]]: ...

    def has_read(self, kind: type[KubeObject]) -> bool: ...


class SharedWatches:
    """Takes news in the thread of the watches, for a listener in another one."""

    def __init__(self, source: Source, kinds: Collection[type[KubeObject]], scheduler_names: Collection[str]) -> None:
        self._source = source
        self._pods = WantedPods(scheduler_names)
        self._lock = threading.Lock()
        self._kept: list[Event] = []
        self._listener: Callable[[list[Event]], None] | None = None
        #: What is told of; of all objects, but of pods only those that controllers look at.
        self.kinds = source.share(kinds, self._take)

    def listen(self, listener: Callable[[list[Event]], None]) -> None:
        """Tell somebody from now on, who first hears of all that was before; `listener` must not wait."""
        with self._lock:
            self._listener = listener
            listener(self._kept)
            self._kept = []

    async def read(self, kind: type[KubeObject]) -> None:
        """Return when all objects of a kind have been handed to the listener."""
        while not self._source.has_read(kind):
            await asyncio.sleep(_LOOK_SECONDS)

    def _take(self, events: list[Event], *, is_urgent: bool) -> None:
        del is_urgent
        wanted = list(self._pods.of(events))
        with self._lock:
            if self._listener is None:
                self._kept += wanted
            elif wanted:
                self._listener(wanted)


class WantedPods:
    """Of all pods those that a Job made, and those that name a scheduler of ours and wait for a node.

    The others are as if they were not there: one that gets a node without a Job is gone.
    """

    def __init__(self, scheduler_names: Collection[str]) -> None:
        self._names = frozenset(scheduler_names)
        self._shown: set[str] = set()

    def of(self, events: Iterable[Event]) -> Iterable[Event]:
        """The events to tell of, those of other kinds as they are."""
        for event in events:
            pod = event.object
            if not isinstance(pod, Pod):
                yield event
            elif event.kind != "DELETED" and self._is_wanted(pod):
                self._shown.add(pod.key)
                yield event
            elif pod.key in self._shown:
                self._shown.discard(pod.key)
                yield event if event.kind == "DELETED" else Event("DELETED", pod)

    def _is_wanted(self, pod: Pod) -> bool:
        if JOB_NAME in pod.metadata.labels:
            return True
        return not pod.spec.node_name and pod.spec.scheduler_name in self._names
