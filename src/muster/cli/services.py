"""What `muster run` and `muster webhooks` do: a scheduler or a webhook server on a real cluster, ended by signals."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from muster.admission import Settings
from muster.admission.live import LiveFacts
from muster.api import BackendError, UserError
from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions, Shard
from muster.cluster.kubernetes.backend import VOLUME_WAIT_SECONDS
from muster.cluster.kubernetes.client.shards import WHOLE_CLUSTER
from muster.scheduler import builtin_registry
from muster.server import Service, ServiceOptions
from muster.server.reload import CertificateFiles, ConfigFile
from muster.server.webhooks import Desk, WebhookServer

log = logging.getLogger("muster.server")

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE = "kube-system"
_LEASE = "muster"
_CHECK_SECONDS: Final = 1.0


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


def serve(settings: RunSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises MusterError."""
    log_to_stderr()
    cluster = KubernetesCluster(
        settings.kubeconfig,
        settings.context,
        shard=settings.shard,
        lease=lease_of(settings) if settings.leader_elect else None,
        volume_wait_s=volume_wait_s(settings.config),
        takes_over_from=settings.scheduler_names,
        makes_queues=True,
    )
    options = ServiceOptions(
        scheduler_names=settings.scheduler_names,
        config=settings.config,
        listen=parse_address(settings.listen) if settings.listen else None,
        tls=tls_of(settings),
        guards_metrics=settings.metrics_auth,
        period_s=settings.period_s,
        shard_mode=settings.shard.mode,
    )
    service = Service(cluster, options)
    stop_on_signals(service.stop)
    service.run()


def volume_wait_s(config: str | None) -> float:
    """How long a pod may wait for its claims to be bound: the first plugin's word. Raises UserError."""
    asked = [plugin.volume_wait_s for plugin in builtin_registry().make_plugins(ConfigFile(config).first())]
    return next((seconds for seconds in asked if seconds is not None), VOLUME_WAIT_SECONDS)


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


def log_to_stderr() -> None:
    """One line per decision, key=value, with the time in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    form = logging.Formatter("time=%(asctime)s.%(msecs)03dZ level=%(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    form.converter = time.gmtime
    handler.setFormatter(form)
    logging.getLogger("muster").addHandler(handler)
    logging.getLogger("muster").setLevel(logging.INFO)


# -- webhooks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """What the options of `muster webhooks serve` say."""

    certificate: Path
    key: Path
    listen: str
    kubeconfig: Path | None = None
    context: str | None = None
    settings: Settings = field(default_factory=Settings)
    #: How long questions are still answered after the signal: until nobody is sent here any more.
    drain_s: float = 5.0


def serve_webhooks(options: WebhookOptions) -> None:
    """Answer until SIGTERM or SIGINT. Raises MusterError."""
    certificates = CertificateFiles(options.certificate, options.key)
    address = parse_address(options.listen)
    log_to_stderr()
    stopping = threading.Event()
    facts = LiveFacts(options.kubeconfig, options.context)

    def stop() -> None:
        stopping.set()
        facts.give_up()

    stop_on_signals(stop)
    try:
        facts.start()
        if stopping.is_set():
            return
        desk = Desk(
            facts,
            options.settings,
            unready=lambda: "going down" if stopping.is_set() else facts.trouble(),
            lost=facts.trouble,
        )
        server = WebhookServer(address, certificates, desk)
        log.info("event=ready port=%d", server.port)
        try:
            _until(stopping, facts)
            log.info("event=stopping")
            time.sleep(options.drain_s)
        finally:
            server.close()
    finally:
        facts.stop()


def _until(stopping: threading.Event, facts: LiveFacts) -> None:
    """Wait for the signal. Raises BackendError when the cluster is lost for good: a new start may help."""
    while not stopping.wait(_CHECK_SECONDS):
        if facts.trouble():
            raise BackendError(facts.trouble(), retryable=True)
