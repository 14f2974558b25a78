"""PodDisruptionBudgets: evictions stay within what the budgets of the victims allow.

Every eviction strategy respects budgets by itself (`muster.engine.evictions.budgets`, where the rules stand). With
this plugin they also take part in the tiers: candidates that a budget protects are out before others are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from muster.api import Pod, PodDisruptionBudget
from muster.engine.evictions.budgets import Budgets, allowed_by, disruptions_allowed
from muster.framework.plugin import Eviction, Evictor, Plugin
from muster.snapshot import Rows

if TYPE_CHECKING:
    from muster.framework.session import Session

__all__ = ["Pdb", "disruptions_allowed", "victims"]


def victims(budgets: Iterable[PodDisruptionBudget], pods: Sequence[Pod]) -> list[int]:
    """Positions of the pods that may be evicted together, taken in the order given."""
    return [position for position, may_go in enumerate(allowed_by(budgets, pods)[0]) if may_go]


class Pdb(Plugin):
    """Keep evictions within disruption budgets."""

    name = "pdb"
    summary = "Evict only as many pods as their PodDisruptionBudgets allow."
    steady_victims = True

    def open(self, session: Session) -> None:
        super().open(session)
        self._budgets = Budgets(session)

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        allowed: Rows = candidates[self._budgets.allowed(candidates)]
        return allowed
