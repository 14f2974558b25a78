"""The part of a cluster that one scheduler works on, where several share it.

A shard by labels (a node selector, KAI's node pool) is a little cluster of its own: only its nodes are there, and pods
on other nodes are not. KAI's pools divide gangs too: those of another pool take room where they run, and are nobody's
business otherwise. A shard by Volcano's NodeShard sees the whole cluster; see `node_shards`.
Each shard has a lease of its own, so that each has one leader.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal

from muster.api import KaiQueue, KubeObject, Node
from muster.api.names import KAI_NODE_POOL

_SLUG_LENGTH: Final = 40
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Shard:
    """What belongs to this scheduler; by default everything."""

    #: Labels of its nodes, as kubectl writes them ("pool=a,!reserved"); "": all nodes.
    node_selector: str = ""
    #: KAI's pool of nodes, queues and gangs; "": those without the label. None: pools do not matter.
    node_pool: str | None = None
    #: Name of the NodeShard that lists its nodes; "": none does.
    node_shard: str = ""
    #: Whether nodes outside of the NodeShard are out of the question, or only the last choice.
    mode: Literal["hard", "soft"] = "hard"

    @property
    def is_by_labels(self) -> bool:
        """Whether nodes outside of the shard are not seen at all."""
        return bool(self.node_selector) or self.node_pool is not None

    def selector_of(self, kind: type[KubeObject]) -> str:
        """Labels of the objects of a kind that are wanted; "": all are."""
        pool = "" if self.node_pool is None else _pool_selector(self.node_pool)
        if kind is Node:
            return ",".join(part for part in (self.node_selector, pool) if part)
        return pool if kind is KaiQueue else ""

    def has_pool_of(self, labelled: KubeObject) -> bool:
        """Whether an object stands in the shard's pool by its own label."""
        return self.node_pool is None or labelled.metadata.labels.get(KAI_NODE_POOL, "") == self.node_pool

    def lease_name(self, base: str) -> str:
        """The lease that the replicas of this shard share; shards of other extent have others."""
        parts = [self.node_selector, "" if self.node_pool is None else f"pool {self.node_pool}", self.node_shard]
        if not any(parts):
            return base
        words = _NOT_IN_NAMES.sub("-", " ".join(parts).lower()).strip("-")[:_SLUG_LENGTH].strip("-")
        # The words alone may be those of another shard: "a=b" and "a!=b".
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
        return f"{base}-{words}-{digest}"


WHOLE_CLUSTER: Final = Shard()


def _pool_selector(pool: str) -> str:
    return f"{KAI_NODE_POOL}={pool}" if pool else f"!{KAI_NODE_POOL}"
