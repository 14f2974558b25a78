"""Units: pods that are looked at together, since one owner made them or they name one gang of Kubernetes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from muster.api import OwnerReference, Pod, PodGroup
from muster.api.objects.pod import group_of
from muster.controllers.grouping.families import name_of
from muster.controllers.grouping.native import native_of
from muster.controllers.grouping.owners import controller_of

#: How the gangs of Kubernetes are told from other units.
NATIVE: Final = "/native"
_ENDED: Final = ("Succeeded", "Failed")
#: Owners that stay when they want no pods any more; their PodGroup goes then, as with Volcano.
_SCALED: Final = ("ReplicaSet", "StatefulSet")


def native_unit(namespace: str, group: str) -> str:
    """The unit of a gang of Kubernetes."""
    return f"{namespace}/{group}{NATIVE}"


def unit_of(pod: Pod) -> str:
    """The unit of a pod."""
    native = native_of(pod)
    if native is not None:
        return native_unit(pod.namespace, native.group_name)
    owner = controller_of(pod.metadata.owner_references)
    return f"{pod.key}/pod" if owner is None else owned_unit(pod.namespace, owner)


def owned_unit(namespace: str, owner: OwnerReference) -> str:
    """The unit of an owner."""
    return f"{namespace}/{owner.kind}/{owner.uid or owner.name}"


def scaled_owner(group: PodGroup) -> OwnerReference | None:
    """The owner that a group was made for, if it may come to want no pods."""
    owner = controller_of(group.metadata.owner_references)
    is_made = owner is not None and owner.kind in _SCALED and group.name == name_of("volcano", owner.name, owner.uid)
    return owner if is_made else None


def is_ungrouped(pod: Pod) -> bool:
    """Whether a pod needs a group."""
    return group_of(pod) is None and is_waiting(pod)


def is_waiting(pod: Pod) -> bool:
    """Whether a pod waits for a node."""
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None and pod.status.phase not in _ENDED


def one_of_each_group(pods: Collection[Pod]) -> list[Pod]:
    """One pod of each group that pods name."""
    found = {group: pod for pod in pods if (group := group_of(pod)) is not None}
    return list(found.values())
