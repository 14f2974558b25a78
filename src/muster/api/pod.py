"""Pods, as far as scheduling reads them.

The request of a pod is computed in `resources`, its links to PodGroup and role in `links`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from muster.api.base import Int32, Int64, K8sModel, ResourceList, Timestamp
from muster.api.meta import Condition, KubeObject, ObjectMeta
from muster.api.storage import PersistentVolumeClaimSpec


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


class PodResourceClaimStatus(K8sModel):
    """The claim that was made from a template of the pod; none: the pod turned out to need none."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(K8sModel):
    """How the pod is."""

    phase: str = ""
    nominated_node_name: str = ""
    conditions: Sequence[Condition] = ()
    start_time: Timestamp | None = None
    reason: str = ""
    message: str = ""
    resource_claim_statuses: Sequence[PodResourceClaimStatus] = ()


class Pod(KubeObject):
    """A pod: what is placed on a node."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)
