"""What a live cluster has, kept current by watches on a thread of its own.

Rules ask from many threads; they get a picture that nobody changes under their hands. A queue that is not in the
picture is looked up at the server before anybody is told that it does not exist: a file often has the queue, and right
after it the job. PodGroups come and go too fast to be followed for the few questions about them; they are only looked
up. Kinds whose definitions are not installed are looked for again now and then.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from muster.admission.request import Facts
from muster.api import BackendError, HyperNode, KaiPodGroup, KaiQueue, KubeObject, Namespace, PodGroup, Queue
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.kinds import ObjectDecoder, Resource, Wanted, served, wanted_of
from muster.cluster.kubernetes.client.reflector import Reflector
from muster.cluster.kubernetes.client.requests import NOT_FOUND, ApiError, Client
from muster.snapshot.messages import Event

log = logging.getLogger("muster.admission")

FOLLOWED: Final[tuple[type[KubeObject], ...]] = (Queue, KaiQueue, HyperNode, Namespace)
#: Kinds of which single objects are asked for.
LOOKED_UP: Final[tuple[type[KubeObject], ...]] = (Queue, PodGroup, KaiPodGroup)
_DISCOVERY_SECONDS: Final = 15.0
#: How long a request may wait for the server; the server itself waits longer for us.
_LOOK_UP_SECONDS: Final = 2.0
#: How long the status of a queue may be behind the pods that it counts, and how often it is read meanwhile.
_STATUS_SECONDS: Final = 3.0
_STATUS_PAUSE: Final = 0.1

_Kind = TypeVar("_Kind", bound=KubeObject)
_Answer = TypeVar("_Answer")


class LiveFacts:
    """A `Known` that follows a cluster, from `start` to `stop`."""

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._facts = Facts()
        self._thread = threading.Thread(target=self._run, name="muster-admission", daemon=True)
        self._started = threading.Event()
        self._fault: Exception | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._client: Client
        self._resources: dict[type[KubeObject], Resource] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, timeout_s: float = 60.0) -> None:
        """Connect, and return when everything has been read once, or nobody waits any more. Raises MusterError."""
        self._thread.start()
        if not self._started.wait(timeout_s):
            raise BackendError(f"the API server did not list everything in {timeout_s:.0f} s", retryable=True)
        if self._fault is not None:
            raise self._fault

    def give_up(self) -> None:
        """Wait no longer for a cluster that does not answer; from any thread. Nothing changes once it has."""
        self._started.set()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def trouble(self) -> str:
        """Why nothing is followed any more, "" while it is."""
        return "" if self._fault is None else str(self._fault)

    # -- what rules ask ----------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue | KaiQueue | None:
        """One queue. Raises BackendError when the server has to be asked and does not answer."""
        return self._facts.queue(name) or self._look_up(Queue, name)

    def pods_held(self, name: str) -> int:
        """Pods that a queue holds, asked for again for a moment while there are some.

        A status is as old as the scheduler's last cycle, and who deletes a queue has often just deleted its jobs.
        """
        for _ in range(round(_STATUS_SECONDS / _STATUS_PAUSE)):
            if self._facts.pods_held(name) == 0:
                return 0
            time.sleep(_STATUS_PAUSE)
        return self._facts.pods_held(name)

    def queues(self) -> Mapping[str, Queue]:
        return self._facts.queues()

    def children(self, name: str) -> list[str]:
        """Queues below one; before anybody is told that there are some, the server says that one of them still is.

        Who deletes a tree deletes the queue above right after those below. Raises BackendError.
        """
        below = self._facts.children(name)
        for place, child in enumerate(below):
            standing = self._look_up(Queue, child)
            if standing is not None and standing.spec.parent == name:
                return below[place:]
        return []

    def children_now(self, name: str) -> list[str]:
        """The same, asked of the server where none are known: the watch may hear of them a moment later.

        Raises BackendError.
        """
        known = self.children(name)
        resource = self._resources.get(Queue)
        if known or resource is None:
            return known
        decoder = ObjectDecoder(Queue)
        found = [decoder.decode_or_stub(body)[0] for body in self._asked(self._bodies(resource))]
        return sorted(each.name for each in found if isinstance(each, Queue) and each.spec.parent == name)

    async def _bodies(self, resource: Resource) -> list[msgspec.Raw]:
        return [body async for page in self._client.pages(resource.path) for body in page.items]

    def hyper_nodes(self) -> Mapping[str, HyperNode]:
        return self._facts.hyper_nodes()

    def namespace(self, name: str) -> Namespace | None:
        return self._facts.namespace(name)

    def kai_queue(self, name: str) -> KaiQueue | None:
        return self._facts.kai_queue(name)

    def pod_group(self, key: str) -> PodGroup | None:
        """One PodGroup. Raises BackendError when the server does not answer."""
        return self._look_up(PodGroup, key)

    def kai_pod_group(self, key: str) -> KaiPodGroup | None:
        """One of KAI's PodGroups. Raises BackendError when the server does not answer."""
        return self._look_up(KaiPodGroup, key)

    def _look_up(self, kind: type[_Kind], key: str) -> _Kind | None:
        resource = self._resources.get(kind)
        if resource is None or not key:
            return None
        question = self._client.request("GET", resource.path_of(key), timeout_s=_LOOK_UP_SECONDS)
        try:
            found, _ = ObjectDecoder(kind).decode_or_stub(self._asked(question))
        except ApiError as fault:
            if fault.status == NOT_FOUND:
                return None
            raise
        return found if isinstance(found, kind) else None

    def _asked(self, question: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Ask in the thread and wait. Raises BackendError."""
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asked.result(_LOOK_UP_SECONDS + 1)
        except TimeoutError:
            asked.cancel()
            raise BackendError("the API server does not answer", retryable=True) from None

    # -- inside the thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as fault:  # noqa: BLE001  # handed to the thread that asks next
            while isinstance(fault, ExceptionGroup):
                fault = fault.exceptions[0]
            self._fault = fault
            log.error("event=admission-view-lost error=%r", str(fault))  # noqa: TRY400  # told in one line
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._client = Client(await connect(self._kubeconfig, self._context))
        try:
            async with asyncio.TaskGroup() as group:
                following = group.create_task(self._follow(group))
                await self._stop.wait()
                following.cancel()
                for reflecting in self._tasks:
                    reflecting.cancel()
        finally:
            await self._client.close()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        missing = [wanted for kind in dict.fromkeys((*FOLLOWED, *LOOKED_UP)) for wanted in wanted_of(kind)]
        while True:
            try:
                missing = await self._follow_served(group, missing)
            except ApiError as fault:
                log.warning("event=discovery-failed error=%r", str(fault))
            else:
                self._started.set()
            await asyncio.sleep(_DISCOVERY_SECONDS if self._started.is_set() else 1.0)

    async def _follow_served(self, group: asyncio.TaskGroup, missing: list[Wanted]) -> list[Wanted]:
        """Follow those of the kinds that the server has; return the others. Raises ApiError."""
        found = await served(self._client, missing)
        followed = [resource for resource in found.values() if resource.type in FOLLOWED]
        reflectors = [Reflector(self._client, resource, self._take) for resource in followed]
        self._tasks += [group.create_task(reflector.run()) for reflector in reflectors]
        for reflector in reflectors:
            await reflector.synced.wait()
        self._resources.update({resource.type: resource for resource in found.values()})
        return [wanted for wanted in missing if wanted not in found]

    def _take(self, events: list[Event], *, is_urgent: bool) -> None:
        """Put a new picture in the place of the old one."""
        del is_urgent
        old = self._facts
        facts = replace(
            old,
            volcano_queues=dict(old.volcano_queues),
            kai_queues=dict(old.kai_queues),
            domains=dict(old.domains),
            namespaces=dict(old.namespaces),
        )
        for event in events:
            if event.kind == "DELETED":
                facts.remove(event.object)
            else:
                facts.add(event.object)
        self._facts = facts
