"""The configuration file, read again when it changes.

Mounted ConfigMaps are replaced by renaming links, which leaves no reliable time stamps, so the text itself is compared.
A configuration that cannot be used is reported once and the one in force stays.
"""

from __future__ import annotations

import logging
from pathlib import Path

from muster.api import UserError
from muster.framework import SchedulerConfig, default_config, find_config, parse_config

log = logging.getLogger("muster.server")


class ConfigFile:
    """A configuration file; a profile, or None for the default, never changes."""

    def __init__(self, source: str | None) -> None:
        self._source = source
        self._path = Path(source) if source is not None and Path(source).is_file() else None
        self._text = None if self._path is None else _text(self._path)

    def first(self) -> SchedulerConfig:
        """What holds at the start. Raises UserError."""
        return default_config() if self._source is None else find_config(self._source)

    def changed(self) -> SchedulerConfig | UserError | None:
        """What the file says now, or what is wrong with it; None when it says the same as before."""
        if self._path is None:
            return None
        text = _text(self._path)
        if text is None or text == self._text:
            return None
        self._text = text
        try:
            return parse_config(text, str(self._path))
        except UserError as fault:
            return fault


def _text(path: Path) -> str | None:
    """The text; None while the file is being replaced."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
