"""What to write to HyperNodes at the end of a cycle: only what differs from what stands there.

A HyperNode that is wrong says so itself, in its condition `Valid`, and not only the jobs that wait because of it.
Called by the scheduler. Comparing thousands of HyperNodes is left out while neither they nor the nodes changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.api import HyperNode
from muster.snapshot import Mirror
from muster.snapshot.hypernodes import HyperNodeForest
from muster.snapshot.messages import HyperNodeUpdate

VALID = "Valid"


class HyperNodeStatuses:
    """Remembers which state of the tree needs no writing."""

    def __init__(self) -> None:
        self._settled: tuple[HyperNodeForest, int] | None = None

    def updates(self, mirror: Mirror, forest: HyperNodeForest) -> list[HyperNodeUpdate]:
        """Return the updates of HyperNodes whose status is not current, by name."""
        revision = mirror.hyper_node_revision
        if self._settled is not None and self._settled[0] is forest and self._settled[1] == revision:
            return []
        updates = hypernode_updates(mirror.hyper_nodes, forest)
        self._settled = None if updates else (forest, revision)
        return updates


def hypernode_updates(hyper_nodes: Mapping[str, HyperNode], forest: HyperNodeForest) -> list[HyperNodeUpdate]:
    """Compare every HyperNode with its place in the tree."""
    updates = []
    for name in sorted(hyper_nodes):
        if name in forest.tiers:
            update = HyperNodeUpdate(name, len(forest.nodes[name]), forest.faults.get(name, ""))
            if _differs(update, hyper_nodes[name]):
                updates.append(update)
    return updates


def _differs(update: HyperNodeUpdate, hyper_node: HyperNode) -> bool:
    if update.node_count != hyper_node.status.node_count:
        return True
    standing = next((known for known in hyper_node.status.conditions if known.type == VALID), None)
    if standing is None:
        return True
    return (standing.status, standing.message) != ("False" if update.fault else "True", update.message)
