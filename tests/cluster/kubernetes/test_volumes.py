"""What claims are told before their pod is bound."""

from __future__ import annotations

import msgspec

from muster.api import KubeObject, Pod, decode
from muster.cluster.kubernetes.calls import Call
from muster.cluster.kubernetes.volumes import Volumes
from muster.snapshot.events import Event, EventKind

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def made(api_version: str, kind: str, name: str, **body: object) -> KubeObject:
    annotations = body.pop("annotations", {})
    return decode(
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations}, **body}
    )


def storage_class(
    name: str, provisioner: str, mode: str = "WaitForFirstConsumer", *, default: bool = False
) -> KubeObject:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    body = {"provisioner": provisioner, "volumeBindingMode": mode, "annotations": annotations}
    return made("storage.k8s.io/v1", "StorageClass", name, **body)


def claim(name: str, class_name: str | None, volume: str = "", node: str = "") -> KubeObject:
    spec = {"storageClassName": class_name, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    return made("v1", "PersistentVolumeClaim", name, spec=spec, annotations={SELECTED_NODE: node} if node else {})


def volume(name: str, size: str, class_name: str = "local") -> KubeObject:
    spec = {"storageClassName": class_name, "capacity": {"storage": size}}
    return made("v1", "PersistentVolume", name, spec=spec, status={"phase": "Available"})


def pod(name: str, *claims: str) -> Pod:
    mounts = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    found = made("v1", "Pod", name, spec={"volumes": mounts})
    assert isinstance(found, Pod)
    return found


def known(*things: KubeObject) -> Volumes:
    volumes = Volumes()
    observe(volumes, *things)
    return volumes


def observe(volumes: Volumes, *things: KubeObject, kind: EventKind = "ADDED") -> None:
    for thing in things:
        volumes.observe(Event(kind, thing))


def claimed(call: Call) -> tuple[str, str]:
    """The volume, and the claim that it is reserved for."""
    assert call.body is not None
    return call.path.rpartition("/")[2], msgspec.json.decode(call.body)["spec"]["claimRef"]["name"]


LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
FAST = storage_class("fast", "example.com/disks")


def test_only_unbound_claims_that_wait_for_a_node_are_told() -> None:
    at_once = storage_class("at-once", "example.com/disks", "Immediate")
    volumes = known(
        FAST, at_once, claim("bound", "fast", "v"), claim("soon", "at-once"), claim("told", "fast", node="n1")
    )
    assert volumes.before_binding(pod("p", "bound", "soon", "told", "missing"), "n1") == []


def test_a_claim_of_the_default_class_is_told_the_node_and_told_anew_when_it_is_another() -> None:
    volumes = known(storage_class("fast", "example.com/disks", default=True), claim("data", None, node="n1"))
    [call] = volumes.before_binding(pod("p", "data"), "n2")
    assert call.path == "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert call.body == b'{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n2"}}}'


def test_a_volume_is_promised_to_one_claim_only_until_that_is_gone() -> None:
    volumes = known(LOCAL, volume("large", "3Gi"), volume("small", "1Gi"), claim("a", "local"), claim("b", "local"))
    first, second = (volumes.before_binding(pod(f"p-{name}", name), "n1") for name in ("a", "b"))
    assert [claimed(call) for call in (*first, *second)] == [("small", "a"), ("large", "b")]
    assert claimed(volumes.before_binding(pod("p-a", "a"), "n1")[0]) == ("small", "a")
    observe(volumes, claim("a", "local"), kind="DELETED")
    observe(volumes, claim("c", "local"))
    assert claimed(volumes.before_binding(pod("p-c", "c"), "n1")[0]) == ("small", "c")
