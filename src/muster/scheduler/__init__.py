"""The loop: events into the mirror, a snapshot, a session, actions, decisions back to the cluster.

In: a cluster that speaks the protocol, a configuration, a registry of plugins and actions.
Out: decisions and reports through the protocol's verbs, and a `CycleResult` for each cycle.
"""

from muster.scheduler.cycle import Cluster, CycleResult
from muster.scheduler.loop import Scheduler, builtin_registry

__all__ = ["Cluster", "CycleResult", "Scheduler", "builtin_registry"]
