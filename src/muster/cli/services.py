"""What `muster run` and `muster webhooks` do: scheduler, controllers or a webhook server, ended by signals."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from muster.admission import Settings
from muster.api import BackendError, MusterError, UserError
from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions, Shard
from muster.cluster.kubernetes.backend import VOLUME_WAIT_SECONDS
from muster.cluster.kubernetes.client.shards import WHOLE_CLUSTER
from muster.controllers.grouping.table import Table, table_with
from muster.controllers.job_plugins import plugin_names
from muster.scheduler import builtin_registry
from muster.server import Service, ServiceOptions
from muster.server.controllers import DISCOVERY, ControllerOptions, ControllerService
from muster.server.reload import CertificateFiles, ConfigFile
from muster.server.status import StatusServer
from muster.server.webhook_service import WebhookOptions, WebhookService

if TYPE_CHECKING:
    from muster.cli.dashboard.component import Dashboard

log = logging.getLogger("muster.server")

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE = "kube-system"
_LEASE = "muster"
_CHECK_SECONDS: Final = 1.0
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = "controllers"
ADMISSION: Final = "admission"
UI: Final = "ui"
#: What runs unless something else is asked for.
USUAL: Final = frozenset({SCHEDULER, CONTROLLERS, ADMISSION})
COMPONENTS: Final = USUAL | {UI}


class Part(Protocol):
    """A part that runs beside others."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def trouble(self) -> str: ...
    def unready(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the options of the command say, as given."""

    kubeconfig: Path | None = None
    context: str | None = None
    #: A file, or the name of a profile.
    config: str | None = None
    scheduler_names: tuple[str, ...] = ("volcano",)
    shard: Shard = WHOLE_CLUSTER
    leader_elect: bool = True
    lease_namespace: str = ""
    #: "": a name that tells the shard.
    lease_name: str = ""
    listen: str = ""
    #: Certificate and key for what is listened on; None: plain HTTP.
    cert: Path | None = None
    key: Path | None = None
    metrics_auth: bool = False
    period_s: float = 1.0
    #: Parts of Muster to run; none: the usual ones, webhooks where there is a certificate for them.
    components: frozenset[str] = frozenset()
    webhooks: WebhookOptions | None = None
    #: namespace/name of the ConfigMap that says where the network is described.
    discovery: str = DISCOVERY
    #: Whether Jobs are served although Volcano's own controllers may do so, too.
    take_over_jobs: bool = False
    #: Where the dashboard answers.
    ui_listen: str = "127.0.0.1:8330"


def components_of(text: str) -> frozenset[str]:
    """Read the names of parts, with commas in between. Raises UserError."""
    found = frozenset(part.strip() for part in text.split(",") if part.strip())
    for unknown in sorted(found - COMPONENTS):
        raise UserError(f'--components: expected {" or ".join(sorted(COMPONENTS))}, got "{unknown}"')
    return found


def webhooks_of(
    cert: Path | None, key: Path | None, listen: str, kubeconfig: Path | None, context: str | None, names: Sequence[str]
) -> WebhookOptions | None:
    """How webhooks for these schedulers are answered beside them; None: not at all. Raises UserError."""
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise UserError("--webhook-cert and --webhook-key: expected both, or neither")
    settings = Settings(tuple(names)).with_job_plugins(plugin_names())
    return WebhookOptions(cert, key, parse_address(listen), kubeconfig, context, settings)


def serve(settings: RunSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises MusterError."""
    if settings.components == {UI}:
        from muster.cli.dashboard.component import serve_dashboard  # noqa: PLC0415  # a server that few need

        serve_dashboard(_dashboard(settings))
        return
    with logging_to_stderr():
        _serve(settings)


def _serve(settings: RunSettings) -> None:
    wanted = settings.components or (USUAL if settings.webhooks is not None else USUAL - {ADMISSION})
    if ADMISSION in wanted and settings.webhooks is None:
        raise UserError("--components admission: needs --webhook-cert and --webhook-key")
    beside: list[Part] = []
    cluster = _cluster(settings) if SCHEDULER in wanted else None
    if CONTROLLERS in wanted:
        beside.append(_controllers(settings, cluster))
    if ADMISSION in wanted and settings.webhooks is not None:
        beside.append(WebhookService(settings.webhooks))
    if UI in wanted:
        from muster.cli.dashboard.component import DashboardService  # noqa: PLC0415  # the same

        beside.append(DashboardService(_dashboard(settings)))
    if cluster is None:
        _serve_beside(beside, settings, sorted(wanted))
        return
    service = _scheduler(settings, cluster)
    stop_on_signals(service.stop)
    for part in beside:
        threading.Thread(target=_start, args=(part,), name="muster-start", daemon=True).start()
    try:
        service.run()
    finally:
        for part in beside:
            part.stop()


def _start(part: Part) -> None:
    """Start a part beside a scheduler, which tells itself when the cluster does not answer."""
    try:
        part.start()
    except MusterError as fault:
        log.error("event=part-not-started error=%r", str(fault))  # noqa: TRY400  # told in one line


def _controllers(settings: RunSettings, cluster: KubernetesCluster | None) -> ControllerService:
    lease = lease_of(replace(settings, lease_name=settings.lease_name and f"{settings.lease_name}-{CONTROLLERS}"))
    if not settings.lease_name:
        lease = replace(lease, name=f"{_LEASE}-{CONTROLLERS}")
    options = ControllerOptions(
        settings.kubeconfig,
        settings.context,
        settings.scheduler_names,
        lease if settings.leader_elect else None,
        grouping_of(settings.config),
        gives_way=not settings.take_over_jobs,
        discovery=settings.discovery,
    )
    return ControllerService(options, cluster)


def _dashboard(settings: RunSettings) -> Dashboard:
    from muster.cli.dashboard.component import Dashboard  # noqa: PLC0415  # the same

    return Dashboard(
        settings.kubeconfig,
        settings.context,
        settings.config,
        settings.scheduler_names,
        settings.shard,
        lease_of(settings).namespace,
        settings.ui_listen,
        *(tls_of(settings) or (None, None)),
    )


def _serve_beside(parts: list[Part], settings: RunSettings, components: list[str]) -> None:
    """Run all parts but the scheduler. Raises MusterError."""
    stopping = threading.Event()
    stop_on_signals(stopping.set)
    status = None
    if settings.listen:
        tls = tls_of(settings)
        status = StatusServer(
            parse_address(settings.listen),
            healthy=lambda: next(filter(None, (part.trouble() for part in parts)), ""),
            ready=lambda: next(filter(None, (part.unready() for part in parts)), ""),
            metrics=lambda: "",
            certificates=None if tls is None else CertificateFiles(*tls),
        )
    try:
        for part in parts:
            part.start()
        log.info("event=ready components=%s", ",".join(components))
        _until(stopping, parts)
    finally:
        log.info("event=stopping")
        for part in parts:
            part.stop()
        if status is not None:
            status.close()


def _until(stopping: threading.Event, parts: Sequence[Part]) -> None:
    """Wait for the signal. Raises BackendError when a part has lost the cluster for good: a new start may help."""
    while not stopping.wait(_CHECK_SECONDS):
        for part in parts:
            if part.trouble():
                raise BackendError(part.trouble(), retryable=True)


def _cluster(settings: RunSettings) -> KubernetesCluster:
    return KubernetesCluster(
        settings.kubeconfig,
        settings.context,
        shard=settings.shard,
        lease=lease_of(settings) if settings.leader_elect else None,
        volume_wait_s=volume_wait_s(settings.config),
        takes_over_from=settings.scheduler_names,
        makes_queues=True,
        # Whether controllers run elsewhere nobody says; without any, pods with an owner lose a moment.
        awaits_groups=True,
    )


def _scheduler(settings: RunSettings, cluster: KubernetesCluster) -> Service:
    options = ServiceOptions(
        scheduler_names=settings.scheduler_names,
        config=settings.config,
        listen=parse_address(settings.listen) if settings.listen else None,
        tls=tls_of(settings),
        guards_metrics=settings.metrics_auth,
        period_s=settings.period_s,
        shard_mode=settings.shard.mode,
    )
    return Service(cluster, options)


def volume_wait_s(config: str | None) -> float:
    """How long a pod may wait for its claims to be bound: the first plugin's word. Raises UserError."""
    asked = [plugin.volume_wait_s for plugin in builtin_registry().make_plugins(ConfigFile(config).first())]
    return next((seconds for seconds in asked if seconds is not None), VOLUME_WAIT_SECONDS)


def grouping_of(config: str | None) -> Table:
    """Which pods belong together, by what owns them. Raises UserError."""
    return table_with(ConfigFile(config).first().grouping, config or "default configuration")


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM and SIGINT, on a thread of its own.

    A handler interrupts the main thread anywhere, also where it holds a lock that stopping needs.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=stop, name="muster-stop", daemon=True).start())


def tls_of(settings: RunSettings) -> tuple[Path, Path] | None:
    """The certificate and its key; None: plain HTTP. Raises UserError."""
    if settings.cert is not None and settings.key is not None:
        return settings.cert, settings.key
    if settings.cert is not None or settings.key is not None:
        raise UserError("--cert and --key: expected both, or neither")
    if settings.metrics_auth:
        raise UserError("--metrics-auth: needs --cert and --key, because tokens must not be sent over plain HTTP")
    return None


def lease_of(settings: RunSettings) -> LeaseOptions:
    """Who we are to the other replicas, and the lease that we share with them."""
    namespace = settings.lease_namespace
    if not namespace:
        namespace = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else _FALLBACK_NAMESPACE
    identity = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return LeaseOptions(namespace, settings.lease_name or settings.shard.lease_name(_LEASE), identity)


def parse_address(text: str) -> tuple[str, int]:
    """Read "host:port"; without a host, all addresses are listened on. Raises UserError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f'--listen: expected an address such as ":8080" or "127.0.0.1:8080", got "{text}"')
    return host.strip("[]"), int(port)


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """One line per decision, key=value, with the time in UTC; what follows in this process logs as before."""
    handler = logging.StreamHandler(sys.stderr)
    form = logging.Formatter("time=%(asctime)s.%(msecs)03dZ level=%(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    form.converter = time.gmtime
    handler.setFormatter(form)
    ours = logging.getLogger("muster")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(before)


def serve_webhooks(options: WebhookOptions) -> None:
    """Answer until SIGTERM or SIGINT. Raises MusterError."""
    with logging_to_stderr():
        _serve_webhooks(options)


def _serve_webhooks(options: WebhookOptions) -> None:
    stopping = threading.Event()
    service = WebhookService(options)

    def stop() -> None:
        stopping.set()
        service.give_up()

    stop_on_signals(stop)
    try:
        service.start()
        if not stopping.is_set():
            log.info("event=ready port=%d", service.port)
            _until(stopping, [service])
            log.info("event=stopping")
    finally:
        service.stop()
