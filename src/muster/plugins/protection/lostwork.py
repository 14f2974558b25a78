"""Lost work: jobs are moved only for somebody who has lost more by waiting than they lose by beginning again.

Consolidation deletes pods and starts them elsewhere, and what they had done is gone unless they save it. Whoever waits
loses time as well. Both can be counted: so much of the cluster, for so many seconds. A move is made when the one that
profits has waited for as much as those that move have done; who has just begun moves at once, who has run for days
moves for hardly anybody, and a large gang that waits for long gets its room in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.engine.hope import Waiters, beyond_total
from muster.engine.waiting import schedulable_tasks
from muster.framework.plugin import Arguments, Eviction, Evictor, Plugin, Scenario, ScenarioFilter
from muster.snapshot import NO_ROW, Rows
from muster.snapshot.records import created_seconds

if TYPE_CHECKING:
    from muster.framework.session import Session

#: A move that was not worth it is looked at again when its beneficiary has waited for so much longer, at the earliest.
_PATIENCE: Final = 0.5
#: Of a moment in seconds: what sums of fractions leave alone.
_DIGITS: Final = 3


class LostWorkArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the lostwork plugin."""

    factor: Annotated[
        float,
        Meta(
            ge=0,
            description="Jobs are moved if they lose at most so many times what the one that waits has lost by "
            "waiting; 0: only those that lose nothing.",
        ),
    ] = 1.0


class LostWork(Plugin):
    """Weigh what jobs that move lose against what was lost by waiting."""

    name = "lostwork"
    summary = "Let consolidation move jobs only for one that has lost more by waiting than they lose."
    Args: ClassVar[type[Arguments]] = LostWorkArguments
    protects = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, LostWorkArguments)
        self._factor = arguments.factor

    def open(self, session: Session) -> None:
        super().open(session)
        self._jobs = session.snapshot.jobs
        self._tasks = session.snapshot.tasks
        #: What tasks that would get places ask for, and have lost; searches ask about the same ones again and again.
        self._waiting: dict[bytes, tuple[float, float]] = {}

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        """What a task takes of the cluster, by class: its largest part of any resource."""
        has = np.maximum(self.session.total, 1)
        shares: NDArray[np.float64] = (self.session.snapshot.classes.requests[:, 0] / has).max(axis=1, initial=0.0)
        return shares

    @cached_property
    def _sizes(self) -> NDArray[np.float64]:
        """What the tasks of each job take of the cluster together."""
        owned = np.flatnonzero(self._tasks.job != NO_ROW)
        shares = self._shares[self._tasks.cls[owned]]
        return np.bincount(self._tasks.job[owned], weights=shares, minlength=len(self._jobs)).astype(np.float64)

    @cached_property
    def _lost(self) -> NDArray[np.float64]:
        """What each job has done since it started; of one of which nobody knows when that was: nothing."""
        now = self.session.now
        started = [now if record.started is None else record.started for record in self._jobs.records]
        return self._sizes * np.maximum(now - np.array(started, np.float64), 0.0)

    @cached_property
    def _most(self) -> tuple[float, float]:
        """What the job asks for that has lost most, and how long it has waited; pods are no older than their jobs.

        Nobody who needs more than is free in all: moving others does not help it.
        """
        snapshot = self.session.snapshot
        tasks = schedulable_tasks(self.session)
        tasks = tasks[self._tasks.job[tasks] != NO_ROW]
        if len(tasks) == 0:
            return 0.0, 0.0
        waiters = Waiters.of(snapshot, tasks)
        asked = np.add.reduceat(self._shares[self._tasks.cls[tasks]], waiters.starts)
        asked[beyond_total(snapshot, waiters, snapshot.nodes.future_total())] = 0.0
        seconds = np.maximum(self.session.now - self._jobs.created[waiters.jobs], 0.0)
        longest = int((asked * seconds).argmax())
        return float(asked[longest]), float(seconds[longest])

    def _waits(self, tasks: Rows) -> tuple[float, float]:
        """What tasks ask for together, and what they could have done since they came."""
        key = tasks.tobytes()
        known = self._waiting.get(key)
        if known is None:
            shares = self._shares[self._tasks.cls[tasks]]
            came = [created_seconds(self._tasks.pods[task].metadata) for task in tasks.tolist()]
            waited = (shares * np.maximum(self.session.now - np.array(came), 0.0)).sum()
            known = self._waiting[key] = float(shares.sum()), float(waited)
        return known

    # -- evictions ------------------------------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Nobody who has done more than anybody has waited for; what may move for whom, scenarios tell."""
        if kind is not Eviction.CONSOLIDATE:
            return candidates
        asked, seconds = self._most
        owners = self._tasks.job[candidates]
        too_dear = self._lost[owners] > self._factor * asked * seconds
        if not too_dear.any():
            return candidates
        lost, sizes = self._lost[owners[too_dear]], self._sizes[owners[too_dear]]
        self._look_again_when_worth_it(lost, sizes, self._factor * asked, seconds)
        worth: Rows = candidates[~too_dear]
        return worth

    def scenario_filters(self, kind: Eviction, job: int) -> Sequence[ScenarioFilter]:
        return (self._is_worth_it,) if kind is Eviction.CONSOLIDATE else ()

    def scenario_validator(self, kind: Eviction, scenario: Scenario) -> bool:
        return kind is not Eviction.CONSOLIDATE or self._is_worth_it(scenario)

    def _is_worth_it(self, scenario: Scenario) -> bool:
        taken = np.concatenate((scenario.evicted, scenario.moved)) if len(scenario.moved) else scenario.evicted
        jobs = list(set(self._tasks.job[taken].tolist()))
        lost = self._lost[jobs].sum()
        asked, waited = self._waits(scenario.pending)
        if lost <= self._factor * waited:
            return True
        if asked > 0:
            sizes = self._sizes[jobs].sum()
            self._look_again_when_worth_it(np.array([lost]), np.array([sizes]), self._factor * asked, waited / asked)
        return False

    def _look_again_when_worth_it(
        self, lost: NDArray[np.float64], sizes: NDArray[np.float64], asked: float, seconds: float
    ) -> None:
        """Both grow while time passes: if what is lost by waiting grows faster, a move will be worth it one day."""
        faster = asked - sizes
        sooner = (lost[faster > 0] - asked * seconds) / faster[faster > 0]
        if len(sooner):
            # What is told does not depend on when somebody asks, or it would be told anew in every cycle.
            at = round(self.session.now + float(sooner.min()), _DIGITS)
            self.session.look_again(at, _PATIENCE * seconds)
