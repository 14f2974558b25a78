"""How domains and nodes of the network are scored, and where evictions are tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from muster.api import KubeObject, PodGroup, UserError
from muster.framework import Purpose, Session
from muster.plugins.nodes.network_topology_aware import NetworkTopologyAware
from muster.snapshot import NO_ROW
from muster.testing import builders
from tests.plugins.networks import (
    constraint,
    hyper_node,
    network,
    open_session,
    partitioned_gang,
    random_cluster,
)

NAME = "network-topology-aware"


def topology_gang(name: str, pods: int, tier: int | None, **requests: Any) -> list[KubeObject]:
    """A gang with a constraint on the whole; None: soft."""
    group, *members = builders.gang(name, pods, **requests)
    assert isinstance(group, PodGroup)
    spec = msgspec.structs.replace(group.spec, network_topology=constraint(tier))
    return [msgspec.structs.replace(group, spec=spec), *members]


def opened(objects: Iterable[KubeObject], **arguments: Any) -> Session:
    return open_session([*objects, builders.queue("default")], {"gang": {}, NAME: arguments})


def plugin(session: Session) -> NetworkTopologyAware:
    found = session.plugins[NAME]
    assert isinstance(found, NetworkTopologyAware)
    return found


def domain_scores(session: Session, job: str = "train", subgroup: int = NO_ROW) -> dict[str, float]:
    topology = session.snapshot.topology
    row = session.snapshot.jobs.index[f"default/{job}"]
    scores = session.domain_scores(row, subgroup, topology.inside(0))
    return dict(zip(topology.names, scores.round(6).tolist(), strict=True))


def node_scores(session: Session, pod: str) -> dict[str, float]:
    snapshot = session.snapshot
    task = snapshot.tasks.ids.index(f"default/{pod}")
    scores = plugin(session).task_scores(task)
    return dict(zip(snapshot.nodes.names, scores.round(6).tolist(), strict=True))


# -- domains ---------------------------------------------------------------------------------------------------


def test_the_fuller_a_gang_makes_a_domain_the_better() -> None:
    old = builders.pod("old", cpu=32, node="s0-r0-n0")
    scores = domain_scores(opened([*network([[1, 1]]), old, *topology_gang("train", 1, 2, cpu=16)]))
    assert scores["s0-r0"] == 75.0  # 32 + 16 of 64
    assert scores["s0-r1"] == 25.0
    assert scores["s0"] == 37.5


def test_gpus_count_although_nobody_lists_them() -> None:
    old = builders.pod("old", gpu=4, node="s0-r0-n0")
    scores = domain_scores(opened([*network([[1, 1]]), old, *topology_gang("train", 1, 2, gpu=2)]))
    assert (scores["s0-r0"], scores["s0-r1"]) == (75.0, 25.0)


def test_resources_count_by_their_weights() -> None:
    gang = topology_gang("train", 1, 2, cpu=16, gpu=4)
    listed = {"hypernode.binpack.resources": "nvidia.com/gpu", "hypernode.binpack.resources.nvidia.com/gpu": 3}
    scores = domain_scores(opened([*network([[1]]), *gang], **listed))
    assert scores["s0"] == pytest.approx(100 * (0.25 + 3 * 0.5) / 4)
    listed["hypernode.binpack.resources.nvidia.com/gpu"] = 0
    assert domain_scores(opened([*network([[1]]), *gang], **listed))["s0"] == 25.0
    only_gpu = {"hypernode.binpack.cpu": 0}
    assert domain_scores(opened([*network([[1]]), *gang], **only_gpu))["s0"] == 50.0


def test_the_plugins_weight_multiplies_the_score() -> None:
    gang = topology_gang("train", 1, 2, cpu=16)
    assert domain_scores(opened([*network([[1]]), *gang], weight=10))["s0"] == 250.0


@pytest.mark.parametrize("full", ["cpu", "gpu"])
def test_a_domain_that_overflows_in_any_resource_gets_nothing(full: str) -> None:
    old = builders.pod("old", node="s0-r0-n0", cpu=60 if full == "cpu" else 0, gpu=8 if full == "gpu" else 0)
    scores = domain_scores(opened([*network([[1, 1]]), old, *topology_gang("train", 1, 2, cpu=8, gpu=1)]))
    assert scores["s0-r0"] == 0.0
    assert scores["s0-r1"] > 0.0


def test_running_tasks_of_the_gang_are_used_room_and_not_a_request() -> None:
    group, *members = topology_gang("train", 2, 2, cpu=16)
    running = builders.pod("train-0", group="train", cpu=16, node="s0-r0-n0")
    scores = domain_scores(opened([*network([[1, 1]]), group, running, members[1]]))
    assert scores["s0-r0"] == 50.0  # 16 used + 16 asked of 64
    assert scores["s0-r1"] == 25.0


def test_domains_alike_are_told_apart_by_the_tasks_they_hold() -> None:
    group, *members = topology_gang("train", 4, 2, cpu=16)
    running = builders.pod("train-0", group="train", cpu=16, node="s0-r1-n0")
    other = builders.pod("old", cpu=16, node="s0-r0-n0")
    scores = domain_scores(opened([*network([[1, 1]]), group, running, other, *members[1:]]))
    assert scores["s0-r1"] - scores["s0-r0"] == pytest.approx(100 / 4)


def test_a_sub_group_asks_for_its_own_tasks_only() -> None:
    gang = partitioned_gang("train", [1, 3], tier=2, part_tier=1, gpus=(4,))
    session = opened([*network([[2]]), *gang], **{"hypernode.binpack.cpu": 0})
    small, large = (session.snapshot.subgroups.names.index(f"default/train/part-{k}") for k in (0, 1))
    assert domain_scores(session, subgroup=small)["s0-r0"] == 25.0
    assert domain_scores(session, subgroup=large)["s0-r0"] == 75.0


def test_scores_follow_what_a_statement_does_and_undoes() -> None:
    session = opened([*network([[1, 1]]), *topology_gang("train", 2, 2, cpu=16)])
    before = domain_scores(session)
    statement = session.statement()
    statement.place(session.snapshot.tasks.ids.index("default/train-0"), session.snapshot.nodes.index["s0-r1-n0"])
    assert domain_scores(session)["s0-r1"] == 50.0
    statement.rollback()
    assert domain_scores(session) == before


@pytest.mark.parametrize("seed", range(12))
def test_scores_of_all_domains_at_once_are_those_of_each_alone(seed: int) -> None:
    """Against plain sums over the nodes of each domain."""
    session = open_session(random_cluster(seed), {"gang": {}, NAME: {"hypernode.binpack.cpu": 3}})
    snapshot = session.snapshot
    job = snapshot.jobs.index["default/train"]
    used, free = snapshot.nodes.used(), snapshot.nodes.allocatable()
    for subgroup in snapshot.jobs.subgroups[job]:
        tasks = [task for task in snapshot.tasks_of(job).tolist() if snapshot.tasks.subgroup[task] == subgroup]
        scores = session.domain_scores(job, subgroup, snapshot.topology.inside(0))
        for domain, score in enumerate(scores.tolist()):
            rows = range(int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain]))
            total, weights, fits = 0.0, 0, True
            for name, weight in (("cpu", 3), ("memory", 1), ("nvidia.com/gpu", 1)):
                column = snapshot.axis.index[name]
                request = sum(int(snapshot.request(task)[column]) for task in tasks)
                if request:
                    after = request + sum(int(used[row, column]) for row in rows)
                    room = sum(int(free[row, column]) for row in rows)
                    total, weights, fits = total + weight * after / room, weights + weight, fits and after <= room
            assert score == pytest.approx(100 * total / weights if fits else 0.0)


# -- nodes -----------------------------------------------------------------------------------------------------


def test_pods_without_a_constraint_go_where_domains_are_full_already() -> None:
    old = builders.pod("old", cpu=32, node="s0-r0-n0")
    session = opened([*network([[2, 2], [2]]), old, builders.pod("lone", cpu=8)])
    scores = node_scores(session, "lone")
    assert scores["s0-r0-n0"] == scores["s0-r0-n1"] > scores["s0-r1-n0"] > scores["s1-r0-n0"]


def test_nodes_outside_every_domain_come_first() -> None:
    objects = [*network([[1]]), builders.node("outside", cpu=64, memory="256Gi"), builders.pod("lone", cpu=64)]
    scores = node_scores(opened(objects), "lone")
    # Tiers 1 and 2 count as full, the root is half full with the pod: (1 + 0.8 + 0.64 / 2) / (1 + 0.8 + 0.64).
    assert scores["outside"] == pytest.approx(100 * 2.12 / 2.44, abs=1e-6)
    assert scores["s0-r0-n0"] == pytest.approx(100 * 2.12 / 2.44, abs=1e-6)
    small = [*network([[1]]), builders.node("outside", cpu=64, memory="256Gi"), builders.pod("lone", cpu=8)]
    scores = node_scores(opened(small), "lone")
    assert scores["outside"] > scores["s0-r0-n0"]


def test_without_fading_only_the_lowest_tier_counts() -> None:
    old = builders.pod("old", cpu=32, node="s0-r0-n0")
    session = opened(
        [*network([[1], [1]]), old, builders.pod("lone", cpu=16)], **{"hypernode.binpack.normal-pod.fading": 0}
    )
    assert node_scores(session, "lone") == {"s0-r0-n0": 75.0, "s1-r0-n0": 25.0}


def test_a_tree_without_a_tier_counts_as_full_there() -> None:
    flat = [builders.node("n9", cpu=64, memory="256Gi"), hyper_node("flat", 2, "n9", kind="Node")]
    scores = node_scores(opened([*network([[1]]), *flat, builders.pod("lone", cpu=16)]), "lone")
    assert scores["n9"] > scores["s0-r0-n0"]


def test_normal_pods_can_be_left_alone() -> None:
    session = opened(
        [*network([[1, 1]]), builders.pod("lone", cpu=8)], **{"hypernode.binpack.normal-pod.enable": False}
    )
    assert set(node_scores(session, "lone").values()) == {0.0}
    assert session.node_scores(0)[0].fixed is None


def test_the_first_task_of_a_gang_may_go_anywhere() -> None:
    session = opened([*network([[1, 1]]), *topology_gang("train", 2, 2, cpu=1)])
    assert set(node_scores(session, "train-0").values()) == {0.0}


def test_later_tasks_want_to_be_near_the_first() -> None:
    group, *members = topology_gang("train", 4, 3, cpu=1)
    running = builders.pod("train-0", group="train", cpu=1, node="s0-r0-n0")
    session = opened([*network([[2, 1], [1]]), group, running, *members[1:]])
    assert node_scores(session, "train-1") == {
        "s0-r0-n0": 125.0,  # the same rack, which holds one of four tasks
        "s0-r0-n1": 125.0,
        "s0-r1-n0": 50.0,  # tier 2 of tiers 1 to 3
        "s1-r0-n0": 0.0,  # only the root is around both
    }


def test_a_leaf_of_any_tier_is_a_leaf() -> None:
    flat = [builders.node("n8"), builders.node("n9"), hyper_node("flat", 2, "n8", "n9", kind="Node")]
    group, *members = topology_gang("train", 2, 3, cpu=1)
    running = builders.pod("train-0", group="train", cpu=1, node="n8")
    session = opened([*network([[1]]), *flat, group, running, members[1]])
    scores = node_scores(session, "train-1")
    assert scores["n9"] == scores["n8"] == 150.0
    assert scores["s0-r0-n0"] == 0.0


# -- evictions ---------------------------------------------------------------------------------------------------


def eviction_domains(session: Session, job: str = "train") -> list[str]:
    found = session.search_space(session.snapshot.jobs.index[f"default/{job}"], Purpose.EVICT)
    return [] if found is None else [session.snapshot.topology.names[row] for row in found.tolist()]


def test_evictions_begin_in_small_domains_where_the_least_is_missing() -> None:
    old = [
        builders.pod("old-0", gpu=8, node="s0-r0-n0"),
        builders.pod("old-1", gpu=8, node="s0-r0-n1"),
        builders.pod("old-2", gpu=4, node="s0-r1-n0"),
        builders.pod("old-3", gpu=8, node="s1-r0-n0"),
    ]
    session = opened([*network([[2, 2], [2]]), *old, *topology_gang("train", 2, 2, gpu=8)])
    # Of the two GPU nodes that are asked for, s0-r1 lacks a quarter, s1-r0 a half, s0-r0 all.
    assert eviction_domains(session) == ["s0-r1", "s1-r0", "s0-r0", "s0", "s1"]


def test_domains_that_are_too_small_even_when_empty_are_left_out() -> None:
    session = opened([*network([[2, 1]]), *topology_gang("train", 2, 2, gpu=8)])
    assert eviction_domains(session) == ["s0-r0", "s0"]


def test_the_number_of_domains_is_limited() -> None:
    objects = [*network([[1] * 12]), *topology_gang("train", 1, 2, gpu=8)]
    assert eviction_domains(opened(objects)) == [f"s0-r{k}" for k in (0, 1, 10, 11, 2, 3, 4, 5)]
    assert eviction_domains(opened(objects, **{"hypernode.gradient.evict.max-hypernodes": 2})) == ["s0-r0", "s0-r1"]


def test_no_opinion_without_a_constraint_or_for_allocation() -> None:
    session = opened([*network([[1]]), *topology_gang("train", 1, 2, gpu=8), *builders.gang("free", 1, gpu=1)])
    assert eviction_domains(session, "free") == []
    assert session.search_space(session.snapshot.jobs.index["default/train"], Purpose.ALLOCATE) is None


def test_a_gang_that_runs_already_stays_near_its_tasks() -> None:
    group, *members = topology_gang("train", 2, 1, gpu=8)
    running = builders.pod("train-0", group="train", gpu=8, node="s0-r1-n0")
    session = opened([*network([[2, 2]]), group, running, members[1]])
    assert eviction_domains(session) == ["s0-r1"]


# -- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"weight": -1}, "weight"),
        ({"hypernode.binpack.cpu": "many"}, "hypernode.binpack.cpu"),
        ({"hypernode.binpack.resources": ["nvidia.com/gpu"]}, "expected names separated by commas"),
        (
            {"hypernode.binpack.resources": "a.b/c", "hypernode.binpack.resources.a.b/c": -2},
            "hypernode.binpack.resources.a.b/c: expected a whole number from 0 to 1000000, got -2",
        ),
        ({"hypernode.binpack.normal-pod.fading": -0.5}, "fading"),
        ({"hypernode.gradient.evict.max-hypernodes": 0}, "max-hypernodes"),
        ({"hypernode.binpack.disk": 1}, "hypernode.binpack.disk"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match="network-topology-aware") as caught:
        opened([], **arguments)
    assert problem in str(caught.value)


def test_arguments_may_be_text_as_in_volcanos_files() -> None:
    read = NetworkTopologyAware.read_arguments(
        {"weight": "3", "hypernode.binpack.normal-pod.enable": "false", "hypernode.binpack.memory": None}
    )
    assert (read.weight, read.normal_pods, read.memory) == (3, False, 1)  # type: ignore[attr-defined]  # own fields
