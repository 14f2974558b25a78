"""Nodes and namespaces, as far as scheduling reads them.

A node that states no allocatable amounts offers its capacity; `kinds.decode` fills that in, as the
kubelet does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.base import K8sModel, ResourceList, Timestamp
from muster.api.meta import Condition, KubeObject


class Taint(K8sModel):
    """A reason to keep pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


class NodeSpec(K8sModel):
    """What the operator decided about a node."""

    unschedulable: bool = False
    taints: Sequence[Taint] = ()
    provider_id: str = field(default="", name="providerID")


class NodeStatus(K8sModel):
    """What a node has and how it is."""

    allocatable: ResourceList = field(default_factory=dict)
    capacity: ResourceList = field(default_factory=dict)
    conditions: Sequence[Condition] = ()


class Node(KubeObject):
    """A machine that runs pods."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"
    namespaced: ClassVar[bool] = False

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def is_ready(self) -> bool:
        """Whether the Ready condition holds; a node without one (written by hand) counts as ready."""
        return all(c.status == "True" for c in self.status.conditions if c.type == "Ready")


class Namespace(KubeObject):
    """A namespace; its labels matter to namespace selectors."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"
    namespaced: ClassVar[bool] = False
