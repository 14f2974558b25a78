"""Preempt, task by task: who gives way to whom inside a queue."""

from collections import Counter

import msgspec
import pytest

from muster.api import KubeObject, Pod, PodGroup
from muster.api.names import PREEMPTABLE
from muster.framework import SchedulerConfig
from muster.snapshot import TaskStatus
from muster.testing import node, pod, queue
from tests.engine.evictions.eviction_stage import (
    act,
    configured,
    evicted,
    group,
    never_preempting,
    promised,
    running,
    started,
    statuses,
    waiting,
)

ALONE = configured("preempt")
AFTER_ALLOCATE = configured("allocate, preempt")
TOPOLOGY_AWARE = configured("allocate, preempt", "enableTopologyAwarePreemption: true")
BOTH = pytest.mark.parametrize("config", [AFTER_ALLOCATE, TOPOLOGY_AWARE], ids=["normal", "topology-aware"])


@BOTH
def test_a_job_of_higher_priority_takes_the_place_of_a_lower_one(config: SchedulerConfig) -> None:
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)], config)
    assert evicted(session) == ["old-0"]
    assert promised(session) == {"new-0": "n"}


@BOTH
def test_a_node_that_was_opened_is_filled_before_the_next_one_is(config: SchedulerConfig) -> None:
    nodes = [node(name, gpu=8) for name in "ab"]
    session = act([*nodes, *running("x", ["a"], gpu=8), *running("y", ["b"], gpu=8), *waiting("new", 2, gpu=4)], config)
    assert len(evicted(session)) == 1
    assert len(set(promised(session).values())) == 1


@BOTH
def test_equals_are_left_alone(config: SchedulerConfig) -> None:
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, priority="low", gpu=8)], config)
    assert not session.committed


@BOTH
def test_other_queues_are_left_alone(config: SchedulerConfig) -> None:
    world = [node("n", gpu=8), queue("other"), *running("old", ["n"], queue="other", gpu=8), *waiting("new", 1, gpu=8)]
    assert not act(world, config).committed


@BOTH
def test_needing_one_gpu_evicts_one_pod(config: SchedulerConfig) -> None:
    world = [node("n", gpu=8), *running("old", ["n"] * 8, gpu=1), *waiting("new", 1, gpu=1)]
    assert evicted(act(world, config)) == ["old-7"]


@BOTH
def test_a_pod_that_is_too_small_to_help_stays(config: SchedulerConfig) -> None:
    world = [
        node("n", gpu=8),
        *running("small", ["n"], gpu=1),
        *running("large", ["n"], gpu=7),
        *waiting("new", 1, gpu=7),
    ]
    assert evicted(act(world, config)) == ["large-0"]


@BOTH
def test_a_gang_that_cannot_be_complete_evicts_nobody(config: SchedulerConfig) -> None:
    session = act([node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 2, gpu=8)], config)
    assert not session.committed
    assert statuses(session, TaskStatus.PENDING) == ["new-0", "new-1"]
    assert statuses(session, TaskStatus.RUNNING) == ["old-0"]


@BOTH
def test_room_that_is_free_is_used_before_anybody_is_evicted(config: SchedulerConfig) -> None:
    world = [node("a", gpu=8), node("b", gpu=8), *running("old", ["a"], gpu=8), *waiting("new", 2, gpu=8)]
    session = act(world, config)
    assert evicted(session) == ["old-0"]
    assert sorted(promised(session).values()) == ["a", "b"]


@BOTH
def test_room_that_terminating_pods_leave_is_used_before_anybody_is_evicted(config: SchedulerConfig) -> None:
    leaving = pod("leaving", node="a", gpu=8, priority=10)
    leaving = msgspec.structs.replace(
        leaving, metadata=msgspec.structs.replace(leaving.metadata, deletion_timestamp=_moment())
    )
    world = [node("a", gpu=8), node("b", gpu=8), leaving, *running("old", ["b"], gpu=8), *waiting("new", 1, gpu=8)]
    assert evicted(act(world, config)) == []


def _moment() -> object:
    return started(pod("any"), 1.0).status.start_time


@BOTH
def test_a_pod_with_policy_never_evicts_nobody(config: SchedulerConfig) -> None:
    new = [never_preempting(made) if isinstance(made, Pod) else made for made in waiting("new", 1, gpu=8)]
    assert not act([node("n", gpu=8), *running("old", ["n"], gpu=8), *new], config).committed


@BOTH
def test_a_pod_that_asks_for_nothing_takes_only_from_its_like(config: SchedulerConfig) -> None:
    full = [node("n", gpu=8, pods=1), *waiting("new", 1)]
    assert evicted(act([*full, *running("old", ["n"], gpu=1)], config)) == []
    assert evicted(act([*full, *running("old", ["n"])], config)) == ["old-0"]


@BOTH
def test_pods_that_ask_to_be_spared_are_spared(config: SchedulerConfig) -> None:
    world = [
        node("n", gpu=8),
        *running("old", ["n"], gpu=8, annotations={PREEMPTABLE: "false"}),
        *waiting("new", 1, gpu=8),
    ]
    assert not act(world, config).committed


def test_gangs_keep_their_minimum_when_the_gang_plugin_says_so() -> None:
    keeping = configured("allocate, preempt", gang=True)
    world = [node("n", gpu=8), *waiting("new", 1, gpu=2)]
    assert evicted(act([*world, *running("old", ["n"] * 4, minimum=4, gpu=2)], keeping)) == []
    assert evicted(act([*world, *running("old", ["n"] * 4, minimum=3, gpu=2)], keeping)) == ["old-3"]


def test_what_a_gang_can_spare_is_counted_across_nodes() -> None:
    keeping = configured("allocate, preempt", gang=True)
    world = [node("a", gpu=2), node("b", gpu=2), *running("old", ["a", "b"], minimum=1, gpu=2)]
    assert len(evicted(act([*world, *waiting("new", 2, minimum=1, gpu=2)], keeping))) == 1
    assert evicted(act([*world, *waiting("new", 2, gpu=2)], keeping)) == []


def test_a_queue_at_its_limit_makes_room_in_itself() -> None:
    world: list[KubeObject] = [
        node("a", gpu=8),
        node("b", gpu=8),
        queue("default", capability={"gpu": 8}),
        *running("old", ["a"], gpu=8),
        *waiting("new", 1, gpu=8),
    ]
    session = act(world, configured("allocate, preempt", share="capacity"))
    # b is empty, but the queue may not hold more than it has.
    assert evicted(session) == ["old-0"]
    assert promised(session) == {"new-0": "a"}


def test_a_queue_that_may_not_hold_the_pod_at_all_evicts_nobody() -> None:
    world: list[KubeObject] = [
        node("a", gpu=8),
        queue("default", capability={"gpu": 4}),
        *running("old", ["a"], gpu=4),
        *waiting("new", 1, gpu=8),
    ]
    assert not act(world, configured("allocate, preempt", share="capacity")).committed


def test_one_job_serves_after_the_other_and_sees_what_was_promised() -> None:
    world = [
        node("a", gpu=8),
        node("b", gpu=8),
        *running("old", ["a", "b"], gpu=8),
        *waiting("first", 1, gpu=8),
        *waiting("second", 1, gpu=8),
        *waiting("third", 1, gpu=8),
    ]
    session = act(world, AFTER_ALLOCATE)
    assert len(evicted(session)) == 2
    assert sorted(promised(session)) == ["first-0", "second-0"]


def test_tasks_of_a_job_take_the_place_of_less_important_ones_of_the_same_job() -> None:
    world: list[KubeObject] = [
        node("n", gpu=8),
        group("job", 2, priority_class="low"),
        pod("job-low-0", group="job", node="n", gpu=4, priority=10),
        pod("job-low-1", group="job", node="n", gpu=4, priority=10),
        pod("job-top", group="job", gpu=4, priority=1000),
    ]
    session = act(world, configured("allocate, preempt"))
    assert evicted(session) == []  # it has what it needs

    world[1] = group("job", 3, priority_class="low")
    assert evicted(act(world, configured("allocate, preempt"))) == []  # a swap leaves it one short


def test_a_swap_inside_a_job_needs_a_job_that_is_in_need_and_complete_afterwards() -> None:
    world: list[KubeObject] = [
        node("n", gpu=8, pods=2),
        group("job", 2, priority_class="low"),
        pod("job-low", group="job", node="n", gpu=8, priority=10),
        pod("job-top", group="job", gpu=4, priority=1000),
        pod("job-mid", group="job", gpu=4, priority=500),
    ]
    session = act(world, configured("allocate, preempt"))
    assert evicted(session) == []
    assert statuses(session, TaskStatus.PIPELINED) == []


def test_waiting_for_admission_is_no_reason_to_evict() -> None:
    pending, *pods = waiting("new", 1, gpu=8)
    assert isinstance(pending, PodGroup)
    pending.status.phase = "Pending"
    world = [node("n", gpu=8), *running("old", ["n"], gpu=8), pending, *pods]
    assert not act(world, ALONE).committed


def test_a_nomination_that_still_holds_is_kept_without_new_victims() -> None:
    world = [
        node("a", gpu=8),
        node("b", gpu=8),
        *running("old", ["a"], gpu=8),
        group("new", 2, priority_class="high"),
        pod("new-0", group="new", gpu=8, priority=1000, nominated="b"),
        pod("new-1", group="new", gpu=8, priority=1000),
    ]
    session = act(world, AFTER_ALLOCATE)
    assert evicted(session) == ["old-0"]
    assert promised(session) == {"new-0": "b", "new-1": "a"}


@pytest.mark.parametrize("nominated", ["a", "gone"])
def test_a_stale_nomination_does_not_block(nominated: str) -> None:
    # Somebody took the room on a, or the node has left the cluster.
    world = [
        node("a", gpu=8),
        *running("old", ["a"], gpu=8),
        group("new", 1, priority_class="high"),
        pod("new-0", group="new", gpu=8, priority=1000, nominated=nominated),
    ]
    session = act(world, AFTER_ALLOCATE)
    assert evicted(session) == ["old-0"]
    assert promised(session) == {"new-0": "a"}


def test_evicted_per_requested_can_be_limited() -> None:
    world = [node("n", cpu=8), *running("old", ["n"], cpu=8), *waiting("new", 1, cpu=2)]
    assert evicted(act(world, configured("allocate, preempt"))) == ["old-0"]
    assert evicted(act(world, configured("allocate, preempt", "maxDisruptionRatio: 4"))) == ["old-0"]
    assert evicted(act(world, configured("allocate, preempt", "maxDisruptionRatio: 3.9"))) == []


def test_few_gangs_are_hit() -> None:
    nodes = [node(f"n{k}", gpu=8) for k in range(4)]
    olds = [made for k in range(4) for made in running(f"old{k}", [f"n{k}"] * 8, gpu=1)]
    session = act([*nodes, *olds, *waiting("new", 8, gpu=1)], AFTER_ALLOCATE)
    assert Counter(name.split("-")[0] for name in evicted(session)) == {"old0": 8}


# -- topology-aware ----------------------------------------------------------------------------------------


def test_the_node_whose_victims_matter_least_is_taken() -> None:
    world = [
        node("a", gpu=8),
        node("b", gpu=8),
        node("c", gpu=8),
        *running("two", ["a", "a"], gpu=4),
        *running("one", ["b"], gpu=8),
        *running("rest", ["c", "c", "c"], gpu=2),
        *waiting("new", 1, gpu=8),
    ]
    everywhere = configured("preempt", "enableTopologyAwarePreemption: true, minCandidateNodesPercentage: 100")
    for seed in range(5):
        assert evicted(act(world, everywhere, seed=seed)) == ["one-0"]


def test_at_a_tie_the_victim_that_started_last_goes() -> None:
    def made(name: str, place: str, seconds: float) -> list[KubeObject]:
        return [started(one, seconds) if isinstance(one, Pod) else one for one in running(name, [place], gpu=8)]

    everywhere = configured("preempt", "enableTopologyAwarePreemption: true, minCandidateNodesPercentage: 100")
    world = [node("a", gpu=8), node("b", gpu=8), *made("early", "a", 10.0), *made("late", "b", 20.0)]
    assert evicted(act([*world, *waiting("new", 1, gpu=8)], everywhere)) == ["late-0"]


def test_a_small_search_depends_on_the_seed_alone() -> None:
    nodes = [node(f"n{k}", gpu=8) for k in range(20)]
    olds = [made for k in range(20) for made in running(f"old{k}", [f"n{k}"], gpu=8)]
    world = [*nodes, *olds, *waiting("new", 1, gpu=8)]
    narrow = configured("preempt", "enableTopologyAwarePreemption: true, minCandidateNodesPercentage: 5")
    chosen = {seed: evicted(act(world, narrow, seed=seed)) for seed in range(8)}
    assert len({names[0] for names in chosen.values()}) > 1
    assert chosen == {seed: evicted(act(world, narrow, seed=seed)) for seed in range(8)}
