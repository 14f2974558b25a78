"""Nested topology constraints: one domain per required level, narrow where preferred, all tasks or no trace."""

from __future__ import annotations

import copy
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import KaiTopologyConstraint, KubeObject, ObjectMeta, Topology, TopologyLevel, TopologySpec
from muster.api.names import KAI_GROUP_NAME
from muster.engine.placing import EVERYWHERE, NOW_OR_LATER, PROMISES, Door, Goal, Scope
from muster.engine.placing.nested import label_topology
from muster.framework import JobVerdict, Session
from muster.kernels.placement import FUTURE, IDLE
from muster.snapshot import Rows, TaskStatus
from muster.testing import fingerprint, node, pod
from tests.engine.label_networks import (
    NETWORK,
    RACK,
    ZONE,
    filler,
    group,
    members,
    opened,
    pending,
    rack_of,
    racks,
    sub_group,
    topology,
    within,
)
from tests.engine.stage import having, job_row
from tests.snapshot.networks import hyper_node


def placed(
    session: Session, name: str = "job", tasks: Rows | None = None, modes: tuple[int, ...] = (IDLE, FUTURE)
) -> dict[str, str]:
    """Pod -> node of what the placer did with a job's pending tasks; empty: it refused."""
    rows = pending(session, name) if tasks is None else tasks
    if not attempt(session, name, rows, modes)[0]:
        return {}
    table, names = session.snapshot.tasks, session.snapshot.nodes.names
    return {table.ids[row].removeprefix("default/"): names[table.node[row]] for row in rows.tolist()}


def attempt(
    session: Session, name: str, tasks: Rows, modes: tuple[int, ...] = NOW_OR_LATER
) -> tuple[bool, JobVerdict | None]:
    statement = session.statement()
    statement.release(tasks)
    outcome = Door(session).place(job_row(session, name), tasks, statement, EVERYWHERE, modes, Goal.ALL)
    return bool(outcome), outcome.verdict


def racks_used(session: Session, name: str = "job") -> Counter[str]:
    return Counter(rack_of(where) for where in placed(session, name).values())


def books(session: Session) -> str:
    plain = copy.copy(session.snapshot)
    plain.touched = 0
    return fingerprint(plain)


# -- one constraint -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_required_level_keeps_all_tasks_in_one_domain(interleaved: bool) -> None:
    cluster = racks({"z0": [1, 2], "z1": [3]}, interleaved=interleaved)
    job = [group("job", 2, within(RACK)), *members("job", 2)]
    assert racks_used(opened(*cluster, *job)) == {"z0-r1": 2}


def test_a_level_may_be_named_by_its_alias() -> None:
    cluster = [thing for thing in racks({"z0": [1, 2], "z1": [3]}) if not isinstance(thing, Topology)]
    levels = [TopologyLevel(node_label=ZONE, alias="zone"), TopologyLevel(node_label=RACK, alias="rack")]
    named = Topology(metadata=ObjectMeta(name=NETWORK), spec=TopologySpec(levels=levels))
    job = [group("job", 2, within("rack")), *members("job", 2)]
    assert racks_used(opened(named, *cluster, *job)) == {"z0-r1": 2}
    wide = [group("job", 3, within("zone", "rack")), *members("job", 3)]
    assert racks_used(opened(named, *cluster, *wide)) == {"z1-r0": 3}
    with pytest.raises(ValueError, match="has no level 'row'; it has net/zone, net/rack, zone, rack"):
        label_topology(opened(named, *cluster), NETWORK).level_of("row")


def test_of_domains_with_room_the_fullest_is_taken() -> None:
    cluster = racks({"z0": [3, 3, 3]})
    job = [group("job", 1, within(RACK)), *members("job", 1)]
    assert racks_used(opened(*cluster, *filler(["z0-r1-n0", "z0-r1-n1", "z0-r2-n0"]), *job)) == {"z0-r1": 1}


def test_the_fullest_zone_comes_before_the_fullest_rack() -> None:
    cluster = racks({"z0": [2, 2], "z1": [2, 2]})
    full = filler(["z0-r0-n0", "z0-r1-n0", "z1-r0-n0"])
    assert racks_used(opened(*cluster, *full, group("job", 1, within(RACK)), *members("job", 1))) == {"z0-r0": 1}


def test_a_job_that_fits_in_no_domain_waits_and_leaves_no_trace() -> None:
    session = opened(*racks({"z0": [2, 2]}), group("job", 3, within(RACK)), *members("job", 3))
    before = books(session)
    done, verdict = attempt(session, "job", pending(session, "job"))
    assert not done
    assert verdict is not None
    assert verdict.reason.code == "topology"
    assert verdict.detail == "3 tasks are needed together within one net/rack; z0.r0 comes closest with room for 2"
    assert books(session) == before


def test_a_domain_in_which_only_totals_fit_is_passed_over() -> None:
    cluster = racks({"z0": [2, 2]})
    full = [*filler(["z0-r0-n0"], gpu=4), *filler(["z0-r0-n1"], gpu=4)]
    assert racks_used(opened(*cluster, *full, group("job", 1, within(RACK)), *members("job", 1))) == {"z0-r1": 1}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (2, {"z1-r0": 2}),
        (3, {"z0-r0": 1, "z0-r1": 1, "z0-r2": 1}),
        (5, {"z0-r0": 1, "z0-r1": 1, "z0-r2": 1, "z1-r0": 2}),
    ],
)
def test_a_preferred_level_widens_as_far_as_it_must(tasks: int, expected: dict[str, int]) -> None:
    cluster = racks({"z0": [1, 1, 1], "z1": [2]})
    job = [group("job", tasks, within(preferred=RACK)), *members("job", tasks)]
    assert racks_used(opened(*cluster, *job)) == expected


def test_a_preferred_level_widens_up_to_the_required_one() -> None:
    cluster = racks({"z0": [1, 1, 1], "z1": [2]})

    def job(tasks: int) -> list[KubeObject]:
        return [group("job", tasks, within(ZONE, RACK)), *members("job", tasks)]

    assert racks_used(opened(*cluster, *job(3))) == {"z0-r0": 1, "z0-r1": 1, "z0-r2": 1}
    assert racks_used(opened(*cluster, *job(4))) == {}


def test_a_job_that_spreads_begins_with_the_emptiest_of_its_preferred_domains() -> None:
    cluster = racks({"z0": [2, 4, 3]})
    job = [group("job", 6, within(preferred=RACK)), *members("job", 6)]
    assert racks_used(opened(*cluster, *job)) == {"z0-r1": 4, "z0-r2": 2}


STRAY = [*racks({"z0": [1]}), node("a-stray", gpu=8, labels={ZONE: "z0"})]


def test_nodes_outside_the_topology_are_not_used_where_a_level_is_required() -> None:
    two = opened(*STRAY, group("job", 2, within(ZONE)), *members("job", 2))
    one = opened(*STRAY, group("job", 1, within(ZONE)), *members("job", 1))
    assert placed(two) == {}
    assert placed(one) == {"job-0": "z0-r0-n0"}


def test_a_preferred_level_uses_nodes_outside_the_topology_only_if_it_must() -> None:
    two = opened(*STRAY, group("job", 2, within(preferred=ZONE)), *members("job", 2))
    one = opened(*STRAY, group("job", 1, within(preferred=ZONE)), *members("job", 1))
    assert sorted(placed(two).values()) == ["a-stray", "z0-r0-n0"]
    assert placed(one) == {"job-0": "z0-r0-n0"}


def test_a_level_that_a_single_rack_satisfies_is_satisfied() -> None:
    session = opened(*racks({"z0": [2]}), group("job", 2, within(ZONE)), *members("job", 2))
    assert racks_used(session) == {"z0-r0": 2}


# -- what already runs ----------------------------------------------------------------------------------------------


def test_pods_that_run_bind_the_rest_where_a_level_is_required() -> None:
    cluster = racks({"z0": [3, 2]})
    job = [group("job", 1, within(RACK)), *members("job", 2, on=["z0-r0-n0"])]
    assert placed(opened(*cluster, *job)) == {"job-1": "z0-r0-n1"}
    full = filler(["z0-r0-n1", "z0-r0-n2"])
    session = opened(*cluster, *full, *job)
    verdict = attempt(session, "job", pending(session, "job"))[1]
    assert verdict is not None
    assert "1 task is needed within one net/rack, with those in z0.r0;" in verdict.detail


def test_pods_that_run_bind_nobody_where_a_level_is_only_preferred() -> None:
    job = [group("job", 1, within(preferred=RACK)), *members("job", 2, on=["z0-r0-n0"])]
    assert racks_used(opened(*racks({"z0": [3, 1]}), *job)) == {"z0-r1": 1}


def test_pods_that_run_bind_their_own_group_alone() -> None:
    parts = [sub_group("a", 1, within(RACK)), sub_group("b", 1, within(RACK))]
    job = [
        group("job", 1, sub_groups=parts),
        *members("job", 2, role="a", on=["z0-r0-n0"]),
        *members("job", 1, role="b"),
    ]
    assert placed(opened(*racks({"z0": [4, 1]}), *job)) == {"job-a-1": "z0-r0-n1", "job-b-0": "z0-r1-n0"}


# -- constraints inside constraints ---------------------------------------------------------------------------------


def test_groups_get_domains_of_their_own_inside_the_job_s() -> None:
    parts = [sub_group("a", 2, within(RACK)), sub_group("b", 2, within(RACK))]
    job = [group("job", 4, within(ZONE), parts), *members("job", 2, role="a"), *members("job", 2, role="b")]
    found = placed(opened(*racks({"z0": [2, 1, 1], "z1": [2, 2]}), *job))
    assert {rack_of(found[f"job-a-{k}"]) for k in (0, 1)} == {"z1-r0"}
    assert {rack_of(found[f"job-b-{k}"]) for k in (0, 1)} == {"z1-r1"}


def test_groups_in_groups_are_confined_level_by_level() -> None:
    levels = ("net/region", ZONE, RACK)
    nodes = [
        node(f"{region}-{zone}-{rack}", gpu=8, labels={"net/region": region, ZONE: zone, RACK: rack})
        for region, zone, rack in ("a0x", "a0y", "b0x", "b1x", "b1y", "b2x", "b2y")
    ]
    parts = [
        *(sub_group(name, None, within(ZONE)) for name in ("one", "two")),
        *(sub_group(f"{name}-{k}", 1, within(RACK), parent=name) for name in ("one", "two") for k in (0, 1)),
    ]
    pods = [pod for part in parts[2:] for pod in members("job", 1, role=part.name)]
    session = opened(topology(levels=levels), *nodes, group("job", 4, within("net/region"), parts), *pods)
    assert placed(session) == {
        "job-one-0-0": "b-1-x",
        "job-one-1-0": "b-1-y",
        "job-two-0-0": "b-2-x",
        "job-two-1-0": "b-2-y",
    }


def test_groups_without_a_constraint_use_all_of_the_job_s_domain() -> None:
    parts = [sub_group("a", 1), sub_group("b", 2)]
    job = [group("job", 3, within(ZONE), parts), *members("job", 1, role="a"), *members("job", 2, role="b")]
    assert racks_used(opened(*racks({"z0": [1, 1], "z1": [1, 1, 1]}), *job)) == {"z1-r0": 1, "z1-r1": 1, "z1-r2": 1}


def test_the_innermost_preference_counts() -> None:
    parts = [sub_group("a", 2, within(preferred=RACK)), sub_group("b", 1)]
    job = [
        group("job", 3, within(preferred=ZONE), parts),
        *members("job", 2, role="a"),
        *members("job", 1, role="b"),
    ]
    found = placed(opened(*racks({"z0": [1, 2], "z1": [1]}), *job))
    assert {rack_of(found["job-a-0"]), rack_of(found["job-a-1"])} == {"z0-r1"}
    assert rack_of(found["job-b-0"]) == "z0-r0"


def test_a_wider_level_inside_a_narrower_domain_asks_for_nothing_more() -> None:
    parts = [sub_group("a", 2, within(ZONE))]
    job = [group("job", 2, within(preferred=RACK), parts), *members("job", 2, role="a")]
    assert racks_used(opened(*racks({"z0": [1, 2], "z1": [1]}), *job)) == {"z0-r1": 2}


def test_constraints_on_two_topologies_hold_together() -> None:
    power = topology("power", ["feed"])
    nodes = [
        node(f"{rack}-{feed}-{k}", gpu=8, labels={ZONE: "z", RACK: rack, "feed": feed})
        for rack, feed, k in ("ap0", "aq0", "bp0", "bp1", "bq0")
    ]
    parts = [sub_group("a", 2, within("feed", name="power")), sub_group("b", 1)]
    job = [group("job", 3, within(RACK), parts), *members("job", 2, role="a"), *members("job", 1, role="b")]
    found = placed(opened(topology(), power, *nodes, *job))
    assert found == {"job-a-0": "b-p-0", "job-a-1": "b-p-1", "job-b-0": "b-q-0"}


def test_hyper_nodes_beside_a_topology_do_not_matter() -> None:
    cluster = [*racks({"z0": [1, 2]}), hyper_node("h", 1, nodes=["z0-r1-n1", "z0-r0-n0"])]
    session = opened(*cluster, group("job", 2, within(RACK)), *members("job", 2))
    assert racks_used(session) == {"z0-r1": 2}


# -- kinds of room --------------------------------------------------------------------------------------------------


def test_room_that_is_being_released_counts_and_then_all_are_promised_theirs() -> None:
    cluster = [*racks({"z0": [1, 2]}), *filler(["z0-r1-n0"], leaving=True)]
    session = opened(*cluster, group("job", 2, within(RACK)), *members("job", 2))
    assert racks_used(session) == {"z0-r1": 2}
    assert having(session, TaskStatus.PIPELINED) == {"job-0": "z0-r1-n1", "job-1": "z0-r1-n0"}


def test_with_promises_only_nothing_is_bound() -> None:
    session = opened(*racks({"z0": [2]}), group("job", 2, within(RACK)), *members("job", 2))
    placed(session, modes=PROMISES)
    assert set(having(session, TaskStatus.PIPELINED)) == {"job-0", "job-1"}


def test_a_preferred_domain_counts_more_than_room_that_is_free_now() -> None:
    cluster = [*racks({"z0": [1, 3]}), *filler(["z0-r1-n0", "z0-r1-n1", "z0-r1-n2"], leaving=True)]
    session = opened(*cluster, group("job", 4, within(preferred=RACK)), *members("job", 4))
    assert placed(session)["job-0"] == "z0-r1-n0"


def test_evicted_tasks_are_moved_together_into_another_domain() -> None:
    cluster = [*racks({"z0": [2, 2]})]
    job = [group("job", 2, within(RACK)), *members("job", 2, on=["z0-r0-n0", "z0-r0-n1"])]
    urgent = [group("urgent", 1), *members("urgent", 1, selector={RACK: "r0"})]
    session = opened(*cluster, *job, *urgent)
    tasks = session.snapshot.tasks_of(job_row(session, "job"))
    session.statement().evict(tasks)
    assert placed(session, "urgent", modes=PROMISES) == {"urgent-0": "z0-r0-n0"}
    assert set(placed(session, "job", tasks, PROMISES).values()) == {"z0-r1-n0", "z0-r1-n1"}


def test_a_nominated_node_counts_only_inside_the_domain() -> None:
    cluster = [*racks({"z0": [1, 2]})]
    inside = opened(*cluster, group("job", 1, within(RACK)), *members("job", 1, nominated="z0-r0-n0"))
    assert placed(inside) == {"job-0": "z0-r0-n0"}
    both = opened(*cluster, group("job", 2, within(RACK)), *members("job", 2, nominated="z0-r0-n0"))
    assert racks_used(both) == {"z0-r1": 2}


def test_nodes_that_were_set_aside_for_all_come_before_better_domains() -> None:
    cluster = [*racks({"z0": [2, 3]}), group("job", 2, within(RACK))]
    pods = [
        *members("job", 1, nominated="z0-r1-n2"),
        pod("job-1", gpu=8, annotations={KAI_GROUP_NAME: "job"}, nominated="z0-r1-n0"),
    ]
    assert placed(opened(*cluster, *pods)) == {"job-0": "z0-r1-n2", "job-1": "z0-r1-n0"}


# -- what cannot be told --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (within(RACK, name="other"), "there is no topology 'other'; known: network"),
        (within("net/spine"), "topology 'network' has no level 'net/spine'; it has net/zone, net/rack"),
        (within(RACK, ZONE), "the preferred level 'net/zone' is wider than the required 'net/rack'"),
        (within(RACK, name=""), "there is no topology ''; known: network"),
    ],
)
def test_a_constraint_that_cannot_be_told_keeps_the_job_waiting(constraint: KaiTopologyConstraint, why: str) -> None:
    session = opened(*racks({"z0": [2]}), group("job", 1, constraint), *members("job", 1))
    done, verdict = attempt(session, "job", pending(session, "job"))
    assert not done
    assert verdict is not None
    assert (verdict.reason.code, verdict.detail) == ("topology-level", why)


# -- properties -----------------------------------------------------------------------------------------------------

sizes = st.dictionaries(
    st.sampled_from(["z0", "z1", "z2"]), st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1
)


@settings(max_examples=60, deadline=None)
@given(
    sizes=sizes,
    taken=st.lists(st.integers(0, 8), min_size=27, max_size=27),
    level=st.sampled_from([ZONE, RACK]),
    tasks=st.integers(1, 6),
    gpu=st.sampled_from([2, 3, 8]),
    interleaved=st.booleans(),
)
def test_equal_tasks_find_a_place_exactly_where_one_domain_has_slots_for_all(
    sizes: dict[str, list[int]], taken: list[int], level: str, tasks: int, gpu: int, interleaved: bool
) -> None:
    cluster = racks(sizes, interleaved=interleaved)
    names = [item.metadata.name for item in cluster[1:]]
    full = [pod for name, used in zip(names, taken, strict=False) if used for pod in filler([name], gpu=used)]
    session = opened(*cluster, *full, group("job", tasks, within(level)), *members("job", tasks, gpu=gpu))
    slots: Counter[str] = Counter()
    for name, used in zip(names, taken, strict=False):
        slots[rack_of(name) if level == RACK else rack_of(name).split("-")[0]] += (8 - used) // gpu
    before = books(session)
    found = placed(session)
    assert bool(found) == any(count >= tasks for count in slots.values())
    domains = {rack_of(where) if level == RACK else rack_of(where).split("-")[0] for where in found.values()}
    assert len(domains) == bool(found)
    assert found or books(session) == before


def test_groups_without_levels_are_placed_before_the_pod_sets_beside_them() -> None:
    tree = [sub_group("a", 1), sub_group("top"), sub_group("z", 1, parent="top")]
    session = opened(
        node("n0", gpu=2),
        node("n1", gpu=4),
        group("job", 2, sub_groups=tree),
        *members("job", 1, role="a", gpu=2),
        *members("job", 1, role="z", gpu=2),
    )
    assert placed(session) == {"job-z-0": "n0", "job-a-0": "n1"}


def test_only_marked_nodes_are_used_where_some_are_marked() -> None:
    session = opened(*racks({"z0": [1, 1]}), group("job", 1, within(RACK)), *members("job", 1))
    nodes = session.snapshot.nodes
    mask = np.zeros(len(nodes), np.bool_)
    mask[nodes.index["z0-r1-n0"]] = True
    rows = pending(session, "job")
    statement = session.statement()
    statement.release(rows)
    assert Door(session).place(job_row(session, "job"), rows, statement, Scope(mask=mask), NOW_OR_LATER, Goal.ALL)
    assert nodes.names[session.snapshot.tasks.node[rows[0]]] == "z0-r1-n0"


# -- pods that are not alike ---------------------------------------------------------------------------------------


def started(session: Session, name: str = "job") -> set[str]:
    """Pods with a place after one step of a start."""
    rows = pending(session, name)
    with session.statement() as statement:
        Door(session).place(job_row(session, name), rows, statement)
        statement.hold()
    table = session.snapshot.tasks
    return {table.ids[row].removeprefix("default/") for row in rows.tolist() if table.status[row] != TaskStatus.PENDING}


def unlike(job: str, role: str, gpus: list[int]) -> list[KubeObject]:
    """Pods of a sub-group that ask for different amounts, in this order."""
    pods = (members(job, len(gpus), role=role, gpu=gpu)[number] for number, gpu in enumerate(gpus))
    return [*pods]


def test_of_a_sub_group_those_start_that_fit_together() -> None:
    job = [group("job", 1, None, [sub_group("a", 1, within(RACK))]), *unlike("job", "a", [8, 2])]
    assert started(opened(*racks({"z0": [1]}, gpu=4), *job)) == {"job-a-1"}


def test_of_a_sub_group_any_grows_that_fits() -> None:
    runs = members("job", 1, role="a", gpu=1, on=["z0-r0-n0"])
    job = [group("job", 1, None, [sub_group("a", 1, within(RACK))]), *runs, *unlike("job", "a", [0, 8, 2])[1:]]
    assert started(opened(*racks({"z0": [1, 1]}, gpu=4), *job)) == {"job-a-2"}


def test_where_one_sub_group_has_no_room_to_grow_another_grows() -> None:
    runs = [
        *members("job", 1, role="a", gpu=2, on=["z0-r0-n0"]),
        *members("job", 1, role="b", gpu=1, on=["z0-r1-n0"]),
    ]
    waits = [members("job", 2, role="a", gpu=4)[1], members("job", 2, role="b", gpu=1)[1]]
    groups = [sub_group("a", 1, within(RACK)), sub_group("b", 1, within(RACK))]
    session = opened(*racks({"z0": [1, 1]}, gpu=4), group("job", 2, within(ZONE), groups), *runs, *waits)
    assert started(session) == {"job-b-1"}


def test_a_reason_does_not_name_room_for_all() -> None:
    job = [group("job", 2, within(RACK)), *unlike("job", "", [4, 2])]
    session = opened(*racks({"z0": [1]}, gpu=4), *job)
    _, verdict = attempt(session, "job", pending(session, "job"))
    assert verdict is not None
    assert verdict.detail == (
        "2 tasks are needed together within one net/rack; z0.r0 comes closest, but they do not fit there together"
    )
