"""Jobs that have only just begun to wait: what would be written about them is held back for a moment.

Pods of a gang arrive one by one. A gang that is complete a moment later needs no word on each of its pods that it is
not, and one that stays incomplete needs it once, not with every pod that joins: the moment begins anew while pods keep
coming, though not for ever. What is held back comes again with the
next cycle, because updates are made as long as they differ from what stands there. Used by the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from muster.cluster.groups import AnyGroup
from muster.snapshot.messages import JobUpdate

#: How long a reason to wait must hold before it is told, in seconds.
HOLD_SECONDS: Final = 1.0
#: The longest that it is held back because of pods that keep coming, in such times.
_LONGEST: Final = 10


class _Wait(NamedTuple):
    """Since when a job waits, and since when it has so many pods to wait for."""

    begun: float
    grown: float
    n_pods: int


class Newcomers:
    """Since when jobs wait that nobody has been told of."""

    def __init__(self, hold_s: float = HOLD_SECONDS) -> None:
        self._hold = hold_s
        self._waits: dict[str, _Wait] = {}

    def told(
        self, updates: Sequence[JobUpdate], group_of: Callable[[str], AnyGroup | None], moment: float
    ) -> list[JobUpdate]:
        """Return what is to be written now; a new phase is never held back."""
        waits = {update.job: self._wait(update, moment) for update in updates if update.unschedulable is not None}
        self._waits = {job: wait for job, wait in waits.items() if self._is_new(wait, moment)}
        told = (self._shortened(update, group_of) if update.job in self._waits else update for update in updates)
        return [update for update in told if update is not None]

    def _wait(self, update: JobUpdate, moment: float) -> _Wait:
        known = self._waits.get(update.job)
        if known is None:
            return _Wait(moment, moment, update.pending)
        return known if update.pending <= known.n_pods else _Wait(known.begun, moment, update.pending)

    def _is_new(self, wait: _Wait, moment: float) -> bool:
        return moment - wait.grown < self._hold and moment - wait.begun < self._hold * _LONGEST

    def _shortened(self, update: JobUpdate, group_of: Callable[[str], AnyGroup | None]) -> JobUpdate | None:
        """What may be told of a job that has only just begun to wait."""
        group = group_of(update.job)
        if group is None or group.status.phase == update.phase:
            return None
        told_before = any(known.type == "Unschedulable" for known in group.status.conditions)
        return update if told_before else replace(update, unschedulable=None, message="")
