"""What is scheduled and by which rights: gangs and queues of Volcano and KAI, priority classes, budgets, quotas.

Volcano's are ``scheduling.volcano.sh/v1beta1``, KAI's ``scheduling.run.ai/v2`` (Queue) and ``v2alpha2`` (PodGroup).
Amounts of a KAI queue are plain numbers in KAI's units: GPUs, milli-CPUs, megabytes of 10^6 bytes; -1 means unlimited.
They stay in those units here, and are converted where both families become one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.names import DEFAULT_QUEUE
from muster.api.objects.meta import Condition, Int32, K8sModel, KubeObject, LabelSelector, ResourceList, Timestamp


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
    #: For how long its pods wait before anybody is evicted for them.
    preemption_delay: str | None = None


class KaiExplanation(K8sModel):
    """One reason for which a gang waits."""

    reason: str = ""
    message: str = ""


class KaiSchedulingCondition(K8sModel):
    """Why a gang waits, as said for one pool of nodes."""

    type: str = ""
    node_pool: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    reasons: Sequence[KaiExplanation] = ()
    last_transition_time: Timestamp | None = None
    transition_id: str = field(default="", name="transitionID")


class KaiPodGroupStatus(K8sModel):
    """How the gang is."""

    phase: str = ""
    conditions: Sequence[Condition] = ()
    scheduling_conditions: Sequence[KaiSchedulingCondition] = ()
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

    conditions: Sequence[Condition] = ()
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


class PriorityClass(KubeObject):
    """A named priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"
    namespaced: ClassVar[bool] = False

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""


class PodDisruptionBudgetSpec(K8sModel):
    """Which pods are protected, and how many must stay (a number or a percentage)."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(K8sModel):
    """How many of the pods may go now."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0


class PodDisruptionBudget(KubeObject):
    """A limit on voluntary evictions."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    # None: no controller has looked at the budget yet, so the allowance follows from the spec.
    status: PodDisruptionBudgetStatus | None = None


class ScopedResourceSelectorRequirement(K8sModel):
    """A condition on pods that a quota counts."""

    scope_name: str = ""
    operator: str = ""
    values: Sequence[str] = ()


class ScopeSelector(K8sModel):
    """Conditions on pods that a quota counts, all of which must hold."""

    match_expressions: Sequence[ScopedResourceSelectorRequirement] = ()


class ResourceQuotaSpec(K8sModel):
    """The most that a namespace may hold."""

    hard: ResourceList = field(default_factory=dict)
    scopes: Sequence[str] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(K8sModel):
    """The limits in force and what is used of them."""

    hard: ResourceList = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)


class ResourceQuota(KubeObject):
    """A limit on what a namespace may hold."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ResourceQuota"

    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)
