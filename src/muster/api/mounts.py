"""The claims of storage that a pod mounts: those it names, and those that are made for it alone.

Called by the mirror (equal pods mount the same claims), by the predicates and by clusters. The claim of an ephemeral
volume is made by a controller after the pod, under a name that follows from the pod's; a claim that happens to have
that name but is somebody else's is not the pod's.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.pod import Pod
from muster.api.storage import PersistentVolumeClaim


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
