"""What the scheduler needs of a cluster, real or embedded.

The scheduler learns everything from `poll` and changes everything through the verbs; it holds no other
reference into a cluster. Verbs take a cycle's decisions at once, so that a backend may send them in parallel,
and return what failed: a refused decision is a fact to log, and the next cycle sees the pod where it still is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.snapshot.messages import (
    Bind,
    Event,
    Evict,
    Failure,
    HyperNodeUpdate,
    JobUpdate,
    Nominate,
    QuarantineUpdate,
    QueueUpdate,
    Ungate,
)


class Cluster(Protocol):
    """Objects in, decisions out."""

    def now(self) -> float:
        """Seconds since the epoch, by the cluster's clock."""
        ...

    def poll(self) -> list[Event]:
        """Everything that happened since the last call; at first, everything that exists."""
        ...

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        """Put pods on nodes."""
        ...

    def evict(self, decisions: Sequence[Evict]) -> list[Failure]:
        """Ask pods to leave."""
        ...

    def nominate(self, decisions: Sequence[Nominate]) -> list[Failure]:
        """Note the node that a pod waits for."""
        ...

    def ungate(self, decisions: Sequence[Ungate]) -> list[Failure]:
        """Take the gate that waits for the queue off pods."""
        ...

    def update_jobs(self, updates: Sequence[JobUpdate]) -> list[Failure]:
        """Write how jobs are."""
        ...

    def update_quarantine(self, updates: Sequence[QuarantineUpdate]) -> None:
        """Write what cannot be used, and what can again."""
        ...

    def update_queues(self, updates: Sequence[QueueUpdate]) -> list[Failure]:
        """Write what queues hold."""
        ...

    def update_hypernodes(self, updates: Sequence[HyperNodeUpdate]) -> list[Failure]:
        """Write how HyperNodes are."""
        ...
