"""The steps of a cycle, in the order that the configuration names; each reads like the sentence that describes it.

Enters: a session, and the arguments of the action. Leaves: committed statements, and verdicts on jobs that stay behind.
What they are made of is in the engine; no action knows another.
"""

from __future__ import annotations

from muster.actions.allocate import Allocate
from muster.actions.backfill import Backfill
from muster.actions.enqueue import Enqueue
from muster.actions.evictions import Consolidation, GangPreempt, GangReclaim, Preempt, Reclaim, StaleGangEviction
from muster.framework import Action

BUILTIN: tuple[type[Action], ...] = (
    Enqueue,
    Allocate,
    Backfill,
    Consolidation,
    Preempt,
    Reclaim,
    GangPreempt,
    GangReclaim,
    StaleGangEviction,
)
