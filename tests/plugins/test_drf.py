from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject, Queue
from muster.framework import Eviction
from muster.plugins.queues.drf import HIERARCHY, HIERARCHY_WEIGHTS
from muster.testing.builders import gang, node, pod, pod_group, queue
from tests.plugins.queue_stage import Stage, annotated, running

# -- flat ----------------------------------------------------------------------------------------------------


def test_the_job_with_the_smallest_dominant_share_goes_first() -> None:
    stage = Stage(
        "drf",
        [node("n1", cpu=10, gpu=10), *running("cpus", "default", cpu=4), *running("gpus", "default", gpu=5)],
    )
    shares = {name: stage.plugin.job_order(stage.job(name)) for name in ("cpus", "gpus")}
    assert shares == {"cpus": 0.4, "gpus": 0.5}


def test_shares_follow_placements() -> None:
    stage = Stage("drf", [node("n1", cpu=10), *gang("a", 2, cpu=5)])
    assert stage.plugin.job_order(stage.job("a")) == 0
    stage.place("a-0")
    assert stage.plugin.job_order(stage.job("a")) == 0.5


def test_an_empty_cluster_has_no_shares() -> None:
    stage = Stage("drf", gang("a", 1, cpu=1))
    assert stage.plugin.job_order(stage.job("a")) == 0


@pytest.mark.parametrize(
    ("wanted", "victims"),
    [
        (1, ["v-0", "v-1", "v-2"]),
        # The preemptor's job would have 4 of 12: the victims' job may fall to that, not below.
        (4, ["v-0", "v-1"]),
        (9, []),
    ],
)
def test_victims_leave_their_job_with_at_least_as_much_as_the_preemptor_gets(wanted: int, victims: list[str]) -> None:
    members = [pod(f"v-{number}", group="v", cpu=3, node="n1") for number in range(3)]
    members.append(pod("v-3", group="v", cpu=1, node="n1"))
    stage = Stage("drf", [node("n1", cpu=12), pod_group("v"), *members, *gang("p", 1, cpu=wanted)])
    offered = stage.tasks("v-0", "v-1", "v-2")
    assert stage.names(stage.evictable(Eviction.PREEMPT, stage.task("p-0"), offered)) == victims


def test_queues_are_not_ordered_without_a_hierarchy() -> None:
    stage = Stage("drf", [node("n1", cpu=10), queue("a"), queue("b"), *running("r", "a", cpu=4)])
    assert stage.plugin.queue_order(stage.queue("a")) == stage.plugin.queue_order(stage.queue("b"))
    assert stage.evictable(Eviction.RECLAIM, 0, stage.tasks("r-0")) is None


# -- the tree ------------------------------------------------------------------------------------------------


def placed(name: str, path: str, weights: str) -> Queue:
    return annotated(queue(name), {HIERARCHY: path, HIERARCHY_WEIGHTS: weights})


def tree(*objects: KubeObject, cpu: int = 10, gpu: int = 0) -> Stage:
    return Stage("drf", [node("n1", cpu=cpu, gpu=gpu), *objects], tree=True)


def wants_more(name: str, queue_name: str, **held: Any) -> list[KubeObject]:
    """A job that holds something and asks for a lot more of the same."""
    more: dict[str, Any] = dict.fromkeys(held, 100)
    return [
        pod_group(name, queue=queue_name, phase="Running"),
        pod(f"{name}-0", group=name, node="n1", **held),
        pod(f"{name}-1", group=name, **more),
    ]


def key(stage: Stage, name: str) -> Any:  # Any: compared with pytest.approx, which is no float
    return stage.plugin.queue_order(stage.queue(name))


def test_shares_are_weighed_at_every_level() -> None:
    stage = tree(
        placed("sci", "root/sci", "1/2"),
        placed("dev", "root/eng/dev", "1/1/1"),
        placed("ops", "root/eng/ops", "1/1/4"),
        *wants_more("j1", "sci", cpu=4),
        *wants_more("j2", "dev", cpu=2),
        *wants_more("j3", "ops", cpu=2),
    )
    # The two halves of eng count as the sum of what they hold: 4 of 10, by its weight of 1; sci 0.4 by 2.
    assert key(stage, "sci") == ((False, pytest.approx(0.2)),)
    assert key(stage, "dev") == ((False, pytest.approx(0.4)), (False, pytest.approx(0.2)))
    assert key(stage, "ops") == ((False, pytest.approx(0.4)), (False, pytest.approx(0.05)))


def test_a_hungry_child_is_scaled_to_its_hungry_sibling() -> None:
    stage = tree(
        placed("a", "root/t/a", "1/1/1"),
        placed("b", "root/t/b", "1/1/1"),
        *wants_more("j1", "a", cpu=8),
        *wants_more("j2", "b", gpu=2),
        cpu=10,
        gpu=10,
    )
    # a holds 0.8 of the cpus, b 0.2 of the GPUs: a counts as 0.2 of the cpus, so t's dominant share is 0.2.
    assert key(stage, "a")[0] == (False, pytest.approx(0.2))


def test_a_queue_that_has_all_it_asks_for_goes_last() -> None:
    stage = tree(
        placed("a", "root/a", "1/1"),
        placed("b", "root/b", "1/1"),
        *running("done", "a", cpu=1),
        *wants_more("j", "b", cpu=5),
    )
    assert key(stage, "b") < key(stage, "a")


def test_a_used_up_resource_saturates_those_who_hold_it() -> None:
    stage = tree(placed("a", "root/a", "1/1"), *wants_more("j", "a", cpu=10), cpu=10)
    assert key(stage, "a") == ((True, pytest.approx(1.0)),)


def test_without_annotations_the_tree_is_that_of_the_parents() -> None:
    stage = tree(
        queue("root"),
        queue("eng", parent="root", weight=2),
        queue("dev", parent="eng", weight=5),
        queue("top"),
        *wants_more("j", "dev", cpu=5),
    )
    assert key(stage, "dev") == ((False, pytest.approx(0.25)), (False, pytest.approx(0.1)))
    assert len(key(stage, "top")) == 1


@pytest.mark.parametrize("weights", ["1/0.5/x", "1", "1//"])
def test_a_weight_that_is_missing_or_below_one_is_one(weights: str) -> None:
    stage = tree(placed("a", "root/b/a", weights), *wants_more("j", "a", cpu=5))
    assert key(stage, "a") == ((False, pytest.approx(0.5)), (False, pytest.approx(0.5)))


def test_parents_in_a_circle_do_no_harm() -> None:
    stage = tree(queue("a", parent="b"), queue("b", parent="a"), *wants_more("j", "a", cpu=5))
    assert key(stage, "a")[-1] == (False, pytest.approx(0.5))


def test_keys_follow_placements_and_their_undoing() -> None:
    stage = tree(queue("a"), *gang("j", 3, queue="a", cpu=2))
    before = key(stage, "a")
    statement = stage.session.statement()
    statement.place(stage.task("j-0"), 0)
    assert key(stage, "a") > before
    statement.rollback()
    assert key(stage, "a") == before


def test_the_tree_reclaims_from_queues_that_still_come_after_the_reclaimer() -> None:
    stage = tree(
        placed("a", "root/a", "1/1"),
        placed("b", "root/b", "1/1"),
        *wants_more("rich", "b", cpu=4),
        *[pod("rich-2", group="rich", cpu=4, node="n1"), pod("rich-3", group="rich", cpu=1, node="n1")],
        *gang("poor", 2, queue="a", cpu=4),
    )
    offered = stage.tasks("rich-2", "rich-3")
    # With 4 for a, b would be left with 5 or 8 of 10.
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("poor-0"), offered)) == ["rich-2", "rich-3"]
    stage.place("poor-0")
    # With 8 it would have as much as b at best.
    assert stage.names(stage.evictable(Eviction.RECLAIM, stage.task("poor-1"), offered)) == []


# -- against a plain recursion ---------------------------------------------------------------------------------

#: Queue, cpus held, cpus wanted besides.
Job = tuple[str, int, int]


def _plain_keys(jobs: list[Job], total: int) -> dict[str, list[tuple[bool, float]]]:
    """Shares by recursion over the tree root/{x,y}/{x,y}, as the paper tells it."""
    used_up = sum(cpu for _, cpu, _ in jobs) >= total
    found: dict[str, tuple[bool, float]] = {}

    def visit(path: str) -> tuple[bool, float, float]:
        """Saturated, share, allocation."""
        if path.count("/") == 2:
            mine = [job for job in jobs if f"root/{job[0]}" == path]
            children = [(cpu > 0 and (cpu >= cpu + more or used_up), cpu / total, float(cpu)) for _, cpu, more in mine]
        else:
            children = [visit(f"{path}/{name}") for name in "xy"]
        smallest = min([share for full, share, _ in children if share > 0 and not full], default=1.0)
        held = sum(amount if full else amount * smallest / share for full, share, amount in children if share > 0)
        state = (all(full for full, _, _ in children), held / total)
        found[path] = state
        return (*state, held)

    visit("root")
    return {f"{a}/{b}": [found[f"root/{a}"], found[f"root/{a}/{b}"]] for a in "xy" for b in "xy"}


@given(
    st.lists(
        st.tuples(st.sampled_from(["x/x", "x/y", "y/x", "y/y"]), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=6,
    )
)
def test_keys_equal_those_of_a_plain_recursion(jobs: list[Job]) -> None:
    objects: list[KubeObject] = [placed(f"{a}{b}", f"root/{a}/{b}", "1/1/1") for a in "xy" for b in "xy"]
    for number, (path, cpu, more) in enumerate(jobs):
        name = f"j{number}"
        objects.append(pod_group(name, queue=path.replace("/", ""), phase="Running"))
        if cpu:
            objects.append(pod(f"{name}-0", group=name, node="n1", cpu=cpu))
        if more:
            objects.append(pod(f"{name}-1", group=name, cpu=more))
    # One resource only: pods would be a second one.
    stage = Stage("drf", [node("n1", cpu=50, memory=0, pods=0), *objects], tree=True)
    plain = _plain_keys([(path, cpu * 1000, more * 1000) for path, cpu, more in jobs], 50_000)
    for path, expected in plain.items():
        got = key(stage, path.replace("/", ""))
        assert [share for _, share in got] == pytest.approx([share for _, share in expected])
        assert [full for full, _ in got] == [full for full, _ in expected]
