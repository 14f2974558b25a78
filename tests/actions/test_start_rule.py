"""The start rule for gangs with sub-groups, mixed requests and promises: where a gang starts, and when it does not."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, NetworkTopology, Pod
from muster.scheduler.decisions import decisions_of
from muster.snapshot.messages import Nominate
from muster.testing import priority_class, queue
from tests.engine.stage import PLUGINS, binds, configured, job_row, racks_of, run, spines_of
from tests.snapshot.networks import group, hard, hyper_node, members, parts, racks


def two_partitions(minimum: int, least: int) -> list[KubeObject]:
    """A job with two partitions of two whole-node pods, each in one rack, together in one spine."""
    policy = parts(2, least, hard(1))
    pods = [*members("job", 2, part="0", gpu=8), *members("job", 2, part="1", gpu=8)]
    return [group("job", minimum, hard(2), [policy]), *pods]


def promised(job: list[KubeObject], *nodes: str) -> list[KubeObject]:
    """The pods of a job, each with a node that was set aside for it."""
    for pod, node in zip((item for item in job if isinstance(item, Pod)), nodes, strict=True):
        pod.status.nominated_node_name = node
    return job


def test_a_divided_job_starts_where_all_its_parts_have_room() -> None:
    busy = [group("old", 1), *members("old", 2, on=["s0-r1-n0", "s0-r1-n1"], gpu=8)]
    session = run([*racks({"s0": [2, 2], "s1": [2, 2]}), *busy, *two_partitions(2, 0)])
    assert spines_of(binds(session).values()) == {"s1": 4}


def test_a_master_that_fits_elsewhere_leaves_the_racks_to_the_partitions() -> None:
    tree = [item for item in racks({"s0": [2, 2], "s1": [1]}) if item.metadata.name not in {"s0", "s1", "s1-r0"}]
    spine = hyper_node("x", 2, inside=["s0-r0", "s0-r1"], nodes=["s1-r0-n0"])
    session = run([*tree, spine, *two_partitions(5, 2), *members("job", 1, gpu=8)])
    assert racks_of(binds(session).values()) == {"s0-r0": 2, "s0-r1": 2, "s1-r0": 1}
    assert binds(session)["job-0"] == "s1-r0-n0"


def test_of_two_pairs_of_spines_the_one_with_fewer_racks_is_taken() -> None:
    tree = racks({"s0": [1, 1, 1, 1], "s1": [3], "s2": [3]})
    session = run([*tree, group("job", 5, hard(3)), *members("job", 5, gpu=8)])
    assert racks_of(binds(session).values()) == {"s1-r0": 3, "s2-r0": 2}


def test_pods_of_different_sizes_start_in_the_only_way_that_fits() -> None:
    tree = racks({"s0": [2]})
    busy = [group("old", 1), *members("old", 1, on=["s0-r0-n0"], gpu=3)]
    # In order the two small ones go to the empty node, and the large one finds none.
    job = [group("job", 4, hard(1)), *members("job", 2, gpu=2), *members("job", 2, first=2, gpu=4)]
    session = run([*tree, *busy, *job])
    assert len(binds(session)) == 4


def test_a_refusal_names_fewer_places_than_are_needed() -> None:
    session = run([*racks({"s0": [2, 1, 1]}), *two_partitions(4, 2)])
    verdict = session.verdicts[job_row(session, "job")]
    assert verdict.reason.code == "topology"
    assert verdict.detail == "4 tasks are needed together within tier 2; s0 comes closest with room for 2"


def test_a_search_whose_steps_are_used_up_says_so_and_proves_nothing() -> None:
    config = configured(*PLUGINS, allocate={"searchStepsPerJob": 0})
    session = run([*racks({"s0": [2, 1, 1]}), *two_partitions(4, 2)], config)
    assert session.verdicts[job_row(session, "job")].reason.code == "places-search-ended"


def test_a_gang_starts_on_the_nodes_that_were_promised_to_it() -> None:
    job = promised([group("job", 2, hard(1)), *members("job", 2, gpu=8)], "s1-r0-n0", "s1-r0-n1")
    assert sorted(binds(run([*racks({"s0": [2], "s1": [2]}), *job])).values()) == ["s1-r0-n0", "s1-r0-n1"]


def test_partitions_start_in_the_racks_that_were_promised_to_them() -> None:
    job = promised(two_partitions(4, 2), "s1-r1-n0", "s1-r1-n1", "s1-r0-n0", "s1-r0-n1")
    found = binds(run([*racks({"s0": [2, 2], "s1": [2, 2]}), *job]))
    assert found == {"job-0-0": "s1-r1-n0", "job-0-1": "s1-r1-n1", "job-1-0": "s1-r0-n0", "job-1-1": "s1-r0-n1"}


def test_a_promise_that_cannot_be_kept_is_given_up_and_that_is_said() -> None:
    busy = [group("old", 1), *members("old", 1, on=["s0-r0-n0"], gpu=8)]
    job = promised([group("job", 2, hard(1)), *members("job", 2, gpu=8)], "s0-r0-n0", "s0-r0-n1")
    session = run([*racks({"s0": [2], "s1": [1]}), *busy, *job])
    assert binds(session) == {}
    assert "what was promised to it in s0-r0 can no longer be had" in session.verdicts[job_row(session, "job")].detail


@pytest.mark.parametrize(("whole", "bound"), [(False, 1), (True, 0)])
@pytest.mark.parametrize("constraint", [hard(1), NetworkTopology(mode="soft")])
@pytest.mark.parametrize("pods", [2, 3])  # what the cluster could hold if it were empty, and more than that
def test_a_gang_waits_for_room_for_all_of_it_only_where_that_is_asked_for(
    pods: int, constraint: NetworkTopology, whole: bool, bound: int
) -> None:
    busy = [group("old", 1), *members("old", 1, on=["s0-r0-n0"], gpu=8)]
    job = [group("job", 1, constraint), *members("job", pods, gpu=8)]
    config = configured(*PLUGINS, allocate={"startsWhole": whole})
    assert len(binds(run([*racks({"s0": [2]}), *busy, *job], config))) == bound


def test_room_for_all_of_a_gang_counts_as_it_was_before_anything_was_placed() -> None:
    """As in Volcano: what the job before it has taken does not keep the gang from starting with what is left."""
    ranks = [priority_class("high", 1000)]
    first = [group("first", 1, priority_class="high"), *members("first", 1, gpu=8)]
    job = [group("job", 1, hard(1)), *members("job", 2, gpu=8)]
    config = configured(*PLUGINS, allocate={"startsWhole": True})
    assert len(binds(run([*ranks, *racks({"s0": [2]}), *first, *job], config))) == 2


def test_a_preference_in_a_cluster_without_nodes_is_no_fault() -> None:
    session = run([hyper_node("s0", 2), group("job", 0, NetworkTopology(mode="soft")), *members("job", 1, gpu=1)])
    assert session.verdicts[job_row(session, "job")].reason.code == "topology"


@pytest.mark.parametrize(("line", "first"), [("default", "boss-0"), ("another", "job-0")])
def test_a_promise_yields_to_a_higher_priority_of_its_own_queue_alone(line: str, first: str) -> None:
    job = promised([group("job", 1), *members("job", 1, gpu=8)], "s0-r0-n0")
    boss = [group("boss", 1, queue=line, priority_class="high"), *members("boss", 1, gpu=8)]
    ranks = [queue("default"), queue("another"), priority_class("high", 1000)]
    session = run([*ranks, *racks({"s0": [1]}), *boss, *job])
    assert list(binds(session)) == [first]
    # What others have got is nobody's promise any more, from the same cycle on.
    lapsed = [made.pod for made in decisions_of(session) if isinstance(made, Nominate)]
    assert lapsed == (["default/job-0"] if first == "boss-0" else [])


def test_the_promises_that_a_gang_does_not_use_end_when_their_room_is_taken() -> None:
    """Of two partitions with a promise for one pod each, one starts whole: there is no room for the other then."""
    job = [
        group("job", 2, policies=[parts(2, 1)]),
        *members("job", 2, part="0", gpu=4),
        *members("job", 2, part="1", gpu=4),
    ]
    for pod in job:
        if isinstance(pod, Pod) and pod.name.endswith("-0"):
            pod.status.nominated_node_name = "s0-r0-n0"
    session = run([*racks({"s0": [1]}), *job])
    (kept, other) = ("0", "1") if "job-0-0" in binds(session) else ("1", "0")
    assert binds(session) == {f"job-{kept}-0": "s0-r0-n0", f"job-{kept}-1": "s0-r0-n0"}
    lapsed = [(made.pod, made.node) for made in decisions_of(session) if isinstance(made, Nominate)]
    assert lapsed == [(f"default/job-{other}-0", "")]
