"""`muster run`: cycles on a real cluster, as soon as there is something to decide and no more often than is good.

A cycle follows events, with a pause in between that grows with what cycles cost. While pods wait there is a cycle every
`period_s` even without events, because time itself can decide (minimum run-times, waiting limits); a cluster at rest
gets one now and then. A replica that is not the leader keeps its mirror current and decides nothing. Whatever a cycle
raises costs that cycle; how often that may happen, see `health`.
`stop` may be called from any other thread: the cycle under way ends, what was decided is sent, and the lease given up.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from muster.api import Container, Node, ObjectMeta, Pod, PodGroup, PodGroupSpec, PodSpec, Quantity, Queue, UserError
from muster.api.objects.node import NodeStatus
from muster.api.objects.pod import ResourceRequirements
from muster.framework import Registry, SchedulerConfig, Session, Sharding
from muster.scheduler import Cluster, CycleResult, Scheduler, builtin_registry
from muster.server.metrics import Metrics
from muster.server.pace import LEAST_S, Pace
from muster.server.reload import CertificateFiles, ConfigFile
from muster.server.status import GIVE_UP_AFTER, Health, StatusServer, TokenReviews
from muster.snapshot import NO_ROW, Mirror, TaskStatus
from muster.snapshot.messages import Event
from muster.snapshot.records import stamp_text

log = logging.getLogger("muster.server")

#: The longest pause because of decisions that have not been sent yet.
_BACKLOG_S: Final = 1.0
_IDLE_S: Final = 5.0
#: Seconds for which another replica may lead after our cycles have failed.
_AWAY_S: Final = 60.0

#: Objects made before the youngest are looked at; the default, 700, is a few pods.
_YOUNG: Final = 50_000
#: Seconds that a cycle may keep the watches from running, and they it.
_SWITCH_SECONDS: Final = 0.001


class LiveCluster(Cluster, Protocol):
    """What the service needs of a cluster beyond the scheduler's protocol."""

    def begin(self) -> None: ...

    def start(self, *, take: Callable[[list[Event]], None]) -> None: ...

    def stop(self) -> None: ...

    def wait(self, timeout_s: float) -> bool: ...

    def wake(self) -> None: ...

    def check(self) -> None: ...

    def is_leader(self) -> bool: ...

    def stand_down(self, seconds: float) -> None: ...

    def trouble(self, limit_s: float) -> str: ...

    def ask(self, path: str, body: bytes) -> bytes: ...

    def is_busy(self) -> bool: ...

    def refusals(self) -> Mapping[str, int]: ...

    def time_requests(self, observe: Callable[[str, float], None]) -> None: ...

    def shard_nodes(self) -> frozenset[str] | None: ...


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How the service runs."""

    scheduler_names: tuple[str, ...] = ("volcano",)
    #: A file, which is read again when it changes, or the name of a profile; None: the default.
    config: str | None = None
    #: Where probes and metrics are answered; None: nowhere.
    listen: tuple[str, int] | None = None
    #: Certificate and key to answer over TLS with.
    tls: tuple[Path, Path] | None = None
    #: Whether metrics are only for those whom the cluster allows to read them.
    guards_metrics: bool = False
    period_s: float = 1.0
    #: What nodes are that stand outside of the shard that the cluster names: no choice (hard), or the last (soft).
    shard_mode: str = "hard"


class Service:
    """Runs until it is stopped. Raises UserError at once for a configuration that cannot be used."""

    def __init__(self, cluster: LiveCluster, options: ServiceOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._file = ConfigFile(options.config)
        self.scheduler = Scheduler(
            cluster,
            self._file.first(),
            builtin_registry(),
            scheduler_names=options.scheduler_names,
            allocates_claims=False,
        )
        self.metrics = Metrics()
        self._pace = Pace()
        cluster.time_requests(self._time_request)
        self.health = Health(cluster.trouble)
        self._stopping = threading.Event()
        self._is_ready = False

    def stop(self) -> None:
        """Ask the service to end; from any thread but the one that serves, and so from no signal handler."""
        self._stopping.set()
        self._cluster.wake()
        if not self._is_ready:
            self._cluster.stop()  # it may be waiting for a server that does not answer

    def run(self) -> None:
        """Serve until stopped. Raises MusterError."""
        status = None if self._options.listen is None else self._serve_status(self._options.listen)
        try:
            gc.disable()  # nothing of what is read now will go soon; `settle_memory` turns it on
            self._cluster.begin()
            warm_up(self.scheduler.config, self.scheduler.registry)
            self._cluster.start(take=self.scheduler.take)
            if not self._stopping.is_set():
                self._get_ready()
            while not self._stopping.is_set():
                self._cluster.wait(self.turn())
            log.info("event=stopping")
        finally:
            gc.enable()
            self._is_ready = False
            self.health.stop()
            self._cluster.stop()
            if status is not None:
                status.close()

    def _get_ready(self) -> None:
        self.scheduler.observe()
        settle_memory()
        self._is_ready = True
        self.health.start()
        log.info("event=ready scheduler_names=%s", ",".join(self._options.scheduler_names))

    def turn(self) -> float:
        """Do what is due once; return how long nothing will be, unless an event comes. Raises MusterError."""
        self._cluster.check()  # a cycle would take it for a fault of its own, and go on
        self._reload()
        leads = self._cluster.is_leader()
        self.health.begin(leads=leads)
        self.metrics.record_leadership(is_leader=leads)
        try:
            return self._lead() if leads else self._follow()
        except Exception as fault:  # whatever it is, the next cycle may not meet it again
            self._cluster.check()
            log.exception("event=error")
            self._fail(f"{type(fault).__name__}: {fault}", leads=leads)
            self._stopping.wait(LEAST_S)
            return self._options.period_s

    def _follow(self) -> float:
        """Keep the picture current while another replica leads."""
        self.scheduler.observe()
        self.scheduler.mirror.quarantine.tell()  # another replica tells; from the moment that we lead, we do
        self.scheduler.mirror.quarantine.tell_again()
        self.health.succeed()
        self._stopping.wait(LEAST_S)
        return self._options.period_s

    def _lead(self) -> float:
        """Run a cycle."""
        began = time.monotonic()
        self._take_shard()
        result = self.scheduler.run_once()
        seconds = time.monotonic() - began
        self.metrics.record_cycle(result, seconds)
        self.metrics.record_refusals(self._cluster.refusals())
        if result.error is None:
            self.health.recover()
        else:
            self._fail(str(result.error), leads=True)
        if self.scheduler.last_session is not None:
            self.metrics.record_session(self.scheduler.last_session)
        self._pause(self._pace.rest_s(seconds, is_fruitful=_is_fruitful(result)))
        return self._options.period_s if self._has_waiting() else max(_IDLE_S, self._options.period_s)

    def _fail(self, fault: str, *, leads: bool) -> None:
        """Take in that a cycle failed; after too many in a row, another replica may do better."""
        if self.health.fail(fault) and leads:
            log.error("event=standing-down failed_cycles=%d error=%r", GIVE_UP_AFTER, fault)
            self._cluster.stand_down(_AWAY_S)

    def _pause(self, seconds: float) -> None:
        """Rest after a cycle, and until most of what was decided is on its way."""
        self._stopping.wait(seconds)
        until = time.monotonic() + _BACKLOG_S
        while self._cluster.is_busy() and time.monotonic() < until and not self._stopping.is_set():
            self._stopping.wait(LEAST_S)

    def _time_request(self, method: str, seconds: float) -> None:
        """Take in how long an answer took; in the thread that sends."""
        self.metrics.record_request(method, seconds)
        self._pace.answered(method, seconds)

    def _has_waiting(self) -> bool:
        session = self.scheduler.last_session
        if session is None:
            return True
        tasks = session.snapshot.tasks
        unsettled = (tasks.status == TaskStatus.PENDING) | (tasks.status == TaskStatus.PIPELINED)
        return bool((unsettled & (tasks.job != NO_ROW)).any())

    def _take_shard(self) -> None:
        """Work on the nodes that are ours now, where somebody says which those are."""
        nodes = self._cluster.shard_nodes()
        sharding = None if nodes is None else Sharding(self._options.shard_mode, nodes)
        if sharding != self.scheduler.config.sharding:
            self.scheduler.configure(replace(self.scheduler.config, sharding=sharding))
            log.info("event=shard-changed nodes=%d", len(nodes or ()))

    def _reload(self) -> None:
        try:
            found = self._file.changed()
            if found is None:
                return
            self.scheduler.configure(found)
        except Exception as fault:  # noqa: BLE001  # whatever a text makes of its reader, the one in force stays
            what = str(fault) if isinstance(fault, UserError) else f"{type(fault).__name__}: {fault}"
            log.error("event=config-refused error=%r", what)  # noqa: TRY400  # the user's mistake, not ours
            self.metrics.record_reload(worked=False)
        else:
            log.info("event=config-reloaded file=%s", self._options.config)
            self.metrics.record_reload(worked=True)

    # -- probes ------------------------------------------------------------------------------------------------

    def _serve_status(self, address: tuple[str, int]) -> StatusServer:
        tls = self._options.tls
        server = StatusServer(
            address,
            healthy=self.health.unhealthy,
            ready=self.health.unready,
            metrics=self._metrics,
            quarantine=self._quarantine,
            certificates=None if tls is None else CertificateFiles(*tls),
            reviews=TokenReviews(self._cluster.ask) if self._options.guards_metrics else None,
        )
        log.info("event=listening port=%d", server.port)
        return server

    def _quarantine(self) -> str:
        """What cannot be used and since when, and the plugins that are left out, as JSON."""
        asides = [
            {**held.to_json(), "since": stamp_text(held.since), "job": held.job}
            for held in self.scheduler.mirror.quarantine
        ]
        out = sorted(self.scheduler.strikes.out(self._cluster.now()))
        return json.dumps({"quarantined": asides, "pluginsLeftOut": out}, indent=2) + "\n"

    def _metrics(self) -> str:
        self.metrics.record_quarantine(self.scheduler.mirror.quarantine, self.scheduler.strikes.count)
        self.metrics.record_waiting(self.health.undecided_s())
        return self.metrics.text()


def _is_fruitful(result: CycleResult) -> bool:
    """Whether anybody got further by a cycle; that somebody waits still is no reason to look again at once."""
    return bool(result.decisions or result.ungated) or any(made.unschedulable is None for made in result.updates)


# -- once, so that the first decision is as fast as the others -------------------------------------------------


def warm_up(config: SchedulerConfig, registry: Registry) -> None:
    """Run the actions once on a picture of one node and a gang of two."""
    mirror = Mirror()
    for item in _picture():
        mirror.upsert(item)
    try:
        session = Session(mirror.snapshot(), config, registry)
        for name in config.actions:
            registry.make_action(name, config.arguments_of(name)).run(session)
    except Exception as fault:  # noqa: BLE001  # a plugin that fails here fails in cycles too, and is reported there
        log.warning("event=warm-up-failed error=%r", str(fault))


def settle_memory() -> None:
    """Leave what is there now to live on, and let threads take turns quickly."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_YOUNG, 20, 50)
    sys.setswitchinterval(_SWITCH_SECONDS)


def _picture() -> list[Node | Queue | PodGroup | Pod]:
    amounts = {"cpu": Quantity.of("1"), "pods": Quantity.of("9")}
    requests = ResourceRequirements(requests={"cpu": Quantity.of("100m")})
    pods = [
        Pod(
            metadata=ObjectMeta(name=name, annotations={"scheduling.k8s.io/group-name": "warm-up"}),
            spec=PodSpec(containers=[Container(name="main", resources=requests)]),
        )
        for name in ("a", "b")
    ]
    return [
        Node(metadata=ObjectMeta(name="warm-up"), status=NodeStatus(allocatable=amounts, capacity=amounts)),
        Queue(metadata=ObjectMeta(name="default")),
        PodGroup(metadata=ObjectMeta(name="warm-up"), spec=PodGroupSpec(min_member=2, queue="default")),
        *pods,
    ]
