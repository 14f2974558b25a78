from __future__ import annotations

from typing import Any

import msgspec
import pytest

from muster.api import KubeObject, Quantity, UserError
from muster.framework import Eviction, Vote
from muster.plugins.queues.capacity.standing import queue_share
from muster.testing.builders import gang, node, pod_group, queue
from tests.plugins.queue_stage import GPU, Stage, closed, prioritised, running


def flat(*objects: KubeObject, cpu: float = 12, gpu: int = 0) -> Stage:
    return Stage("capacity", [node("n1", cpu=cpu, gpu=gpu), *objects])


@pytest.mark.parametrize(
    ("deserved", "allocated", "share"),
    [
        pytest.param([2, 4], [1, 1], 0.5, id="the largest part counts"),
        pytest.param([2, 4], [1, 3], 0.75, id="of any resource"),
        pytest.param([2, 0], [3, 9], 1.5, id="more than deserved; what is not deserved does not count"),
        pytest.param([0, 0], [0, 0], 1.0, id="deserving nothing comes after all who lack something"),
        pytest.param([0, 0], [9, 9], 1.0, id="deserving nothing, whatever is held"),
        pytest.param([2, 4], [0, 0], 0.0, id="nothing held"),
    ],
)
def test_share(deserved: list[int], allocated: list[int], share: float) -> None:
    assert queue_share(deserved, allocated) == share


def test_deserving_pods_alone_is_deserving_nothing() -> None:
    assert queue_share([0, 5], [0, 1], ignored=1) == 1.0
    assert queue_share([2, 5], [0, 5], ignored=1) == 1.0
    assert queue_share([2, 5], [1, 1], ignored=1) == 0.5


# -- fixed figures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "limit", "deserved"),
    [
        ({}, 12000, 0),
        ({"capability": {"cpu": 5}}, 5000, 0),
        ({"capability": {"cpu": 50}}, 12000, 0),
        ({"deserved": {"cpu": 3}}, 12000, 3000),
        ({"deserved": {"cpu": 9}, "capability": {"cpu": 4}}, 4000, 4000),
        ({"deserved": {"cpu": 1}, "guarantee": {"cpu": 2}}, 12000, 2000),
        ({"deserved": {"cpu": 99}}, 12000, 12000),
    ],
)
def test_limit_and_deserved_amount_of_a_queue(limits: dict[str, Any], limit: int, deserved: int) -> None:
    stage = flat(queue("a", **limits))
    assert (stage.of(stage.plugin.limits, "a"), stage.of(stage.plugin.deserved, "a")) == (limit, deserved)


def test_what_is_guaranteed_to_others_is_off_limits() -> None:
    stage = flat(queue("a"), queue("b", guarantee={"cpu": 5}))
    assert (stage.of(stage.plugin.limits, "a"), stage.of(stage.plugin.limits, "b")) == (7000, 12000)


def test_a_queue_may_deserve_what_the_cluster_does_not_have_yet() -> None:
    stage = flat(queue("a", deserved={"gpu": 8}))
    assert stage.of(stage.plugin.deserved, "a", GPU) == 8000


# -- order and limits ----------------------------------------------------------------------------------------


def order(stage: Stage, *names: str) -> list[str]:
    return sorted(names, key=lambda name: stage.plugin.queue_order(stage.queue(name)))


def test_queues_by_priority_then_share_then_those_that_deserve_something() -> None:
    stage = flat(
        queue("full", deserved={"cpu": 2}),
        queue("half", deserved={"cpu": 4}),
        queue("none"),
        prioritised(queue("urgent"), 1),
        *running("r1", "full", cpu=2),
        *running("r2", "half", cpu=2),
    )
    assert order(stage, "none", "full", "half", "urgent") == ["urgent", "half", "full", "none"]


@pytest.mark.parametrize(
    ("request_", "slots"), [({"cpu": 1}, 3), ({"cpu": 2}, 1), ({"gpu": 1}, 8), ({"pods": 1}, 2**31 - 1)]
)
def test_a_queue_may_grow_to_its_limit(request_: dict[str, int], slots: int) -> None:
    stage = flat(queue("a", capability={"cpu": 5}), *running("r", "a", cpu=2), *gang("w", 1, queue="a", gpu=1), gpu=8)
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(**request_)) == slots


def test_a_closed_queue_takes_nothing() -> None:
    stage = flat(closed(queue("a")), *gang("w", 1, queue="a", cpu=1))
    assert stage.session.queue_slots(stage.queue("a"), stage.amounts(cpu=1)) == 0
    assert stage.vote("w") is Vote.REJECT
    assert not stage.session.preemptive(stage.queue("a"), stage.tasks("w-0"))


def test_admission_within_the_limit() -> None:
    others = [
        queue("a", capability={"cpu": 5}),
        pod_group("b", queue="a", min_resources={"cpu": 2}, phase="Inqueue"),
        pod_group("fits", queue="a", min_resources={"cpu": 3}),
        pod_group("big", queue="a", min_resources={"cpu": 4}),
        pod_group("any", queue="a"),
    ]
    stage = flat(*others)
    votes = {name: stage.vote(name) for name in ("fits", "big", "any")}
    assert votes == {"fits": Vote.PERMIT, "big": Vote.REJECT, "any": Vote.PERMIT}
    stage.plugin.job_enqueued(stage.job("fits"))
    assert stage.vote("fits") is Vote.REJECT


def test_a_job_without_a_queue_is_not_admitted() -> None:
    stage = flat(pod_group("w", queue="nowhere"))
    assert stage.vote("w") is Vote.REJECT
    stage.plugin.job_enqueued(stage.job("w"))


# -- reclaiming ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "wanted", "may"),
    [
        ({"deserved": {"cpu": 4}}, {"cpu": 4}, True),
        ({"deserved": {"cpu": 4}}, {"cpu": 5}, False),
        ({"deserved": {"cpu": 4}, "capability": {"cpu": 3}}, {"cpu": 4}, False),
        # One resource that it deserves is enough.
        ({"deserved": {"gpu": 1}}, {"cpu": 2, "gpu": 1}, True),
        ({}, {"cpu": 1}, False),
    ],
)
def test_a_queue_may_reclaim_within_what_it_deserves(limits: dict[str, Any], wanted: dict[str, Any], may: bool) -> None:
    stage = flat(queue("a", **limits), *gang("w", 1, queue="a", **wanted), gpu=8)
    assert stage.session.preemptive(stage.queue("a"), stage.tasks("w-0")) is may


def reclaim(source: KubeObject, victims: list[dict[str, Any]], wanted: dict[str, Any]) -> list[str]:
    """Which pods of queue `b` go for a pod of queue `a`."""
    busy = [item for number, held in enumerate(victims) for item in running(f"v{number}", "b", **held)]
    stage = flat(queue("a", deserved={"cpu": 9}), source, *busy, *gang("w", 1, queue="a", **wanted), gpu=8)
    offered = stage.tasks(*(f"v{number}-0" for number in range(len(victims))))
    return stage.names(stage.evictable(Eviction.RECLAIM, stage.task("w-0"), offered))


def test_a_queue_gives_back_until_it_is_down_to_what_it_deserves() -> None:
    assert reclaim(queue("b", deserved={"cpu": 4}), [{"cpu": 3}] * 3, {"cpu": 3}) == ["v0-0", "v1-0"]


def test_a_queue_that_deserves_nothing_gives_everything() -> None:
    assert reclaim(queue("b"), [{"cpu": 3}] * 2, {"cpu": 3}) == ["v0-0", "v1-0"]


def test_nobody_takes_a_guarantee() -> None:
    assert reclaim(queue("b", guarantee={"cpu": 4}), [{"cpu": 3}] * 3, {"cpu": 3}) == ["v0-0"]


def test_pods_that_hold_nothing_of_what_is_wanted_stay() -> None:
    assert reclaim(queue("b"), [{"gpu": 1}, {"cpu": 1, "gpu": 1}], {"cpu": 3}) == ["v1-0"]


def test_only_resources_that_the_victim_holds_and_its_queue_has_a_say_on_count() -> None:
    source = queue("b", deserved={"cpu": 2, "gpu": 4})
    # The queue is over on cpus: a pod with GPUs alone is not to blame.
    assert reclaim(source, [{"gpu": 1}, {"cpu": 5}], {"cpu": 3, "gpu": 1}) == ["v1-0"]


def test_the_number_of_pods_makes_nobody_a_victim() -> None:
    assert reclaim(queue("b", deserved={"cpu": 9, "pods": 1}), [{"cpu": 2}] * 2, {"cpu": 3}) == []


def test_a_resource_that_a_queue_deserves_none_of_may_be_taken() -> None:
    none_of_it = queue("b", deserved={"cpu": 9})
    stated = msgspec.structs.replace(
        none_of_it,
        spec=msgspec.structs.replace(none_of_it.spec, deserved={**none_of_it.spec.deserved, GPU: Quantity("0")}),
    )
    held = [{"cpu": 1, "gpu": 1}]
    assert reclaim(none_of_it, held, {"gpu": 1}) == []
    assert reclaim(stated, held, {"gpu": 1}) == ["v0-0"]


def test_a_reclaimer_without_a_queue_gets_nothing() -> None:
    stage = flat(queue("b"), *running("v", "b", cpu=1), *gang("w", 1, queue="nowhere", cpu=1))
    assert stage.evictable(Eviction.RECLAIM, stage.task("w-0"), stage.tasks("v-0")).tolist() == []


@pytest.mark.parametrize("name", ["capacity.DRAConsumableCapacityEnable"])
def test_quotas_for_devices_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        Stage("capacity", [], arguments={name: True})
