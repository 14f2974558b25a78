"""PodDisruptionBudgets: evictions stay within what the budgets of the victims allow.

A pod may be a victim while every budget that selects it has a disruption left; taking it uses one of each.
What was evicted earlier in the session has used its part already. A selector without conditions selects every
pod of its namespace and a missing one selects none, as the eviction API has it. Differences from Volcano, which
never evicts a pod without labels, and charges a budget also for pods that another budget protects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.api import Pod, PodDisruptionBudget
from muster.framework.plugin import Plugin
from muster.snapshot import Rows, TaskStatus

if TYPE_CHECKING:
    from muster.framework.session import Session

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Allowance:
    """What is left of a set of budgets; spent pod by pod.

    `population` are the pods of the cluster, for budgets whose status nobody has written yet.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget], population: Sequence[Pod] = ()) -> None:
        self._budgets = sorted(budgets, key=lambda budget: budget.key)
        self._left = [disruptions_allowed(budget, population) for budget in self._budgets]

    def spend(self, pod: Pod) -> bool:
        """Take the pod if all its budgets allow it."""
        mine = [i for i, budget in enumerate(self._budgets) if selects(budget, pod)]
        if any(self._left[i] <= 0 for i in mine):
            return False
        for i in mine:
            self._left[i] -= 1
        return True

    def charge(self, pod: Pod) -> None:
        """Count the pod as taken, whether its budgets allow it or not."""
        for i, budget in enumerate(self._budgets):
            if selects(budget, pod):
                self._left[i] -= 1


def disruptions_allowed(budget: PodDisruptionBudget, population: Sequence[Pod] = ()) -> int:
    """How many pods may go now: as the status says, else what follows from the spec and the pods that run."""
    if budget.status is not None:
        return budget.status.disruptions_allowed
    mine = [pod for pod in population if pod.status.phase not in _ENDED and selects(budget, pod)]
    healthy = sum(pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None for pod in mine)
    spec = budget.spec
    if spec.max_unavailable is not None:
        return healthy - (len(mine) - _scaled(spec.max_unavailable, len(mine)))
    # Neither bound given is one that must stay, the API's default.
    return healthy - _scaled(1 if spec.min_available is None else spec.min_available, len(mine))


def _scaled(amount: int | str, count: int) -> int:
    """A number of pods, given as such or as a percentage, rounded up; text that is neither protects everything."""
    if isinstance(amount, int):
        return amount
    text = amount.removesuffix("%")
    if not text.isdecimal():
        return count
    return -(-int(text) * count // 100) if amount.endswith("%") else int(text)


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Does the budget protect the pod?"""
    selector = budget.spec.selector
    if selector is None or budget.namespace != pod.namespace:
        return False
    return selector.matches(pod.metadata.labels)


def victims(budgets: Iterable[PodDisruptionBudget], pods: Sequence[Pod]) -> list[int]:
    """Positions of the pods that may be evicted together, taken in the order given."""
    allowance = Allowance(budgets)
    return [position for position, pod in enumerate(pods) if allowance.spend(pod)]


class Pdb(Plugin):
    """Keep evictions within disruption budgets."""

    name = "pdb"
    summary = "Evict only as many pods as their PodDisruptionBudgets allow."

    def open(self, session: Session) -> None:
        super().open(session)
        known = session.snapshot.objects.get("PodDisruptionBudget", {}).values()
        self._budgets = [budget for budget in known if isinstance(budget, PodDisruptionBudget)]
        tasks = session.snapshot.tasks
        self._population = (
            [pod for pod, status in zip(tasks.pods, tasks.status, strict=True) if status != TaskStatus.GONE]
            if any(budget.status is None for budget in self._budgets)
            else []
        )
        self._leaving = session.snapshot.tasks.status == TaskStatus.RELEASING

    def preemptable(self, preemptor: int, candidates: Rows) -> Rows | None:
        return self._allowed(candidates)

    def reclaimable(self, reclaimer: int, candidates: Rows) -> Rows | None:
        return self._allowed(candidates)

    def _allowed(self, candidates: Rows) -> Rows:
        if not self._budgets:
            return candidates
        tasks = self.session.snapshot.tasks
        allowance = Allowance(self._budgets, self._population)
        for task in np.flatnonzero((tasks.status == TaskStatus.RELEASING) & ~self._leaving).tolist():
            allowance.charge(tasks.pods[task])
        return np.array([task for task in candidates.tolist() if allowance.spend(tasks.pods[task])], np.int32)
