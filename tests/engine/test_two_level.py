"""Two-level placement: the best domain of the lowest tier with room, few parts, ranks in order, no trace of trials."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api import KubeObject, NetworkTopology, Pod
from muster.api.objects.meta import LabelSelector
from muster.api.objects.pod import Affinity, PodAffinity, PodAffinityTerm
from muster.engine.placing import Door
from muster.engine.waiting import schedulable_tasks
from muster.framework import PluginOption, Session
from muster.snapshot import Snapshot, TaskStatus
from muster.testing import fingerprint, node, queue
from tests.engine.stage import (
    binds,
    bound_jobs,
    configured,
    having,
    job_row,
    open_session,
    racks_of,
    run,
    spines_of,
    waits,
)
from tests.snapshot.networks import PART, SOFT, group, hard, hyper_node, members, parts, racks

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def leaving(*pods: KubeObject) -> list[KubeObject]:
    for one in pods:
        one.metadata.deletion_timestamp = NOW
    return list(pods)


def filled(*nodes: str, gpu: int = 8, cpu: int = 0) -> list[KubeObject]:
    """A job that runs on the nodes and takes so much of each."""
    return [group("filler", 1), *members("filler", len(nodes), on=nodes, gpu=gpu, cpu=cpu)]


def ranks(session: Session, job: str) -> list[str]:
    """Nodes of the job's pods by index."""
    found = binds(session)
    mine = {name: where for name, where in found.items() if name.startswith(f"{job}-")}
    return [mine[name] for name in sorted(mine, key=lambda name: int(name.rsplit("-", 1)[1]))]


# -- where a gang goes ----------------------------------------------------------------------------------------------


def test_a_gang_takes_the_lowest_tier_that_has_room() -> None:
    tree = racks({"s0": [1, 1], "s1": [2, 1]})
    assert spines_of(ranks(run([*tree, group("job", 2, hard(3)), *members("job", 2, gpu=8)]), "job")) == {"s1": 2}
    assert racks_of(ranks(run([*tree, group("job", 2, hard(3)), *members("job", 2, gpu=8)]), "job")) == {"s1-r0": 2}
    three = run([*tree, group("job", 3, hard(3)), *members("job", 3, gpu=8)])
    assert spines_of(ranks(three, "job")) == {"s1": 3}


@pytest.mark.parametrize("topology", [hard(3), SOFT])
def test_a_gang_that_spans_spines_uses_as_few_as_it_can(topology: NetworkTopology) -> None:
    tree = racks({"s0": [1, 1], "s1": [2, 2], "s2": [1], "s3": [2, 1]})
    session = run([*tree, group("job", 6, topology), *members("job", 6, gpu=8)])
    found = ranks(session, "job")
    assert racks_of(found) == {"s1-r0": 2, "s1-r1": 2, "s3-r0": 2}


def test_a_hard_constraint_keeps_a_gang_waiting_that_a_soft_one_lets_start() -> None:
    tree = racks({"s0": [1, 1], "s1": [1]})
    waiting = run([*tree, group("job", 2, hard(1)), *members("job", 2, gpu=8)])
    assert waits(waiting) == {"job": "topology"}
    assert binds(waiting) == {}
    assert spines_of(ranks(run([*tree, group("job", 2, SOFT), *members("job", 2, gpu=8)]), "job")) == {"s0": 2}


def test_of_domains_that_fit_the_fullest_is_taken() -> None:
    tree = racks({"s0": [2], "s1": [2], "s2": [2]})
    session = run([*tree, *filled("s1-r0-n1", gpu=4), group("job", 2, hard(1)), *members("job", 2, gpu=4)])
    assert spines_of(ranks(session, "job")) == {"s1": 2}


def test_nodes_in_no_hypernode_serve_only_who_may_span_everything() -> None:
    objects = [*racks({"s0": [1]}), node("outside", gpu=8), *filled("s0-r0-n0")]
    assert waits(run([*objects, group("job", 1, hard(2)), *members("job", 1, gpu=8)])) == {"job": "topology"}
    assert ranks(run([*objects, group("job", 1, SOFT), *members("job", 1, gpu=8)]), "job") == ["outside"]


def test_uneven_trees_are_used_by_tier() -> None:
    objects: list[KubeObject] = [
        *racks({"s0": [1]}),
        *(node(f"x{k}", gpu=8) for k in range(3)),
        hyper_node("flat", 2, nodes=["x0", "x1"]),
        hyper_node("odd", 4, inside=["flat"], nodes=["x2"]),
    ]
    two = run([*objects, group("job", 2, hard(4)), *members("job", 2, gpu=8)])
    three = run([*objects, group("job", 3, hard(4)), *members("job", 3, gpu=8)])
    assert ranks(two, "job") == ["x0", "x1"]
    assert ranks(three, "job") == ["x0", "x1", "x2"]


# -- rank order -----------------------------------------------------------------------------------------------------


def ranked_gang(topology: NetworkTopology | None, **arguments: Any) -> list[str]:
    tree = racks({"s0": [2, 2], "s1": [2]})
    emptiest_first = PluginOption("nodeorder", arguments={"balancedresource.weight": 0})
    config = configured("gang", "predicates", emptiest_first, allocate=arguments)
    objects = [
        *tree,
        *filled("s0-r0-n1", "s0-r1-n0", gpu=4, cpu=10),
        group("job", 5, topology),
        *members("job", 5, gpu=4, cpu=20),
    ]
    return ranks(run(objects, config), "job")


def test_equal_tasks_get_nodes_in_topology_order_by_their_index() -> None:
    assert ranked_gang(hard(2)) == ["s0-r0-n0", "s0-r0-n0", "s0-r0-n1", "s0-r1-n0", "s0-r1-n1"]
    assert ranked_gang(SOFT) == ["s0-r0-n0", "s0-r0-n0", "s0-r0-n1", "s0-r1-n0", "s0-r1-n1"]


def test_index_ten_comes_after_index_nine() -> None:
    session = run([*racks({"s0": [6, 6]}), group("job", 12, hard(2)), *members("job", 12, gpu=8)])
    assert ranks(session, "job") == [f"s0-r{k // 6}-n{k % 6}" for k in range(12)]


def test_rank_order_can_be_turned_off_and_never_changes_which_nodes_are_used() -> None:
    kept, off = ranked_gang(SOFT), ranked_gang(SOFT, rankOrder=False)
    assert sorted(kept) == sorted(off)
    assert off != kept


def test_jobs_without_a_constraint_are_not_ranked() -> None:
    found = ranked_gang(None)
    assert found != sorted(found)


# -- sub-groups -----------------------------------------------------------------------------------------------------


def two_parts(
    job: int, part: int, size: int = 2, *, parts_needed: int | None = None, count: int = 2
) -> list[KubeObject]:
    """A job with a constraint, of `count` parts with one each."""
    needed = (parts_needed or count) * size
    objects: list[KubeObject] = [group("job", needed, hard(job), [parts(size, parts_needed, hard(part))])]
    for k in range(count):
        objects += members("job", size, part=str(k), gpu=8)
    return objects


def parted(session: Session) -> dict[str, list[str]]:
    """Part -> nodes, by index."""
    found: dict[str, list[str]] = {}
    for name, where in sorted(binds(session).items()):
        found.setdefault(name.split("-")[1], []).append(where)
    return found


def test_each_part_gets_its_own_small_domain_inside_one_larger_one() -> None:
    session = run([*racks({"s0": [2, 1, 1], "s1": [1, 2, 2]}), *two_parts(2, 1)])
    found = parted(session)
    assert {part: set(racks_of(nodes)) for part, nodes in found.items()} == {"0": {"s1-r1"}, "1": {"s1-r2"}}


def test_both_parts_in_one_rack_when_it_has_room() -> None:
    session = run([*racks({"s0": [2, 2], "s1": [4]}), *two_parts(2, 1)])
    assert racks_of(binds(session).values()) == {"s1-r0": 4}


@pytest.mark.parametrize("too_large", [0, 2])
def test_one_rack_that_holds_the_parts_is_found_before_two_where_order_misses_it(too_large: int) -> None:
    """Two pods of 3 on one node leave no room for all three of 5; a part may stay out, those that start are whole."""
    pods = [*members("job", 3, part="0", gpu=3), *members("job", 3, part="1", gpu=5)]
    pods += members("job", too_large, part="2", gpu=9)
    session = run([*racks({"s0": [3, 1]}), group("job", 6, hard(2), [parts(2, topology=SOFT)]), *pods])
    assert racks_of(binds(session).values()) == {"s0-r0": 6}


def test_a_job_whose_parts_do_not_all_fit_one_domain_waits() -> None:
    session = run([*racks({"s0": [2, 1], "s1": [2, 1]}), *two_parts(2, 1)])
    assert binds(session) == {}
    assert list(waits(session)) == ["job"]
    assert having(session, TaskStatus.PENDING).keys() == {"job-0-0", "job-0-1", "job-1-0", "job-1-1"}


def test_the_job_s_domain_is_the_one_where_its_parts_score_best_together() -> None:
    """s0 as a whole is fuller, but the parts fill racks of s1 better."""
    tree = racks({"s0": [3, 3, 1], "s1": [2, 2, 3]})
    session = run([*tree, *filled("s0-r2-n0"), *two_parts(2, 1)])
    found = parted(session)
    assert {part: set(racks_of(nodes)) for part, nodes in found.items()} == {"0": {"s1-r0"}, "1": {"s1-r1"}}


def test_parts_that_the_job_cannot_start_without_come_first() -> None:
    """Part 9 belongs to the policy that must have one; parts 0 and 1 would otherwise take the room."""
    must, may = parts(2, 1, hard(1), name="must"), parts(2, 0, hard(1), name="may")
    must.label_selector, may.label_selector = (LabelSelector(match_labels={"kind": k}) for k in ("must", "may"))
    objects: list[KubeObject] = [*racks({"s0": [2]}), group("job", 2, hard(2), [may, must])]
    for part, kind in (("0", "may"), ("1", "may"), ("9", "must")):
        made = members("job", 2, part=part, gpu=8)
        for one in made:
            one.metadata.labels = {PART: part, "kind": kind}
        objects += made
    session = run(objects)
    assert sorted(binds(session)) == ["job-9-0", "job-9-1"]


def test_parts_beyond_the_minimum_start_when_there_is_room_and_stay_away_when_not() -> None:
    one = run([*racks({"s0": [2, 1]}), *two_parts(2, 1, parts_needed=1)])
    both = run([*racks({"s0": [2, 2]}), *two_parts(2, 1, parts_needed=1)])
    assert set(parted(one)) == {"0"}
    assert set(parted(both)) == {"0", "1"}


def test_a_part_is_never_started_in_part() -> None:
    session = run([*racks({"s0": [2, 1]}), *two_parts(2, 1, parts_needed=1, count=3)])
    assert {part: len(nodes) for part, nodes in parted(session).items()} == {"0": 2}


def test_a_soft_part_stays_inside_what_its_job_allows() -> None:
    tree = racks({"s0": [1, 1], "s1": [1]})
    objects = [*tree, group("job", 2, hard(1), [parts(2, 1, SOFT)]), *members("job", 2, part="0", gpu=8)]
    assert binds(run(objects)) == {}
    wider = [*tree, group("job", 2, hard(2), [parts(2, 1, SOFT)]), *members("job", 2, part="0", gpu=8)]
    assert spines_of(binds(run(wider)).values()) == {"s0": 2}


def test_parts_without_any_topology_go_anywhere_but_whole() -> None:
    objects = [*racks({"s0": [1], "s1": [1], "s2": [1]}), group("job", 2, None, [parts(2, 1)])]
    for part in ("0", "1"):
        objects += members("job", 2, part=part, gpu=8)
    session = run(objects)
    assert {part: len(nodes) for part, nodes in parted(session).items()} == {"0": 2}


# -- growing later ---------------------------------------------------------------------------------------------------


def test_what_comes_later_stays_with_what_runs() -> None:
    tree = racks({"s0": [2, 1], "s1": [4]})
    job = [group("job", 1, hard(1)), *members("job", 3, on=["s0-r0-n0"], gpu=8)]
    session = run([*tree, *job])
    assert binds(session) == {"job-1": "s0-r0-n1"}
    wider = [group("job", 1, hard(2)), *members("job", 4, on=["s0-r0-n0"], gpu=8)]
    assert binds(run([*tree, *wider])) == {"job-1": "s0-r0-n1", "job-2": "s0-r1-n0"}


def test_a_part_that_grows_stays_in_its_own_domain_and_others_in_the_job_s() -> None:
    tree = racks({"s0": [2, 2], "s1": [4]})
    objects = [
        *tree,
        group("job", 1, hard(2), [parts(1, 0, hard(1))]),
        *members("job", 3, on=["s0-r0-n0"], part="0", gpu=8),
        *members("job", 2, part="1", gpu=8),
    ]
    found = parted(run(objects))
    assert {part: sorted(nodes) for part, nodes in found.items()} == {
        "0": ["s0-r0-n1"],
        "1": ["s0-r1-n0", "s0-r1-n1"],
    }


def test_a_part_that_comes_later_goes_near_the_others_before_it_goes_where_the_score_is_best() -> None:
    tree = racks({"s0": [1, 2], "s1": [2]})
    objects = [
        *filled("s1-r0-n0", gpu=4),
        group("job", 1, hard(3), [parts(1, 0, hard(1))]),
        *members("job", 1, on=["s0-r0-n0"], part="0", gpu=8),
        *members("job", 1, part="1", gpu=4),
    ]
    assert racks_of(binds(run([*tree, *objects])).values()) == {"s0-r1": 1}


def test_a_gang_too_large_for_every_domain_says_how_far_the_roomiest_is_from_holding_it() -> None:
    tree = racks({"s0": [2], "s1": [1]})
    session = run([*tree, group("job", 3, hard(2)), *members("job", 3, gpu=8)])
    verdict = session.verdicts[job_row(session, "job")]
    assert verdict.reason.code == "topology"
    assert verdict.detail == "3 tasks are needed together within tier 2; s0 comes closest with room for 2"


def test_an_elastic_gang_starts_where_all_of_it_has_room() -> None:
    tree = racks({"s0": [1], "s1": [3]})
    session = run([*tree, group("job", 1, hard(1)), *members("job", 3, gpu=8)])
    assert spines_of(ranks(session, "job")) == {"s1": 3}


def test_pods_that_span_too_much_are_kept_and_the_job_gets_no_more() -> None:
    tree = racks({"s0": [2, 2]})
    session = run([*tree, group("job", 3, hard(1)), *members("job", 3, on=["s0-r0-n0", "s0-r1-n0"], gpu=1)])
    assert binds(session) == {}
    assert waits(session) == {"job": "topology-spanned"}
    assert sorted(having(session, TaskStatus.RUNNING)) == ["job-0", "job-1"]


# -- trials leave no trace --------------------------------------------------------------------------------------------


def books(snapshot: Snapshot) -> str:
    plain = copy.copy(snapshot)
    plain.touched = 0
    return fingerprint(plain)


@pytest.mark.parametrize(
    "job",
    [
        [group("job", 4, hard(2)), *members("job", 4, gpu=8)],
        two_parts(2, 1),
        [
            group("job", 4, hard(2), [parts(2, 2, hard(1))], roles={"big": 1}),
            *members("job", 2, part="0", gpu=8),
            *members("job", 2, part="1", gpu=8, role="big"),
        ],
        [group("job", 3, SOFT), *members("job", 2, gpu=8), *members("job", 2, first=7, gpu=9)],
    ],
    ids=["flat", "parts", "roles", "two classes"],
)
def test_a_job_that_fits_nowhere_changes_no_array(job: list[KubeObject]) -> None:
    tree = racks({"s0": [2, 1], "s1": [2, 1]})
    session = open_session([*tree, *leaving(*members("old", 1, on=["s1-r1-n0"], gpu=4)), group("old", 1), *job])
    row = job_row(session, "job")
    tasks = schedulable_tasks(session)
    door = Door(session)
    before = books(session.snapshot)
    statement = session.statement()

    outcome = door.place(row, tasks[session.snapshot.tasks.job[tasks] == row], statement)

    assert not outcome
    assert len(statement) == 0
    assert books(session.snapshot) == before
    assert outcome.verdict is not None


def test_what_is_kept_of_many_trials_is_one_and_can_be_undone() -> None:
    session = open_session([*racks({"s0": [2, 2], "s1": [2, 2], "s2": [2, 2]}), *two_parts(2, 1)])
    row = job_row(session, "job")
    door = Door(session)
    before = books(session.snapshot)
    statement = session.statement()
    outcome = door.place(row, schedulable_tasks(session), statement)
    assert outcome.placed == 4
    assert len(outcome.left) == 0
    statement.rollback()
    assert books(session.snapshot) == before


# -- waiting for room, nominated nodes, other pods -------------------------------------------------------------------


def test_a_gang_that_waits_for_room_keeps_its_places_for_the_cycle_and_is_not_bound() -> None:
    objects = [
        *racks({"s0": [2]}),
        group("old", 1),
        *leaving(*members("old", 1, on=["s0-r0-n1"], gpu=8)),
        group("a", 2, hard(1)),
        *members("a", 2, gpu=8),
        group("b", 1, hard(1)),
        *members("b", 1, gpu=8),
    ]
    session = run(objects)
    assert binds(session) == {}
    assert having(session, TaskStatus.ALLOCATED) == {"a-0": "s0-r0-n0"}
    assert having(session, TaskStatus.PIPELINED) == {"a-1": "s0-r0-n1"}
    assert waits(session)["b"] in {"topology", "insufficient-resources"}


def test_a_nominated_node_is_used_inside_the_domain_and_ignored_outside() -> None:
    tree = racks({"s0": [2], "s1": [2]})
    inside = [group("job", 1, hard(1)), *members("job", 1, gpu=8, nominated="s1-r0-n1")]
    outside = [
        group("job", 1, hard(1)),
        *members("job", 1, on=["s0-r0-n0"], gpu=8),
        *members("job", 1, first=1, gpu=8, nominated="s1-r0-n1"),
    ]
    assert binds(run([*tree, *outside])) == {"job-1": "s0-r0-n1"}
    found = binds(run([*tree, *filled("s0-r0-n0", "s0-r0-n1"), *inside]))
    assert found == {"job-0": "s1-r0-n1"}


def apart(pods: list[KubeObject], app: str) -> list[KubeObject]:
    """Pods of an app of which a node takes one."""
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": app}), topology_key="kubernetes.io/hostname"
    )
    for one in pods:
        assert isinstance(one, Pod)
        one.metadata.labels = {**one.metadata.labels, "app": app}
        one.spec.affinity = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    return pods


def test_pods_that_keep_apart_are_placed_one_by_one_inside_the_domain() -> None:
    tree = racks({"s0": [2], "s1": [3]})
    fits = run([*tree, group("job", 3, hard(1)), *apart(members("job", 3, gpu=1), "x")])
    assert sorted(binds(fits).values()) == ["s1-r0-n0", "s1-r0-n1", "s1-r0-n2"]
    too_many = run([*tree, group("job", 4, hard(2)), *apart(members("job", 4, gpu=1), "x")])
    assert binds(too_many) == {}
    soft = run([*tree, group("job", 4, SOFT), *apart(members("job", 4, gpu=1), "x")])
    assert len(set(binds(soft).values())) == 4


# -- faults ---------------------------------------------------------------------------------------------------------


def test_a_fault_takes_only_its_own_hypernode_out_of_use() -> None:
    session = run(
        [
            *racks({"s0": [2]}),
            hyper_node("bad", 2, inside=["nobody"]),
            hyper_node("overlap", 1, nodes=["x"]),
            hyper_node("overlap-too", 1, nodes=["x"]),
            node("x", gpu=64),
            group("hard", 1, hard(1)),
            *members("hard", 1, gpu=1),
            group("large", 1, hard(1)),
            *members("large", 1, gpu=9),
            group("soft", 1, SOFT),
            *members("soft", 1, gpu=1),
            group("plain", 1),
            *members("plain", 1, gpu=1),
            group("parted", 1, None, [parts(1)]),
            *members("parted", 1, part="0", gpu=1),
        ]
    )
    assert waits(session) == {"large": "topology"}
    assert bound_jobs(session) == {"hard": 1, "soft": 1, "plain": 1, "parted": 1}


def test_a_queue_that_is_full_is_the_reason_also_for_topology_jobs() -> None:
    config = configured("gang", "predicates", "capacity")
    session = run(
        [
            *racks({"s0": [2]}),
            queue("default", capability={"gpu": 4, "cpu": 100}),
            group("job", 2, hard(1)),
            *members("job", 2, gpu=4),
        ],
        config,
    )
    assert binds(session) == {}
    assert waits(session) == {"job": "queue-limit"}


# -- orders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimum", [2, 4])
def test_ranks_follow_the_index_whenever_pods_were_made(minimum: int) -> None:
    pods = members("job", 4, gpu=8)
    for pod, second in zip(pods, (2, 1, 3, 0), strict=True):
        pod.metadata.creation_timestamp = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    session = run([*racks({"s0": [4]}), group("job", minimum, hard(1)), *pods])
    assert binds(session) == {f"job-{index}": f"s0-r0-n{index}" for index in range(4)}
