"""What a cluster tells: an object came, changed or went, or cannot be read.

Made by clusters (the embedded one and a real one alike), read by `intake`. An event carries the whole object as it is
afterwards; for DELETED, as it was last; for UNREADABLE as much of it as is known, its name at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from muster.api.objects.meta import KubeObject

EventKind = Literal["ADDED", "MODIFIED", "DELETED", "UNREADABLE"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object."""

    kind: EventKind
    object: KubeObject
    #: What is wrong with an object that is UNREADABLE.
    fault: str = ""
