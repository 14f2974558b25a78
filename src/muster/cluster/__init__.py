"""Clusters that the scheduler can work on, behind one protocol."""

from muster.cluster.memory import MemoryCluster
from muster.cluster.timeline import Timeline, load_timeline, parse_timeline

__all__ = ["MemoryCluster", "Timeline", "load_timeline", "parse_timeline"]
