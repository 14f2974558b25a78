"""Which PodDisruptionBudgets may keep a pod from being evicted. Used by the backend in the scheduler's thread.

The scheduler has asked budgets before it decided; what the server says when it is asked in earnest may be otherwise, as
counts are always a little old. Only which budgets there are matters here (`clearances` asks).
"""

from __future__ import annotations

from muster.api import Pod, PodDisruptionBudget
from muster.snapshot.messages import Event


class DisruptionGuards:
    """The budgets that there are, by namespace."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}

    def observe(self, event: Event) -> None:
        budget = event.object
        if not isinstance(budget, PodDisruptionBudget):
            return
        if event.kind == "DELETED":
            standing = self._budgets.get(budget.namespace, {})
            standing.pop(budget.name, None)
            if not standing:
                self._budgets.pop(budget.namespace, None)
        else:
            self._budgets.setdefault(budget.namespace, {})[budget.name] = budget

    def of(self, pod: Pod) -> list[str]:
        """The keys of the budgets that cover the pod."""
        budgets = self._budgets.get(pod.namespace)
        if not budgets:
            return []
        return sorted(budget.key for budget in budgets.values() if _covers(budget, pod))


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and selector.matches(pod.metadata.labels)
