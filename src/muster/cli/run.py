"""What `muster run` does: a service on a real cluster, ended by signals."""

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
from dataclasses import dataclass
from pathlib import Path

from muster.api import UserError
from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions, Shard
from muster.cluster.kubernetes.backend import VOLUME_WAIT_SECONDS
from muster.cluster.kubernetes.client.shards import WHOLE_CLUSTER
from muster.scheduler import builtin_registry
from muster.server import Service, ServiceOptions
from muster.server.reload import ConfigFile

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_FALLBACK_NAMESPACE = "kube-system"
_LEASE = "muster"


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
