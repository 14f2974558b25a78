"""The bytes of everything in a snapshot that can change: equal before and after means that nothing changed."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass

import numpy as np

from muster.snapshot import Snapshot


def fingerprint(snapshot: Snapshot) -> str:
    """Return a digest of all arrays; the touch log counts as far as it is written."""
    digest = hashlib.sha256()
    _feed(digest, snapshot, "snapshot")
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: object, name: str) -> None:
    if isinstance(value, Snapshot):
        written = value.touch_log[: value.touched]
        digest.update(written.tobytes())
    if name == "touch_log":
        return
    if isinstance(value, np.ndarray):
        digest.update(f"{name}:{value.dtype}:{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        for item in value:
            _feed(digest, item, name)
    elif is_dataclass(value):
        for part in fields(value):
            _feed(digest, getattr(value, part.name), part.name)
