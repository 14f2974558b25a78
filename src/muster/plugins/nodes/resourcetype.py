"""Resource type: tasks that ask for no GPU go to nodes without any, as long as these have room.

A slice of a GPU (MIG) counts as one here. Nodes are asked themselves: the resource axis only knows what somebody has
asked for.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Node
from muster.api.resources import is_gpu
from muster.framework.plugin import NodeScores, Plugin
from muster.snapshot import Mask, Snapshot

_POINTS: Final = 10.0


class ResourceType(Plugin):
    """Keep nodes with GPUs for those who need them."""

    name = "resourcetype"
    summary = "Prefers nodes without GPUs for tasks that ask for none."
    steady_scores = True

    def node_score(self, cls: int) -> NodeScores:
        if asks_for_gpu(self.session.snapshot, cls):
            return NodeScores()
        return NodeScores(self._points)

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        return np.where(gpu_nodes(self.session.snapshot), 0.0, _POINTS)


def asks_for_gpu(snapshot: Snapshot, cls: int) -> bool:
    """Tell whether tasks of a class ask for a GPU or a slice of one."""
    request = snapshot.classes.requests[cls, 0]
    return any(request[column] > 0 for column, name in enumerate(snapshot.axis.names) if is_gpu(name))


def gpu_nodes(snapshot: Snapshot) -> Mask:
    """Nodes that have GPUs or slices of them, free or not."""
    return np.array([_has_gpu(node) for node in snapshot.nodes.objects], np.bool_)


def _has_gpu(node: Node) -> bool:
    return any(is_gpu(name) and amount.value > 0 for name, amount in node.status.allocatable.items())
