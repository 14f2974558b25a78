"""Conformance: pods that the cluster itself depends on are never evicted."""

from __future__ import annotations

from muster.framework.plugin import Eviction, Evictor, Plugin
from muster.snapshot import CRITICAL, Rows


class Conformance(Plugin):
    """Keep critical pods out of the candidates of every eviction."""

    name = "conformance"
    summary = "Never evict pods of kube-system or of the system-critical priority classes."
    protects = True
    steady_victims = True

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        victims: Rows = candidates[(self.session.snapshot.tasks.flags[candidates] & CRITICAL) == 0]
        return victims
