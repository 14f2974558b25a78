"""The thread in which everything that waits for the API server happens, with an event loop of its own.

A cycle never waits for the network, and the watches never wait for a cycle. The backend starts the thread, hands
requests to its queues, and reads the inbox that reflectors and requests fill. What breaks in here for good (a
certificate that is not trusted, a bug) is kept, and raised in the thread that asks next.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from muster.api import BackendError, KaiPodGroup, KubeObject, Pod, PodGroup
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.kinds import (
    EVERYTHING,
    Resource,
    Wanted,
    has_volcanos_controllers,
    served,
    wanted_of,
)
from muster.cluster.kubernetes.client.leases import Election
from muster.cluster.kubernetes.client.reflector import Reflector, Sink
from muster.cluster.kubernetes.client.requests import FORBIDDEN, UNKNOWN_USER, ApiError, Client
from muster.cluster.kubernetes.client.shards import NodeShards, Target
from muster.cluster.kubernetes.sending.events import EventSender, KubeEvent
from muster.cluster.kubernetes.sending.queues import Inbox, RequestQueue
from muster.snapshot.messages import Event

log = logging.getLogger("muster.kubernetes")

#: Every worker has a connection of its own, and opening one costs both sides more than several requests. More of them
#: make no server faster that has little to spare, and one that is flooded ends the watches of all who look on.
N_URGENT: Final = 16
N_REPORTS: Final = 4
#: Seconds between looks for kinds that the server does not have yet.
_DISCOVERY_SECONDS: Final = 15.0
#: How often a server may refuse to say which kinds it has before that is final; one that just started may at first.
_REFUSALS: Final = 4
_DRAIN_SECONDS: Final = 10.0
#: Seconds until a new leader that could not find out what the old one did tries again.
_CATCH_UP_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 5.0
#: Seconds between looks whether everything that was sent has an answer.
_LOOK_SECONDS: Final = 0.1
#: What schedulers write and read.
_WRITTEN: Final = (Pod, PodGroup, KaiPodGroup)


class ApiThread:
    """Client, queues and reflectors, once `start` has returned."""

    def __init__(self, inbox: Inbox, target: Target, election: Election | None) -> None:
        self._inbox = inbox
        self._target = target
        self._election = election
        self._thread = threading.Thread(target=self._run, name="muster-kubernetes", daemon=True)
        self._started = threading.Event()
        self._fault: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_begun = False
        self._is_stopped = False
        self._stop: asyncio.Event
        #: Set when everything that exists has been read.
        self._listed: asyncio.Event
        self._following: dict[type[KubeObject], Resource] = {}
        #: Whether Volcano's controllers are installed, which make PodGroups for pods without one.
        self.is_beside_volcano = False
        self._reflectors: list[Reflector] = []
        #: Who else hears of kinds that are followed.
        self._sharers: list[tuple[frozenset[type[KubeObject]], Sink]] = []
        #: The taking of the lease after which everything was seen that the leader before had written.
        self._caught_up: float | None = None
        #: What NodeShards say, where one of them says which nodes are ours.
        self.node_shards: NodeShards | None = None
        if target.shard.node_shard:
            self.node_shards = NodeShards(target.shard.node_shard, lambda: inbox.put_answer(lambda: None))
        #: As `Client.observe`; set before the thread starts.
        self.observe_request: Callable[[str, float], None] | None = None
        self.client: Client
        self.urgent: RequestQueue
        #: What is written on pods that leave, and has to be there before they are gone.
        self.reasons: RequestQueue
        self.reports: RequestQueue
        self._events: EventSender

    def begin(self) -> None:
        """Connect, and read what there is; `start` waits for it."""
        if not self._is_stopped and not self._has_begun:
            self._has_begun = True
            self._thread.start()

    def start(self, timeout_s: float, began: float | None = None) -> None:
        """Connect, and return when everything that exists has been read, or `stop` was called. Raises MusterError.

        The time counts from `began`, where somebody has waited before.
        """
        self.begin()
        if self._is_stopped:
            return
        waited = 0.0 if began is None else time.monotonic() - began
        if not self._started.wait(max(0.0, timeout_s - waited)):
            troubles = [each.trouble for each in self._reflectors if each.trouble and not each.synced.is_set()]
            what = "; ".join(["the API server did not list everything in time", *troubles])
            raise BackendError(f"{what} ({timeout_s:.0f} s)", retryable=True)
        self.check()

    def wait(self, seconds: float) -> bool:
        """Wait a while; whether everything that exists has been read, or nothing more will be."""
        return self._is_stopped or self._started.wait(seconds)

    def has_groups(self) -> bool:
        """Whether all PodGroups that exist have been read; from any thread."""
        return bool(self._following) and all(
            each.synced.is_set() for each in list(self._reflectors) if each.kind in (PodGroup, KaiPodGroup)
        )

    def share(self, kinds: Collection[type[KubeObject]], sink: Sink) -> frozenset[type[KubeObject]]:
        """Tell somebody else of kinds, in this thread, as far as all their objects are followed; before `begin`."""
        whole = frozenset(kind for kind in kinds if not self._target.shard.selector_of(kind))
        self._sharers.append((whole, sink))
        return whole

    def has_read(self, kind: type[KubeObject]) -> bool:
        """Whether all objects of a kind have been read; from any thread."""
        found = [each.synced.is_set() for each in list(self._reflectors) if each.kind is kind]
        return bool(found) and all(found)

    def stop(self) -> None:
        """Finish what is urgent and under way, then end the thread; from any thread."""
        self._is_stopped = True
        if not self._thread.is_alive():
            return
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed, and the thread about to end
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def check(self) -> None:
        """Raise what broke in the thread."""
        if self._fault is not None:
            raise self._fault

    def resource(self, kind: type[KubeObject]) -> Resource | None:
        """Where objects of a kind are; None when the server does not have the kind."""
        return self._following.get(kind)

    def is_there(self, thing: KubeObject) -> bool:
        """Whether the watches still show an object, and not another one of its name; inside the thread."""
        found = (each.find(thing.key) for each in self._reflectors if each.kind is type(thing))
        return any(known is not None and known.metadata.uid == thing.metadata.uid for known in found)

    def tell(self, events: Sequence[KubeEvent]) -> None:
        """Let users know, if there is time for it."""
        self._events.tell(events)

    def may_act(self) -> bool:
        """Whether decisions may be sent: always, unless several schedulers choose a leader.

        A new leader may not before it has seen what the one before it did.
        """
        election = self._election
        return election is None or (election.is_held() and election.taken_at == self._caught_up)

    def _write_seconds(self) -> float:
        """How long a change that is sent now may take; 0: it may not be sent."""
        if not self.may_act():
            return 0.0
        return math.inf if self._election is None else self._election.write_seconds()

    def stand_down(self, seconds: float) -> None:
        """Decide nothing from now on, and let another replica lead for so long at least; from any thread."""
        if self._election is None or self._loop is None:
            return
        self._election.stand_down(seconds)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            asyncio.run_coroutine_threadsafe(self._hand_over(self._election), self._loop)

    def trouble(self, limit_s: float) -> str:
        """What keeps us from knowing the present or from deciding, for longer than a limit; from any thread."""
        silent = max(((each.silent_s(), each.kind.kind) for each in list(self._reflectors)), default=(0.0, ""))
        if silent[0] > limit_s:
            return f"no news of any {silent[1]} for {silent[0]:.0f} s"
        election = self._election
        if election is None or election.taken_at is None or not election.is_held() or self.may_act():
            return ""
        idle = time.monotonic() - election.taken_at
        return f"leads since {idle:.0f} s without knowing what the leader before did" if idle > limit_s else ""

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        """Post a question that changes nothing, or read a path; from any other thread. Raises BackendError."""
        if not self._started.is_set() or self._loop is None or self._loop.is_closed():
            raise BackendError("not connected", retryable=True)
        question = self.client.request("GET" if body is None else "POST", path, body, timeout_s=_ASK_SECONDS)
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asked.result(_ASK_SECONDS + 1.0)
        except (TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            raise BackendError("the API server does not answer", retryable=True) from None

    @property
    def term(self) -> float | None:
        """Which time of leading this is; None before the first."""
        return 0.0 if self._election is None else self._caught_up

    # -- inside the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as fault:  # noqa: BLE001  # handed to the thread that asks next
            self._fault = _first(fault)
        finally:
            self._started.set()
            self._inbox.put_answer(self.check)

    async def _main(self) -> None:
        self._stop, self._listed = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._is_stopped:
            self._stop.set()
        self.client = Client(await connect(self._target.kubeconfig, self._target.context))
        # Asked at the last moment: requests may have waited since we were the leader.
        self.client.write_seconds = self._write_seconds
        if self.observe_request is not None:
            self.client.observe = self.observe_request
        self.urgent = RequestQueue("urgent", N_URGENT)
        self.reasons = RequestQueue("reasons", N_REPORTS, yields_to=self.urgent)
        self.reports = RequestQueue("reports", N_REPORTS, yields_to=self.urgent)
        self._events = EventSender(self.client, self.may_act, self.urgent.is_busy, self.urgent.is_still)
        if self._election is not None:
            await self._election.try_once(self.client)  # before the lists, which then need no catching up
        tasks = {asyncio.create_task(self._follow()), asyncio.create_task(self._wait_for_stop())}
        if self._election is not None:
            tasks.add(asyncio.create_task(self._election.run(self.client)))
            tasks.add(asyncio.create_task(self._catch_up(self._election)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._drain()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.urgent.stop()
            await self.reasons.stop()
            await self.reports.stop()
            await self._events.stop()
            if self._election is not None:
                await self._release(self._election)
            await self.client.close()

    async def _release(self, election: Election) -> None:
        """Give the lease up, unless something is still under way: then it has to run out."""
        if self.client.uncertain_s() > 0:
            log.warning("event=lease-kept error=%r", "a change has no answer yet, and may still be made")
        else:
            await election.release(self.client)

    async def _hand_over(self, election: Election) -> None:
        """Let another replica lead once nothing that we sent can happen any more."""
        while (seconds := self.client.uncertain_s()) > 0:
            await asyncio.sleep(min(seconds, _LOOK_SECONDS))
        await election.give_up(self.client)

    async def _catch_up(self, election: Election) -> None:
        """After every taking of the lease, see what was written until then, and let decisions be made."""
        while True:
            await election.taken.wait()
            election.taken.clear()
            moment = election.taken_at
            assert moment is not None
            try:
                await self._listed.wait()
                written = [each for each in self._reflectors if each.kind in _WRITTEN]
                await asyncio.gather(*(each.catch_up(moment) for each in written))
            except ApiError as fault:
                log.warning("event=catch-up-failed error=%r", str(fault))
                await asyncio.sleep(_CATCH_UP_SECONDS)
                election.taken.set()
            else:
                self._caught_up = moment
                self._inbox.put_answer(lambda: None)  # there may be something to decide

    async def _wait_for_stop(self) -> None:
        await self._stop.wait()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self.urgent.drain()
                await self.reasons.drain()
                await self.reports.drain()
        except TimeoutError:
            log.warning("event=drain-timeout seconds=%d", _DRAIN_SECONDS)

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self._follow_in(group)

    async def _follow_in(self, group: asyncio.TaskGroup) -> None:
        """Follow every kind that the server has; look again for the others now and then."""
        missing = [*EVERYTHING, *(wanted_of(NodeShard) if self._target.shard.node_shard else ())]
        n_refused = 0
        while True:
            found: dict[Wanted, Resource] = {}
            try:
                found = await served(self.client, missing)
                self.is_beside_volcano = await has_volcanos_controllers(self.client)
            except ApiError as fault:
                log.warning("event=discovery-failed error=%r", str(fault))
                if fault.status in (UNKNOWN_USER, FORBIDDEN) and not self._following:
                    n_refused += 1
                    if n_refused == _REFUSALS:
                        raise self.client.explain(fault) from None
            reflectors = [self._reflect(resource, group) for resource in found.values()]
            for reflector in reflectors:
                await reflector.synced.wait()
            if self._following:
                self._listed.set()
                self._started.set()
            missing = [wanted for wanted in missing if wanted not in found]
            await asyncio.sleep(_DISCOVERY_SECONDS if self._following else 1.0)

    def _reflect(self, resource: Resource, group: asyncio.TaskGroup) -> Reflector:
        selector = self._target.shard.selector_of(resource.type)
        sink: Sink = self._inbox.put_events
        if resource.type is NodeShard and self.node_shards is not None:
            sink = self.node_shards.observe
        for kinds, other in self._sharers:
            if resource.type in kinds:
                sink = _both(sink, other)
        reflector = Reflector(self.client, resource, sink, selector)
        group.create_task(reflector.run(), name=resource.plural)
        self._reflectors.append(reflector)
        self._following.setdefault(resource.type, resource)
        return reflector


def _both(first: Sink, second: Sink) -> Sink:
    def take(events: list[Event], *, is_urgent: bool) -> None:
        first(events, is_urgent=is_urgent)
        second(events, is_urgent=is_urgent)

    return take


def _first(fault: Exception) -> Exception:
    """The first fault of a group of tasks that ended together."""
    while isinstance(fault, ExceptionGroup):
        fault = fault.exceptions[0]
    return fault
