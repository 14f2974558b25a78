"""What could be evicted where."""

import numpy as np

from muster.engine.evictions.candidates import Candidates, owners_of
from muster.engine.evictions.supply import Supply
from muster.framework import Session
from muster.snapshot import Rows, slots_in
from muster.testing import node
from tests.engine.evictions.eviction_stage import configured, open_session, running


def opened() -> Session:
    return open_session(
        [node("a", gpu=4), node("b", gpu=4), *running("x", ["a", "b", "a"], gpu=1), *running("y", ["b"], gpu=2)],
        configured("preempt"),
    )


def rows(session: Session, *names: str) -> Rows:
    return np.array([session.snapshot.tasks.ids.index(f"default/{name}") for name in names], np.intp)


def supply_of(session: Session, *names: str) -> Supply:
    tasks = rows(session, *names)
    return Supply(session.snapshot, Candidates(tasks, owners_of(session.snapshot, tasks)))


def names(session: Session, tasks: Rows) -> list[str]:
    return [session.snapshot.tasks.ids[task].removeprefix("default/") for task in tasks.tolist()]


def test_candidates_come_node_by_node_in_the_order_asked_for() -> None:
    session = opened()
    supply = supply_of(session, "x-0", "x-1", "x-2", "y-0")
    found, where = supply.on(np.array([1, 0], np.intp))
    assert [(name, int(place)) for name, place in zip(names(session, found), where, strict=True)] == [
        ("x-1", 0),
        ("y-0", 0),
        ("x-0", 1),
        ("x-2", 1),
    ]


def test_slots_count_what_is_free_and_what_would_be() -> None:
    session = opened()
    gpu = session.snapshot.axis.index["nvidia.com/gpu"]
    request = np.zeros(len(session.snapshot.axis), np.int64)
    request[gpu] = 2000
    assert supply_of(session, "x-0", "x-1", "x-2", "y-0").slots(request).tolist() == [2, 2]
    assert supply_of(session, "y-0").slots(request).tolist() == [1, 1]
    assert supply_of(session, "y-0").slots(request, np.array([1], np.intp)).tolist() == [1]


def test_who_was_evicted_frees_nothing_twice() -> None:
    session = opened()
    supply = supply_of(session, "x-0", "x-1", "x-2", "y-0")
    before = supply.room.copy()
    statement = session.statement()
    statement.evict(rows(session, "x-0"))
    assert names(session, supply.on(np.array([0], np.intp))[0]) == ["x-2"]
    assert (supply.room[0] < before[0]).any()
    assert (supply.room[1] == before[1]).all()
    statement.rollback()
    assert (supply.room == before).all()


def test_a_request_for_nothing_fits_without_end() -> None:
    assert slots_in(np.zeros((1, 2), np.int64), np.zeros(2, np.int64))[0] > 1_000_000
