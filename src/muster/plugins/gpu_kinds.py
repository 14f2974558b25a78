"""Which resources are GPUs, which task classes ask for one, and which nodes have any.

Callers: the plugins that treat tasks without a GPU otherwise. A slice of a GPU (MIG) counts as one here. Nodes are
asked themselves: the resource axis only knows what somebody has asked for.
"""

from __future__ import annotations

import numpy as np

from muster.api import Node
from muster.api.resources import is_gpu
from muster.snapshot import Mask, Snapshot


def asks_for_gpu(snapshot: Snapshot, cls: int) -> bool:
    """Tell whether tasks of a class ask for a GPU or a slice of one."""
    request = snapshot.classes.requests[cls, 0]
    return any(request[column] > 0 for column, name in enumerate(snapshot.axis.names) if is_gpu(name))


def gpu_nodes(snapshot: Snapshot) -> Mask:
    """Nodes that have GPUs or slices of them, free or not."""
    return np.array([_has_gpu(node) for node in snapshot.nodes.objects], np.bool_)


def _has_gpu(node: Node) -> bool:
    return any(is_gpu(name) and amount.value > 0 for name, amount in node.status.allocatable.items())
