"""Webhooks as a part of a process: what the cluster holds is read once, then questions are answered until the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from muster.admission import Settings
from muster.admission.live import LiveFacts
from muster.server.reload import CertificateFiles
from muster.server.webhooks import Desk, WebhookServer


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Where webhooks are answered, with which certificate, and for which cluster."""

    certificate: Path
    key: Path
    address: tuple[str, int]
    kubeconfig: Path | None = None
    context: str | None = None
    settings: Settings = field(default_factory=Settings)
    #: How long questions are still answered after the signal: until nobody is sent here any more.
    drain_s: float = 5.0


class WebhookService:
    """Answers webhooks from `start` to `stop`, on threads of its own. Raises UserError for wrong certificates."""

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options
        self._certificates = CertificateFiles(options.certificate, options.key)
        self._facts = LiveFacts(options.kubeconfig, options.context)
        self._server: WebhookServer | None = None
        self._is_stopping = False

    @property
    def port(self) -> int:
        """Where it listens, 0 if it does not."""
        return 0 if self._server is None else self._server.port

    def start(self) -> None:
        """Read the cluster, and answer from then on. Raises MusterError."""
        self._facts.start()
        if self._is_stopping:
            return
        desk = Desk(self._facts, self._options.settings, unready=self.unready, lost=self._facts.trouble)
        self._server = WebhookServer(self._options.address, self._certificates, desk)

    def trouble(self) -> str:
        """Why nothing can be answered any more, "" while it can."""
        return self._facts.trouble()

    def unready(self) -> str:
        """Why nobody should be sent here, "" while all is well."""
        if self._is_stopping:
            return "going down"
        return self.trouble() or ("" if self._server is not None else "the cluster has not been read yet")

    def give_up(self) -> None:
        """Do not go on reading the cluster, if that is not over yet."""
        self._is_stopping = True
        self._facts.give_up()

    def stop(self) -> None:
        """Answer a little longer, then end."""
        was_answering = self._server is not None and not self.trouble()
        self.give_up()
        if was_answering:
            time.sleep(self._options.drain_s)
        if self._server is not None:
            self._server.close()
        self._facts.stop()
