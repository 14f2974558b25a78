"""Predicates on volumes: bound claims, claims that wait for a pod, and claims that cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import KubeObject, Pod, UserError, decode
from muster.framework import PluginOption, SchedulerConfig
from muster.scheduler import builtin_registry
from tests.plugins.documents import node, pod
from tests.plugins.sessions import fitting, open_session, static_reasons

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NODES = [node("a", {ZONE: "z1"}), node("b", {ZONE: "z2"}), node("c")]


def claim(
    name: str = "data", status: str = "", annotations: dict[str, str] | None = None, owner: str = "", **spec: Any
) -> KubeObject:
    spec = {"resources": {"requests": {"storage": "5Gi"}}, **spec}
    owners = [{"kind": "Pod", "uid": owner}] if owner else []
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": annotations or {},
        "ownerReferences": owners,
        "uid": f"uid-{name}",
    }
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return decode({**document, "status": {"phase": status}})


def volume(name: str = "v1", labels: dict[str, str] | None = None, phase: str = "", **spec: Any) -> KubeObject:
    spec = {"capacity": {"storage": "10Gi"}, **spec}
    metadata = {"name": name, "labels": labels or {}}
    document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    return decode({**document, "status": {"phase": phase}})


def storage_class(name: str = "fast", annotations: dict[str, str] | None = None, **fields: Any) -> KubeObject:
    metadata = {"name": name, "annotations": annotations or {}}
    return decode({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, **fields})


def reachable_from(name: str) -> dict[str, Any]:
    condition = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [condition]}]}}}


def mounting(*claims: str) -> Pod:
    return pod(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims])


WAITING: dict[str, Any] = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "csi.example.com"}
BY_HAND: dict[str, Any] = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "kubernetes.io/no-provisioner"}
IN_Z2: dict[str, Any] = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2", "z3"]}]}]}
FAST: dict[str, Any] = {"storageClassName": "fast"}


@pytest.mark.parametrize(
    ("objects", "expected", "code"),
    [
        # bound
        ([claim(volumeName="v1"), volume()], "abc", ""),
        ([claim(volumeName="v1"), volume(**reachable_from("b"))], "b", "volume-affinity"),
        ([claim(volumeName="v1"), volume(labels={ZONE: "z1"})], "ac", "volume-zone"),
        ([claim(volumeName="v1"), volume(labels={ZONE: "z1__z2"})], "abc", ""),
        ([claim(volumeName="v1"), volume(labels={OLD_ZONE: "z2"})], "bc", "volume-zone"),
        ([claim(volumeName="v1")], "", "volume-missing"),
        ([claim(volumeName="v1", status="Lost"), volume()], "", "volume-missing"),
        # absent
        ([], "", "volume-missing"),
        ([claim("another")], "", "volume-missing"),
        # waiting for the cluster
        ([claim(**FAST), storage_class(provisioner="csi.example.com")], "", "volume-unbound"),
        ([claim(**FAST)], "", "volume-unbound"),
        ([claim(storageClassName="")], "", "volume-unbound"),
        # waiting for the pod
        ([claim(**FAST), storage_class(**WAITING)], "abc", ""),
        ([claim(**FAST), storage_class(**WAITING, **IN_Z2)], "b", "volume-none"),
        ([claim(**FAST), storage_class(**BY_HAND)], "", "volume-none"),
        ([claim(**FAST), storage_class(**BY_HAND), volume(**FAST, **reachable_from("c"))], "c", "volume-none"),
        (
            [claim(**FAST), storage_class(**WAITING, **IN_Z2), volume(**FAST, **reachable_from("c"))],
            "bc",
            "volume-none",
        ),
        # the default class
        (
            [claim(), storage_class(annotations={"storageclass.kubernetes.io/is-default-class": "true"}, **WAITING)],
            "abc",
            "",
        ),
        ([claim(), storage_class(**WAITING)], "", "volume-unbound"),
    ],
)
def test_claims(objects: list[KubeObject], expected: str, code: str) -> None:
    reasons = static_reasons(open_session([*NODES, *objects, mounting("data")], predicates={}), "p")
    assert fitting(reasons) == list(expected)
    assert set(reasons.values()) - {"fits"} == ({code} if code else set())


@pytest.mark.parametrize(
    "unfit",
    [
        {"capacity": {"storage": "4Gi"}},
        {"storageClassName": "slow"},
        {"volumeMode": "Block"},
        {"accessModes": ["ReadOnlyMany"]},
        {"claimRef": {"namespace": "default", "name": "another"}},
        {"phase": "Released"},
        {"labels": {"tier": "silver"}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_volume_that_does_not_suit_is_no_choice(unfit: dict[str, Any]) -> None:
    wanted: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "selector": {"matchLabels": {"tier": "gold"}}}
    suits: dict[str, Any] = {"labels": {"tier": "gold"}, "accessModes": ["ReadWriteOnce"], **FAST}
    objects = [*NODES, claim(**FAST, **wanted), storage_class(**BY_HAND), mounting("data")]
    assert fitting(static_reasons(open_session([*objects, volume(**suits)], predicates={}), "p")) == ["a", "b", "c"]
    without = open_session([*objects, volume(**{**suits, **unfit})], predicates={})
    assert set(static_reasons(without, "p").values()) == {"volume-none"}


def test_a_volume_reserved_for_the_claim_is_its_choice() -> None:
    reserved = volume(claimRef={"namespace": "default", "name": "data"}, phase="Bound", **FAST)
    objects = [*NODES, claim(**FAST), storage_class(**BY_HAND), reserved, mounting("data")]
    assert fitting(static_reasons(open_session(objects, predicates={}), "p")) == ["a", "b", "c"]


def test_a_volume_that_was_reserved_for_an_older_claim_of_the_name_is_no_choice() -> None:
    left = volume(claimRef={"namespace": "default", "name": "data", "uid": "another"}, phase="Released", **FAST)
    objects = [*NODES, claim(**FAST), storage_class(**BY_HAND), left, mounting("data")]
    assert fitting(static_reasons(open_session(objects, predicates={}), "p")) == []


def test_a_volume_that_is_reserved_goes_before_one_that_could_be_made() -> None:
    reserved = volume(claimRef={"namespace": "default", "name": "data"}, **FAST, **reachable_from("b"))
    objects = [*NODES, claim(**FAST), storage_class(**WAITING), reserved, mounting("data")]
    assert fitting(static_reasons(open_session(objects, predicates={}), "p")) == ["b"]


@pytest.mark.parametrize(
    ("selected", "refused", "expected"),
    [
        ("b", "", {"a": "volume-selected", "b": "fits", "c": "volume-selected"}),
        ("gone", "", {"a": "fits", "b": "fits", "c": "fits"}),
        ("", "a,c,gone", {"a": "volume-refused", "b": "fits", "c": "volume-refused"}),
        ("b", "b", {"a": "volume-selected", "b": "volume-refused", "c": "volume-selected"}),
    ],
)
def test_a_claim_that_was_told_a_node_holds_its_pods_to_it(
    selected: str, refused: str, expected: dict[str, str]
) -> None:
    annotations = {"volume.kubernetes.io/selected-node": selected, "muster.sh/volume-refused-on": refused}
    objects = [*NODES, claim(annotations=annotations, **FAST), storage_class(**WAITING), mounting("data")]
    assert static_reasons(open_session(objects, predicates={}), "p") == expected


@pytest.mark.parametrize(("owner", "expected"), [("u1", ["b"]), ("another", []), ("", [])])
def test_the_claim_of_an_ephemeral_volume_counts_if_it_is_the_pods_own(owner: str, expected: list[str]) -> None:
    worker = pod(volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": FAST}}}])
    worker.metadata.uid = "u1"
    made = claim("p-scratch", owner=owner, **FAST)
    objects = [*NODES, made, storage_class(**WAITING, **IN_Z2), worker]
    reasons = static_reasons(open_session(objects, predicates={}), "p")
    assert fitting(reasons) == expected
    assert set(reasons.values()) - {"fits"} == {"volume-none" if expected else "volume-missing"}


def test_all_claims_have_to_be_reachable() -> None:
    bound = [claim("one", volumeName="v1"), volume("v1", labels={ZONE: "z1"})]
    bound += [claim("two", volumeName="v2"), volume("v2", labels={ZONE: "z2"})]
    session = open_session([*NODES, *bound, mounting("one", "two")], predicates={})
    assert fitting(static_reasons(session, "p")) == ["c"]


def test_zones_can_be_turned_off_alone() -> None:
    objects = [*NODES, claim(volumeName="v1"), volume(labels={ZONE: "z1"}), mounting("data")]
    session = open_session(objects, predicates={"predicate.VolumeZoneEnable": False})
    assert fitting(static_reasons(session, "p")) == ["a", "b", "c"]


def test_how_long_a_pod_waits_for_its_volumes_is_configured() -> None:
    def waits(arguments: dict[str, Any]) -> float | None:
        options = (PluginOption("gang"), PluginOption("predicates", arguments=arguments))
        gang, predicates = builtin_registry().make_plugins(SchedulerConfig((), (options,)))
        assert gang.volume_wait_s is None
        return predicates.volume_wait_s

    assert waits({}) == 600.0
    assert waits({"volumebinding.bindTimeoutSeconds": "30"}) == 30.0
    with pytest.raises(UserError, match="bindTimeoutSeconds"):
        waits({"volumebinding.bindTimeoutSeconds": 0})
