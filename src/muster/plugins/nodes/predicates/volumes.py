"""Volumes: nodes from which the pod's claims can be reached.

A bound claim ties the pod to its volume's node affinity and zone labels. A claim that waits for its first consumer may
go where an unclaimed volume of its storage class fits, or where the class can make one; once it was told a node or has
a volume reserved, only there, until it is bound or told otherwise. Any other unbound claim has to be bound by the
cluster first. Two pods that count on the same unclaimed volume are not told apart within one cycle: whoever is bound
second waits for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

from muster.api import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from muster.api.names import SELECTED_NODE, VOLUME_REFUSED_ON
from muster.api.objects.claims import class_of
from muster.api.objects.pod import is_made_for, mounts_of
from muster.framework import Reason, Verdicts, reason
from muster.plugins.nodes.predicates.node_rules import terms_mask
from muster.snapshot import Mask, Snapshot

VOLUME_MISSING = reason(
    "volume-missing",
    "wait for a volume claim that does not exist or has lost its volume",
    remedy="create the claim or its volume, or name another one",
)
VOLUME_UNBOUND = reason(
    "volume-unbound", "wait for a volume claim to be bound", remedy="wait for the claim, or look at its events"
)
VOLUME_AFFINITY = reason(
    "volume-affinity", "cannot reach a volume of the pod", remedy="add nodes that can reach the volume"
)
VOLUME_ZONE = reason("volume-zone", "are in another zone than a volume of the pod", remedy="add nodes in its zone")
VOLUME_NONE = reason(
    "volume-none",
    "have no free volume for a claim of the pod",
    remedy="add a volume of the claim's storage class, or nodes where the class makes volumes",
)
VOLUME_SELECTED = reason(
    "volume-selected",
    "are not the node for which a volume of the pod is being made",
    remedy="wait for the claim to be bound, or look at its events",
)
VOLUME_REFUSED = reason(
    "volume-refused",
    "could not be given a volume of the pod a moment ago",
    remedy="look at the events of the claim; the node is tried again after a while",
)

_T = TypeVar("_T")

#: Zone and region labels, and the newer name of each old one.
_ZONE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


class VolumeRules:
    """Claims, volumes and storage classes of a snapshot."""

    def __init__(self, snapshot: Snapshot, *, binding: bool = True, zones: bool = True) -> None:
        self._snapshot = snapshot
        self._binding = binding
        self._zones = zones
        objects = snapshot.objects
        self._claims = _of(objects.get("PersistentVolumeClaim", {}), PersistentVolumeClaim)
        self._volumes = _of(objects.get("PersistentVolume", {}), PersistentVolume)
        self._classes = _of(objects.get("StorageClass", {}), StorageClass)

    def reject(self, pod: Pod, verdicts: Verdicts) -> None:
        """Write the reason against each node that is not yet rejected."""
        for name, is_ephemeral in mounts_of(pod):
            claim = self._claims.get(f"{pod.namespace}/{name}")
            if claim is None or claim.is_lost or (is_ephemeral and not is_made_for(claim, pod)):
                self._everywhere(verdicts, VOLUME_MISSING)
            elif claim.spec.volume_name:
                self._bound(claim, verdicts)
            elif self._binding:
                self._unbound(claim, verdicts)

    def _everywhere(self, verdicts: Verdicts, why: Reason) -> None:
        if self._binding:
            verdicts[verdicts == 0] = why.number

    # -- bound claims ----------------------------------------------------------------------------------------

    def _bound(self, claim: PersistentVolumeClaim, verdicts: Verdicts) -> None:
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            self._everywhere(verdicts, VOLUME_MISSING)
            return
        if self._binding:
            verdicts[(verdicts == 0) & ~self._reachable(volume)] = VOLUME_AFFINITY.number
        if self._zones:
            verdicts[(verdicts == 0) & ~self._in_zone(volume)] = VOLUME_ZONE.number

    def _reachable(self, volume: PersistentVolume) -> Mask:
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return np.ones(len(self._snapshot.nodes), np.bool_)
        return terms_mask(self._snapshot.nodes, affinity.required)

    def _in_zone(self, volume: PersistentVolume) -> Mask:
        """Nodes in the volume's zone and region; a node that says nothing about either is taken to be."""
        labels = self._snapshot.nodes.labels
        mask = np.ones(len(self._snapshot.nodes), np.bool_)
        known = np.zeros(len(self._snapshot.nodes), np.bool_)
        for key, newer in _ZONE_LABELS.items():
            text = volume.metadata.labels.get(key)
            if text is not None:
                # A volume in several zones lists them as zone1__zone2.
                zones = text.split("__")
                mask &= labels.is_in(key, zones) | ((labels.codes(key) < 0) & labels.is_in(newer, zones))
        for key in _ZONE_LABELS:
            known |= labels.codes(key) >= 0
        return mask | ~known

    # -- unbound claims --------------------------------------------------------------------------------------

    def _unbound(self, claim: PersistentVolumeClaim, verdicts: Verdicts) -> None:
        made_by = class_of(claim, self._classes.values())
        if made_by is None or not made_by.waits_for_consumer:
            self._everywhere(verdicts, VOLUME_UNBOUND)
            return
        refused = self._named(claim.metadata.annotations.get(VOLUME_REFUSED_ON, "").split(","))
        verdicts[(verdicts == 0) & refused] = VOLUME_REFUSED.number
        selected = self._named([claim.metadata.annotations.get(SELECTED_NODE, "")])
        # A node that is gone makes no volume: the choice is free again.
        if selected.any():
            verdicts[(verdicts == 0) & ~selected] = VOLUME_SELECTED.number
        else:
            verdicts[(verdicts == 0) & ~self._obtainable(claim, made_by)] = VOLUME_NONE.number

    def _named(self, names: Iterable[str]) -> Mask:
        index = self._snapshot.nodes.index
        mask = np.zeros(len(self._snapshot.nodes), np.bool_)
        mask[[index[name] for name in names if name in index]] = True
        return mask

    def _obtainable(self, claim: PersistentVolumeClaim, made_by: StorageClass) -> Mask:
        """Nodes from which a volume for the claim can be reached, or made."""
        suiting = [volume for volume in self._volumes.values() if volume.suits(claim, made_by.name)]
        reserved = [volume for volume in suiting if volume.spec.claim_ref is not None]
        mask = np.zeros(len(self._snapshot.nodes), np.bool_) if reserved else self._can_make(made_by)
        for volume in reserved or suiting:
            mask |= self._reachable(volume)
        return mask

    def _can_make(self, made_by: StorageClass) -> Mask:
        """Nodes for which the storage class can make a new volume."""
        nodes = self._snapshot.nodes
        if not made_by.makes_volumes:
            return np.zeros(len(nodes), np.bool_)
        if not made_by.allowed_topologies:
            return np.ones(len(nodes), np.bool_)
        mask = np.zeros(len(nodes), np.bool_)
        for term in made_by.allowed_topologies:
            allowed = np.ones(len(nodes), np.bool_)
            for wanted in term.match_label_expressions:
                allowed &= nodes.labels.is_in(wanted.key, wanted.values)
            mask |= allowed
        return mask


def _of(objects: Mapping[str, object], kind: type[_T]) -> dict[str, _T]:
    """The objects of one kind, by key."""
    return {key: item for key, item in objects.items() if isinstance(item, kind)}
