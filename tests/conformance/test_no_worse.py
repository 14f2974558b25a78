"""The judge of gang evictions: who must be served, and what it may cost."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.cases import VOLCANO, Case
from conformance.no_worse import NoWorse, is_judged_so
from conformance.scheduling import read_cycle
from muster.api import KubeObject, Pod
from muster.framework import Session
from muster.testing import node
from tests.engine.evictions.eviction_stage import act, configured, never_preempting, open_session, running, waiting

CONFIG = configured("gangpreempt")


def cluster() -> list[KubeObject]:
    """Two rigid gangs on two nodes; one job that needs one of the nodes."""
    old = [item for k in range(2) for item in running(f"old{k}", [f"n{k}"] * 2, gpu=4)]
    return [node("n0", gpu=8), node("n1", gpu=8), *old, *waiting("new", 1, gpu=8), *waiting("later", 1, gpu=8)]


def case(served: dict[str, int], gone: list[str], *, tag: str = "random:gangpreempt") -> Case:
    names = [f"default/{name}" for name in ("old0", "old1", "new", "later")]
    jobs = {name: {"bound": 0, "pipelined": served.get(name.partition("/")[2], 0), "evicted": 0} for name in names}
    body: dict[str, Any] = {
        "expect": {"jobs": jobs},
        "observed": {"evicted": [f"default/{name}" for name in gone]},
    }
    return Case("random/gangpreempt/1", "f.json", VOLCANO, False, frozenset({"random", tag}), body)


def judge(given: Case, objects: list[KubeObject] | None = None) -> tuple[list[str], NoWorse]:
    session: Session = act(cluster() if objects is None else objects, CONFIG)
    judged = NoWorse()
    before = open_session(cluster() if objects is None else objects, CONFIG)
    return [miss.key for miss in judged.compare(given, before, read_cycle(session))], judged


def test_the_same_jobs_for_the_same_price_are_fine() -> None:
    both = ["old0-0", "old0-1", "old1-0", "old1-1"]
    found, judged = judge(case({"new": 1, "later": 1}, both))
    assert found == []
    numbers = (
        "1 cases:    2 jobs served,     4 pods evicted,    2 gangs broken,  33.33% of the cluster evicted on average"
    )
    assert judged.lines() == [f"gangpreempt  Volcano  {numbers}", f"gangpreempt  Muster   {numbers}"]


def test_more_victims_for_the_same_jobs_are_worse() -> None:
    found, _ = judge(case({"new": 1, "later": 1}, ["old0-0", "old0-1"]))
    assert found == ["evicted resources", "gangs broken"]


def test_victims_for_jobs_that_volcano_leaves_waiting_are_not_held_against_us() -> None:
    assert judge(case({"new": 1}, ["old0-0", "old0-1"]))[0] == []


def test_a_job_that_is_not_served_needs_a_stand_in() -> None:
    few = [item for item in cluster() if not item.name.startswith("later-")]
    assert judge(case({"later": 1}, ["old0-0", "old0-1"]), few)[0] == []  # new stands in for later
    assert judge(case({"new": 1, "later": 1}, ["old0-0", "old0-1"]), few)[0] == ["served"]


@pytest.mark.parametrize("tag", ["random:gangpreempt", "random:gangreclaim"])
def test_nobody_owes_victims_to_pods_that_never_preempt(tag: str) -> None:
    meek = [never_preempting(item) if isinstance(item, Pod) and item.name == "new-0" else item for item in cluster()]
    assert judge(case({"new": 1, "later": 1}, ["old0-0", "old0-1"], tag=tag), meek)[0] == []


@pytest.mark.parametrize(("tag", "expected"), [("random:gangreclaim", True), ("random:preempt", False)])
def test_only_gang_evictions_are_judged_so(tag: str, expected: bool) -> None:
    assert is_judged_so(case({}, [], tag=tag)) is expected
