"""Allocate over a tree of queues: chunk by chunk, whose turn it is by fair share."""

from __future__ import annotations

from collections import Counter

from muster.api import KubeObject, Pod
from muster.framework import Session
from muster.snapshot import TaskStatus
from muster.testing import pod
from tests.engine.evictions.solver.solver_stage import act, bound, gang, kai, kai_queue, nodes, reason
from tests.plugins.queue_stage import leaving

Q: list[KubeObject] = [kai_queue("q"), kai_queue("other")]


def allocate(*objects: KubeObject) -> Session:
    return act(objects, kai("allocate"))


def jobs_of(session: Session) -> Counter[str]:
    return Counter(name.rsplit("-", 1)[0] for name in bound(session))


def test_a_gang_gets_its_minimum_at_once_or_nothing() -> None:
    assert jobs_of(allocate(*Q, *nodes(1, gpu=4), *gang("new", pending=4))) == {"new": 4}
    session = allocate(*Q, *nodes(1, gpu=3), *gang("new", pending=4))
    assert session.committed == []
    assert reason(session, "new") == "insufficient-resources"


def test_pods_beyond_the_minimum_come_one_by_one_after_others_had_their_turn() -> None:
    wide = gang("wide", pending=4, minimum=1, created=1)
    session = allocate(*Q, *nodes(1, gpu=4), *wide, *gang("late", pending=2, created=2))
    assert jobs_of(session) == {"wide": 2, "late": 2}


def test_every_pod_set_gets_its_minimum_before_any_gets_more() -> None:
    new = gang("new", sets={"a": (1, [], 3), "b": (2, [], 3)})
    assert jobs_of(allocate(*Q, *nodes(1, gpu=2), *new)) == {}
    assert jobs_of(allocate(*Q, *nodes(1, gpu=3), *new)) == {"new-a": 1, "new-b": 2}
    assert jobs_of(allocate(*Q, *nodes(1, gpu=5), *new)) == {"new-a": 2, "new-b": 3}


def test_a_pod_set_without_enough_pods_keeps_the_gang_waiting() -> None:
    session = allocate(*Q, *nodes(1, gpu=8), *gang("new", sets={"a": (1, [], 3), "b": (2, [], 1)}))
    assert session.committed == []
    assert reason(session, "new") == "too-few-pods-of-role"


def test_queues_take_turns_by_fair_share() -> None:
    jobs = [item for k in range(6) for q in ("q", "other") for item in gang(f"{q}{k}", q, pending=1, created=k)]
    weights = [kai_queue("q", gpu=(0, -1, 2)), kai_queue("other", gpu=(0, -1, 1))]
    session = allocate(*weights, *nodes(1, gpu=6), *jobs)
    assert jobs_of(session) == {**{f"q{k}": 1 for k in range(4)}, **{f"other{k}": 1 for k in range(2)}}


def test_quota_comes_before_weight() -> None:
    jobs = [item for k in range(4) for q in ("q", "other") for item in gang(f"{q}{k}", q, pending=1, created=k)]
    session = allocate(kai_queue("q", gpu=(3, -1, 1)), kai_queue("other", gpu=(0, -1, 9)), *nodes(1, gpu=4), *jobs)
    assert jobs_of(session) == {"q0": 1, "q1": 1, "q2": 1, "other0": 1}


def test_a_queue_stays_within_its_limit_and_that_of_its_parent() -> None:
    tree = [
        kai_queue("top", gpu=(0, 3, 1)),
        kai_queue("q", parent="top"),
        kai_queue("other", gpu=(0, 1, 1), parent="top"),
    ]
    jobs = [item for k in range(4) for q in ("q", "other") for item in gang(f"{q}{k}", q, pending=1, created=k)]
    session = allocate(*tree, *nodes(1, gpu=8), *jobs)
    assert jobs_of(session) == {"q0": 1, "q1": 1, "other0": 1}
    assert reason(session, "other1") == "queue-limit"


def test_jobs_that_are_not_preemptible_stay_within_the_quota() -> None:
    firm = [item for k in range(3) for item in gang(f"firm{k}", pending=1, created=k, firm=True)]
    session = allocate(kai_queue("q", gpu=(2, -1, 1)), *nodes(1, gpu=8), *firm, *gang("soft", pending=4))
    assert jobs_of(session) == {"firm0": 1, "firm1": 1, "soft": 4}
    assert reason(session, "firm2") == "over-quota"


def test_a_gang_of_which_some_pods_wait_for_room_is_promised_all_its_places() -> None:
    old = leaving(pod("old", gpu=2, node="n0"))
    session = allocate(*Q, *nodes(1, gpu=4), old, *gang("new", pending=4))
    assert bound(session) == {}
    snapshot = session.snapshot
    assert snapshot.jobs.counts[snapshot.jobs.index["default/new"], TaskStatus.PIPELINED] == 4


def test_priority_orders_the_jobs_of_a_queue() -> None:
    jobs = [*gang("old", pending=2, priority="low", created=1), *gang("young", pending=2, priority="high", created=9)]
    assert jobs_of(allocate(*Q, *nodes(1, gpu=2), *jobs)) == {"young": 2}


def test_jobs_in_a_queue_that_has_children_wait_and_say_so() -> None:
    tree = [kai_queue("top"), kai_queue("q", parent="top")]
    session = allocate(*tree, *nodes(1, gpu=4), *gang("lost", "top", pending=1), *gang("new", pending=1))
    assert jobs_of(session) == {"new": 1}
    assert reason(session, "lost") == "queue-not-a-leaf"


def promised(name: str, queue: str, pending: int) -> list[KubeObject]:
    """A gang for which others have left node n0."""
    made = gang(name, queue, pending=pending, priority="low")
    for one in made:
        if isinstance(one, Pod):
            one.status.nominated_node_name = "n0"
    return made


def under_limit(limit: int) -> list[KubeObject]:
    """Two queues below one limit, a job that runs and could grow, and one in each queue for which room was cleared."""
    top = kai_queue("top", gpu=(0, limit, 1))
    tree: list[KubeObject] = [top, kai_queue("q", parent="top"), kai_queue("other", parent="top")]
    grows = gang("grows", "q", on=["n0"], pending=1, minimum=1, priority="high")
    return [*tree, *nodes(1, gpu=16), *grows, *promised("four", "other", 4), *promised("two", "q", 2)]


def test_what_is_left_of_a_limit_is_kept_for_all_for_whom_room_was_cleared() -> None:
    assert jobs_of(allocate(*under_limit(8))) == {"four": 4, "two": 2, "grows": 1}
    session = allocate(*under_limit(7))
    assert jobs_of(session) == {"four": 4, "two": 2}
    assert reason(session, "grows") == "queue-limit"


def test_of_two_for_whom_room_was_cleared_one_starts_where_a_limit_has_no_room_for_both() -> None:
    assert jobs_of(allocate(*under_limit(6))) == {"four": 4, "grows": 1}
