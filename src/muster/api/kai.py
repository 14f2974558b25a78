"""KAI's Queue (``scheduling.run.ai/v2``), PodGroup (``scheduling.run.ai/v2alpha2``) and Topology.

Amounts of a KAI queue are plain numbers in KAI's units: GPUs, milli-CPUs, megabytes of 10^6 bytes;
-1 means unlimited. They stay in those units here, and are converted where queues become one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.base import Int32, K8sModel, ResourceList, Timestamp
from muster.api.meta import Condition, KubeObject

UNLIMITED = -1.0


class KaiQueueResource(K8sModel):
    """One resource of a queue: guaranteed, at most, and the share of what is left over."""

    quota: float = 0.0
    limit: float = 0.0
    over_quota_weight: float = 0.0


class KaiQueueResources(K8sModel):
    """The three resources that KAI's queues know."""

    gpu: KaiQueueResource = field(default_factory=KaiQueueResource)
    cpu: KaiQueueResource = field(default_factory=KaiQueueResource)
    memory: KaiQueueResource = field(default_factory=KaiQueueResource)


class KaiQueueSpec(K8sModel):
    """A queue's place in the tree, its shares, and how long its jobs are left alone."""

    display_name: str = ""
    parent_queue: str = ""
    priority: Int32 | None = None
    resources: KaiQueueResources | None = None
    #: Durations as KAI writes them, or plain numbers of seconds.
    preempt_min_runtime: str | float | None = None
    reclaim_min_runtime: str | float | None = None


class KaiQueueStatus(K8sModel):
    """What the queue holds and wants."""

    child_queues: Sequence[str] = ()
    allocated: ResourceList = field(default_factory=dict)
    allocated_non_preemptible: ResourceList = field(default_factory=dict)
    requested: ResourceList = field(default_factory=dict)


class KaiQueue(KubeObject):
    """A queue of KAI."""

    api_version: ClassVar[str] = "scheduling.run.ai/v2"
    kind: ClassVar[str] = "Queue"
    namespaced: ClassVar[bool] = False

    spec: KaiQueueSpec = field(default_factory=KaiQueueSpec)
    status: KaiQueueStatus = field(default_factory=KaiQueueStatus)


class KaiTopologyConstraint(K8sModel):
    """The level of a topology that pods must, or would rather, stay within."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class KaiSubGroup(K8sModel):
    """A subset of the pods with a minimum of its own; sub-groups form a tree through ``parent``."""

    name: str = ""
    min_member: Int32 | None = None
    parent: str | None = None
    topology_constraint: KaiTopologyConstraint | None = None


class KaiPodGroupSpec(K8sModel):
    """What a gang of KAI needs before any of it starts."""

    min_member: Int32 = 0
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: KaiTopologyConstraint | None = None
    sub_groups: Sequence[KaiSubGroup] = ()
    mark_unschedulable: bool | None = None
    scheduling_backoff: Int32 | None = None
    #: How long the gang may be broken before it is evicted; a negative one: for ever.
    staleness_grace_period: str | None = None


class KaiPodGroupStatus(K8sModel):
    """How the gang is."""

    phase: str = ""
    conditions: Sequence[Condition] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    pending: Int32 = 0
    last_start_timestamp: Timestamp | None = None


class KaiPodGroup(KubeObject):
    """A gang of KAI."""

    api_version: ClassVar[str] = "scheduling.run.ai/v2alpha2"
    kind: ClassVar[str] = "PodGroup"

    spec: KaiPodGroupSpec = field(default_factory=KaiPodGroupSpec)
    status: KaiPodGroupStatus = field(default_factory=KaiPodGroupStatus)


class TopologyLevel(K8sModel):
    """One level: nodes with the same value of the label are close to each other."""

    node_label: str = ""


class TopologySpec(K8sModel):
    """The levels, from the widest to the narrowest."""

    levels: Sequence[TopologyLevel] = ()


class Topology(KubeObject):
    """A network told by node labels. Kueue's Topology has the same form and is read as one."""

    api_version: ClassVar[str] = "kai.scheduler/v1alpha1"
    kind: ClassVar[str] = "Topology"
    namespaced: ClassVar[bool] = False

    spec: TopologySpec = field(default_factory=TopologySpec)
