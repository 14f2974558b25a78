"""Victims that several tasks need less together than one by one."""

from muster.testing import node, pod, queue
from tests.engine.evictions.eviction_stage import act, configured, evicted, group, promised, running


def test_a_victim_that_a_later_one_makes_superfluous_goes_back() -> None:
    # The small pod is served first by evicting a small one; the large pod's victim leaves room for both.
    world = [
        node("n", gpu=5),
        *running("small", ["n"], gpu=1),
        *running("large", ["n"], gpu=4),
        group("new", 2, priority_class="high"),
        pod("new-0", group="new", gpu=1, priority=1000),
        pod("new-1", group="new", gpu=3, priority=1000),
    ]
    session = act(world, configured("allocate, preempt"))
    assert evicted(session) == ["large-0"]
    assert sorted(promised(session)) == ["new-0", "new-1"]


def test_a_victim_that_had_to_go_for_the_queues_sake_stays_evicted() -> None:
    world = [
        node("n", gpu=8),
        queue("default", capability={"gpu": 4}),
        *running("old", ["n"], gpu=4),
        group("new", 1, priority_class="high"),
        pod("new-0", group="new", gpu=4, priority=1000),
    ]
    assert evicted(act(world, configured("allocate, preempt", share="capacity"))) == ["old-0"]
