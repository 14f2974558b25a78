"""What claims of volumes have to be told before their pod is bound.

A claim of a storage class that waits for its first consumer is bound by the cluster only when it knows the node: by an
annotation on the claim where a volume is to be made, by a reference on a volume that exists already. Muster tells it,
and binds the pod without waiting; the kubelet waits for the volume. Which nodes will do was decided before, by the
predicates; here the smallest free volume that suits is taken, the first by name of several. Kept current by the
backend, in the scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from muster.api import KubeObject, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from muster.api.names import SELECTED_NODE
from muster.cluster.kubernetes import calls
from muster.cluster.kubernetes.calls import Call
from muster.snapshot.events import Event

_Kind = TypeVar("_Kind", bound=KubeObject)

_WAITS: Final = "WaitForFirstConsumer"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_BY_HAND: Final = ("", "kubernetes.io/no-provisioner")


class Volumes:
    """Claims, volumes and classes as the cluster last reported them."""

    def __init__(self) -> None:
        self._known: dict[type[KubeObject], dict[str, KubeObject]] = {
            kind: {} for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, Node)
        }
        #: The volume that each claim was promised, until the claim has one or is gone.
        self._promised: dict[str, str] = {}

    def observe(self, event: Event) -> None:
        thing = event.object
        known = self._known.get(type(thing))
        if known is None:
            return
        if event.kind == "DELETED":
            known.pop(thing.key, None)
        else:
            known[thing.key] = thing
        if isinstance(thing, PersistentVolumeClaim) and (event.kind == "DELETED" or thing.spec.volume_name):
            self._promised.pop(thing.key, None)

    def before_binding(self, pod: Pod, node: str) -> list[Call]:
        """The calls that have to be made before a pod is bound to a node; most pods need none."""
        return [call for claim in self._waiting_claims(pod) for call in self._tell(claim, node)]

    def _waiting_claims(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for volume in pod.spec.volumes:
            name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
            if not name and volume.ephemeral is not None:
                name = f"{pod.name}-{volume.name}"
            claim = self._find(PersistentVolumeClaim, f"{pod.namespace}/{name}") if name else None
            if claim is not None and not claim.spec.volume_name:
                yield claim

    def _tell(self, claim: PersistentVolumeClaim, node: str) -> Iterator[Call]:
        made_by = self._class_of(claim)
        if made_by is None or made_by.volume_binding_mode != _WAITS:
            return
        volume = self._free_volume(claim, made_by.name, node)
        if volume is not None:
            self._promised[claim.key] = volume.name
            yield calls.claim_volume(volume, claim)
        elif made_by.provisioner not in _BY_HAND and claim.metadata.annotations.get(SELECTED_NODE) != node:
            path = f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"
            yield calls.annotate(path, {SELECTED_NODE: node})

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name = claim.spec.storage_class_name
        if name is not None:
            return self._find(StorageClass, name)
        defaults = (
            known
            for _, known in sorted(self._known[StorageClass].items())
            if known.metadata.annotations.get(_DEFAULT_CLASS) == "true"
        )
        found = next(defaults, None)
        return found if isinstance(found, StorageClass) else None

    def _free_volume(self, claim: PersistentVolumeClaim, class_name: str, node: str) -> PersistentVolume | None:
        taken = {name for key, name in self._promised.items() if key != claim.key}
        found = [
            volume
            for volume in self._known[PersistentVolume].values()
            if isinstance(volume, PersistentVolume)
            and volume.name not in taken
            and volume.suits(claim, class_name)
            and self._reaches(volume, node)
        ]
        return min(found, key=lambda volume: (_size(volume), volume.name), default=None)

    def _reaches(self, volume: PersistentVolume, name: str) -> bool:
        affinity = volume.spec.node_affinity
        node = self._find(Node, name)
        if affinity is None or affinity.required is None or node is None:
            return True
        return affinity.required.matches(node.metadata.labels, name)

    def _find(self, kind: type[_Kind], key: str) -> _Kind | None:
        found = self._known[kind].get(key)
        return found if isinstance(found, kind) else None


def _size(volume: PersistentVolume) -> int:
    size = volume.spec.capacity.get("storage")
    return 0 if size is None else size.units()
