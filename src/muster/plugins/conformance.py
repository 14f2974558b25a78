"""Conformance: pods that the cluster itself depends on are never evicted."""

from __future__ import annotations

import numpy as np

from muster.api import Pod
from muster.framework.plugin import Eviction, Plugin
from muster.snapshot import Rows

SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def is_critical(pod: Pod) -> bool:
    """Does the cluster need this pod?"""
    return pod.namespace == SYSTEM_NAMESPACE or pod.spec.priority_class_name in CRITICAL_CLASSES


class Conformance(Plugin):
    """Keep critical pods out of the candidates of every eviction."""

    name = "conformance"
    summary = "Never evict pods of kube-system or of the system-critical priority classes."
    steady_victims = True

    def preemptable(self, preemptor: int, candidates: Rows) -> Rows | None:
        return self._evictable(candidates)

    def reclaimable(self, reclaimer: int, candidates: Rows) -> Rows | None:
        return self._evictable(candidates)

    def evictable(self, evictor: int, kind: Eviction, candidates: Rows) -> Rows | None:
        return self._evictable(candidates)

    def _evictable(self, candidates: Rows) -> Rows:
        pods = self.session.snapshot.tasks.pods
        spared = np.fromiter((not is_critical(pods[task]) for task in candidates.tolist()), np.bool_, len(candidates))
        victims: Rows = candidates[spared]
        return victims
