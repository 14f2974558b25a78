"""Controllers on a real API server: what they watch, and how their plans are carried out.

Everything happens on one thread with an event loop of its own; beside a scheduler, its watches are heard, too. Plans of
different objects go out side by side; the requests of one plan go in their order, except that creations, or deletions,
that stand side by side go together. Answers are taken in at once, so that the next plan knows them before the watch
says so. One replica works at a time: the one that has the lease. Whatever it has not finished when it dies, the next
one plans anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import Queue as Shelf
from typing import Final

from muster.api import (
    BackendError,
    HyperNode,
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    Topology,
)
from muster.api.names import JOB_NAME
from muster.api.objects.batch import Command, CronJob, Job, JobFlow, JobTemplate
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.kinds import (
    ObjectDecoder,
    Resource,
    Wanted,
    has_volcanos_controllers,
    served,
    wanted_of,
)
from muster.cluster.kubernetes.client.leases import Election, LeaseOptions
from muster.cluster.kubernetes.client.reflector import Reflector
from muster.cluster.kubernetes.client.requests import ApiError, Client, Selection
from muster.controllers.contract import Action, Ask, Controller, Create, Delete, Plan, Step, Target
from muster.controllers.cron import CronController
from muster.controllers.flows import FlowController
from muster.controllers.grouping.controller import GroupingController
from muster.controllers.grouping.families import Family
from muster.controllers.grouping.table import Table
from muster.controllers.hypernodes.controller import HyperNodeController
from muster.controllers.job_plugins.keys import key_pair
from muster.controllers.jobs.controller import JobController
from muster.controllers.queues import QueueController
from muster.server.discovery import Network
from muster.server.pace import LEAST_S, planning_pause_s
from muster.server.plan_requests import Sender
from muster.server.shared_watches import SharedWatches, Source
from muster.snapshot.messages import Event

log = logging.getLogger("muster.controllers")

#: Kinds that are watched; of pods those that a Job made, and those that name a scheduler of ours and wait for a node.
_FOLLOWED: Final[tuple[type[KubeObject], ...]] = (
    *(PriorityClass, Queue, JobTemplate, JobFlow, CronJob),
    *(Job, Command, PodGroup, Pod, KaiPodGroup, KaiQueue, Topology),
)
_DECODERS: Final = {
    (kind.api_version, kind.kind): ObjectDecoder(kind)
    for kind in (Pod, PodGroup, KaiPodGroup, Job, Queue, JobFlow, JobTemplate, CronJob, HyperNode)
}
#: Kinds that a scheduler follows as well.
_SHARED: Final[frozenset[type[KubeObject]]] = frozenset(
    {PriorityClass, Queue, PodGroup, Pod, KaiPodGroup, KaiQueue, Topology}
)
#: Requests under way at once, of all plans together; as many as a scheduler has.
_AT_ONCE: Final = 16
_DISCOVERY_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 10.0
#: For how long counts of a Job's pods wait for more of them, and while there is much else to send.
_COUNTS_SECONDS: Final = 1.0
_COUNTS_SECONDS_WHEN_BUSY: Final = 5.0
#: Uids of pods that are gone, so that a late answer does not bring them back.
_BURIED: Final = 20_000
#: Where Volcano's users have it.
DISCOVERY: Final = "volcano-system/volcano-controller-configmap"


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Which cluster, on whose behalf, and the lease that replicas share; None: there is but one."""

    kubeconfig: Path | None = None
    context: str | None = None
    scheduler_names: tuple[str, ...] = ("volcano",)
    lease: LeaseOptions | None = None
    #: Which pods belong together, by what owns them.
    table: Table | None = None
    #: Whether nothing is done where Volcano's own controllers are installed: two would make each pod twice.
    gives_way: bool = True
    #: namespace/name of the ConfigMap that says where the network is described.
    discovery: str = DISCOVERY


class Keys:
    """Makes pairs of keys ahead, since making one takes a second and nobody should wait for it but the first."""

    def __init__(self) -> None:
        self._shelf: Shelf[tuple[str, str]] = Shelf(maxsize=2)
        self._maker: threading.Thread | None = None

    def __call__(self) -> tuple[str, str]:
        if self._maker is None:
            self._maker = threading.Thread(target=self._make, name="muster-keys", daemon=True)
            self._maker.start()
        return self._shelf.get()

    def _make(self) -> None:
        while True:
            self._shelf.put(key_pair())


class ControllerService:
    """Runs all controllers on a thread of its own, from `start` to `stop`."""

    def __init__(self, options: ControllerOptions, beside: Source | None = None) -> None:
        """`beside`: the cluster as the scheduler in the same process follows it, before it begins to; None: alone."""
        self._options = options
        self._shared = None if beside is None else SharedWatches(beside, _SHARED, options.scheduler_names)
        self.controllers: dict[str, Controller] = {}
        self._thread = threading.Thread(target=self._run, name="muster-controllers", daemon=True)
        self._started = threading.Event()
        self._fault: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event

    def start(self, timeout_s: float = 60.0) -> None:
        """Connect, and return when everything has been read once. Raises MusterError."""
        self._thread.start()
        if not self._started.wait(timeout_s):
            raise BackendError(f"the API server did not list everything in {timeout_s:.0f} s", retryable=True)
        if self._fault is not None:
            raise self._fault

    def stop(self) -> None:
        """End; what is under way gets a moment. From any thread but its own."""
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_STOP_SECONDS)

    def trouble(self) -> str:
        """Why nothing is done any more, "" while it is."""
        return "" if self._fault is None else str(self._fault)

    def unready(self) -> str:
        """Why nothing can be done yet, or any more; "" while all is well."""
        return self.trouble() or ("" if self._started.is_set() else "the cluster has not been read yet")

    def _hand_over(self, worker: Worker, events: list[Event]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(worker.take, events)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as fault:  # noqa: BLE001  # handed to the thread that asks next
            while isinstance(fault, ExceptionGroup):
                fault = fault.exceptions[0]
            self._fault = fault
            log.error("event=controllers-lost error=%r", str(fault))  # noqa: TRY400  # told in one line
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        client = Client(await connect(self._options.kubeconfig, self._options.context))
        election = None if self._options.lease is None else Election(self._options.lease)
        if election is not None:
            client.write_seconds = election.write_seconds
        names = self._options.scheduler_names
        jobs = JobController(names[0], Keys(), hold_s=lambda: worker.counts_seconds())  # noqa: PLW0108  # made below
        there: set[type[KubeObject]] = set()
        groups = GroupingController(self._options.table, names, families=lambda: families_of(there))
        hyper_nodes = HyperNodeController(self._options.discovery)
        made: list[Controller] = [CronController(), FlowController(), jobs, QueueController(), hyper_nodes, groups]
        self.controllers = {controller.name: controller for controller in made}
        worker = Worker(
            client,
            self.controllers,
            Network(client, hyper_nodes, self._options.discovery),
            is_leader=lambda: election is None or election.is_held(),
            gives_way=self._options.gives_way,
            scheduler_names=names,
            there=there,
            shared=self._shared,
        )
        if self._shared is not None:
            self._shared.listen(partial(self._hand_over, worker))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(worker.follow(group, self._started))]
                tasks.append(group.create_task(worker.work()))
                if election is not None:
                    tasks.append(group.create_task(election.run(client)))
                await self._stop.wait()
                for task in (*tasks, *worker.tasks):
                    task.cancel()
            if election is not None:
                await election.release(client)
        finally:
            await client.close()


@dataclass(slots=True)
class Worker:
    """Watches, plans and sends, inside one event loop."""

    client: Client
    controllers: dict[str, Controller]
    network: Network
    is_leader: Callable[[], bool]
    gives_way: bool = False
    scheduler_names: tuple[str, ...] = ()
    #: Kinds that the server has.
    there: set[type[KubeObject]] = field(default_factory=set)
    #: What need not be watched, as somebody tells; None: everything has to be.
    shared: SharedWatches | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)
    _buried: dict[str, None] = field(default_factory=dict)
    #: Versions of objects that answers brought and no watch has shown yet, by uid.
    _learned: dict[str, str] = field(default_factory=dict)
    _sender: Sender = field(init=False)
    _is_ready: bool = False
    _pause_s: float = LEAST_S
    #: Whether others do all this.
    _is_beside_volcano: bool = False

    def __post_init__(self) -> None:
        self._sender = Sender(self.client, self._learn)

    # -- watching ------------------------------------------------------------------------------------------

    async def follow(self, group: asyncio.TaskGroup, started: threading.Event) -> None:
        """Follow every kind that the server has; look again for the others now and then."""
        missing = [wanted for kind in _FOLLOWED for wanted in wanted_of(kind)]
        while True:
            try:
                await self.network.look()
                for kind in self.network.new_kinds():
                    self._is_ready = False  # until all of them are known, none may be missed
                    missing += wanted_of(kind)
                missing = await self._follow_served(group, missing)
                await self._look_for_volcano()
            except ApiError as fault:
                log.warning("event=discovery-failed error=%r", str(fault))
            else:
                self._is_ready = True
                started.set()
                self._news.set()
            await asyncio.sleep(_DISCOVERY_SECONDS if self._is_ready else 1.0)

    async def _follow_served(self, group: asyncio.TaskGroup, missing: list[Wanted]) -> list[Wanted]:
        found = await served(self.client, missing)
        reflectors = [each for resource in found.values() for each in self._reflectors(resource)]
        self.tasks += [group.create_task(reflector.run()) for reflector in reflectors]
        for reflector in reflectors:
            await reflector.synced.wait()
        for resource in found.values():
            if self.shared is not None and resource.type in self.shared.kinds:
                await self.shared.read(resource.type)
        return [wanted for wanted in missing if wanted not in found]

    async def _look_for_volcano(self) -> None:
        is_beside = self.gives_way and await has_volcanos_controllers(self.client)
        if is_beside != self._is_beside_volcano:
            log.info("event=%s", "controllers-give-way-to-volcano" if is_beside else "controllers-take-over")
        self._is_beside_volcano = is_beside

    def _reflectors(self, resource: Resource) -> list[Reflector]:
        self._sender.has_status[resource.type.kind] = resource.has_status
        self.there.add(resource.type)
        if self.shared is not None and resource.type in self.shared.kinds:
            return []
        selections = [Selection()]
        if resource.type is Pod:
            # Only those that wait: once a pod has a node, it is too late for a group.
            waiting = [f"spec.schedulerName={name},spec.nodeName=" for name in self.scheduler_names]
            ours = [Selection(f"!{JOB_NAME}", fields) for fields in waiting]
            selections = [Selection(JOB_NAME), *ours]
        return [Reflector(self.client, resource, self.take, selection) for selection in selections]

    def take(self, events: list[Event], *, is_urgent: bool = True) -> None:
        """Let all controllers know what has happened."""
        del is_urgent
        now = time.time()
        for event in events:
            meta = event.object.metadata
            if event.kind == "DELETED":
                self._bury(event.object)
            elif self._learned.pop(meta.uid, "") == meta.resource_version:
                continue  # they know it from the answer to a request of theirs
            for controller in self.controllers.values():
                controller.take(event.kind, event.object, now)
        self._news.set()

    def _bury(self, thing: KubeObject) -> None:
        self._buried[thing.metadata.uid] = None
        self._learned.pop(thing.metadata.uid, None)
        self._sender.forget(thing.kind, thing.key)
        while len(self._buried) > _BURIED:
            del self._buried[next(iter(self._buried))]

    # -- working -------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Make plans as soon as there is news or time is up, and carry them out; until cancelled."""
        while True:
            await self._wait()
            if not self._is_ready or self._is_beside_volcano or not self.is_leader():
                continue
            began = time.monotonic()
            self._plan(time.time())
            self._pause_s = planning_pause_s(time.monotonic() - began, is_busy=self._is_busy())

    def _plan(self, now: float) -> None:
        for controller in self.controllers.values():
            for step in controller.steps(now):
                if not step.plan.actions:
                    controller.settle(step.key, now)
                    continue
                task = asyncio.create_task(self._carry_out(controller, step))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _wait(self) -> None:
        """Wait for news, for a moment that is due or the lease, and a little more for what belongs together."""
        moments = [moment for each in self.controllers.values() if (moment := each.due()) is not None]
        wait = max(0.02, min(moments, default=time.time() + 1.0) - time.time())
        try:
            async with asyncio.timeout(min(wait, 1.0)):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
        await asyncio.sleep(self._pause_s)

    def counts_seconds(self) -> float:
        """For how long counts that nobody acts upon may wait."""
        return _COUNTS_SECONDS_WHEN_BUSY if self._is_busy() else _COUNTS_SECONDS

    def _is_busy(self) -> bool:
        """Whether plans wait for each other, or soon will."""
        return len(self._under_way) > _AT_ONCE // 2

    async def _carry_out(self, controller: Controller, step: Step) -> None:
        fault = ""
        try:
            fault = await self._send(step.plan, controller)
        except BackendError as error:
            fault = str(error)
        except Exception as error:  # whatever it is, the next attempt may not meet it again
            log.exception("event=plan-broken controller=%s object=%s", step.controller, step.key)
            fault = f"{type(error).__name__}: {error}"
        if fault:
            log.warning("event=plan-failed controller=%s object=%s error=%r", step.controller, step.key, fault)
        controller.settle(step.key, time.time(), fault)
        self._news.set()

    async def _send(self, plan: Plan, controller: Controller) -> str:
        """Carry out a plan; say what went wrong. Raises BackendError."""

        def hear(ask: Ask, answer: bytes) -> str:
            return controller.answered(ask, answer, time.time())

        async def in_turn(action: Action) -> str:
            async with self._slots:
                return await self._sender.do(action, hear)

        for alike in _batches(plan.actions):
            faults = await asyncio.gather(*(in_turn(action) for action in alike))
            if fault := next(filter(None, faults), ""):
                return fault
        return ""

    def _learn(self, target: Target, answer: bytes) -> None:
        """Take in an object as an answer has it."""
        decoder = _DECODERS.get((target.api_version, target.kind))
        if decoder is None:
            return
        thing, fault = decoder.decode_or_stub(answer)
        if fault or thing.metadata.uid in self._buried:
            return
        self._learned[thing.metadata.uid] = thing.metadata.resource_version
        for controller in self.controllers.values():
            controller.take("MODIFIED", thing, time.time())


def families_of(there: Collection[type[KubeObject]]) -> frozenset[Family]:
    """The families of PodGroups that a server has."""
    known: dict[type[KubeObject], Family] = {PodGroup: "volcano", KaiPodGroup: "kai"}
    return frozenset(family for kind, family in known.items() if kind in there)


def _batches(actions: Sequence[Action]) -> Iterator[list[Action]]:
    """Actions that may go together: creations side by side, and deletions that are not marked one after the other."""

    def together(item: tuple[int, Action]) -> object:
        place, action = item
        is_free = isinstance(action, Create) or (isinstance(action, Delete) and not action.mark)
        return type(action) if is_free else place

    for _, items in groupby(enumerate(actions), key=together):
        yield [action for _, action in items]
