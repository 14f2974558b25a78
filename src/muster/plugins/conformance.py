"""Conformance: pods that the cluster itself depends on are never evicted."""

from __future__ import annotations

from muster.framework.plugin import Eviction, Plugin
from muster.snapshot import CRITICAL, Rows


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
        victims: Rows = candidates[(self.session.snapshot.tasks.flags[candidates] & CRITICAL) == 0]
        return victims
