"""What stops an eviction that plugins allow."""

import numpy as np

from muster.api import KubeObject
from muster.engine.evictions.restraint import have_too_much, would_bounce
from muster.framework import Eviction, Session, parse_config
from muster.kernels.placement import FUTURE
from muster.snapshot import Rows
from muster.testing import node, queue
from tests.engine.evictions.eviction_stage import act, configured, evicted, open_session, running, waiting

#: Nobody but conformance is asked about victims, and it has nothing against anybody.
INDIFFERENT = parse_config(
    'actions: "allocate, preempt"\ntiers: [{plugins: [{name: gang, enablePreemptable: false}, {name: conformance}, '
    "{name: predicates}]}]",
    "test",
)


def rows(session: Session, *names: str) -> Rows:
    return np.array([session.snapshot.tasks.ids.index(f"default/{name}") for name in names], np.intp)


def test_equals_that_could_evict_each_other_in_turn_do_not_begin() -> None:
    world = [node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, priority="low", gpu=8)]
    assert evicted(act(world, INDIFFERENT)) == []


def test_a_lower_priority_never_evicts_a_higher_one() -> None:
    world = [
        node("n", gpu=8),
        *running("old", ["n"], priority="high", gpu=8),
        *waiting("new", 1, priority="low", gpu=8),
    ]
    assert evicted(act(world, INDIFFERENT)) == []
    world = [node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)]
    assert evicted(act(world, INDIFFERENT)) == ["old-0"]


def test_what_the_victim_can_spare_may_be_taken_by_an_equal() -> None:
    # The victim keeps its minimum, so it will not ask for the pod back.
    world = [node("n", gpu=8), *running("old", ["n"] * 2, minimum=1, gpu=4), *waiting("new", 1, priority="low", gpu=4)]
    assert evicted(act(world, INDIFFERENT)) == ["old-1"]


def test_queues_that_could_take_from_each_other_in_turn_do_not_begin() -> None:
    config = parse_config(
        'actions: "allocate, reclaim"\ntiers: [{plugins: [{name: gang, enableReclaimable: false}, {name: conformance}, '
        "{name: predicates}]}]",
        "test",
    )
    world: list[KubeObject] = [queue("a"), queue("b"), node("n", gpu=8), *running("old", ["n"], queue="a", gpu=8)]
    assert evicted(act([*world, *waiting("new", 1, queue="b", gpu=8)], config)) == []


def test_the_reverse_is_asked_for_with_everything_in_place() -> None:
    session = open_session(
        [node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, priority="low", gpu=8)], INDIFFERENT
    )
    statement = session.statement()
    victim, placed = rows(session, "old-0"), rows(session, "new-0")
    statement.evict(victim)
    statement.place(int(placed[0]), 0, FUTURE)
    job = int(session.snapshot.tasks.job[placed[0]])
    assert would_bounce(session, Eviction.PREEMPT, job, victim, placed)


def test_a_queue_gives_as_long_as_it_has_more_than_it_deserves() -> None:
    world: list[KubeObject] = [
        queue("a", deserved={"gpu": 3}),
        node("n", gpu=8),
        *running("old", ["n"] * 3, queue="a", gpu=2),
    ]
    session = open_session(world, configured("reclaim", share="capacity"))
    gpu = np.array([name == "nvidia.com/gpu" for name in session.snapshot.axis.names])
    # Six are held: the first two leave it with four and two, the third must stay.
    assert have_too_much(session, rows(session, "old-2", "old-1", "old-0"), gpu).tolist() == [True, True, False]
    # Of what is not wanted, nothing is protected: there is no claim to it.
    assert have_too_much(session, rows(session, "old-2", "old-1", "old-0"), ~gpu & False).all()


def test_a_pod_that_must_stay_does_not_use_up_what_others_may_give() -> None:
    world: list[KubeObject] = [
        queue("a", deserved={"gpu": 2, "cpu": 1}),
        node("n", gpu=8, cpu=8),
        *running("gpus", ["n"] * 2, queue="a", gpu=1),
        *running("cpus", ["n"] * 3, queue="a", cpu=1),
    ]
    session = open_session(world, configured("reclaim", share="capacity"))
    wanted = np.array([name in ("cpu", "nvidia.com/gpu") for name in session.snapshot.axis.names])
    order = rows(session, "gpus-1", "cpus-2", "cpus-1", "cpus-0")
    assert have_too_much(session, order, wanted).tolist() == [False, True, True, False]
