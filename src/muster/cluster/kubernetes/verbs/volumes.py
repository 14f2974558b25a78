"""What claims of volumes have to be told before their pod is bound, and how far they are.

A claim of a storage class that waits for its first consumer is bound by the cluster only when it knows the node: by an
annotation on the claim where a volume is to be made, by a reference on a volume that exists already. Which nodes will
do was decided before, by the predicates; here the smallest free volume that suits is taken, the first by name of
several. A claim that several pods share is told once. Who makes volumes refuses a node by taking the annotation away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar

from muster.api import KubeObject, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from muster.api.names import SELECTED_NODE
from muster.api.objects.claims import class_of
from muster.api.objects.pod import mounts_of
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.calls import Call
from muster.snapshot.messages import Event

_Kind = TypeVar("_Kind", bound=KubeObject)


class ClaimFault(NamedTuple):
    """Why a claim cannot be bound for a node."""

    claim: str
    node: str
    why: str
    #: Whether the node is to blame, and not a request that went wrong.
    is_refusal: bool = True


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """What has to happen before a pod can be bound; most pods need nothing."""

    calls: Sequence[Call] = ()
    #: Keys of the claims that have to be bound first.
    claims: Sequence[str] = ()
    fault: ClaimFault | None = None


@dataclass(slots=True)
class _Told:
    """What a claim was told."""

    node: str
    #: The volume that is reserved for it; "": one is to be made.
    volume: str = ""
    #: Whether the cluster has shown that it was.
    is_seen: bool = False


class Volumes:
    """Claims, volumes and classes as the cluster last reported them, and what claims were told."""

    def __init__(self) -> None:
        self._known: dict[type[KubeObject], dict[str, KubeObject]] = {
            kind: {} for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, Node)
        }
        #: By claim, for as long as pods wait for it and it is not bound.
        self._told: dict[str, _Told] = {}

    def observe(self, event: Event) -> None:
        thing = event.object
        known = self._known.get(type(thing))
        if known is None:
            return
        if event.kind == "DELETED":
            known.pop(thing.key, None)
        else:
            known[thing.key] = thing
        if isinstance(thing, PersistentVolumeClaim):
            self._note_claim(thing, is_gone=event.kind == "DELETED")
        elif isinstance(thing, PersistentVolume) and thing.spec.claim_ref is not None:
            named = thing.spec.claim_ref
            told = self._told.get(f"{named.namespace}/{named.name}")
            if told is not None and told.volume == thing.name:
                told.is_seen = True

    def _note_claim(self, claim: PersistentVolumeClaim, *, is_gone: bool) -> None:
        told = self._told.get(claim.key)
        if told is None:
            return
        if is_gone or claim.spec.volume_name:
            del self._told[claim.key]
        elif not told.volume and claim.metadata.annotations.get(SELECTED_NODE) == told.node:
            told.is_seen = True

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """A claim as it is."""
        return self._find(PersistentVolumeClaim, key)

    def forget(self, claims: Iterable[str]) -> None:
        """Nobody waits for these claims any more."""
        for key in claims:
            self._told.pop(key, None)

    # -- before binding --------------------------------------------------------------------------------------

    def plan(self, pod: Pod, node: str) -> ClaimPlan:
        """What has to happen before a pod is bound to a node. What it says is taken as being done."""
        if not pod.spec.volumes:
            return ClaimPlan()
        wanted = [claim for claim in self._claims_of(pod) if self._has_to_wait(claim)]
        told: list[Call] = []
        earlier = dict(self._told)
        for claim in sorted(wanted, key=_asked):
            call = self._tell(claim, node)
            if isinstance(call, ClaimFault):
                self._told = earlier  # nothing is sent, and another pod may need the same claim
                return ClaimPlan(claims=[known.key for known in wanted], fault=call)
            told += [] if call is None else [call]
        return ClaimPlan(told, [claim.key for claim in wanted])

    def _claims_of(self, pod: Pod) -> list[PersistentVolumeClaim]:
        found = (self.claim(f"{pod.namespace}/{mount.claim}") for mount in mounts_of(pod))
        return [claim for claim in found if claim is not None]

    def _has_to_wait(self, claim: PersistentVolumeClaim) -> bool:
        if claim.spec.volume_name:
            return not claim.is_bound
        made_by = self._class_of(claim)
        return made_by is not None and made_by.waits_for_consumer

    def _tell(self, claim: PersistentVolumeClaim, node: str) -> Call | ClaimFault | None:
        """The call that tells a claim its node; None: it is told already."""
        made_by = self._class_of(claim)
        if claim.key in self._told or claim.spec.volume_name or made_by is None:
            return None
        is_made = made_by.makes_volumes
        is_selected = claim.metadata.annotations.get(SELECTED_NODE) == node
        volume = None if is_made and is_selected else self._free_volume(claim, made_by.name, node)
        if volume is not None:
            is_reserved = volume.spec.claim_ref is not None and bool(volume.spec.claim_ref.uid)
            self._told[claim.key] = _Told(node, volume.name, is_reserved)
            return None if is_reserved else calls.claim_volume(volume, claim)
        if not is_made:
            return ClaimFault(claim.key, node, f"no volume is free for claim {claim.key} on node {node}")
        self._told[claim.key] = _Told(node, is_seen=is_selected)
        return None if is_selected else calls.annotate(_path(claim), claim.metadata.uid, {SELECTED_NODE: node})

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        known = self._known[StorageClass].values()
        return class_of(claim, (each for each in known if isinstance(each, StorageClass)))

    def _free_volume(self, claim: PersistentVolumeClaim, class_name: str, node: str) -> PersistentVolume | None:
        taken = {told.volume for told in self._told.values()}
        found = [
            volume
            for volume in self._known[PersistentVolume].values()
            if isinstance(volume, PersistentVolume)
            and volume.name not in taken
            and volume.suits(claim, class_name)
            and self._reaches(volume, node)
        ]
        return min(found, key=lambda volume: (volume.spec.claim_ref is None, _size(volume), volume.name), default=None)

    def _reaches(self, volume: PersistentVolume, name: str) -> bool:
        affinity = volume.spec.node_affinity
        node = self._find(Node, name)
        if affinity is None or affinity.required is None or node is None:
            return True
        return affinity.required.matches(node.metadata.labels, name)

    # -- while the pod waits -----------------------------------------------------------------------------------

    def unbound(self, claims: Iterable[str], node: str) -> list[str] | ClaimFault:
        """Those of the claims that are not bound yet, or what makes waiting for them pointless."""
        waiting = []
        if self._find(Node, node) is None:
            return ClaimFault("", node, f"node {node} is gone")
        for key in claims:
            claim = self.claim(key)
            if claim is None or claim.is_lost:
                return ClaimFault(key, node, f"claim {key} is gone or has lost its volume")
            if (fault := self._fault(claim, node)) is not None:
                return fault
            if not claim.is_bound or self._find(PersistentVolume, claim.spec.volume_name) is None:
                waiting.append(key)
        return waiting

    def _fault(self, claim: PersistentVolumeClaim, node: str) -> ClaimFault | None:
        told = self._told.get(claim.key)
        name = claim.spec.volume_name or ("" if told is None else told.volume)
        volume = self._find(PersistentVolume, name) if name else None
        if volume is not None and not self._reaches(volume, node):
            return ClaimFault(claim.key, node, f"volume {name} of claim {claim.key} cannot be reached from node {node}")
        if told is None or not told.is_seen:
            return None
        if told.volume and (volume is None or not volume.is_reserved_for(claim)):
            return ClaimFault(claim.key, told.node, f"volume {name} is no longer reserved for claim {claim.key}")
        if not told.volume and claim.metadata.annotations.get(SELECTED_NODE) != told.node:
            return ClaimFault(
                claim.key, told.node, f"no volume could be made for claim {claim.key} on node {told.node}"
            )
        return None

    def _find(self, kind: type[_Kind], key: str) -> _Kind | None:
        found = self._known[kind].get(key)
        return found if isinstance(found, kind) else None


def _path(claim: PersistentVolumeClaim) -> str:
    return f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"


def _size(volume: PersistentVolume) -> Fraction:
    size = volume.spec.capacity.get("storage")
    return Fraction(0) if size is None else size.value


def _asked(claim: PersistentVolumeClaim) -> tuple[Fraction, str]:
    """Small claims choose first, so that they leave the large volumes to others."""
    size = claim.spec.resources.requests.get("storage")
    return (Fraction(0) if size is None else size.value, claim.key)
