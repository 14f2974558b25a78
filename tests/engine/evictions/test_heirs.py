"""Whom room is cleared for: who has it in the next cycle, and keeps it. `looksAhead: false` shows the opposite."""

from __future__ import annotations

import pytest

from muster.api import KubeObject
from muster.engine.evictions.simulation import VictimRecords
from muster.framework import SchedulerConfig, parse_config, profile_yaml
from muster.framework.reasons import NOT_STEADY
from muster.snapshot import OperationKind
from muster.testing import node, queue
from tests.engine.evictions.eviction_stage import act, evicted, promised, running, waiting

#: Jobs of no priority come after "low" and "high".
NONE = ""


def default_profile(*, looks_ahead: bool) -> SchedulerConfig:
    text = profile_yaml("muster") + "configurations:\n"
    for action in ("consolidation", "gangreclaim", "gangpreempt"):
        text += f"- {{name: {action}, arguments: {{looksAhead: {str(looks_ahead).lower()}}}}}\n"
    return parse_config(text, "test")


AHEAD, NOT_AHEAD = default_profile(looks_ahead=True), default_profile(looks_ahead=False)


def lender_and_owner() -> list[KubeObject]:
    """Two nodes of four GPUs; a gang of six has borrowed two of those that the queue "owner" is guaranteed."""
    return [
        *(node(name, gpu=4) for name in ("n0", "n1")),
        *(queue(name, deserved={"gpu": 4}) for name in ("lender", "owner")),
        *running("borrows", ["n0"] * 4 + ["n1"] * 2, queue="lender", gpu=1),
        *running("runs", ["n1"], queue="owner", priority="high", gpu=1),
    ]


def heirs() -> list[KubeObject]:
    """A small job may take back what is owed; what a large gang frees would hold the one that comes before it."""
    first = waiting("first", 5, queue="owner", priority="low", gpu=1)  # more than it may take by itself
    return [*lender_and_owner(), *first, *waiting("second", 3, queue="owner", priority=NONE, gpu=1)]


def test_what_a_gang_frees_goes_to_the_first_in_the_queue_that_finds_room_there() -> None:
    session = act(heirs(), AHEAD)
    assert evicted(session) == [f"borrows-{k}" for k in range(6)]
    assert sorted(promised(session)) == [f"first-{k}" for k in range(5)]
    assert sorted(promised(act(heirs(), NOT_AHEAD))) == [f"second-{k}" for k in range(3)]


def test_the_record_says_whom_the_victims_were_chosen_for() -> None:
    session = act(heirs(), AHEAD)
    (gone,) = (
        one for committed in session.committed for one in committed.operations if one.kind is OperationKind.EVICT
    )
    assert isinstance(gone.record, VictimRecords)
    record = gone.record.of_task(int(gone.tasks[0]))
    assert (record.facts["beneficiary"], record.facts["chosenFor"]) == ("default/first", "default/second")
    assert "default/second, for which they were chosen, comes after it" in record.text


def test_who_has_no_use_for_the_room_does_not_inherit_it() -> None:
    too_large = waiting("first", 8, queue="owner", priority="low", gpu=1)
    world = [*lender_and_owner(), *too_large, *waiting("second", 3, queue="owner", priority=NONE, gpu=1)]
    assert sorted(promised(act(world, AHEAD))) == [f"second-{k}" for k in range(3)]


def taken_next(*, priority: str) -> list[KubeObject]:
    """A job could take back a node for its queue, and one that needs this node and another waits."""
    return [
        *(node(name, gpu=4) for name in ("n0", "n1")),
        queue("lender"),
        queue("owner", deserved={"gpu": 8}),
        *running("borrows", ["n1"], queue="lender", gpu=4),
        *running("old", ["n0"], queue="owner", priority="low", gpu=4),
        *waiting("small", 1, queue="owner", priority="low", gpu=4),
        *waiting("large", 2, queue="owner", priority=priority, gpu=4),
    ]


def test_nobody_goes_for_a_job_that_a_waiting_one_would_evict_next() -> None:
    session = act(taken_next(priority="high"), AHEAD)
    assert evicted(session) == []
    (small,) = (job for job, record in enumerate(session.snapshot.jobs.records) if record.id == "default/small")
    why = session.no_evictions[small]["gangreclaim"]
    assert (why.reason, why.detail) == (NOT_STEADY, "default/large would take the room next")
    assert evicted(act(taken_next(priority="high"), NOT_AHEAD)) == ["borrows-0"]


def test_who_may_not_evict_it_is_no_reason_to_wait() -> None:
    assert evicted(act(taken_next(priority=NONE), AHEAD)) == ["borrows-0"]


@pytest.mark.parametrize(("config", "gone"), [(AHEAD, []), (NOT_AHEAD, ["elastic-3"])], ids=["ahead", "not ahead"])
def test_nobody_goes_for_growth_while_a_higher_priority_of_the_queue_waits(
    config: SchedulerConfig, gone: list[str]
) -> None:
    world = [
        node("n0", gpu=4),
        node("n1", gpu=1),
        queue("lender", deserved={"gpu": 2}),
        queue("owner", deserved={"gpu": 2}),
        *running("elastic", ["n0"] * 4, minimum=2, queue="lender", gpu=1),
        *running("grows", ["n1"], minimum=1, queue="owner", gpu=1),
        *waiting("urgent", 1, queue="owner", priority="high", gpu=3),
    ]
    world += waiting("grows", 2, minimum=1, queue="owner", priority="low", gpu=1)[2:]  # its second pod
    assert evicted(act(world, config)) == gone


def left_beside_a_promise() -> list[KubeObject]:
    """A node is promised to one of the first queue before a gang of the second one goes for half of its own node.

    "first" could start on what both leave: three pods of half a node.
    """
    return [
        *(node(name, gpu=4) for name in ("n0", "n1")),
        *(queue(name, deserved={"gpu": 4}) for name in ("a", "b")),
        *running("old", ["n0"], queue="a", priority=NONE, gpu=4),
        *running("gang", ["n1"] * 2, queue="b", priority=NONE, gpu=2),
        *waiting("second", 1, queue="a", priority="low", gpu=4),
        *waiting("first", 3, queue="a", gpu=2),
        *waiting("small", 1, queue="b", gpu=2),
    ]


def test_a_promise_goes_to_who_would_take_it_with_what_later_plans_leave() -> None:
    session = act(left_beside_a_promise(), AHEAD)
    assert sorted(evicted(session)) == ["gang-0", "gang-1", "old-0"]
    assert sorted(promised(session)) == ["first-0", "first-1", "first-2", "small-0"]
    records = session.snapshot.jobs.records
    beneficiaries = {
        session.snapshot.tasks.ids[int(one.tasks[0])]: records[one.beneficiary].id
        for committed in session.committed
        for one in committed.operations
        if one.kind is OperationKind.EVICT
    }
    assert beneficiaries["default/old-0"] == "default/first"
    (second,) = (job for job, record in enumerate(records) if record.id == "default/second")
    why = session.no_evictions[second]["gangpreempt"]
    assert (why.reason, why.detail) == (NOT_STEADY, "default/first takes the room")


def test_a_promise_stays_where_nobody_could_start_with_it() -> None:
    world = [*left_beside_a_promise(), *waiting("other", 1, queue="b", gpu=2)]
    assert sorted(promised(act(world, AHEAD))) == ["other-0", "second-0", "small-0"]
    assert sorted(promised(act(left_beside_a_promise(), NOT_AHEAD))) == ["second-0", "small-0"]
