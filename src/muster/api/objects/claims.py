"""Claims on storage and on devices, and what they are met with: volumes, storage classes, device classes and slices.

Of storage everything is typed that ties pods to nodes and zones. Of devices (``resource.k8s.io/v1``), which are read
and never written, specs and statuses stay as they came; what is made of them is in the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from msgspec import field

from muster.api.names import BIND_COMPLETED
from muster.api.objects.meta import K8sModel, KubeObject, LabelSelector, ResourceList
from muster.api.objects.node import NodeSelector

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
#: Provisioners that make no volumes: somebody does it by hand.
_BY_HAND: Final = ("", "kubernetes.io/no-provisioner")


class ObjectReference(K8sModel):
    """Another object, by name."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(K8sModel):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(K8sModel):
    """The driver that provides a volume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(K8sModel):
    """A volume: how large, of which class, reachable from where, claimed by whom."""

    capacity: ResourceList = field(default_factory=dict)
    access_modes: Sequence[str] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None


class PersistentVolumeStatus(K8sModel):
    """Whether the volume is available, bound, released or failed."""

    phase: str = ""


class VolumeResourceRequirements(K8sModel):
    """How much storage is asked for."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


class PersistentVolumeClaimSpec(K8sModel):
    """What storage is asked for; no class name at all means the default class, "" means none."""

    access_modes: Sequence[str] = ()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = field(default_factory=VolumeResourceRequirements)


class PersistentVolumeClaimStatus(K8sModel):
    """Whether the claim is pending, bound or lost."""

    phase: str = ""


class PersistentVolumeClaim(KubeObject):
    """A wish for storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)

    @property
    def is_bound(self) -> bool:
        """Whether claim and volume know of each other; a claim that only names a volume may have to wait for it."""
        completed = BIND_COMPLETED in self.metadata.annotations or self.status.phase == "Bound"
        return bool(self.spec.volume_name) and completed

    @property
    def is_lost(self) -> bool:
        """Whether the claim goes, or its volume has gone."""
        return self.metadata.deletion_timestamp is not None or self.status.phase == "Lost"


class PersistentVolume(KubeObject):
    """A piece of storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"
    namespaced: ClassVar[bool] = False

    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)

    def is_reserved_for(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the volume names the claim, and not one that had its name before."""
        named = self.spec.claim_ref
        if named is None or (named.namespace, named.name) != (claim.namespace, claim.name):
            return False
        return not named.uid or named.uid == claim.metadata.uid

    def suits(self, claim: PersistentVolumeClaim, class_name: str) -> bool:
        """Whether the volume is free for the claim, of its class and kind, and large enough."""
        spec, wanted = self.spec, claim.spec
        if spec.claim_ref is not None:
            if not self.is_reserved_for(claim):
                return False
        elif self.status.phase not in ("", "Available"):
            return False
        if spec.storage_class_name != class_name or spec.volume_mode != wanted.volume_mode:
            return False
        if not set(wanted.access_modes) <= set(spec.access_modes):
            return False
        if wanted.selector is not None and not wanted.selector.matches(self.metadata.labels):
            return False
        asked, has = wanted.resources.requests.get("storage"), spec.capacity.get("storage")
        return asked is None or (has is not None and has.value >= asked.value)


class TopologySelectorLabelRequirement(K8sModel):
    """A node label and the values that are allowed."""

    key: str = ""
    values: Sequence[str] = ()


class TopologySelectorTerm(K8sModel):
    """Node labels that must all have an allowed value."""

    match_label_expressions: Sequence[TopologySelectorLabelRequirement] = ()


class StorageClass(KubeObject):
    """A kind of storage: who provides it, when it is bound, and in which zones."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"
    namespaced: ClassVar[bool] = False

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: Sequence[TopologySelectorTerm] = ()
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def waits_for_consumer(self) -> bool:
        """Whether claims are bound only when it is known which node needs them."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def makes_volumes(self) -> bool:
        """Whether a claim for which there is no volume gets a new one."""
        return self.provisioner not in _BY_HAND


def class_of(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> StorageClass | None:
    """The storage class of a claim: the one that it names, else the default, the first by name of several."""
    wanted = claim.spec.storage_class_name
    if wanted is not None:
        return next((known for known in classes if known.name == wanted), None)
    defaults = (known for known in classes if known.metadata.annotations.get(_DEFAULT_CLASS) == "true")
    return min(defaults, key=lambda known: known.name, default=None)


class ResourceClaim(KubeObject):
    """A wish for devices."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceClaim"

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
    status: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


class DeviceClass(KubeObject):
    """A kind of device."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "DeviceClass"
    namespaced: ClassVar[bool] = False

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


class ResourceSlice(KubeObject):
    """Devices that a node has."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceSlice"
    namespaced: ClassVar[bool] = False

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


def requested_devices(claim: ResourceClaim) -> dict[str, int]:
    """How many devices of which class a claim asks for; what no server would write asks for none."""
    counts: dict[str, int] = {}
    for request in as_list(as_map(claim.spec.get("devices")).get("requests")):
        wanted = as_map(request.get("exactly")) or request
        name, count = wanted.get("deviceClassName"), wanted.get("count", 1)
        if isinstance(name, str) and isinstance(count, int):
            counts[name] = counts.get(name, 0) + count
    return counts


def as_map(value: object) -> dict[str, object]:
    """A mapping of a document that is kept as written; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[dict[str, object]]:
    """The mappings in a list of such a document."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
