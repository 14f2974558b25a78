"""Times that annotations and KAI's fields tell: stamps of gangs, minimum runtimes of queues.

Called where objects of either family become records. A stamp that cannot be read counts as none: the gang is
then not protected, and not stale. A minimum runtime that makes no sense counts as zero, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from muster.api import parse_seconds
from muster.api.names import KAI_STALE_STAMP, KAI_START_STAMP, STALE_GRACE, STALE_STAMP, START_STAMP

_LAST: Final = 253_370_764_799  # in the year 9998: years have four digits

log = logging.getLogger("muster.snapshot")


def stamp_text(seconds: float) -> str:
    """Write a moment as stamps have it: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(min(max(int(seconds), 0), _LAST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_stamp(text: str) -> float | None:
    """Read a stamp, in seconds since the epoch; None: it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None


def started_at(annotations: Mapping[str, str]) -> float | None:
    """When the gang last became complete; Muster's word before KAI's."""
    return _first_stamp(annotations, START_STAMP, KAI_START_STAMP)


def stale_since(annotations: Mapping[str, str]) -> float | None:
    """Since when the gang is broken; Muster's word before KAI's."""
    return _first_stamp(annotations, STALE_STAMP, KAI_STALE_STAMP)


def _first_stamp(annotations: Mapping[str, str], *keys: str) -> float | None:
    for key in keys:
        if key in annotations:
            return read_stamp(annotations[key])
    return None


def stale_grace(annotations: Mapping[str, str], otherwise: str | None = None) -> float | None:
    """How long the gang may be broken, in seconds, negative: for ever; None: it does not say, or not clearly."""
    text = annotations.get(STALE_GRACE, otherwise)
    try:
        return None if text is None else parse_seconds(text)
    except ValueError:
        return None


def min_runtime(queue: str, field: str, given: str | float | None) -> float | None:
    """A minimum runtime of a queue in seconds; None: not set."""
    if given is None:
        return None
    try:
        seconds = parse_seconds(given)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        log.warning("event=bad-value queue=%s field=%s value=%r used=0", queue, field, given)
        return 0.0
    return seconds
