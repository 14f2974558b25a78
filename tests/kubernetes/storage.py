"""Storage for tests: claims and volumes, and the controllers that nobody runs here, played by the test."""

from __future__ import annotations

from typing import Final

from tests.kubernetes.kubectl import Json, Kubectl, pod

CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"

_MERGE: Final = "application/merge-patch+json"
_SPEC: Final[Json] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Storage:
    """Two classes that wait for the first consumer: `fast` is made on demand, `local` by hand."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        for name, provisioner in (("fast", "example.com/disks"), ("local", "kubernetes.io/no-provisioner")):
            body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            kubectl.request("POST", CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **body})

    def claim(self, name: str, class_name: str = "fast", *, owner: Json | None = None) -> None:
        meta: Json = {"name": name}
        if owner is not None:
            known = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **known}]
        head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
        self._kubectl.request("POST", CLAIMS, {**head, "spec": {**_SPEC, "storageClassName": class_name}})

    def volume(self, name: str, host: str, size: str = "1Gi", class_name: str = "local") -> None:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "capacity": {"storage": size},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        self._kubectl.request("POST", VOLUMES, {**head, "spec": spec})
        self._kubectl.request("PATCH", f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}}, _MERGE)

    def selected_node(self, claim: str) -> str:
        """The node that the claim was told, "" if none."""
        found = self._kubectl.request("GET", f"{CLAIMS}/{claim}")["metadata"].get("annotations", {})
        return str(found.get(SELECTED_NODE, ""))

    def reserved(self) -> dict[str, str]:
        """The claims that volumes are reserved for, "" if none."""
        found = self._kubectl.request("GET", VOLUMES)["items"]
        return {each["metadata"]["name"]: each["spec"].get("claimRef", {}).get("name", "") for each in found}

    def provide(self, claim: str) -> None:
        """Make the volume on the node that the claim was told, and bind them."""
        self.volume(f"for-{claim}", self.selected_node(claim), class_name="fast")
        self.bind(claim, f"for-{claim}")

    def bind(self, claim: str, volume: str) -> None:
        body = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
        self._kubectl.request("PATCH", f"{CLAIMS}/{claim}", body, _MERGE)

    def refuse(self, claim: str) -> None:
        """Take the node away again: no volume can be made there."""
        self._kubectl.request(
            "PATCH", f"{CLAIMS}/{claim}", {"metadata": {"annotations": {SELECTED_NODE: None}}}, _MERGE
        )

    def delete_everything(self) -> None:
        for path in (CLAIMS, VOLUMES, CLASSES):
            for found in self._kubectl.request("GET", path)["items"]:
                one = f"{path}/{found['metadata']['name']}"
                # Nobody runs here who would take the protection away.
                self._kubectl.request("PATCH", one, {"metadata": {"finalizers": None}}, _MERGE)
                self._kubectl.request("DELETE", one)


def mounting(name: str, claim: str, *, group: str = "", gpu: int = 1) -> Json:
    """A pod that mounts a claim."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, gpu=gpu, group=group, volumes=volumes)
