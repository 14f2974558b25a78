"""Nodes on which a claim could not be bound: left alone for a while, so that another one, or another job, has its turn.

The scheduler decides alike from the same picture, and would choose the same node again at once. So the picture changes:
the claim carries the nodes in an annotation that only our mirror sees, and the predicates pass over them. They rest
for a minute, or for as long as was waited in vain if that was longer; then what is broken holds room for half of the
time at most. Used by the backend in the scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from muster.api import PersistentVolumeClaim
from muster.api.names import VOLUME_REFUSED_ON
from muster.snapshot.messages import Event

REST_SECONDS: Final = 60.0

_Find = Callable[[str], PersistentVolumeClaim | None]


class Refusals:
    """Until when which nodes rest, by claim."""

    def __init__(self, rest_s: float = REST_SECONDS) -> None:
        self._rest = rest_s
        self._until: dict[str, dict[str, float]] = {}
        #: Claims that the mirror has to be told anew.
        self._changed: set[str] = set()

    def note(self, claim: str, node: str, waited_s: float, moment: float) -> None:
        """Waiting for a claim on a node was in vain."""
        self._until.setdefault(claim, {})[node] = moment + max(self._rest, waited_s)
        self._changed.add(claim)

    def observe(self, event: Event) -> None:
        claim = event.object
        if not isinstance(claim, PersistentVolumeClaim) or claim.key not in self._until:
            return
        if event.kind == "DELETED" or claim.spec.volume_name:
            del self._until[claim.key]
            self._changed.discard(claim.key)
        else:
            self._changed.add(claim.key)

    def drain(self, find: _Find, moment: float) -> list[Event]:
        """The claims that look different to the mirror from what the cluster reports, or no longer do."""
        self._expire(moment)
        found = [claim for key in sorted(self._changed) if (claim := find(key)) is not None]
        self._changed.clear()
        return [Event("MODIFIED", self._overlaid(claim)) for claim in found]

    def _expire(self, moment: float) -> None:
        for claim, nodes in list(self._until.items()):
            rested = [node for node, until in nodes.items() if until <= moment]
            for node in rested:
                del nodes[node]
                self._changed.add(claim)
            if not nodes:
                del self._until[claim]

    def _overlaid(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        nodes = self._until.get(claim.key)
        if not nodes:
            return claim
        annotations = {**claim.metadata.annotations, VOLUME_REFUSED_ON: ",".join(sorted(nodes))}
        return replace(claim, metadata=replace(claim.metadata, annotations=annotations))
