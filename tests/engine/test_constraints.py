"""Constraints become the highest tier allowed, and what cannot be told keeps the job waiting with the reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from muster.api import KubeObject, NetworkTopology, SubGroupPolicy
from muster.engine.constraints import (
    Constraint,
    constraint_of,
    domain_of,
    has_topology,
    placed_nodes,
    resolve,
    why_not_placeable,
)
from muster.snapshot import NO_ROW
from tests.engine.stage import domain_names, job_row, open_session
from tests.snapshot.networks import SOFT, group, hard, hyper_node, members, parts, racks

TREE = racks({"s0": [2, 2], "s1": [2]})


# -- resolving --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, Constraint()),
        (hard(1), Constraint(1)),
        (hard(99), Constraint(99)),
        (hard("spine"), Constraint(2)),
        (SOFT, Constraint(3, soft=True)),
        (NetworkTopology(mode="soft", highest_tier_allowed=1), Constraint(3, soft=True)),
    ],
)
def test_what_a_constraint_allows(spec: NetworkTopology | None, expected: Constraint) -> None:
    assert resolve(spec, open_session(TREE).snapshot.topology) == expected


def test_a_soft_sub_group_stays_inside_what_the_job_allows() -> None:
    topology = open_session(TREE).snapshot.topology
    assert resolve(SOFT, topology, Constraint(1)) == Constraint(1, soft=True)
    assert resolve(SOFT, topology, Constraint(3, soft=True)) == Constraint(3, soft=True)


def test_a_tier_name_that_nobody_has_says_which_there_are() -> None:
    topology = open_session(TREE).snapshot.topology
    with pytest.raises(ValueError, match="no HyperNode has the tier name 'pod'; known: rack, spine"):
        resolve(hard("pod"), topology)
    with pytest.raises(ValueError, match="known: none"):
        resolve(hard("pod"), open_session([]).snapshot.topology)


def test_hard_without_a_tier_says_so() -> None:
    with pytest.raises(ValueError, match="mode is hard, but neither highestTierAllowed nor highestTierName is set"):
        resolve(hard(None), open_session(TREE).snapshot.topology)


def test_a_constraint_is_true_when_it_constrains() -> None:
    assert Constraint(0)
    assert not Constraint()


# -- jobs and sub-groups ------------------------------------------------------------------------------------------


def test_sub_groups_have_their_own_constraint_and_the_rest_is_held_by_the_job_s() -> None:
    session = open_session(
        [
            *TREE,
            group(
                "job", 3, hard(2), [parts(1, topology=hard(1)), parts(1, topology=SOFT, name="q"), parts(1, name="r")]
            ),
            *members("job", 1, part="a", gpu=1),
            *members("job", 1, first=5, gpu=1),
        ]
    )
    job = job_row(session, "job")
    assert constraint_of(session, job) == Constraint(2)
    found = {
        session.snapshot.subgroups.names[row]: constraint_of(session, job, row)
        for row in session.snapshot.jobs.subgroups[job]
    }
    assert sorted(found.values(), key=lambda known: known.limit or 0) == [Constraint(1), Constraint(2)]


def test_a_sub_group_without_a_constraint_is_free_inside_the_job_s_domain() -> None:
    session = open_session([*TREE, group("job", 1, hard(2), [parts(1)]), *members("job", 1, part="a", gpu=1)])
    job = job_row(session, "job")
    (subgroup,) = session.snapshot.jobs.subgroups[job]
    assert constraint_of(session, job, subgroup) == Constraint()


@pytest.mark.parametrize(
    ("job", "policies", "expected"),
    [
        (None, [], False),
        (None, [parts(1)], False),
        (None, [parts(1, topology=SOFT)], True),
        (SOFT, [], True),
        (hard(1), [parts(1)], True),
    ],
)
def test_whether_a_job_has_a_topology_constraint(
    job: NetworkTopology | None, policies: list[SubGroupPolicy], expected: bool
) -> None:
    session = open_session([*TREE, group("job", 1, job, policies)])
    assert has_topology(session, job_row(session, "job")) is expected


# -- where a gang is ------------------------------------------------------------------------------------------------


def test_the_domain_of_a_job_is_the_smallest_around_its_placed_pods() -> None:
    session = open_session(
        [
            *TREE,
            group("spread", 3, hard(2), [parts(1)]),
            *members("spread", 2, on=["s0-r0-n0"], part="a", gpu=1),
            *members("spread", 1, on=["s0-r1-n0"], part="b", gpu=1),
            *members("spread", 1, on=["s1-r0-n0"], part="b", first=7, phase="Succeeded", gpu=1),
            group("new", 1),
            *members("new", 1, gpu=1),
        ]
    )
    snapshot, job = session.snapshot, job_row(session, "spread")
    names = snapshot.topology.names
    assert names[domain_of(snapshot, job)] == "s0"
    assert sorted(snapshot.nodes.names[row] for row in placed_nodes(snapshot, job)) == ["s0-r0-n0", "s0-r1-n0"]
    assert sorted(domain_names(session, (domain_of(snapshot, job, row) for row in snapshot.jobs.subgroups[job]))) == [
        "s0-r0",
        "s0-r1",
    ]
    assert domain_of(snapshot, job_row(session, "new")) == NO_ROW


def test_pods_that_leave_and_pods_on_nodes_that_are_gone_hold_no_domain() -> None:
    leaving = members("job", 1, on=["s0-r0-n0"], gpu=1)
    leaving[0].metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    session = open_session([*TREE, group("job", 2, hard(1)), *leaving, *members("job", 1, on=["gone"], first=1, gpu=1)])
    assert domain_of(session.snapshot, job_row(session, "job")) == NO_ROW


# -- failing closed -----------------------------------------------------------------------------------------------


def reason(*objects: KubeObject) -> tuple[str, str] | None:
    session = open_session(objects)
    rejection = why_not_placeable(session, job_row(session, "job"))
    return None if rejection is None else (rejection.reason.code, rejection.detail)


def test_what_can_be_placed_is_not_rejected() -> None:
    assert reason(*TREE, group("job", 1)) is None
    assert reason(*TREE, group("job", 1, hard(1), [parts(1, topology=SOFT)])) is None


def test_an_unknown_tier_name_keeps_the_job_waiting() -> None:
    assert reason(*TREE, group("job", 1, hard("pod"))) == (
        "topology-tier",
        "no HyperNode has the tier name 'pod'; known: rack, spine",
    )


def test_hard_mode_without_a_tier_keeps_the_job_waiting_also_for_a_sub_group() -> None:
    expected = ("topology-tier", "mode is hard, but neither highestTierAllowed nor highestTierName is set")
    assert reason(*TREE, group("job", 1, hard(None))) == expected
    assert reason(*TREE, group("job", 1, None, [parts(1, topology=hard(None))])) == expected


def test_a_fault_keeps_jobs_waiting_that_nothing_else_can_hold() -> None:
    bad = hyper_node("bad", 0, inside=["nobody"])
    expected = ("topology-broken", "HyperNode bad: member HyperNode 'nobody' does not exist")
    assert reason(*TREE, bad, group("job", 1, hard(0))) == expected
    assert reason(*TREE, bad, group("job", 1, None, [parts(1, topology=hard(0))])) == expected
    assert reason(*TREE, bad, group("job", 1, hard(1))) is None
    assert reason(*TREE, bad, group("job", 1, SOFT)) is None
    assert reason(*TREE, bad, group("job", 1, None, [parts(1, topology=SOFT)])) is None


def test_pods_that_run_where_a_fault_came_later_wait_for_its_correction() -> None:
    overlap = hyper_node("other", 1, nodes=["s0-r0-n0"])
    running = members("job", 1, on=["s0-r0-n0"], gpu=1)
    expected = ("topology-broken", "HyperNode other: node 's0-r0-n0' is in 's0-r0' too")
    assert reason(*TREE, overlap, group("job", 1, hard(1)), *running) == expected
    assert reason(*TREE, overlap, group("job", 1, SOFT), *running) is None


def test_pods_that_already_span_too_much_are_kept_and_said_so() -> None:
    spread = members("job", 2, on=["s0-r0-n0", "s0-r1-n0"], gpu=1)
    assert reason(*TREE, group("job", 1, hard(1)), *spread) == (
        "topology-spanned",
        "running pods already span s0 of tier 2, above tier 1",
    )
    assert reason(*TREE, group("job", 1, hard(2)), *spread) is None
    assert reason(*TREE, group("job", 1, SOFT), *spread) is None
