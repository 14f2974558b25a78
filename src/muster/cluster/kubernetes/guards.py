"""Which pods a PodDisruptionBudget may keep from being evicted. Used by the backend in the scheduler's thread.

The scheduler has asked budgets before it decided; what the server says when it is asked in earnest may be otherwise, as
counts are always a little old. Only whether there is a budget at all matters here.
"""

from __future__ import annotations

from muster.api import Pod, PodDisruptionBudget
from muster.snapshot.events import Event


class DisruptionGuards:
    """The budgets that there are, by namespace."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}

    def observe(self, event: Event) -> None:
        budget = event.object
        if not isinstance(budget, PodDisruptionBudget):
            return
        if event.kind == "DELETED":
            self._budgets.get(budget.namespace, {}).pop(budget.name, None)
        else:
            self._budgets.setdefault(budget.namespace, {})[budget.name] = budget

    def has(self, pod: Pod) -> bool:
        """Whether a budget covers the pod."""
        selectors = (budget.spec.selector for budget in self._budgets.get(pod.namespace, {}).values())
        return any(selector is not None and selector.matches(pod.metadata.labels) for selector in selectors)
