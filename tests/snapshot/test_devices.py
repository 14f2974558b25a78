"""Device claims count as requests, slices as capacity; what cannot be judged is not offered."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api import DeviceClass, KubeObject, ObjectMeta, Pod, ResourceClaim, ResourceSlice
from muster.api.pod import PodResourceClaim
from muster.snapshot import Mirror, Snapshot
from muster.snapshot.devices import NOT_LIMITED, claim_keys, claimed, offered
from muster.testing import node, pod, queue
from tests.engine.stage import binds, configured, run


def device_class(name: str, *expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return DeviceClass(metadata=ObjectMeta(name=name), spec={"selectors": selectors} if selectors else {})


def resource_slice(name: str, node_name: str | None, driver: str, count: int) -> ResourceSlice:
    spec: dict[str, Any] = {"driver": driver, "devices": [{"name": f"d{k}"} for k in range(count)]}
    if node_name is not None:
        spec["nodeName"] = node_name
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def claim(name: str, *requests: dict[str, Any]) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default"), spec={"devices": {"requests": list(requests)}}
    )


def with_claims(one: Pod, *names: str) -> Pod:
    one.spec.resource_claims = [PodResourceClaim(name=name, resource_claim_name=name) for name in names]
    return one


# -- claims ---------------------------------------------------------------------------------------------------------


def test_claims_add_up_by_class_in_either_form() -> None:
    amounts = claimed(
        [
            claim("a", {"deviceClassName": "gpu", "count": 2}, {"exactly": {"deviceClassName": "nic"}}),
            claim("b", {"exactly": {"deviceClassName": "gpu", "count": 3}}),
        ]
    )
    assert amounts == {"deviceclass/gpu": 5000, "deviceclass/nic": 1000}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"devices": None},
        {"devices": {"requests": "many"}},
        {"devices": {"requests": ["gpu"]}},
        {"devices": {"requests": [{"deviceClassName": 3}, {"deviceClassName": "gpu", "count": "two"}]}},
    ],
)
def test_a_claim_that_cannot_be_read_asks_for_nothing(spec: dict[str, Any]) -> None:
    assert claimed([ResourceClaim(metadata=ObjectMeta(name="c", namespace="default"), spec=spec)]) == {}


def test_a_pod_names_its_claims_in_its_own_namespace() -> None:
    one = with_claims(pod("p", namespace="team"), "a", "b")
    one.spec.resource_claims = [*one.spec.resource_claims, PodResourceClaim(name="from-template")]
    assert claim_keys(one) == ["team/a", "team/b"]


# -- slices ---------------------------------------------------------------------------------------------------------


def classes(*known: DeviceClass) -> dict[str, DeviceClass]:
    return {one.name: one for one in known}


def test_devices_count_for_classes_that_select_their_driver_or_select_nothing() -> None:
    found = offered(
        [resource_slice("s1", "n1", "gpu.nvidia.com", 4), resource_slice("s2", "n1", "nic.example.com", 2)],
        classes(
            device_class("gpu", 'device.driver == "gpu.nvidia.com"'),
            device_class("nic", " device.driver=='nic.example.com' "),
            device_class("any"),
        ),
    )
    assert found == {"n1": {"deviceclass/gpu": 4000, "deviceclass/nic": 2000, "deviceclass/any": 6000}}


@pytest.mark.parametrize(
    "expressions",
    [
        ('device.attributes["x"].model == "A100"',),
        ('device.driver == "gpu.nvidia.com" && true',),
        ('device.driver == "gpu.nvidia.com"', 'device.driver == "other"'),
        ('device.driver == "gpu.nvidia.com"', 'device.capacity["memory"] > 3'),
    ],
)
def test_a_class_whose_selectors_are_not_understood_or_contradict_is_offered_nothing(
    expressions: tuple[str, ...],
) -> None:
    found = offered([resource_slice("s", "n1", "gpu.nvidia.com", 4)], classes(device_class("gpu", *expressions)))
    assert found == {"n1": {}}


def test_slices_of_one_node_add_up_and_a_slice_of_no_node_counts_nowhere() -> None:
    found = offered(
        [
            resource_slice("s1", "n1", "d", 1),
            resource_slice("s2", "n1", "d", 2),
            resource_slice("s3", "n2", "d", 0),
            resource_slice("s4", None, "d", 9),
        ],
        classes(device_class("any")),
    )
    assert found == {"n1": {"deviceclass/any": 3000}, "n2": {"deviceclass/any": 0}}


# -- in the columns -------------------------------------------------------------------------------------------------


def column(snapshot: Snapshot, resource: str) -> list[int]:
    amounts: list[int] = snapshot.nodes.allocatable()[:, snapshot.axis.index[resource]].tolist()
    return amounts


def test_nodes_offer_devices_once_there_are_slices_and_are_not_limited_before() -> None:
    mirror = Mirror()
    for item in (
        node("n1"),
        node("n2"),
        claim("c", {"deviceClassName": "gpu"}),
        with_claims(pod("p", cpu=1), "c"),
        device_class("gpu"),
    ):
        mirror.upsert(item)
    assert column(mirror.snapshot(), "deviceclass/gpu") == [NOT_LIMITED, NOT_LIMITED]
    mirror.upsert(resource_slice("s", "n2", "d", 3))
    assert column(mirror.snapshot(), "deviceclass/gpu") == [0, 3000]
    mirror.delete(resource_slice("s", "n2", "d", 3))
    assert column(mirror.snapshot(), "deviceclass/gpu") == [NOT_LIMITED, NOT_LIMITED]


def world(count: int) -> list[KubeObject]:
    """A node with two devices, and so many pods with a claim for one each."""
    objects: list[KubeObject] = [
        queue("default"),
        node("bare"),
        node("rich"),
        device_class("gpu"),
        resource_slice("s", "rich", "d", 2),
    ]
    for k in range(count):
        objects += [claim(f"c{k}", {"deviceClassName": "gpu"}), with_claims(pod(f"p{k}", cpu=1), f"c{k}")]
    return objects


def test_pods_with_claims_go_where_devices_are_and_no_further_than_they_reach() -> None:
    session = run(world(3), configured("gang", "predicates"))
    assert list(binds(session).values()) == ["rich", "rich"]


def test_a_claim_that_comes_later_counts_from_then_on() -> None:
    mirror = Mirror()
    mirror.upsert(with_claims(pod("p", cpu=1), "c"))
    mirror.upsert(node("n"))
    mirror.upsert(queue("default"))
    assert "deviceclass/gpu" not in mirror.snapshot().axis.names
    mirror.upsert(claim("c", {"deviceClassName": "gpu", "count": 2}))
    snapshot = mirror.snapshot()
    assert snapshot.request(0)[snapshot.axis.index["deviceclass/gpu"]] == 2000
