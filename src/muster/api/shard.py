"""Volcano's NodeShard: the nodes that one of several schedulers of a cluster works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.base import K8sModel
from muster.api.meta import KubeObject


class NodeShardSpec(K8sModel):
    """Which nodes the scheduler should have."""

    scheduler_name: str = ""
    nodes_desired: Sequence[str] = ()


class NodeShardStatus(K8sModel):
    """Which nodes it works on, and what has yet to change."""

    nodes_in_use: Sequence[str] = ()
    nodes_to_add: Sequence[str] = ()
    nodes_to_remove: Sequence[str] = ()


class NodeShard(KubeObject):
    """A share of the nodes."""

    api_version: ClassVar[str] = "shard.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "NodeShard"
    namespaced: ClassVar[bool] = False

    spec: NodeShardSpec = field(default_factory=NodeShardSpec)
    status: NodeShardStatus = field(default_factory=NodeShardStatus)
