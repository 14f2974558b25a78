"""The embedded cluster serves KAI's PodGroups and queues as it does Volcano's."""

from dataclasses import replace

import pytest

from muster.api import (
    KaiPodGroup,
    KaiPodGroupSpec,
    KaiQueue,
    KubeObject,
    ObjectMeta,
    Pod,
    PodGroup,
    UserError,
)
from muster.api.names import KAI_GROUP_NAME
from muster.api.objects.scheduling import KaiSchedulingCondition
from muster.cluster import MemoryCluster
from muster.cluster.embedded_server import standard_queues
from muster.snapshot.messages import Evict, JobUpdate
from muster.testing import node, pod, pod_group, queue


def kai_group(name: str = "g", annotations: dict[str, str] | None = None) -> KaiPodGroup:
    meta = ObjectMeta(name=name, namespace="default", annotations=annotations or {})
    return KaiPodGroup(metadata=meta, spec=KaiPodGroupSpec(queue="q"))


def kai_queue(name: str) -> KaiQueue:
    return KaiQueue(metadata=ObjectMeta(name=name))


def member(name: str, on: str = "") -> Pod:
    return pod(name, node=on, annotations={KAI_GROUP_NAME: "g"}, grace_seconds=0)


def group_in(cluster: MemoryCluster) -> KaiPodGroup:
    found = cluster.store.get(KaiPodGroup, "default/g")
    assert found is not None
    return found


def test_updates_are_written_to_the_status_and_the_condition_comes_and_goes() -> None:
    cluster = MemoryCluster([kai_group()])
    waits = JobUpdate("default/g", "Pending", 0, 0, 0, "gang-incomplete", "only part fits", pending=3)
    assert cluster.update_jobs([waits]) == []
    status = group_in(cluster).status
    assert (status.phase, status.pending, status.conditions[0].reason) == ("Pending", 3, "NotEnoughResources")
    cluster.update_jobs([JobUpdate("default/g", "Running", 2, 1, 0)])
    status = group_in(cluster).status
    assert (status.running, status.succeeded, status.pending, list(status.conditions)) == (2, 1, 0, [])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("queue-limit", "OverLimit"),
        ("over-quota", "NonPreemptibleOverQuota"),
        ("queue-missing", "QueueDoesNotExist"),
        ("insufficient-resources", "PodSchedulingErrors"),
    ],
)
def test_why_a_gang_waits_stands_where_kais_tools_look_for_it(code: str, reason: str) -> None:
    group = kai_group()
    group.metadata.labels["kai.scheduler/node-pool"] = "a100"
    elsewhere = KaiSchedulingCondition(type="UnschedulableOnNodePool", node_pool="h100", transition_id="7")
    group.status.scheduling_conditions = [elsewhere]
    cluster = MemoryCluster([group], start=1000.0)
    waits = JobUpdate("default/g", "Pending", 0, 0, 0, code, "no room", pending=3)
    cluster.update_jobs([waits])
    first, second = group_in(cluster).status.scheduling_conditions
    assert first == elsewhere
    assert (second.type, second.node_pool, second.status) == ("UnschedulableOnNodePool", "a100", "True")
    assert [(each.reason, each.message) for each in second.reasons] == [(reason, "no room")]
    cluster.advance_to(1060.0)
    cluster.update_jobs([replace(waits, pending=2)])
    assert group_in(cluster).status.scheduling_conditions[1] == second  # since when it waits
    cluster.update_jobs([JobUpdate("default/g", "Running", 3, 0, 0)])
    assert list(group_in(cluster).status.scheduling_conditions) == [elsewhere]


@pytest.mark.parametrize("group", [kai_group(annotations={"a": "1"}), pod_group("g")], ids=["kai", "volcano"])
def test_annotations_are_set_and_removed_and_the_given_object_stays_as_it_was(group: KubeObject) -> None:
    before = dict(group.metadata.annotations)
    cluster = MemoryCluster([group])
    cluster.update_jobs([JobUpdate("default/g", "Running", 1, 0, 0, annotations={"b": "2"})])
    cluster.update_jobs([JobUpdate("default/g", "Running", 1, 0, 0, annotations={"a": None, "none": None})])
    found = cluster.store.find("PodGroup", "default/g")
    assert found is not None
    assert found.metadata.annotations == {"b": "2"}
    assert group.metadata.annotations == before


def test_updates_with_annotations_can_be_told_apart() -> None:
    plain, stamped = (JobUpdate("j", "Running", 1, 0, 0, annotations=marks) for marks in ({}, {"a": "1"}))
    assert len({plain, stamped}) == 2


def test_an_evicted_pod_is_made_anew_by_its_group() -> None:
    cluster = MemoryCluster([node("n"), kai_group(), member("g-0", on="n")])
    cluster.evict([Evict("default/g-0", "n", "default/g", "", "test")])
    found = cluster.store.get(Pod, "default/g-0")
    assert found is not None
    assert (found.spec.node_name, found.status.phase) == ("", "Pending")


def test_a_deleted_group_takes_its_pods_along() -> None:
    cluster = MemoryCluster([node("n"), kai_group(), member("g-0", on="n"), pod("other")])
    cluster.delete(group_in(cluster))
    assert [left.name for left in cluster.store.all(Pod)] == ["other"]


@pytest.mark.parametrize(
    ("first", "second", "family"),
    [
        (queue("q"), kai_queue("q"), "Queue of scheduling.volcano.sh/v1beta1"),
        (kai_group(), pod_group("g"), "PodGroup of scheduling.run.ai/v2alpha2"),
    ],
)
def test_a_name_is_taken_in_both_families(first: KubeObject, second: KubeObject, family: str) -> None:
    with pytest.raises(UserError, match=f"exists already as a {family}"):
        MemoryCluster([first, second])


def test_a_cluster_of_kai_has_no_queues_of_volcano() -> None:
    assert standard_queues([kai_queue("q")]) == []
    assert [made.name for made in standard_queues([kai_queue("default"), PodGroup()])] == ["root"]
