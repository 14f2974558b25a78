"""Reclaim, task by task: queues below their share take it back from those that have more."""

import pytest

from muster.api import KubeObject, Pod, Queue
from muster.framework import SchedulerConfig
from muster.testing import node, queue
from tests.engine.evictions.eviction_stage import (
    act,
    configured,
    evicted,
    never_preempting,
    promised,
    running,
    waiting,
)

PROPORTION = configured("allocate, reclaim")
CAPACITY = configured("allocate, reclaim", share="capacity")


def queues(**deserved: int) -> list[Queue]:
    """Queues that deserve so many GPUs; by weight for proportion."""
    return [queue(name, weight=gpus, deserved={"gpu": gpus}) for name, gpus in deserved.items()]


EACH = pytest.mark.parametrize("config", [PROPORTION, CAPACITY], ids=["proportion", "capacity"])


@EACH
def test_a_queue_takes_back_what_it_deserves(config: SchedulerConfig) -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("n", gpu=8),
        *running("old", ["n"] * 8, queue="rich", gpu=1),
        *waiting("new", 4, queue="poor", gpu=1),
    ]
    session = act(world, config)
    assert len(evicted(session)) == 4
    assert len(promised(session)) == 4


@EACH
def test_more_than_it_deserves_is_not_taken(config: SchedulerConfig) -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("n", gpu=8),
        *running("old", ["n"] * 8, queue="rich", gpu=1),
        *waiting("new", 5, queue="poor", gpu=1),
    ]
    # The gang needs five, the queue deserves four.
    assert not act(world, config).committed


@EACH
def test_a_queue_that_has_its_share_takes_nothing(config: SchedulerConfig) -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("n", gpu=8),
        *running("old", ["n"] * 4, queue="rich", gpu=1),
        *running("mine", ["n"] * 4, queue="poor", gpu=1),
        *waiting("new", 1, queue="poor", gpu=1),
    ]
    assert not act(world, config).committed


@EACH
def test_nobody_is_evicted_for_a_pod_that_fits_nowhere(config: SchedulerConfig) -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("a", gpu=4),
        node("b", gpu=4),
        *running("old", ["a"] * 4 + ["b"] * 4, queue="rich", gpu=1),
        *waiting("new", 1, queue="poor", gpu=4, selector={"zone": "none"}),
    ]
    assert not act(world, config).committed


def test_queues_that_keep_what_they_have_are_left_alone() -> None:
    rich, poor = queues(rich=4, poor=4)
    rich.spec.reclaimable = False
    world: list[KubeObject] = [
        rich,
        poor,
        node("n", gpu=8),
        *running("old", ["n"] * 8, queue="rich", gpu=1),
        *waiting("new", 1, queue="poor", gpu=1),
    ]
    assert not act(world, CAPACITY).committed


def test_a_pod_with_policy_never_is_passed_over() -> None:
    new = waiting("new", 2, minimum=1, queue="poor", gpu=1)
    new[1] = never_preempting(new[1]) if isinstance(new[1], Pod) else new[1]
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("n", gpu=8),
        *running("old", ["n"] * 8, queue="rich", gpu=1),
        *new,
    ]
    assert list(promised(act(world, CAPACITY))) == ["new-1"]


@pytest.mark.parametrize("share", ["proportion", "capacity"])
def test_what_a_queue_deserves_is_safe_wherever_its_plugin_stands(share: str) -> None:
    # Conformance in the first tier has an opinion, so the plugin that knows the shares, in the second, is not asked.
    world: list[KubeObject] = [
        *queues(rich=6, modest=2, poor=4),
        node("a", gpu=4),
        node("b", gpu=8),
        *running("modest", ["a"] * 2, queue="modest", gpu=1),
        *running("other", ["a"] * 2, queue="modest", gpu=1, minimum=1, annotations={"volcano.sh/preemptable": "false"}),
        *running("rich", ["b"] * 8, queue="rich", gpu=1),
        *waiting("new", 3, queue="poor", gpu=1),
    ]
    session = act(world, configured("allocate, reclaim", share=share))
    taken = evicted(session)
    assert len(taken) == 3
    # modest holds four and deserves two; it may fall to two and no lower.
    assert sum(name.startswith("modest") for name in taken) <= 2


def test_room_that_is_free_is_left_to_allocate() -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("a", gpu=8),
        node("b", gpu=8),
        *running("old", ["a"] * 8, queue="rich", gpu=1),
        *waiting("new", 2, queue="poor", gpu=1),
    ]
    assert not act(world, configured("reclaim", share="capacity")).committed
    session = act(world, configured("reclaim, allocate", share="capacity"))
    assert [committed.action for committed in session.committed] == ["allocate"]


def test_without_allocate_room_beside_who_could_go_is_promised() -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("a", gpu=8),
        *running("old", ["a"] * 6, queue="rich", gpu=1),
        *waiting("new", 2, queue="poor", gpu=1),
    ]
    session = act(world, configured("reclaim", share="capacity"))
    assert evicted(session) == []
    assert sorted(promised(session).values()) == ["a", "a"]
    session = act(world, configured("reclaim, allocate", share="capacity"))
    assert [committed.action for committed in session.committed] == ["allocate"]


def test_free_room_serves_before_anybody_is_evicted() -> None:
    world: list[KubeObject] = [
        *queues(rich=4, poor=4),
        node("a", gpu=8),
        node("b", gpu=2),
        *running("old", ["a"] * 8, queue="rich", gpu=1),
        *waiting("new", 3, queue="poor", gpu=1),
    ]
    session = act(world, CAPACITY)
    assert len(evicted(session)) == 1
    assert sorted(promised(session).values()) == ["a", "b", "b"]
