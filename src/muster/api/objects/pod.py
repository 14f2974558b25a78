"""Pods, as far as scheduling reads them, and what a pod says of itself: its gang, its role and rank, its claims.

Annotations win over labels, as in Volcano. What a pod requests is added up in `resources`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from msgspec import field

from muster.api import names
from muster.api.objects.claims import PersistentVolumeClaim, PersistentVolumeClaimSpec
from muster.api.objects.meta import (
    Condition,
    Int32,
    Int64,
    K8sModel,
    KubeObject,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    ResourceList,
    Timestamp,
)
from muster.api.objects.node import NodeAffinity, Toleration


class PodAffinityTerm(K8sModel):
    """Other pods, and the domain in which to be with them or away from them."""

    label_selector: LabelSelector | None = None
    namespaces: Sequence[str] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: Sequence[str] = ()
    mismatch_label_keys: Sequence[str] = ()


class WeightedPodAffinityTerm(K8sModel):
    """A pod affinity term that would be nice, and how nice."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(K8sModel):
    """Pods to be with; as ``podAntiAffinity``, pods to be away from."""

    required: Sequence[PodAffinityTerm] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Sequence[WeightedPodAffinityTerm] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(K8sModel):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(K8sModel):
    """How evenly pods are spread over the values of a node label."""

    max_skew: Int32 | None = None
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: Sequence[str] = ()


class ResourceClaimReference(K8sModel):
    """A claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(K8sModel):
    """What a container, or the pod as a whole, asks for and may use at most."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)
    claims: Sequence[ResourceClaimReference] = ()


class ContainerPort(K8sModel):
    """A port; one with a host port is held on the node."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class Container(K8sModel):
    """A container; ``restart_policy`` "Always" makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    ports: Sequence[ContainerPort] = ()
    restart_policy: str = ""


class PersistentVolumeClaimVolumeSource(K8sModel):
    """A volume that a claim provides."""

    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(K8sModel):
    """The claim that is made for an ephemeral volume."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(K8sModel):
    """A volume whose claim lives and dies with the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(K8sModel):
    """A volume; the kinds that do not bear on placement have only a name here."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodSchedulingGate(K8sModel):
    """A reason not to schedule the pod yet."""

    name: str = ""


class PodResourceClaim(K8sModel):
    """A device claim of the pod, by name or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(K8sModel):
    """The PodGroup of Kubernetes that the pod is of."""

    pod_group_name: str = ""


class WorkloadReference(K8sModel):
    """The part of a Workload that the pod is of, in Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(K8sModel):
    """What to run and where it may run."""

    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: Sequence[Toleration] = ()
    topology_spread_constraints: Sequence[TopologySpreadConstraint] = ()
    overhead: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    volumes: Sequence[Volume] = ()
    scheduling_gates: Sequence[PodSchedulingGate] = ()
    termination_grace_period_seconds: Int64 | None = None
    host_network: bool = False
    resource_claims: Sequence[PodResourceClaim] = ()
    restart_policy: str = ""
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    active_deadline_seconds: Int64 | None = None


class PodResourceClaimStatus(K8sModel):
    """The claim that was made from a template of the pod; none: the pod turned out to need none."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerTerminated(K8sModel):
    """How a container ended."""

    exit_code: Int32 = 0
    finished_at: Timestamp | None = None


class ContainerState(K8sModel):
    """What a container does now, as far as somebody acts on it."""

    terminated: ContainerTerminated | None = None


class ContainerStatus(K8sModel):
    """How one container is."""

    name: str = ""
    ready: bool = False
    restart_count: Int32 = 0
    state: ContainerState = field(default_factory=ContainerState)


class PodStatus(K8sModel):
    """How the pod is."""

    phase: str = ""
    nominated_node_name: str = ""
    conditions: Sequence[Condition] = ()
    start_time: Timestamp | None = None
    reason: str = ""
    message: str = ""
    resource_claim_statuses: Sequence[PodResourceClaimStatus] = ()
    container_statuses: Sequence[ContainerStatus] = ()
    init_container_statuses: Sequence[ContainerStatus] = ()


class Pod(KubeObject):
    """A pod: what is placed on a node."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


#: No gang has more pods than a number of so many digits counts.
_MAX_DIGITS = 18
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def group_of(pod: Pod) -> str | None:
    """Return the name of the pod's PodGroup (of the same namespace), or None for a gang of one."""
    annotations = pod.metadata.annotations
    for key in (names.GROUP_NAME, names.VOLCANO_GROUP_NAME, names.KAI_GROUP_NAME):
        if group := annotations.get(key):
            return group
    return None


def kai_queue_of(labels: Mapping[str, str]) -> str:
    """Return the queue that labels name to KAI, "" if they name none."""
    return labels.get(names.KAI_QUEUE) or labels.get(names.KAI_OLD_QUEUE, "")


def _marked(pod: Pod, key: str) -> str | None:
    value = pod.metadata.annotations.get(key)
    return value if value is not None else pod.metadata.labels.get(key)


def role_of(pod: Pod) -> str:
    """Return the pod's role in its gang, "" when it has none; KAI's pod sets are roles."""
    return _marked(pod, names.TASK_SPEC) or pod.metadata.labels.get(names.KAI_SUBGROUP, "")


def waits_for(pod: Pod, reason: str) -> bool:
    """Whether the pod says that it waits for a reason, given by its code; messages begin with it."""
    return any(
        known.type == names.POD_SCHEDULED and known.status == "False" and known.message.partition(":")[0] == reason
        for known in pod.status.conditions
    )


def is_preemptable(pod: Pod) -> bool:
    """Whether the pod may be evicted for others; true unless it says otherwise.

    A value that is not a truth value counts as "no": evicting by mistake is worse than not evicting.
    """
    value = _marked(pod, names.PREEMPTABLE)
    return value is None or value in _TRUE


def began_at(pod: Pod) -> float | None:
    """When a pod got its node, seconds since the epoch; where nobody has noted that, when it started."""
    for known in pod.status.conditions:
        if known.type == names.POD_SCHEDULED and known.status == "True" and known.last_transition_time is not None:
            return known.last_transition_time.timestamp()
    return None if pod.status.start_time is None else pod.status.start_time.timestamp()


def is_critical(pod: Pod) -> bool:
    """Whether the cluster itself depends on the pod, so that nobody evicts it."""
    return pod.namespace == SYSTEM_NAMESPACE or pod.spec.priority_class_name in CRITICAL_CLASSES


def pod_index(pod: Pod) -> int:
    """Return the pod's rank among its like: `volcano.sh/task-index`, else the number after the last "-" of its name.

    -1: there is neither.
    """
    _, dash, tail = pod.metadata.name.rpartition("-")
    for text in (_marked(pod, names.TASK_INDEX) or "", tail if dash else ""):
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
    return -1


class Mount(NamedTuple):
    """One claim of a pod, by name."""

    claim: str
    #: Whether the claim is made for the pod and goes with it.
    is_ephemeral: bool


def mounts_of(pod: Pod) -> list[Mount]:
    """The claims of a pod, in the order of its volumes."""
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append(Mount(volume.persistent_volume_claim.claim_name, is_ephemeral=False))
        elif volume.ephemeral is not None:
            found.append(Mount(f"{pod.name}-{volume.name}", is_ephemeral=True))
    return found


def is_made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the claim of an ephemeral volume is this pod's."""
    return any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)


def ephemeral_claims(pod: Pod) -> list[PersistentVolumeClaim]:
    """The claims that a controller makes for a pod."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.metadata.uid, controller=True)
    found = []
    for volume in pod.spec.volumes:
        template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
        if template is not None:
            meta = ObjectMeta(
                name=f"{pod.name}-{volume.name}",
                namespace=pod.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=[owner],
            )
            found.append(PersistentVolumeClaim(metadata=meta, spec=template.spec))
    return found
