"""A certificate and its key in files, taken up again when they change.

Mounted secrets are replaced by renaming links, which leaves no reliable time stamps, so the content is compared. A pair
that does not fit (one file is new, the other not yet) is left for the next look; the one in force stays.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from muster.api import UserError

log = logging.getLogger("muster.server")

#: Seconds between looks at the files.
_LOOK_SECONDS: Final = 5.0


class CertificateFiles:
    """What a server shows who it is with. Raises UserError when the files cannot be used at the start."""

    def __init__(self, certificate: Path, key: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = (certificate, key)
        self._clock = clock
        self._lock = threading.Lock()
        self._content = self._read()
        self._context = self._load()
        self._looked = clock()

    def context(self) -> ssl.SSLContext:
        """The context for a new connection, of the files as they are now."""
        with self._lock:
            if self._clock() - self._looked >= _LOOK_SECONDS:
                self._looked = self._clock()
                self._refresh()
            return self._context

    def _refresh(self) -> None:
        try:
            content = self._read()
            if content == self._content:
                return
            self._context = self._load()
        except UserError as fault:
            log.warning("event=certificate-refused error=%r", str(fault))
        else:
            self._content = content
            log.info("event=certificate-reloaded file=%s", self._files[0])

    def _read(self) -> tuple[bytes, ...]:
        try:
            return tuple(file.read_bytes() for file in self._files)
        except OSError as fault:
            raise UserError(f"cannot read the file: {fault.strerror}", place=str(fault.filename)) from None

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key = self._files
        try:
            context.load_cert_chain(certificate, key)
        except (ssl.SSLError, OSError) as fault:
            said = getattr(fault, "reason", None) or fault
            raise UserError(
                f"expected a certificate in PEM and its key {key}: {said}", place=str(certificate)
            ) from None
        return context
