"""Taints over all nodes at once: nodes with equal taints are asked about once.

Callers: predicates (NoSchedule and NoExecute keep a pod away), nodeorder (PreferNoSchedule costs points) and
topology spread (`nodeTaintsPolicy: Honor`). Most nodes have no taint and share one answer.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Pod, Taint
from muster.snapshot import Mask, NodeTable

_FORBIDDING: Final = ("NoSchedule", "NoExecute")
_DISCOURAGING: Final = "PreferNoSchedule"
#: The taint that a cordoned node would have; a pod that tolerates it may go there.
_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeTaints:
    """What the taints of a cluster's nodes, and cordons, say about pods."""

    def __init__(self, nodes: NodeTable) -> None:
        self.cordoned: Mask = nodes.taints.cordoned
        self._codes = nodes.taints.codes
        self._sets = nodes.taints.sets

    def forbidden(self, pod: Pod) -> Mask:
        """Nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        answers = [any(t.effect in _FORBIDDING and not tolerates(pod, t) for t in taints) for taints in self._sets]
        mask: Mask = np.array(answers, np.bool_)[self._codes]
        return mask

    def barred(self, pod: Pod) -> Mask:
        """Cordoned nodes, unless the pod tolerates cordons."""
        if not self.cordoned.any() or tolerates(pod, _CORDON):
            return np.zeros(len(self.cordoned), np.bool_)
        return self.cordoned

    def discouraging(self, pod: Pod) -> NDArray[np.int64] | None:
        """How many PreferNoSchedule taints of each node the pod does not tolerate; None: no node has any."""
        if not any(t.effect == _DISCOURAGING for taints in self._sets for t in taints):
            return None
        answers = [sum(t.effect == _DISCOURAGING and not tolerates(pod, t) for t in taints) for taints in self._sets]
        counts: NDArray[np.int64] = np.array(answers, np.int64)[self._codes]
        return counts


def tolerates(pod: Pod, taint: Taint) -> bool:
    """Does some toleration of the pod cover the taint?"""
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
