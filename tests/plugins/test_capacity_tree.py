from __future__ import annotations

import pytest

from muster.api import KubeObject
from muster.framework import Eviction, Vote
from muster.testing.builders import gang, node, pod_group, queue
from tests.plugins.queue_stage import GPU, Stage, running


def tree(*objects: KubeObject, cpu: float = 12, gpu: int = 0, level: int = 0) -> Stage:
    return Stage(
        "capacity",
        [node("n1", cpu=cpu, gpu=gpu), *objects],
        arguments={"ancestorReclaimLevel": level},
        tree=True,
    )


def limits(stage: Stage, *names: str, resource: str = "cpu") -> list[int]:
    return [stage.of(stage.plugin.limits, name, resource) for name in names]


# -- limits --------------------------------------------------------------------------------------------------


def test_a_child_has_its_parents_limit_unless_it_has_its_own() -> None:
    stage = tree(
        queue("root"),
        queue("p", parent="root", capability={"cpu": 8, "gpu": 4}),
        queue("own", parent="p", capability={"cpu": 3}),
        queue("plain", parent="p"),
        queue("more", parent="p", capability={"cpu": 99}),
        *gang("w", 1, queue="own", gpu=1),
        gpu=8,
    )
    assert limits(stage, "own", "plain", "more") == [3000, 8000, 8000]
    assert limits(stage, "own", "plain", resource=GPU) == [4000, 4000]


def test_what_is_guaranteed_to_a_sibling_is_off_limits() -> None:
    stage = tree(
        queue("root"),
        queue("p", parent="root", capability={"cpu": 8}),
        queue("a", parent="p"),
        queue("b", parent="p", guarantee={"cpu": 3}),
    )
    assert limits(stage, "a", "b") == [5000, 8000]


def test_the_root_is_unlimited_unless_it_says_otherwise() -> None:
    free, bound = tree(queue("root"), queue("a")), tree(queue("root", capability={"cpu": 4}), queue("a"))
    assert limits(free, "a")[0] > 10**15
    assert limits(bound, "a") == [4000]


def test_nobody_may_have_what_the_cluster_does_not_have() -> None:
    stage = tree(queue("root"), queue("a"), *gang("w", 1, queue="a", gpu=1))
    assert limits(stage, "a", resource=GPU) == [0]


def test_the_root_deserves_what_its_children_deserve() -> None:
    stage = tree(queue("root"), queue("a", deserved={"cpu": 2}), queue("b", parent="root", guarantee={"cpu": 3}))
    assert stage.of(stage.plugin.deserved, "root") == 5000


def test_without_a_root_queue_the_tops_stand_side_by_side() -> None:
    stage = tree(queue("a", capability={"cpu": 4}), queue("b", parent="a"))
    assert limits(stage, "b") == [4000]


# -- what fits -----------------------------------------------------------------------------------------------


def family(*objects: KubeObject, level: int = 0) -> Stage:
    """root > p (8 cpus) > a, b; root > q > c."""
    return tree(
        queue("root"),
        queue("p", parent="root", capability={"cpu": 8}, deserved={"cpu": 6}),
        queue("a", parent="p", deserved={"cpu": 3}),
        queue("b", parent="p", deserved={"cpu": 3}),
        queue("q", deserved={"cpu": 6}),
        queue("c", parent="q", deserved={"cpu": 6}),
        *objects,
        level=level,
    )


def test_a_task_must_fit_into_every_ancestor() -> None:
    stage = family(*running("r", "b", cpu=6))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 2
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=3)) == 0


def test_a_limit_of_the_root_counts_for_queues_that_do_not_name_it() -> None:
    stage = tree(queue("root", capability={"cpu": 4}), queue("a", parent="root"), queue("b"), *running("r", "b", cpu=3))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 1


def test_only_leaves_take_jobs() -> None:
    stage = family(*gang("w", 1, queue="p", cpu=1))
    assert stage.session.queue_slots(stage.queue("p"), stage.amounts(cpu=1)) == 0
    assert stage.vote("w") is Vote.REJECT
    # The rest of the cluster goes on.
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 8


@pytest.mark.parametrize("parent", ["nowhere", "lost"])
def test_a_queue_that_leads_nowhere_stops_only_itself(parent: str) -> None:
    stage = family(queue("lost", parent=parent), *gang("w", 1, queue="lost", cpu=1))
    assert stage.session.queue_slots(stage.queue("lost"), stage.amounts(cpu=1)) == 0
    assert not stage.session.preemptive(stage.queue("lost"), stage.tasks("w-0"))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 8


def test_a_job_is_admitted_within_every_ancestor() -> None:
    stage = family(
        pod_group("big", queue="a", min_resources={"cpu": 9}),
        pod_group("first", queue="a", min_resources={"cpu": 5}),
        pod_group("second", queue="b", min_resources={"cpu": 5}),
        pod_group("other", queue="c", min_resources={"cpu": 5}),
    )
    assert stage.vote("big") is Vote.REJECT
    assert stage.vote("second") is Vote.PERMIT
    stage.plugin.job_enqueued(stage.job("first"))
    assert stage.vote("second") is Vote.REJECT
    assert stage.vote("other") is Vote.PERMIT


def test_what_jobs_below_have_promised_is_known_above() -> None:
    stage = family(
        pod_group("first", queue="a", min_resources={"cpu": 5}, phase="Inqueue"),
        pod_group("second", queue="b", min_resources={"cpu": 5}),
    )
    assert stage.vote("second") is Vote.REJECT


# -- order ---------------------------------------------------------------------------------------------------


def before(stage: Stage, one: str, other: str) -> bool:
    first, second = (stage.plugin.queue_order(stage.queue(name)) for name in (one, other))
    return bool(first < second)


def test_leaves_are_compared_where_their_lines_part() -> None:
    # p has 3 of 6, q 2 of 6: c goes before b although b has nothing.
    stage = family(*running("r1", "a", cpu=3), *running("r2", "c", cpu=2))
    assert before(stage, "c", "b")
    assert before(stage, "b", "a")
    assert not before(stage, "b", "c")


def test_leaves_of_branches_that_stand_equal_are_equal() -> None:
    stage = family(*running("r1", "a", cpu=3), *running("r2", "c", cpu=3))
    first, second = (stage.plugin.queue_order(stage.queue(name)) for name in "bc")
    assert first == second


def test_leaves_go_before_inner_queues() -> None:
    stage = family(*running("r", "a", cpu=3))
    assert before(stage, "a", "q")


def test_order_follows_placements() -> None:
    stage = family(*gang("w", 1, queue="a", cpu=3))
    stage.place("w-0")
    assert before(stage, "c", "a")


def test_close_relatives_give_first() -> None:
    stage = family()
    a, b, c = (stage.queue(name) for name in "abc")
    assert stage.plugin.victim_queue_order(b, a) < stage.plugin.victim_queue_order(c, a)


# -- reclaiming ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "may"), [(0, False), (1, True), (-1, False)])
def test_an_ancestor_may_entitle_a_queue_to_reclaim(level: int, may: bool) -> None:
    # 4 are more than a deserves itself, and less than p does.
    stage = family(*gang("w", 1, queue="a", cpu=4), level=level)
    assert stage.session.preemptive(stage.queue("a"), stage.tasks("w-0")) is may


def test_the_root_entitles_nobody() -> None:
    stage = tree(queue("root"), queue("a"), queue("b", deserved={"cpu": 9}), *gang("w", 1, queue="a", cpu=1), level=3)
    assert not stage.session.preemptive(stage.queue("a"), stage.tasks("w-0"))


@pytest.mark.parametrize(("level", "victims"), [(0, ["v-0"]), (1, [])])
def test_an_ancestor_that_is_not_over_protects_its_queues(level: int, victims: list[str]) -> None:
    # b is over what it deserves, p is not.
    stage = family(*running("v", "b", cpu=4), *gang("w", 1, queue="c", cpu=1), level=level)
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("w-0"), stage.tasks("v-0"))) == victims


def test_an_ancestor_in_common_does_not_protect() -> None:
    stage = family(*running("v", "b", cpu=4), *gang("w", 1, queue="a", cpu=1), level=1)
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("w-0"), stage.tasks("v-0"))) == ["v-0"]


def test_an_ancestor_is_taken_down_with_its_queues() -> None:
    busy = [*running("v1", "a", cpu=5), *running("v2", "b", cpu=4)]
    stage = family(*busy, *gang("w", 1, queue="c", cpu=1), level=1)
    # Together 9, p deserves 6: after the first victim p has 4 left, although b is still over.
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("w-0"), stage.tasks("v1-0", "v2-0"))) == ["v1-0"]


@pytest.mark.parametrize(("level", "victims"), [(0, ["v-0"]), (1, [])])
def test_relatives_that_deserve_nothing_leave_each_other_alone(level: int, victims: list[str]) -> None:
    stage = tree(
        queue("root"),
        queue("p", parent="root", deserved={"cpu": 6}),
        queue("a", parent="p"),
        queue("b", parent="p"),
        *running("v", "b", cpu=4),
        *gang("w", 1, queue="a", cpu=1),
        level=level,
    )
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("w-0"), stage.tasks("v-0"))) == victims
