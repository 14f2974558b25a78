"""Disruption budgets and the ratio of evicted to requested, as every strategy sees them."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from muster.api import KubeObject, LabelSelector, ObjectMeta, Pod, PodDisruptionBudget, PodDisruptionBudgetSpec
from muster.api.objects.scheduling import PodDisruptionBudgetStatus
from muster.engine.evictions.budgets import (
    Budgets,
    disruption_ratio,
    evicted_in_session,
    warn_of_limit,
    within_ratio,
)
from muster.framework import Session
from muster.snapshot import Rows
from muster.testing import node, pod
from tests.engine.evictions.eviction_stage import configured, open_session, running, waiting
from tests.plugins.queue_stage import leaving


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def opened(*objects: KubeObject) -> Session:
    return open_session([node("n", gpu=8), *objects], configured("gangpreempt"))


def rows(session: Session, *names: str) -> Rows:
    return np.array([session.snapshot.tasks.ids.index(f"default/{name}") for name in names], np.intp)


def guarded(name: str) -> Pod:
    return pod(name, node="n", gpu=1, labels={"app": "web"})


def test_budgets_are_used_up_in_the_order_given_and_others_are_free() -> None:
    session = opened(budget(1, app="web"), guarded("a"), guarded("b"), pod("c", node="n", gpu=1))
    assert Budgets(session).allowed(rows(session, "b", "c", "a")).tolist() == [True, True, False]
    assert Budgets(session)


def test_budgets_can_be_ignored() -> None:
    session = opened(budget(0, app="web"), guarded("a"))
    assert Budgets(session, ignore=True).allowed(rows(session, "a")).tolist() == [True]
    assert not Budgets(session, ignore=True)


def test_what_was_evicted_before_has_used_its_part() -> None:
    session = opened(budget(1, app="web"), guarded("a"), guarded("b"))
    budgets = Budgets(session)
    session.statement().evict(rows(session, "a"))
    assert evicted_in_session(session.snapshot).tolist() == rows(session, "a").tolist()
    assert budgets.allowed(rows(session, "b")).tolist() == [False]


def test_a_pod_that_left_before_the_session_is_in_the_status_already() -> None:
    session = opened(budget(1, app="web"), leaving(guarded("a")), guarded("b"))
    assert len(evicted_in_session(session.snapshot)) == 0
    assert Budgets(session).allowed(rows(session, "b")).tolist() == [True]


def test_the_ratio_is_that_of_the_requested_resource_evicted_most() -> None:
    session = opened(
        *running("old", ["n"], cpu=16, gpu=2), *waiting("new", 1, cpu=4, gpu=2), *waiting("free", 1, cpu=1)
    )
    victims = rows(session, "old-0")
    assert disruption_ratio(session.snapshot, victims, rows(session, "new-0")) == pytest.approx(4.0)
    assert disruption_ratio(session.snapshot, victims, rows(session, "free-0")) == pytest.approx(16.0)
    assert disruption_ratio(session.snapshot, victims[:0], rows(session, "new-0")) == 0.0


@pytest.mark.parametrize(("limit", "fine"), [(None, True), (4.0, True), (3.9, False)])
def test_the_limit_holds(limit: float | None, fine: bool) -> None:
    session = opened(*running("old", ["n"], gpu=8), *waiting("new", 1, gpu=2))
    assert within_ratio(session.snapshot, rows(session, "old-0"), rows(session, "new-0"), limit) is fine


def test_lax_limits_and_large_ratios_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    session = opened(*running("old", ["n"], gpu=8), *waiting("new", 1, gpu=1))
    with caplog.at_level(logging.WARNING):
        warn_of_limit(4.0, "preempt")
        assert not caplog.records
        warn_of_limit(4.5, "preempt")
        within_ratio(session.snapshot, rows(session, "old-0"), rows(session, "new-0"), None)
    assert [record.getMessage() for record in caplog.records] == [
        "maxDisruptionRatio=4.5 action=preempt is above 4",
        "eviction ratio=8.0 job=default/new victims=1",
    ]
