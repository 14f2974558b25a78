"""A job controller as Volcano's: it makes a PodGroup first, and the pods only when the scheduler has let it in.

A double for tests. Every turn looks at the cluster once and does what is due.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.kubernetes.kubectl import Json, Kubectl, gang


@dataclass(frozen=True, slots=True)
class _Order:
    """A job that somebody wants."""

    group: Json
    pods: tuple[Json, ...]


class JobController:
    """Keeps the orders whose pods are not made yet."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._orders: dict[str, _Order] = {}

    def submit(self, name: str, n_pods: int, *, gpu: int = 1, **spec: object) -> None:
        """Somebody wants a gang; `spec` is what its PodGroup says besides the minimum."""
        group, *pods = gang(name, n_pods, gpu=gpu, group=dict(spec))
        self._orders[name] = _Order(group, tuple(pods))
        self._kubectl.create(group)

    def take_a_turn(self) -> None:
        """Make the pods of every job that is not InFlight any more."""
        for name in list(self._orders):
            if self.phase(name) not in ("", "Pending"):
                self._kubectl.create_all(self._orders.pop(name).pods)

    def phase(self, name: str) -> str:
        """What the PodGroup says."""
        phase: str = self._kubectl.get("PodGroup", name).get("status", {}).get("phase", "")
        return phase

    def is_done(self, *names: str) -> bool:
        """Take a turn, and say whether all the jobs run."""
        self.take_a_turn()
        return all(self.phase(name) == "Running" for name in names)
