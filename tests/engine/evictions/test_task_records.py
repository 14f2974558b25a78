"""What is said about a victim of the task strategy."""

from muster.framework import Session
from muster.scheduler.decisions import decisions_of
from muster.snapshot.messages import Evict
from muster.testing import node
from tests.engine.evictions.eviction_stage import act, configured, running, waiting


def evictions(session: Session) -> dict[str, Evict]:
    return {made.pod.removeprefix("default/"): made for made in decisions_of(session) if isinstance(made, Evict)}


def test_the_record_names_who_stays_and_why() -> None:
    world = [
        node("n", gpu=8),
        *running("cheap", ["n"], priority="", gpu=4),
        *running("dear", ["n"], priority="low", gpu=4),
        *waiting("new", 1, gpu=4),
    ]
    made = evictions(act(world, configured("allocate, preempt")))["cheap-0"]
    assert made.why == (
        "preempt: makes room for default/new on n: 1 of 2 candidates goes; "
        "default/dear-0 stays: its job has the priority 10, above 0"
    )
    assert made.record == {
        "beneficiary": "default/new",
        "node": "n",
        "candidates": 2,
        "victims": 1,
        "nextVictim": {"name": "default/dear-0", "reason": "its job has the priority 10, above 0"},
    }


def test_who_is_too_small_to_help_is_named_too() -> None:
    world = [
        node("n", gpu=8),
        *running("small", ["n"], priority="", gpu=1),
        *running("large", ["n"], priority="low", gpu=7),
        *waiting("new", 1, gpu=7),
    ]
    made = evictions(act(world, configured("allocate, preempt")))["large-0"]
    assert made.why.endswith("default/small-0 stays: it comes first in order, but what it holds is not needed")


def test_within_a_job_the_last_one_goes() -> None:
    world = [node("n", gpu=8), *running("old", ["n"] * 2, gpu=4), *waiting("new", 1, gpu=4)]
    made = evictions(act(world, configured("allocate, preempt")))
    assert list(made) == ["old-1"]
    assert made["old-1"].why.endswith("default/old-0 stays: it is served before this one")


def test_where_everybody_goes_nobody_stays() -> None:
    world = [node("n", gpu=8), *running("old", ["n"], gpu=8), *waiting("new", 1, gpu=8)]
    made = evictions(act(world, configured("allocate, preempt")))["old-0"]
    assert made.why == "preempt: makes room for default/new on n: 1 of 1 candidates goes"
