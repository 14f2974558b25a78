"""What claims are told before their pod is bound, and how far they are after that."""

from __future__ import annotations

import msgspec

from muster.api import KubeObject, Pod, decode
from muster.cluster.kubernetes.sending.calls import Call
from muster.cluster.kubernetes.verbs.volumes import ClaimFault, ClaimPlan, Volumes
from muster.snapshot.messages import Event, EventKind

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


def claim(
    name: str, class_name: str | None, volume: str = "", node: str = "", *, phase: str = "", size: str = "1Gi"
) -> KubeObject:
    spec = {"storageClassName": class_name, "volumeName": volume, "resources": {"requests": {"storage": size}}}
    annotations = {SELECTED_NODE: node} if node else {}
    return made("v1", "PersistentVolumeClaim", name, spec=spec, annotations=annotations, status={"phase": phase})


def volume(name: str, size: str = "1Gi", class_name: str = "local", *, claim: str = "", host: str = "") -> KubeObject:
    spec: dict[str, object] = {"storageClassName": class_name, "capacity": {"storage": size}}
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": ""}
    if host:
        condition = {"key": "metadata.name", "operator": "In", "values": [host]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchFields": [condition]}]}}
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


def why(volumes: Volumes, *claims: str, node: str = "n1") -> str:
    """What makes waiting pointless."""
    found = volumes.unbound(claims, node)
    assert isinstance(found, ClaimFault)
    return found.why


N1, N2 = made("v1", "Node", "n1"), made("v1", "Node", "n2")
LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
FAST = storage_class("fast", "example.com/disks")


def test_only_unbound_claims_that_wait_for_a_node_are_told() -> None:
    at_once = storage_class("at-once", "example.com/disks", "Immediate")
    volumes = known(FAST, at_once, claim("bound", "fast", "v", phase="Bound"), claim("soon", "at-once"))
    assert volumes.plan(pod("p", "bound", "soon", "missing"), "n1") == ClaimPlan([], [])


def test_a_claim_that_was_told_before_a_restart_is_waited_for_without_being_told_again() -> None:
    volumes = known(FAST, claim("told", "fast", node="n1"))
    assert volumes.plan(pod("p", "told"), "n1") == ClaimPlan([], ["default/told"])


def test_a_claim_of_the_default_class_is_told_the_node_and_told_anew_when_it_is_another() -> None:
    volumes = known(storage_class("fast", "example.com/disks", default=True), claim("data", None, node="n1"))
    [call] = volumes.plan(pod("p", "data"), "n2").calls
    assert call.path == "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert call.body == b'{"metadata":{"uid":"","annotations":{"volume.kubernetes.io/selected-node":"n2"}}}'


def test_a_plan_that_fails_leaves_its_claims_to_be_told_by_the_next_one() -> None:
    local = storage_class("local", "kubernetes.io/no-provisioner")
    volumes = known(FAST, local, claim("shared", "fast"), claim("big", "local", size="2Gi"))
    assert volumes.plan(pod("p", "shared", "big"), "n1").fault is not None
    assert len(volumes.plan(pod("q", "shared"), "n1").calls) == 1


def test_a_claim_that_two_pods_share_is_told_one_node() -> None:
    volumes = known(FAST, claim("data", "fast"))
    assert len(volumes.plan(pod("p", "data"), "n1").calls) == 1
    assert volumes.plan(pod("q", "data"), "n2") == ClaimPlan([], ["default/data"])


def test_a_volume_is_promised_to_one_claim_only_until_that_is_gone() -> None:
    volumes = known(LOCAL, volume("large", "3Gi"), volume("small", "1Gi"), claim("a", "local"), claim("b", "local"))
    first, second = (volumes.plan(pod(f"p-{name}", name), "n1").calls for name in ("a", "b"))
    assert [claimed(call) for call in (*first, *second)] == [("small", "a"), ("large", "b")]
    observe(volumes, claim("a", "local"), kind="DELETED")
    observe(volumes, claim("c", "local"))
    assert claimed(volumes.plan(pod("p-c", "c"), "n1").calls[0]) == ("small", "c")


def test_the_smaller_claim_of_a_pod_chooses_first() -> None:
    volumes = known(
        LOCAL, volume("two", "2Gi"), volume("one", "1Gi"), claim("a", "local", size="2Gi"), claim("b", "local")
    )
    assert [claimed(call) for call in volumes.plan(pod("p", "a", "b"), "n1").calls] == [("one", "b"), ("two", "a")]


def test_a_volume_that_is_reserved_already_goes_before_a_smaller_one() -> None:
    volumes = known(LOCAL, volume("large", "3Gi", claim="a"), volume("small"), claim("a", "local"))
    assert claimed(volumes.plan(pod("p", "a"), "n1").calls[0]) == ("large", "a")


def test_a_pod_for_which_no_volume_is_free_cannot_be_bound() -> None:
    volumes = known(LOCAL, N1, volume("v", host="n2"), claim("a", "local"))
    fault = volumes.plan(pod("p", "a"), "n1").fault
    assert fault is not None
    assert fault.why == "no volume is free for claim default/a on node n1"


def test_a_claim_is_waited_for_until_it_is_bound_and_its_volume_known() -> None:
    volumes = known(FAST, N1, claim("data", "fast"))
    volumes.plan(pod("p", "data"), "n1")
    for seen in (claim("data", "fast", node="n1"), claim("data", "fast", "v", "n1")):
        observe(volumes, seen)
        assert volumes.unbound(["default/data"], "n1") == ["default/data"]
    observe(volumes, claim("data", "fast", "v", "n1", phase="Bound"))
    assert volumes.unbound(["default/data"], "n1") == ["default/data"]
    observe(volumes, volume("v", class_name="fast"))
    assert volumes.unbound(["default/data"], "n1") == []


def test_a_node_is_refused_when_the_claim_had_it_and_lost_it() -> None:
    volumes = known(FAST, N1, claim("data", "fast"))
    volumes.plan(pod("p", "data"), "n1")
    observe(volumes, claim("data", "fast"))
    assert volumes.unbound(["default/data"], "n1") == ["default/data"]
    observe(volumes, claim("data", "fast", node="n1"), claim("data", "fast"))
    assert why(volumes, "default/data") == "no volume could be made for claim default/data on node n1"
    volumes.forget(["default/data"])
    assert len(volumes.plan(pod("p", "data"), "n2").calls) == 1


def test_a_volume_that_was_reserved_and_is_not_any_more_is_not_waited_for() -> None:
    volumes = known(LOCAL, N1, volume("v"), claim("data", "local"))
    volumes.plan(pod("p", "data"), "n1")
    observe(volumes, volume("v", claim="data"))
    assert volumes.unbound(["default/data"], "n1") == ["default/data"]
    observe(volumes, volume("v"))
    assert why(volumes, "default/data") == "volume v is no longer reserved for claim default/data"


def test_what_cannot_come_true_any_more_is_not_waited_for() -> None:
    volumes = known(FAST, N1, N2, claim("far", "fast", "v", phase="Bound"), volume("v", class_name="fast", host="n2"))
    assert why(volumes, "default/far") == "volume v of claim default/far cannot be reached from node n1"
    assert why(volumes, "default/missing") == "claim default/missing is gone or has lost its volume"
    assert why(volumes, node="n3") == "node n3 is gone"
