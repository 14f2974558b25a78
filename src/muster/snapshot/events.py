"""What a cluster tells: an object came, changed or went.

Made by clusters (the embedded one and a real one alike), read by the mirror. An event carries the whole
object as it is afterwards; for DELETED, as it was last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from muster.api.meta import KubeObject

EventKind = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object."""

    kind: EventKind
    object: KubeObject
