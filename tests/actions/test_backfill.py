"""Backfill: pods that ask for nothing get nodes, gangs stay whole, and constraints of the network hold."""

from __future__ import annotations

from typing import Any

from muster.api import KubeObject
from muster.testing import node, pod, pod_group, queue
from tests.engine.stage import binds, bound_jobs, configured, racks_of, run
from tests.snapshot.networks import group, hard, members, parts, racks

CONFIG = configured("gang", "predicates", "network-topology-aware", actions=("enqueue", "allocate", "backfill"))
NOWHERE = {"kubernetes.io/hostname": "elsewhere"}


def free(job: str, count: int, minimum: int, **more: Any) -> list[KubeObject]:
    return [pod_group(job, minimum=minimum, phase="Inqueue"), *members(job, count, **more)]


def test_a_full_node_takes_pods_that_ask_for_nothing() -> None:
    session = run([node("n", gpu=1), pod("busy", node="n", gpu=1, cpu=96), *free("job", 2, 2)], CONFIG)
    assert binds(session) == {"job-0": "n", "job-1": "n"}
    assert session.committed[0].action == "backfill"


def test_a_node_without_a_place_for_another_pod_takes_none() -> None:
    session = run([node("n", pods=1), pod("busy", node="n", cpu=1), *free("job", 1, 1)], CONFIG)
    assert binds(session) == {}
    assert session.verdicts[session.snapshot.jobs.index["default/job"]].reason.code == "gang-incomplete"


def test_half_a_gang_is_undone() -> None:
    objects = [*free("job", 2, 3), *members("job", 1, first=2, selector=NOWHERE)]
    session = run([node("n"), *objects], CONFIG)
    assert binds(session) == {}
    assert (session.snapshot.nodes.used() == 0).all()


def test_who_finds_no_node_is_left_out_of_an_elastic_gang() -> None:
    objects = [
        pod_group("job", minimum=2, phase="Inqueue"),
        *members("job", 1, selector=NOWHERE),
        *members("job", 2, first=1),
    ]
    assert sorted(binds(run([node("n"), *objects], CONFIG))) == ["job-1", "job-2"]


def test_jobs_that_ask_for_something_are_left_to_allocate() -> None:
    config = configured("gang", "predicates", actions=("enqueue", "backfill"))
    session = run([node("n", gpu=8), *free("job", 1, 1, gpu=1), *free("none", 1, 1)], config)
    assert bound_jobs(session) == {"none": 1}


def test_queues_and_jobs_are_served_in_order() -> None:
    objects = [
        queue("late", created=5.0),
        queue("early", created=1.0),
        pod_group("b", queue="late", phase="Inqueue"),
        *members("b", 1),
        pod_group("a", queue="early", phase="Inqueue"),
        *members("a", 1),
    ]
    session = run([node("n", pods=1), *objects], CONFIG)
    assert bound_jobs(session) == {"a": 1}


# -- constraints of the network ---------------------------------------------------------------------------------------


def test_pods_that_ask_for_nothing_stay_with_those_of_their_gang_that_run() -> None:
    tree = racks({"s0": [1], "s1": [1]})
    for home in ("s0-r0-n0", "s1-r0-n0"):
        objects = [group("job", 1, hard(1)), *members("job", 1, on=[home], gpu=1), *members("job", 2, first=1)]
        assert set(binds(run([*tree, *objects], CONFIG)).values()) == {home}


def test_a_gang_of_pods_that_ask_for_nothing_starts_inside_one_domain_or_not_at_all() -> None:
    tree = racks({"s0": [1, 1], "s1": [2]})
    full = [pod(f"busy-{k}", node="s1-r0-n0", cpu=1) for k in range(109)]
    objects = [group("job", 3, hard(1)), *members("job", 3)]
    found = binds(run([*tree, *full, *objects], CONFIG))
    assert len(racks_of(found.values())) == 1
    assert len(found) == 3
    assert binds(run([node("outside"), *racks({"s0": [0]}), *objects], CONFIG)) == {}


def test_pods_that_ask_for_nothing_keep_to_the_domains_of_their_parts() -> None:
    tree = racks({"s0": [1, 1, 1], "s1": [1]})
    objects = [
        group("job", 1, hard(2), [parts(1, 0, hard(1))]),
        *members("job", 1, on=["s0-r0-n0"], part="0", gpu=1),
        *members("job", 1, on=["s0-r1-n0"], part="1", gpu=1),
        *members("job", 2, first=1, part="0"),
        *members("job", 2, first=1, part="1"),
        *members("job", 2, part="2"),
    ]
    found = binds(run([*tree, *objects], CONFIG))
    by_part = {part: {where for name, where in found.items() if name.startswith(f"job-{part}")} for part in "012"}
    assert by_part["0"] == {"s0-r0-n0"}
    assert by_part["1"] == {"s0-r1-n0"}
    assert len(by_part["2"]) == 1
    assert all(where.startswith("s0") for where in found.values())


def test_a_part_of_pods_that_ask_for_nothing_starts_whole_or_not_at_all() -> None:
    tree = racks({"s0": [1]})
    objects = [
        group("job", 0, None, [parts(2, 0)]),
        *members("job", 1, part="0"),
        *members("job", 1, first=1, part="0", selector=NOWHERE),
    ]
    assert binds(run([*tree, *objects], CONFIG)) == {}
