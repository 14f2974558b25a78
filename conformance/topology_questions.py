"""Answers about domains of the network that a case asks for: scores of domains and nodes, spread of binds.

The numbers of these cases are rounded; an answer that is within the tolerance is given in the case's own digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from conformance.results import Value
from conformance.scheduling import Cycle
from muster.api.names import ALLOCATED_HYPERNODE
from muster.framework import Session
from muster.plugins.nodes.network_topology_aware import NetworkTopologyAware
from muster.snapshot import NO_ROW

_TOLERANCE = 0.1
#: Nodes that are scored; they are those that `batchNodeScores` names.
SCORED_NODES = "scoredNodes"


def _rounded(wanted: Value, got: dict[str, float]) -> Value:
    return {
        name: wanted[name] if name in wanted and abs(score - wanted[name]) <= _TOLERANCE else score
        for name, score in got.items()
    }


def _plugin(session: Session) -> NetworkTopologyAware:
    plugin = session.plugins[NetworkTopologyAware.name]
    assert isinstance(plugin, NetworkTopologyAware)
    return plugin


def _task_scores(session: Session, wanted: Value) -> Value:
    """Scores of the nodes for the first pending task; the case says in an annotation where its job is."""
    snapshot = session.snapshot
    task = int(snapshot.pending_tasks()[0])
    names = list(wanted) or snapshot.nodes.names
    nodes = np.array([snapshot.nodes.index[name] for name in names], np.intp)
    annotations = snapshot.jobs.records[int(snapshot.tasks.job[task])].annotations
    near = snapshot.topology.index.get(annotations.get(ALLOCATED_HYPERNODE, ""), NO_ROW)
    scores: NDArray[np.float64] = _plugin(session).task_scores(task, nodes, near)
    return _rounded(wanted, dict(zip(names, scores.tolist(), strict=True)))


def _worker_scores(session: Session, wanted: Value) -> Value:
    return _domain_scores(session, "ns1/pg1/task1-worker", wanted)


def _domain_scores(session: Session, subgroup: str, wanted: Value) -> Value:
    snapshot = session.snapshot
    row = snapshot.subgroups.names.index(subgroup)
    domains = np.arange(len(snapshot.topology), dtype=np.intp)
    scores = session.domain_scores(int(snapshot.subgroups.job[row]), row, domains)
    return _rounded(wanted, dict(zip(snapshot.topology.names, scores.tolist(), strict=True)))


def binds_per_domain(_: Value, cycle: Cycle) -> Value:
    """How many pods were bound in each lowest domain, in ascending order."""
    snapshot = cycle.session.snapshot
    leaves = Counter(int(snapshot.topology.leaf[snapshot.nodes.index[node]]) for node in cycle.binds.values())
    return sorted(leaves.values())


TOPOLOGY_QUESTIONS: dict[str, Callable[[Session, Value], Value]] = {
    "batchNodeScores(first pending task)": _task_scores,
    "hyperNodeScores(subJob ns1/pg1/task1-worker)": _worker_scores,
    # Scoring does not fail in Muster: what could go wrong is refused when the configuration is read.
    "expectError": lambda *_: False,
}
