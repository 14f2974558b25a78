"""Device claims count as requests, slices as capacity; what cannot be judged is not offered, or held back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api import DeviceClass, KubeObject, Namespace, ObjectMeta, Pod, ResourceClaim, ResourceSlice
from muster.api.objects.pod import PodResourceClaim, PodResourceClaimStatus
from muster.snapshot import GATED, Mirror, Snapshot, TaskStatus
from muster.snapshot.devices import NOT_LIMITED, claim_keys, claimed, hold_of, offered
from muster.snapshot.tables import Hold
from muster.testing import node, pod, pod_group, priority_class, queue
from tests.engine.stage import binds, configured, having, run


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


def from_template(one: Pod, *made: PodResourceClaimStatus) -> Pod:
    one.spec.resource_claims = [PodResourceClaim(name="gpu", resource_claim_template_name="gpus")]
    one.status.resource_claim_statuses = made
    return one


def test_a_pod_names_its_claims_in_its_own_namespace() -> None:
    one = with_claims(pod("p", namespace="team"), "a", "b")
    one.spec.resource_claims = [*one.spec.resource_claims, PodResourceClaim(name="from-template")]
    assert claim_keys(one) == ["team/a", "team/b"]


def test_a_claim_that_was_made_from_a_template_is_the_pods_too() -> None:
    assert claim_keys(from_template(pod("p"))) == []
    assert claim_keys(from_template(pod("p"), PodResourceClaimStatus(name="gpu", resource_claim_name="p-gpu-x"))) == [
        "default/p-gpu-x"
    ]


# -- held back ------------------------------------------------------------------------------------------------------


def allocated(name: str, *, node_name: str = "", consumers: int = 0, deleted: bool = False) -> ResourceClaim:
    """A claim with devices, usable from one node or from everywhere."""
    one = claim(name, {"deviceClassName": "gpu"})
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    where = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}} if node_name else {}
    results = [{"request": "r", "driver": "d", "pool": "p", "device": "d0"}]
    one.status = {
        "allocation": {"devices": {"results": results}, **where},
        "reservedFor": [{"resource": "pods", "name": f"x{k}", "uid": f"x{k}"} for k in range(consumers)],
    }
    if deleted:
        one.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    return one


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (None, "the claim default/c does not exist"),
        (claim("c", {"deviceClassName": "gpu"}), "the claim default/c is not allocated"),
        (allocated("c", deleted=True), "the claim default/c is being deleted"),
        (allocated("c", consumers=256), "the claim default/c is reserved for others"),
        (allocated("c", consumers=255), ""),
        (allocated("c"), ""),
    ],
)
def test_where_nobody_allocates_claims_a_pod_waits_until_it_can_use_its_own(
    there: ResourceClaim | None, why: str
) -> None:
    hold = hold_of(with_claims(pod("p"), "c"), {} if there is None else {there.key: there})
    assert hold == (Hold("device-claim", why) if why else None)


def test_a_pod_for_which_a_claim_is_reserved_needs_no_more_room_on_it() -> None:
    full, one = allocated("c", consumers=256), with_claims(pod("p"), "c")
    one.metadata.uid = "x7"
    assert hold_of(one, {full.key: full}) is None


def test_a_claim_from_a_template_is_waited_for_until_it_is_made_or_found_not_needed() -> None:
    hold = hold_of(from_template(pod("p")), {})
    assert hold == Hold("device-claim", "the claim gpu of default/p has not been made from its template yet")
    assert hold_of(from_template(pod("p"), PodResourceClaimStatus(name="gpu")), {}) is None


def test_where_the_cluster_allocates_claims_they_hold_nobody_back() -> None:
    assert hold_of(with_claims(pod("p"), "c"), None) is None


@pytest.mark.parametrize("claims", [None, {}])
@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory"])
def test_a_pod_that_asks_for_part_of_a_gpu_is_held_back_everywhere(
    key: str, claims: dict[str, ResourceClaim] | None
) -> None:
    hold = hold_of(pod("p", annotations={key: "0.5"}), claims)
    assert hold == Hold("gpu-part", f'default/p has the annotation {key}: "0.5"')


def mirror_of(*objects: KubeObject) -> Mirror:
    mirror = Mirror(allocates_claims=False)
    for item in objects:
        mirror.upsert(item)
    return mirror


def test_a_held_pod_is_let_go_when_its_claim_is_allocated_and_forgotten_when_it_is_gone() -> None:
    mirror = mirror_of(node("n"), queue("default"), with_claims(pod("p", cpu=1), "c"))
    assert mirror.snapshot().holds[0].detail == "the claim default/c does not exist"
    mirror.upsert(claim("c", {"deviceClassName": "gpu"}))
    assert mirror.snapshot().holds[0].detail == "the claim default/c is not allocated"
    mirror.upsert(allocated("c"))
    snapshot = mirror.snapshot()
    assert not snapshot.holds
    assert not snapshot.tasks.flags[0] & GATED
    mirror.delete(allocated("c"))
    assert mirror.snapshot().holds
    mirror.delete(pod("p"))
    assert not mirror.snapshot().holds


def ending(name: str, *, since: datetime | None) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, deletion_timestamp=since))


def test_pods_of_a_namespace_that_is_being_deleted_are_held_back_until_it_is_gone() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    mirror = mirror_of(node("n"), pod("waits"), pod("runs", node="n"), pod("other", namespace="team"))
    mirror.upsert(ending("default", since=None))
    assert not mirror.snapshot().holds
    mirror.upsert(ending("default", since=now))
    snapshot = mirror.snapshot()
    held = {snapshot.tasks.ids[row]: hold for row, hold in snapshot.holds.items()}
    assert held == {"default/waits": Hold("namespace", "default")}
    mirror.upsert(pod("late"))
    assert len(mirror.snapshot().holds) == 2
    mirror.delete(ending("default", since=now))
    assert not mirror.snapshot().holds


def test_two_pods_may_share_an_allocated_claim_whatever_the_slices_say() -> None:
    shared = [with_claims(pod(f"p{k}", cpu=1), "c") for k in range(2)]
    mirror = mirror_of(node("n"), queue("default"), allocated("c"), resource_slice("s", "n", "d", 1), *shared)
    assert column(mirror.snapshot(), "deviceclass/gpu") == [NOT_LIMITED]


def test_a_pod_goes_only_where_its_devices_are() -> None:
    objects = [node("n1"), node("n2"), queue("default"), with_claims(pod("p", cpu=1), "c")]
    for name in ("n1", "n2"):
        session = run([*objects, allocated("c", node_name=name)], configured("gang", "predicates"))
        assert binds(session) == {"p": name}
    unreadable = allocated("c")
    unreadable.status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": "n2"}
    assert binds(run([*objects, unreadable], configured("gang", "predicates"))) == {}


@pytest.mark.parametrize("cpu", [4, 8])
@pytest.mark.parametrize("held", [True, False])
def test_nobody_is_evicted_for_a_pod_that_is_held_back_and_no_gang_counts_on_it(cpu: int, *, held: bool) -> None:
    """The annotated member asks for nothing else, and such a pod usually counts as placed."""
    victim = pod("low", cpu=4, node="n", phase="Running", group="low", priority=1)
    member = pod("part", group="gang", annotations={"gpu-fraction": "0.5"} if held else None, priority=100)
    objects = [node("n", cpu=8), queue("default"), pod_group("low", minimum=0, phase="Running"), victim]
    objects += [priority_class("high", 100), pod_group("gang", minimum=2, priority_class="high")]
    objects += [pod("whole", cpu=cpu, group="gang", priority=100), member]
    session = run(objects, configured("priority", "gang", "predicates", actions=("allocate", "backfill", "preempt")))
    assert bool(binds(session)) == (not held and cpu == 4)
    assert bool(having(session, TaskStatus.RELEASING)) == (not held and cpu == 8)


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
