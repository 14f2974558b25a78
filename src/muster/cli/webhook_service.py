"""What `muster webhooks …` does: the server with its view of the cluster, and the configurations in print."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer

from muster.admission import Settings
from muster.admission.hooks import Address, configurations
from muster.admission.live import LiveFacts
from muster.api import BackendError, UserError
from muster.cli.crd_reports import as_yaml
from muster.cli.run import log_to_stderr, parse_address, stop_on_signals
from muster.server.http import CertificateFiles
from muster.server.webhooks import Desk, WebhookServer

log = logging.getLogger("muster.server")

_CHECK_SECONDS: Final = 1.0


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


def print_configurations(
    service: str, url: str, ca_file: Path | None, failure_policy: str, scheduler_names: tuple[str, ...], output: str
) -> None:
    """Print both configurations. Raises UserError."""
    namespace, slash, name = service.partition("/")
    if not url and not (slash and namespace and name):
        raise UserError(f'--service: expected NAMESPACE/NAME such as "muster-system/muster-webhooks", got "{service}"')
    if url and not url.startswith("https://"):
        raise UserError(f'--url: expected an address that begins with https://, got "{url}"')
    address = Address(url, namespace, name, "" if ca_file is None else _bundle(ca_file))
    documents = configurations(address, failure_policy=failure_policy, scheduler_names=scheduler_names)
    if output == "json":
        typer.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=2))
    else:
        typer.echo("---\n".join(map(as_yaml, documents)), nl=False)


def _bundle(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as fault:
        raise UserError(f"cannot read the file: {fault.strerror}", place=str(file)) from None
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise UserError("expected certificates in PEM", place=str(file))
    return base64.b64encode(content).decode()
