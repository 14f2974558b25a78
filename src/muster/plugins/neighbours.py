"""What the plugins that look at nodes and other pods know together: made once per session, each part on first use.

Callers: predicates and nodeorder, in `open`, so that `residents` sees who was terminating before the session.
"""

from __future__ import annotations

from functools import cached_property

from muster.framework import Session
from muster.plugins.pod_selectors import PodIndex
from muster.plugins.residents import Residents
from muster.plugins.taints import NodeTaints
from muster.snapshot import Snapshot


class Neighbours:
    """Who sits where, how to find pods by labels, and the taints of nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.residents = Residents(snapshot)

    @cached_property
    def index(self) -> PodIndex:
        return PodIndex(self.snapshot)

    @cached_property
    def taints(self) -> NodeTaints:
        return NodeTaints(self.snapshot.nodes)


def neighbours_of(session: Session) -> Neighbours:
    """The one that all plugins of a session share."""
    known = session.workspace.get("neighbours")
    if not isinstance(known, Neighbours):
        known = session.workspace["neighbours"] = Neighbours(session.snapshot)
    return known
