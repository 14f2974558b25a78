"""Volcano's PodGroup and Queue, ``scheduling.volcano.sh/v1beta1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.base import Int32, K8sModel, ResourceList
from muster.api.meta import Condition, KubeObject, LabelSelector
from muster.api.names import DEFAULT_QUEUE


class NetworkTopology(K8sModel):
    """How close together pods must ("hard") or should ("soft") be: the highest tier they may span."""

    mode: str = "hard"
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(K8sModel):
    """A rule that divides pods of a group into sub-groups, each a gang of its own."""

    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: Sequence[str] = ()
    sub_group_size: Int32 | None = None
    min_sub_groups: Int32 | None = None
    network_topology: NetworkTopology | None = None


class PodGroupSpec(K8sModel):
    """What a gang needs before any of it starts."""

    min_member: Int32 = 0
    min_task_member: dict[str, Int32] = field(default_factory=dict)
    min_resources: ResourceList = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: Sequence[SubGroupPolicy] = ()


class PodGroupStatus(K8sModel):
    """How the gang is."""

    phase: str = ""
    conditions: Sequence[Condition] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PodGroup(KubeObject):
    """A gang: pods that start together or not at all."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"
    kind: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


class NodeGroupAffinity(K8sModel):
    """Node groups that a queue must or should use (or keep away from)."""

    required: Sequence[str] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Sequence[str] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(K8sModel):
    """Node groups of a queue."""

    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAffinity | None = None


class Guarantee(K8sModel):
    """What is held back for a queue."""

    resource: ResourceList = field(default_factory=dict)


class QueueSpec(K8sModel):
    """What a queue may have (capability), ought to have (deserved) and always has (guarantee)."""

    weight: Int32 = 1
    capability: ResourceList = field(default_factory=dict)
    deserved: ResourceList = field(default_factory=dict)
    guarantee: Guarantee = field(default_factory=Guarantee)
    reclaimable: bool | None = None
    parent: str = ""
    priority: Int32 = 0
    type: str = ""
    dequeue_strategy: str = ""
    affinity: QueueAffinity | None = None


class QueueStatus(K8sModel):
    """Whether the queue is open, and what it holds."""

    state: str = ""
    allocated: ResourceList = field(default_factory=dict)
    #: PodGroups of the queue by their phase.
    pending: Int32 = 0
    inqueue: Int32 = 0
    running: Int32 = 0
    unknown: Int32 = 0
    completed: Int32 = 0


class Queue(KubeObject):
    """A queue of gangs."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"
    kind: ClassVar[str] = "Queue"
    namespaced: ClassVar[bool] = False

    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)
