"""The door: one bad object costs one object, whatever it raises, wherever it stands among good ones."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from muster.api import KubeObject, LabelSelector, Node, ObjectMeta, Pod, PodDisruptionBudget, PodGroup, decode
from muster.snapshot import Intake, Mirror, Snapshot, TaskStatus
from muster.snapshot.messages import Event
from muster.snapshot.mirror.quarantine import PAUSE_SECONDS
from tests.snapshot.objects import group, node, pod, queue


def intake(*items: KubeObject, names: list[str] | None = None) -> tuple[Intake, Mirror]:
    mirror = Mirror(names)
    door = Intake(mirror)
    door.take([Event("ADDED", item) for item in items], 0.0)
    return door, mirror


def asides(mirror: Mirror) -> dict[str, str]:
    return {f"{held.kind} {held.object.key}": held.reason for held in mirror.quarantine}


def live(snapshot: Snapshot) -> set[str]:
    return {
        name
        for name, status in zip(snapshot.tasks.ids, snapshot.tasks.status, strict=True)
        if status != TaskStatus.GONE
    }


def bad_object(kind: str, spec: dict[str, Any], api_version: str = "v1", **more: Any) -> KubeObject:
    return decode(
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": "bad", "namespace": "ns"}, "spec": spec, **more}
    )


VOLCANO = "scheduling.volcano.sh/v1beta1"
BAD: list[KubeObject] = [
    pod("bad", cpu="100P"),
    bad_object(
        "Pod", {"containers": [{"name": str(k), "resources": {"requests": {"memory": "9E"}}} for k in range(2)]}
    ),
    bad_object(
        "Pod",
        {"overhead": {"memory": "9E"}, "containers": [{"name": "c", "resources": {"requests": {"memory": "9E"}}}]},
    ),
    bad_object("Node", {}, status={"allocatable": {"cpu": "10E", "memory": "1Gi", "pods": "10"}}),
    bad_object("Node", {}, status={"allocatable": {"cpu": "-1", "memory": "1Gi", "pods": "10"}}),
    bad_object("Node", {}, status={"allocatable": {"cpu": "4", "nvidia.com/gpu": str(2**63 - 1), "pods": "10"}}),
    bad_object("PodGroup", {"minMember": 1, "minTaskMember": {"a": 2**31 - 1, "b": 2**31 - 1}}, VOLCANO),
    bad_object("PodGroup", {"minMember": 2**31 - 1}, VOLCANO),
    bad_object(
        "PodGroup",
        {"subGroupPolicy": [{"name": "s", "subGroupSize": 2**31 - 1, "minSubGroups": 2**31 - 1}]},
        VOLCANO,
    ),
    bad_object("Queue", {"capability": {"cpu": "10E"}}, VOLCANO),
    bad_object("PersistentVolumeClaim", {"resources": {"requests": {"storage": "10E"}}}),
    bad_object("PersistentVolume", {"capacity": {"storage": "10E"}}),
    bad_object("ResourceQuota", {"hard": {"cpu": "10E"}}),
    bad_object(
        "ResourceClaim",
        {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2**63 - 1}}]}},
        "resource.k8s.io/v1",
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.kind}")
@pytest.mark.parametrize("place", [0, 3, 7])
def test_one_bad_object_costs_one_object(bad: KubeObject, place: int) -> None:
    good = [
        queue("a"),
        node("n1"),
        node("n2"),
        group("one", 2, "a"),
        *(pod(f"one-{k}", "one", cpu="1") for k in (0, 1)),
    ]
    door, mirror = intake(*good[:place], bad, *good[place:])
    expected = intake(*good)[0].snapshot()

    snapshot = door.snapshot()

    assert list(asides(mirror)) == [f"{bad.kind} {bad.key}"]
    assert live(snapshot) == {"ns/one-0", "ns/one-1"}
    assert [record.id for record in snapshot.jobs.records] == ["ns/one"]
    assert snapshot.total().tolist() == expected.total().tolist()
    assert not snapshot.nodes.ready[[row for row, name in enumerate(snapshot.nodes.names) if name == "bad"]].any()

    door.take([Event("DELETED", bad)], 1.0)
    after = door.snapshot()

    assert asides(mirror) == {}
    assert after.axis == expected.axis
    assert after.nodes.names == expected.nodes.names
    assert len(after.tasks) == len(expected.tasks)
    assert len(after.classes) == len(expected.classes)


def test_a_bad_pod_of_a_gang_keeps_the_gang_waiting_until_it_is_corrected() -> None:
    door, _ = intake(queue("a"), group("one", 2, "a"), pod("one-0", "one", cpu="1"), pod("one-1", "one", cpu="100P"))
    snapshot = door.snapshot()
    job = snapshot.jobs.index["ns/one"]
    assert "Pod ns/one-1" in snapshot.jobs.aside[job]

    door.take([Event("MODIFIED", pod("one-1", "one", cpu="1"))], 1.0)
    snapshot = door.snapshot()
    assert snapshot.jobs.aside == {}
    assert live(snapshot) == {"ns/one-0", "ns/one-1"}


def test_a_pod_on_a_node_keeps_its_room_when_its_next_version_cannot_be_used() -> None:
    door, mirror = intake(queue("a"), node("n1"), pod("p", cpu="1", on="n1"))
    door.take([Event("MODIFIED", pod("p", cpu="100P", on="n1"))], 1.0)
    snapshot = door.snapshot()
    assert snapshot.nodes.used()[0, 0] == 1000
    assert list(asides(mirror)) == ["Pod ns/p"]


def test_another_schedulers_bad_pod_costs_nobody_anything() -> None:
    foreign = pod("bad", cpu="100P")
    foreign = msgspec.structs.replace(foreign, spec=msgspec.structs.replace(foreign.spec, scheduler_name="other"))
    door, mirror = intake(queue("a"), pod("p", cpu="1"), foreign, names=["muster", "", "default-scheduler"])
    assert door.snapshot().jobs.aside == {}
    assert list(asides(mirror)) == ["Pod ns/bad"]


def test_what_is_aside_is_tried_again_after_a_pause() -> None:
    door, mirror = intake(queue("a"), pod("p", cpu="1"))
    refused = mirror.upsert
    calls: list[str] = []

    def stubborn(item: KubeObject) -> None:
        calls.append(item.key)
        if len(calls) < 3:
            raise ArithmeticError("not today")
        refused(item)

    mirror.upsert = stubborn  # type: ignore[method-assign]
    door.take([Event("ADDED", pod("q", cpu="1"))], 10.0)
    assert asides(mirror) == {"Pod ns/q": "cannot be used (ArithmeticError: not today)"}
    door.take([], 10.0 + PAUSE_SECONDS - 1)
    assert len(calls) == 1
    door.take([], 10.0 + PAUSE_SECONDS)
    assert [held.since for held in mirror.quarantine] == [10.0]
    door.take([], 10.0 + 2 * PAUSE_SECONDS)
    assert asides(mirror) == {}
    assert live(door.snapshot()) == {"ns/p", "ns/q"}


def test_who_spoils_the_picture_is_found_among_all_that_came() -> None:
    mirror = Mirror()
    door = Intake(mirror)
    take = mirror.snapshot

    def camera() -> Snapshot:
        snapshot = take()
        if {"ns/x7", "ns/x90"} & live(snapshot):
            raise RecursionError("too deep")
        return snapshot

    mirror.snapshot = camera  # type: ignore[method-assign]
    door.take([Event("ADDED", queue("a")), *(Event("ADDED", pod(f"x{k}", cpu="1")) for k in range(100))], 0.0)
    snapshot = door.snapshot()
    assert sorted(asides(mirror)) == ["Pod ns/x7", "Pod ns/x90"]
    assert len(live(snapshot)) == 98


def test_a_queue_that_cannot_be_used_keeps_its_jobs_and_those_below_it_waiting() -> None:
    bad = bad_object("Queue", {"capability": {"cpu": "10E"}}, VOLCANO)
    door, _ = intake(
        bad, queue("below", parent="bad"), queue("other"), group("one", 1, "below"), group("two", 1, "other")
    )
    queues = door.snapshot().queues
    assert sorted(queues.records[row].name for row in queues.aside) == ["bad", "below"]
    assert queues.aside.keys() <= queues.broken.keys()


def test_a_namesake_of_the_other_family_is_aside_and_takes_the_place_when_it_is_free() -> None:
    first = group("g", 1, "a")
    second = decode(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "ns"},
            "spec": {"minMember": 3},
        }
    )
    door, mirror = intake(queue("a"), first, second, pod("p", "g", cpu="1"))
    assert len(mirror.quarantine) == 1
    assert door.snapshot().jobs.aside == {}
    door.take([Event("DELETED", first)], 1.0)
    assert len(mirror.quarantine) == 0
    assert door.snapshot().jobs.min_member.tolist() == [3]


def aged(kind: str, api_version: str, day: int, **spec: Any) -> KubeObject:
    meta = {"name": "same", "namespace": "ns", "creationTimestamp": f"2026-01-{day:02}T00:00:00Z"}
    return decode({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})


@pytest.mark.parametrize("older", ["volcano", "kai"])
@pytest.mark.parametrize("kind", ["Queue", "PodGroup"])
def test_of_two_namesakes_the_older_has_the_name_whoever_is_listed_first(kind: str, older: str) -> None:
    """So a restart does not turn it round."""
    kai_version = "scheduling.run.ai/v2" if kind == "Queue" else "scheduling.run.ai/v2alpha2"
    volcano, kai = aged(kind, VOLCANO, 2), aged(kind, kai_version, 1 if older == "kai" else 3)
    expected = kai if older == "kai" else volcano
    for listed in ([volcano, kai], [kai, volcano]):
        door, mirror = intake(*listed)
        [held] = mirror.quarantine
        assert held.object is not expected
        assert f"there is a {kind} of {expected.api_version} with this name already" in held.reason
        assert mirror.namesake(held.object) is expected
        door.snapshot()
        door.take([Event("MODIFIED", each) for each in reversed(listed)], 1.0)
        assert [each.object for each in mirror.quarantine] == [held.object]
        door.take([Event("DELETED", expected)], 2.0)
        assert list(mirror.quarantine) == []
        assert mirror.namesake(expected) is held.object


def test_an_older_queue_that_cannot_be_counted_keeps_its_name_whoever_is_listed_first() -> None:
    bad = aged("Queue", VOLCANO, 1, capability={"cpu": "10E"})
    good = aged("Queue", "scheduling.run.ai/v2", 2)
    for listed in ([bad, good], [good, bad]):
        door, mirror = intake(*listed)
        assert {held.object.api_version for held in mirror.quarantine} == {bad.api_version, good.api_version}
        queues = door.snapshot().queues
        assert [queues.records[row].source for row in queues.aside] == [bad]


def test_an_unreadable_budget_protects_its_whole_namespace() -> None:
    budget = PodDisruptionBudget(metadata=ObjectMeta(name="b", namespace="default"))
    door, mirror = intake(node("n1"))
    door.take([Event("UNREADABLE", budget, "not readable")], 0.0)
    kept = mirror.snapshot().objects["PodDisruptionBudget"]["default/b"]
    assert isinstance(kept, PodDisruptionBudget)
    assert kept.spec.selector == LabelSelector()
    assert kept.spec.max_unavailable == 0
    door.take([Event("DELETED", budget)], 0.0)
    assert mirror.snapshot().objects["PodDisruptionBudget"] == {}


def test_sums_over_the_cluster_stay_countable() -> None:
    """Eight thousand pods that each ask for 8 Ei together, and nodes with as much: nobody sees a negative amount."""
    pods = [pod(f"p{k}", "g", cpu="1", memory="7Ei") for k in range(2000)]
    nodes = [node(f"n{k}", memory="7Ei") for k in range(8)]
    bound = [pod(f"b{k}", cpu="1", memory="7Ei", on="n0") for k in range(4)]
    small = pod("small", cpu="1", memory="2Ti")
    door, mirror = intake(queue("a"), group("g", 1, "a"), *nodes, *pods, *bound, small)
    snapshot = door.snapshot()
    assert asides(mirror) == {}
    memory = snapshot.axis.index["memory"]
    assert (snapshot.jobs.pending[:, memory] >= 0).all()
    assert (snapshot.jobs.allocated >= 0).all()
    assert (snapshot.queues.tree_allocated >= 0).all()
    assert 0 < snapshot.total()[memory] < 2**61
    assert snapshot.nodes.used()[:, memory].max() < 2**61
    task = snapshot.tasks.ids.index("ns/small")
    assert snapshot.request(task)[memory] == 2 * 2**40
    big = snapshot.request(snapshot.tasks.ids.index("ns/p0"))[memory]
    assert (big > snapshot.nodes.allocatable()[:, memory]).all()


def test_rows_that_are_handed_out_again_hold_zeros() -> None:
    door, mirror = intake(queue("a"), pod("p", cpu="1", on="n9"))
    door.take([Event("DELETED", pod("p", cpu="1", on="n9"))], 0.0)
    columns = mirror._book.columns
    row = columns.add()
    assert all(columns[name][row] == 0 for name in ("job", "cls", "node", "status", "priority", "flags"))
    assert np.asarray(columns["cls"]).max() < 1


def test_the_types_of_objects_are_known_to_the_book() -> None:
    """A name is taken once per type: a node and a pod of one name are two objects."""
    door, mirror = intake(Node(metadata=ObjectMeta(name="x")), pod("x", cpu="100P"))
    door.take([Event("UNREADABLE", Node(metadata=ObjectMeta(name="ns/x")), "torn")], 0.0)
    assert sorted(asides(mirror)) == ["Node ns/x", "Pod ns/x"]
    assert {type(held.object) for held in mirror.quarantine} == {Node, Pod}
    assert PodGroup not in {type(held.object) for held in mirror.quarantine}
