"""The loop: events into the mirror, a snapshot, a session, actions, decisions back to the cluster."""

from muster.scheduler.builtin import builtin_registry
from muster.scheduler.cycle import CycleResult
from muster.scheduler.loop import Scheduler
from muster.scheduler.protocol import Cluster

__all__ = ["Cluster", "CycleResult", "Scheduler", "builtin_registry"]
