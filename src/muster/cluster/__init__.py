"""Clusters that the scheduler can work on, behind one protocol: the embedded one, and a real one (`kubernetes`).

In: objects of files or of an API server, decisions of the scheduler, what a timeline says. Out: events.
"""

from muster.cluster.memory import MemoryCluster
from muster.cluster.timeline import Timeline, load_timeline, parse_timeline

__all__ = ["MemoryCluster", "Timeline", "load_timeline", "parse_timeline"]
