"""Jobs that have only just begun to wait: what would be written about them is held back for a moment.

Pods of a gang arrive one by one. A gang that is complete a moment later needs no word on each of its pods that it is
not, and one that stays incomplete needs it once, not with every pod that joins. What is held back comes again with the
next cycle, because updates are made as long as they differ from what stands there. Used by the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from muster.cluster.groups import AnyGroup
from muster.snapshot.decisions import JobUpdate

#: How long a reason to wait must hold before it is told, in seconds.
HOLD_SECONDS: Final = 1.0


class Newcomers:
    """Since when jobs wait that nobody has been told of."""

    def __init__(self, hold_s: float = HOLD_SECONDS) -> None:
        self._hold = hold_s
        self._since: dict[str, float] = {}

    def told(
        self, updates: Sequence[JobUpdate], group_of: Callable[[str], AnyGroup | None], moment: float
    ) -> list[JobUpdate]:
        """Return the updates that are to be written now; those of other phases are never held back."""
        since = {update.job: self._since.get(update.job, moment) for update in updates if update.unschedulable}
        held = {
            update.job
            for update in updates
            if update.job in since
            and moment - since[update.job] < self._hold
            and not _changes_phase(update, group_of(update.job))
        }
        self._since = {job: since[job] for job in held}
        return [update for update in updates if update.job not in held]


def _changes_phase(update: JobUpdate, group: AnyGroup | None) -> bool:
    return group is not None and group.status.phase != update.phase
