"""Whoever places a gang keeps to the levels of its label topology: allocate, backfill and evictions of every kind."""

from __future__ import annotations

from collections import Counter

from muster.api import KubeObject
from muster.snapshot import OperationKind, TaskStatus
from tests.engine.evictions.eviction_stage import act, evicted, promised, running
from tests.engine.evictions.eviction_stage import configured as evicting
from tests.engine.label_networks import RACK, filler, group, members, rack_of, racks, within
from tests.engine.stage import binds, configured, having, run, waits


def gang(tasks: int, *, minimum: int | None = None, gpu: int = 8, priority: str = "") -> list[KubeObject]:
    return [
        group("job", tasks if minimum is None else minimum, within(RACK), priority=priority),
        *members("job", tasks, gpu=gpu),
    ]


def test_allocate_without_a_queue_tree_puts_a_gang_into_one_domain() -> None:
    session = run([*racks({"z0": [1, 2]}), *gang(2)])
    assert Counter(map(rack_of, binds(session).values())) == {"z0-r1": 2}


def test_allocate_without_a_queue_tree_says_which_domain_comes_closest() -> None:
    session = run([*racks({"z0": [1, 2]}), *gang(3)])
    assert binds(session) == {}
    assert waits(session) == {"job": "topology"}


def test_what_comes_beyond_the_minimum_joins_the_rest() -> None:
    session = run([*racks({"z0": [1, 2]}), *gang(3, minimum=2)])
    assert Counter(map(rack_of, binds(session).values())) == {"z0-r1": 2}


def test_a_gang_starts_where_all_of_it_has_room_if_there_is_such_a_place() -> None:
    cluster = [*racks({"z0": [2, 3]}), *gang(3, minimum=1)]
    assert Counter(map(rack_of, binds(run(cluster)).values())) == {"z0-r1": 3}
    small = configured("gang", "predicates", allocate={"groupsStartSmall": True})
    assert Counter(map(rack_of, binds(run(cluster, small)).values())) == {"z0-r0": 2}


def test_backfill_keeps_members_that_ask_for_nothing_beside_the_others() -> None:
    cluster = [*racks({"z0": [2, 2]}), *filler(["z0-r0-n0"], gpu=4)]
    idle = [group("job", 1, within(RACK)), *members("job", 2, on=["z0-r1-n0"], gpu=0)]
    session = run([*cluster, *idle], configured("gang", "predicates", actions=("backfill",)))
    assert rack_of(having(session, TaskStatus.ALLOCATED)["job-1"]) == "z0-r1"


def busy(*nodes: str) -> list[KubeObject]:
    """Jobs of one pod each, of low priority."""
    return [item for name in nodes for item in running(f"old-{name}", [name], gpu=8)]


FULL = [*racks({"z0": [2, 2]}), *busy("z0-r0-n0", "z0-r0-n1", "z0-r1-n0", "z0-r1-n1")]


def test_a_gang_evicts_inside_one_domain() -> None:
    session = act([*FULL, *gang(2, priority="high")], evicting("allocate, gangpreempt"))
    assert len(evicted(session)) == 2
    assert len({rack_of(node) for node in promised(session).values()}) == 1


def test_a_gang_that_no_domain_could_hold_evicts_nobody() -> None:
    session = act([*FULL, *gang(3, priority="high")], evicting("allocate, gangpreempt"))
    assert session.committed == []


def test_evictions_task_by_task_leave_such_gangs_alone() -> None:
    session = act([*FULL, *gang(2, priority="high")], evicting("allocate, preempt"))
    assert not [one for done in session.committed for one in done.operations if one.kind is OperationKind.EVICT]
