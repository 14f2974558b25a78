from __future__ import annotations

import msgspec
import pytest

from muster.api import KubeObject, PodSchedulingGate, UserError
from muster.framework import Vote
from muster.testing.builders import node, pod, pod_group, queue
from tests.plugins.queue_stage import Stage, running


def admitting(*objects: KubeObject, factor: object = None) -> Stage:
    arguments = {} if factor is None else {"overcommit-factor": factor}
    return Stage("overcommit", [node("n1", cpu=10), queue("default"), *objects], arguments=arguments)


def asking(name: str, cpu: float, *, phase: str = "") -> KubeObject:
    return pod_group(name, min_resources={"cpu": cpu}, phase=phase)


@pytest.mark.parametrize(
    ("factor", "cpu", "vote"),
    [
        (None, 12, Vote.PERMIT),
        (None, 12.001, Vote.REJECT),
        ("1.5", 15, Vote.PERMIT),
        (1, 10, Vote.PERMIT),
        (1, 10.001, Vote.REJECT),
        # Below one counts as the default.
        (0.5, 12, Vote.PERMIT),
        (-3, 12.001, Vote.REJECT),
        (1.1, 11, Vote.PERMIT),
    ],
)
def test_a_job_is_admitted_up_to_the_factor(factor: object, cpu: float, vote: Vote) -> None:
    stage = admitting(asking("a", cpu), factor=factor)
    assert stage.vote("a") is vote


def test_what_runs_and_what_was_admitted_counts() -> None:
    taken = [*running("r", "default", cpu=5), asking("b", 4, phase="Inqueue")]
    fits, too_much = admitting(*taken, asking("a", 3)), admitting(*taken, asking("a", 3.001))
    assert fits.vote("a") is Vote.PERMIT
    assert too_much.vote("a") is Vote.REJECT


def test_what_an_admitted_job_has_taken_is_not_counted_twice() -> None:
    half = [asking("b", 6, phase="Inqueue"), *running("b", "default", cpu=4)[1:]]
    stage = admitting(*half, asking("a", 6))
    assert stage.vote("a") is Vote.PERMIT


def test_an_admitted_job_counts_from_then_on() -> None:
    stage = admitting(asking("a", 7), asking("b", 6))
    assert stage.vote("b") is Vote.PERMIT
    stage.plugin.job_enqueued(stage.job("a"))
    assert stage.vote("b") is Vote.REJECT


def test_a_job_without_a_minimum_is_always_admitted() -> None:
    stage = admitting(*running("r", "default", cpu=10), pod_group("a"))
    assert stage.vote("a") is Vote.PERMIT


def test_only_resources_that_the_job_asks_for_are_looked_at() -> None:
    stage = admitting(*running("r", "default", cpu=20), pod_group("a", min_resources={"memory": "1Gi"}))
    assert stage.vote("a") is Vote.PERMIT


def test_names_of_quotas_are_no_resources() -> None:
    quotas = {"cpu": 1, "count/pods": 500, "requests.cpu": 500, "limits.cpu": 500}
    stage = admitting(pod_group("a", min_resources=quotas))
    assert stage.vote("a") is Vote.PERMIT


def test_pods_with_gates_hold_nothing_back() -> None:
    member = pod("b-0", group="b", cpu=9)
    gated = msgspec.structs.replace(
        member, spec=msgspec.structs.replace(member.spec, scheduling_gates=[PodSchedulingGate(name="g")])
    )
    stage = admitting(asking("b", 9, phase="Inqueue"), gated, asking("a", 12))
    assert stage.vote("a") is Vote.PERMIT


@pytest.mark.parametrize("factor", ["much", "nan", "inf", [1]])
def test_a_factor_that_is_no_number_is_an_error(factor: object) -> None:
    with pytest.raises(UserError, match="overcommit"):
        admitting(factor=factor)
