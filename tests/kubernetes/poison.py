"""Hostile objects on a real API server: those that it accepts, and their end."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.kubernetes.kubectl import Json, Kubectl, RefusedError
from tests.properties.hostile_objects import NAMESPACE, hostile

#: Long chains take long to write.
_MAX_DOCUMENTS: Final = 31
_GONE: Final = 404
_IRREGULAR: Final = {
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
    "DeviceClass": "deviceclasses",
    "Topology": "topologies",
}
_NAMESPACED: Final = frozenset(
    {"Pod", "PodDisruptionBudget", "ResourceQuota", "PersistentVolumeClaim", "PodGroup", "ResourceClaim"}
)


class Poison:
    """What somebody who means harm makes and deletes."""

    def __init__(self, kubectl: Kubectl, seed: int) -> None:
        self._kubectl = kubectl
        self._dice = Random(seed)
        self._made: list[Json] = []
        #: Kinds of which the server has accepted something.
        self.kinds: set[str] = set()
        names = [known["metadata"]["name"] for known in kubectl.list("Namespace")]
        if NAMESPACE not in names:
            kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def put(self, at_least: int) -> int:
        """Make objects until the server has accepted so many; returns how many it took."""
        accepted = 0
        while accepted < at_least:
            documents = hostile(self._dice)
            accepted += sum(map(self._create, documents)) if len(documents) <= _MAX_DOCUMENTS else 0
        return accepted

    def _create(self, document: Json) -> bool:
        try:
            self._kubectl.request("POST", _path(document), document)
        except RefusedError:  # its rules are stricter than the generator's, or the name is taken
            return False
        self._made.append(document)
        self.kinds.add(document["kind"])
        return True

    def remove(self) -> None:
        """Delete everything that was made."""
        for document in reversed(self._made):
            path = f"{_path(document)}/{document['metadata']['name']}"
            try:
                self._kubectl.request("DELETE", path, {"gracePeriodSeconds": 0})
                # Volumes wait for whoever protects them, and nobody does so here.
                self._kubectl.request("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            except RefusedError as refused:
                if refused.status != _GONE:
                    raise
        self._made.clear()


def _path(document: Json) -> str:
    version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _IRREGULAR.get(kind, f"{kind.lower()}s")
    return f"{root}/namespaces/{NAMESPACE}/{plural}" if kind in _NAMESPACED else f"{root}/{plural}"
