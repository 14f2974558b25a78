"""Files that are read again when they change: the configuration, and a certificate with its key.

Mounted ConfigMaps and secrets are replaced by renaming links, which leaves no reliable time stamps, so the content is
compared. What cannot be used is reported once and the one in force stays, whatever is wrong with it: a file is also
seen while an editor writes it, or after a disk ran full. A configuration that was written only in part is not taken:
a text counts once it has stayed the same for a moment, ends with its line, and is not just the beginning of the one
in force. A certificate and a key that do not fit (one file is new, the other not yet) are left for the next look.
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
from muster.framework import SchedulerConfig, default_config, find_config, parse_config

log = logging.getLogger("muster.server")

#: Seconds that a changed text has to stay the same; whoever writes a file in pieces is faster.
_SETTLE_S: Final = 1.0
#: Seconds between looks at the files.
_LOOK_SECONDS: Final = 5.0


class ConfigFile:
    """A configuration file; a profile, or None for the default, never changes."""

    def __init__(self, source: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._path = Path(source) if source is not None and Path(source).is_file() else None
        self._clock = clock
        #: The text that was last judged, and the last that could be read.
        self._text = self._readable = None if self._path is None else _text(self._path)
        #: A text that was seen to differ, and since when.
        self._settling: tuple[str, float] | None = None

    def first(self) -> SchedulerConfig:
        """What holds at the start. Raises UserError."""
        found = default_config() if self._source is None else find_config(self._source)
        for note in found.notes:
            log.warning("event=configuration note=%r", note)
        return found

    def changed(self) -> SchedulerConfig | None:
        """What the file says now; None when it says the same as before. Raises UserError once for what is wrong."""
        text = None if self._path is None else _text(self._path)
        if self._path is None or text is None or text == self._text:
            self._settling = None
            return None
        if not self._has_settled(text):
            return None
        self._text = text
        self._check_whole(text)
        found = parse_config(text, str(self._path))
        self._readable = text
        return found

    def _has_settled(self, text: str) -> bool:
        if self._settling is None or self._settling[0] != text:
            self._settling = (text, self._clock())
        return self._clock() - self._settling[1] >= _SETTLE_S

    def _check_whole(self, text: str) -> None:
        """Raise UserError for what looks like a part of a file."""
        before = self._readable or ""
        if before.endswith("\n") and not text.endswith("\n"):
            raise UserError("the last line has no end, as if the file had been cut off", place=str(self._path))
        if before.startswith(text) and text != before:
            what = "the file holds just the beginning of the configuration in force, as if it had been cut off"
            raise UserError(f"{what}; if that is meant, add a comment", place=str(self._path))


def _text(path: Path) -> str | None:
    """The text; None while the file is being replaced."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


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
