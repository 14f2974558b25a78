"""The mirror: objects in, one and the same picture out, whatever the order and the detours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject, LabelSelector, ObjectMeta, Pod, PriorityClass, SubGroupPolicy, pod_index
from muster.api.names import PREEMPTABLE
from muster.api.objects.meta import Condition
from muster.kernels.planes import ALLOCATABLE, USED
from muster.snapshot import FOREIGN, NO_ROW, JobPhase, Mirror, Snapshot, TaskStatus
from muster.snapshot.mirror import tasks
from tests.snapshot.objects import group, node, pod, queue


def objects() -> list[KubeObject]:
    found: list[KubeObject] = [queue("a"), queue("b", parent="a"), node("n1"), node("n2", gpu="2")]
    found += [group("one", 2, "a"), group("two", 1, "b", min_task_member={"w": 1})]
    found += [pod(f"one-{i}", "one", cpu="1") for i in range(3)]
    found += [pod("two-0", "two", role="w", cpu="500m", gpu="1", on="n2"), pod("lone", cpu="2", memory="1Gi")]
    found += [pod("orphan", "nowhere", cpu="1")]
    return found


def picture(snapshot: Snapshot) -> dict[str, Any]:
    """Everything in a snapshot, by name instead of by row."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    node_names = [*snapshot.nodes.names, None]
    queue_names = [*(record.name for record in snapshot.queues.records), None]
    live = [row for row in range(len(tasks)) if tasks.status[row] != TaskStatus.GONE]
    return {
        "axis": snapshot.axis.names,
        "nodes": {name: snapshot.nodes.state[:, row].tolist() for row, name in enumerate(snapshot.nodes.names)},
        "tasks": {
            tasks.ids[row]: (
                jobs.records[tasks.job[row]].id if tasks.job[row] != NO_ROW else None,
                snapshot.classes.requests[tasks.cls[row]].tolist(),
                snapshot.roles.names[tasks.role[row]] if tasks.role[row] != NO_ROW else None,
                int(tasks.status[row]),
                node_names[tasks.node[row]],
                int(tasks.rank[row]),
                int(tasks.flags[row]),
            )
            for row in live
        },
        "jobs": {
            jobs.records[row].id: (
                queue_names[jobs.queue[row]],
                int(jobs.min_member[row]),
                jobs.counts[row].tolist(),
                jobs.allocated[row].tolist(),
                jobs.pending[row].tolist(),
                bool(jobs.has_group[row]),
                sorted(snapshot.roles.names[role] for role in jobs.roles[row]),
            )
            for row in range(len(jobs))
            if jobs.live[row]
        },
        "queues": {
            record.name: (
                snapshot.queues.own_allocated[row].tolist(),
                snapshot.queues.tree_allocated[row].tolist(),
            )
            for row, record in enumerate(snapshot.queues.records)
        },
    }


def mirror_of(items: Sequence[KubeObject]) -> Mirror:
    mirror = Mirror()
    for item in items:
        mirror.upsert(item)
    return mirror


@given(st.permutations(objects()))
def test_the_order_of_arrival_does_not_matter(order: list[KubeObject]) -> None:
    assert picture(mirror_of(order).snapshot()) == picture(mirror_of(objects()).snapshot())


@given(st.lists(st.integers(0, 20), max_size=12), st.permutations(list(range(12))))
def test_deleting_and_adding_again_leaves_no_trace(detours: list[int], order: list[int]) -> None:
    items = objects()
    mirror = mirror_of(items)
    for step in detours:
        item = items[step % len(items)]
        mirror.delete(item)
        mirror.snapshot()
    for step in order:
        mirror.upsert(items[step % len(items)])
    for item in items:
        mirror.upsert(item)

    assert picture(mirror.snapshot()) == picture(mirror_of(items).snapshot())


def test_a_snapshot_keeps_its_own_copy() -> None:
    mirror = mirror_of(objects())
    first = mirror.snapshot()
    before = picture(first)
    mirror.upsert(pod("one-0", "one", on="n1", cpu="1"))
    mirror.delete(node("n2"))
    mirror.snapshot()

    assert picture(first) == before


def test_pods_without_a_podgroup_are_gangs_of_one_and_of_a_missing_one_are_marked() -> None:
    snapshot = mirror_of(objects()).snapshot()

    lone = snapshot.jobs.index["ns/pod/lone"]
    assert snapshot.jobs.min_member[lone] == 1
    assert snapshot.jobs.has_group[lone]
    assert not snapshot.jobs.has_group[snapshot.jobs.index["ns/nowhere"]]


def test_a_podgroup_that_goes_leaves_its_pods_waiting_for_it() -> None:
    mirror = mirror_of(objects())
    mirror.delete(group("one", 2))
    snapshot = mirror.snapshot()

    job = snapshot.jobs.index["ns/one"]
    assert not snapshot.jobs.has_group[job]
    assert snapshot.jobs.counts[job, TaskStatus.PENDING] == 3


def test_states_follow_phase_node_and_deletion() -> None:
    running = pod("r", "one", on="n1")
    leaving = msgspec.structs.replace(
        running,
        metadata=msgspec.structs.replace(
            running.metadata, name="l", deletion_timestamp=running.metadata.creation_timestamp
        ),
    )
    items = [
        running,
        leaving,
        pod("b", "one", on="n1", phase="Pending"),
        pod("p", "one"),
        pod("s", "one", on="n1", phase="Succeeded"),
    ]
    snapshot = mirror_of([*objects(), *items]).snapshot()
    states = {
        snapshot.tasks.ids[row]: TaskStatus(int(snapshot.tasks.status[row])) for row in range(len(snapshot.tasks))
    }

    assert [states[f"ns/{name}"] for name in "rlbps"] == [
        TaskStatus.RUNNING,
        TaskStatus.RELEASING,
        TaskStatus.BOUND,
        TaskStatus.PENDING,
        TaskStatus.SUCCEEDED,
    ]
    assert snapshot.nodes.state[USED, snapshot.nodes.index["n1"], snapshot.axis.index["pods"]] == 3


def test_tasks_are_ranked_by_index_then_age_then_uid() -> None:
    items = [
        pod("one-10", "one"),
        pod("one-9", "one"),
        pod("one-b", "one"),
        pod("one-a", "one"),
        pod("one-99", "one", age=5),
    ]
    snapshot = mirror_of([group("one", 1), *items]).snapshot()
    order = sorted(range(len(items)), key=lambda row: snapshot.tasks.rank[row])

    assert [snapshot.tasks.ids[row] for row in order] == ["ns/one-a", "ns/one-b", "ns/one-9", "ns/one-10", "ns/one-99"]


def test_a_gang_that_pods_join_one_by_one_is_put_in_order_without_reading_each_of_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def index_of(pod: Pod) -> int:
        read.append(pod.name)
        return pod_index(pod)

    monkeypatch.setattr(tasks, "pod_index", index_of)
    mirror = mirror_of([group("one", 1)])
    for number in reversed(range(20)):
        mirror.upsert(pod(f"one-{number}", "one"))
        snapshot = mirror.snapshot()
    assert len(read) == 20
    order = sorted(range(20), key=lambda row: snapshot.tasks.rank[row])
    assert [snapshot.tasks.ids[row] for row in order] == [f"ns/one-{number}" for number in range(20)]
    # What has changed, or is another one of its name, is read again.
    again = pod("one-3", "one")
    again.metadata.labels["volcano.sh/task-index"] = "77"
    mirror.upsert(again)
    mirror.delete(pod("one-9", "one"))
    mirror.upsert(pod("one-20", "one"))
    snapshot = mirror.snapshot()
    ranks = {name: int(snapshot.tasks.rank[row]) for row, name in enumerate(snapshot.tasks.ids) if name}
    assert max(ranks, key=lambda name: ranks[name]) == "ns/one-3"
    assert sorted(ranks.values()) == list(range(20))


def test_pods_of_other_schedulers_take_room_but_belong_to_no_job() -> None:
    mirror = Mirror(scheduler_names={"muster"})
    other = pod("other", "one", on="n1", cpu="3")
    for item in (
        node("n1"),
        group("one", 1),
        msgspec.structs.replace(other, spec=msgspec.structs.replace(other.spec, scheduler_name="x")),
    ):
        mirror.upsert(item)
    snapshot = mirror.snapshot()

    assert snapshot.tasks.flags[0] & FOREIGN
    assert snapshot.tasks.job[0] == NO_ROW
    assert snapshot.nodes.state[USED, 0, snapshot.axis.index["cpu"]] == 3000
    assert snapshot.jobs.task_count(snapshot.jobs.index["ns/one"]) == 0


def test_a_pod_on_a_node_that_comes_later_is_booked_when_it_comes() -> None:
    mirror = mirror_of([queue("default"), pod("early", on="late", cpu="1")])
    assert mirror.snapshot().tasks.node[0] == NO_ROW
    mirror.upsert(node("late"))
    snapshot = mirror.snapshot()

    assert snapshot.nodes.state[USED, 0, snapshot.axis.index["cpu"]] == 1000


def test_sub_groups_are_made_by_selector_and_label_values() -> None:
    policies = [
        SubGroupPolicy(
            name="w", label_selector=LabelSelector(match_labels={"r": "w"}), match_label_keys=["part"], sub_group_size=2
        )
    ]
    pods = [pod(f"p-{i}", "one", labels={"r": "w", "part": str(i // 2)}) for i in range(4)]
    snapshot = mirror_of([group("one", 4, sub_group_policy=policies), *pods, pod("rest", "one")]).snapshot()
    rows = snapshot.jobs.subgroups[snapshot.jobs.index["ns/one"]]

    assert {snapshot.subgroups.names[row]: int(snapshot.subgroups.minimum[row]) for row in rows} == {
        "ns/one/w-0": 2,
        "ns/one/w-1": 2,
        "ns/one": 1,
    }


def test_changed_policies_and_role_minimums_sort_the_tasks_in_anew() -> None:
    items = [pod("p-0", "one", role="w", labels={"part": "x"}), pod("p-1", "one", labels={"part": "y"})]
    mirror = mirror_of([group("one", 1), *items])
    mirror.snapshot()
    changed = group(
        "one", 1, sub_group_policy=[SubGroupPolicy(name="g", match_label_keys=["part"])], min_task_member={"w": 1}
    )
    mirror.upsert(changed)

    assert picture(mirror.snapshot()) == picture(mirror_of([changed, *items]).snapshot())


@pytest.mark.parametrize(("named", "expected"), [("high", 100), ("unknown", 7), ("", 7)])
def test_job_priority_comes_from_the_class_and_else_from_the_global_default(named: str, expected: int) -> None:
    classes = [
        PriorityClass(metadata=ObjectMeta(name="high"), value=100),
        PriorityClass(metadata=ObjectMeta(name="usual"), value=7, global_default=True),
    ]
    snapshot = mirror_of([*classes, group("one", 1, priority_class_name=named)]).snapshot()

    assert snapshot.jobs.priority[snapshot.jobs.index["ns/one"]] == expected


def test_broken_queue_trees_are_named_and_others_stay_whole() -> None:
    parents = {"a": "b", "b": "a", "self": "self", "lost": "gone", "good": "top", "top": ""}
    snapshot = mirror_of([queue(name, parent=parent) for name, parent in parents.items()]).snapshot()
    broken = {snapshot.queues.records[row].name: text for row, text in snapshot.queues.broken.items()}

    assert broken == {
        "a": "queue a: parents form a cycle: a -> b -> a",
        "b": "queue b: parents form a cycle: b -> a -> b",
        "self": "queue self: self is its own parent",
        "lost": "queue lost: parent gone of lost does not exist",
    }


def test_queues_may_stand_a_hundred_deep_and_no_deeper() -> None:
    chain = [queue(f"q{level:03}", parent=f"q{level - 1:03}" if level else "") for level in range(102)]
    snapshot = mirror_of(chain).snapshot()
    broken = {snapshot.queues.records[row].name: text for row, text in snapshot.queues.broken.items()}

    assert sorted(broken) == ["q100", "q101"]
    assert broken["q101"] == "queue q101: expected at most 100 queues one below the other, got more"
    assert max(map(len, snapshot.queues.paths)) == 100


def test_nodes_that_are_not_ready_do_not_count() -> None:
    bad = node("n2")
    bad = msgspec.structs.replace(
        bad, status=msgspec.structs.replace(bad.status, conditions=[Condition(type="Ready", status="False")])
    )
    snapshot = mirror_of([node("n1"), bad]).snapshot()

    assert snapshot.nodes.ready.tolist() == [True, False]
    np.testing.assert_array_equal(snapshot.total(), snapshot.nodes.state[ALLOCATABLE, 0])


def test_only_changes_that_matter_for_placement_are_counted() -> None:
    mirror = mirror_of([node("n1")])
    seen = mirror.placement_revision
    beat = node("n1")
    mirror.upsert(
        msgspec.structs.replace(
            beat, status=msgspec.structs.replace(beat.status, conditions=[Condition(type="Ready", status="True")])
        )
    )
    assert mirror.placement_revision == seen
    mirror.upsert(msgspec.structs.replace(beat, spec=msgspec.structs.replace(beat.spec, unschedulable=True)))
    assert mirror.placement_revision == seen + 1


def test_phases_are_read_from_the_podgroup() -> None:
    snapshot = mirror_of([group("one", 1)]).snapshot()

    assert snapshot.jobs.phase[0] == JobPhase.INQUEUE


def test_a_group_that_says_so_is_not_preemptible_whatever_its_pods_say() -> None:
    mirror = Mirror()
    firm = group("firm", minimum=1)
    meta = msgspec.structs.replace(firm.metadata, annotations={PREEMPTABLE: "false"})
    mirror.upsert(msgspec.structs.replace(firm, metadata=meta))
    jobs = mirror.snapshot().jobs
    assert jobs.preemptible.tolist() == [False]
