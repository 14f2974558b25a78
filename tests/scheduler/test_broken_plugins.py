"""Plugins that fail: what it costs the jobs they are asked about, themselves, and those whom they protect."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from muster.actions import BUILTIN as ACTIONS
from muster.cluster import MemoryCluster
from muster.framework import Eviction, Plugin, Registry, Session, parse_config
from muster.framework.faults import OUT_SECONDS
from muster.plugins import BUILTIN as PLUGINS
from muster.scheduler import Scheduler
from muster.snapshot import Mask, Rows
from muster.snapshot.messages import Evict
from muster.snapshot.mirror.quarantine import PAUSE_SECONDS
from muster.testing import gang, node, priority_class


class Failing(Plugin):
    """Fails when asked whether a job is valid, if the class says so."""

    name: ClassVar[str] = "failing"
    names: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []

    def job_valid(self, job: int) -> None:
        name = self.session.snapshot.jobs.records[job].name
        self.asked.append(name)
        if name in self.names or "*" in self.names:
            raise RuntimeError(f"cannot say about {name}")


class Opening(Plugin):
    """Fails before any job is looked at."""

    name: ClassVar[str] = "failing"

    def open(self, session: Session) -> None:
        raise RuntimeError("not today")


class Guard(Plugin):
    """Fails when asked whom it protects."""

    name: ClassVar[str] = "failing"

    def protected(self, kind: Eviction, evictor: int, jobs: Rows) -> Mask:
        raise RuntimeError("cannot say")


PLUGGED = "tiers: [{plugins: [{name: gang}, {name: priority}, {name: failing}]}]"


def scheduler_of(plugin: type[Plugin], *objects: object, more: str = "") -> Scheduler:
    cluster = MemoryCluster(objects)  # type: ignore[arg-type]  # builders give objects
    registry = Registry.of([*PLUGINS, plugin], ACTIONS)
    return Scheduler(cluster, parse_config(f'actions: "enqueue, allocate{more}"\n{PLUGGED}', "t"), registry)


@pytest.fixture(autouse=True)
def _reset() -> None:
    Failing.names, Failing.asked = set(), []


def bound(scheduler: Scheduler) -> list[str]:
    return [made.pod for made in scheduler.run_once().decisions]


def test_three_different_jobs_in_a_row_cost_the_plugin_its_place_and_the_jobs_nothing() -> None:
    Failing.names = {"*"}
    gangs = [thing for name in "abcd" for thing in gang(name, 1, cpu=1)]
    scheduler = scheduler_of(Failing, node("n1"), *gangs)
    assert bound(scheduler) == ["default/d-0"]
    assert len(scheduler.mirror.quarantine) == 0
    assert scheduler.strikes.count == 1
    assert bound(scheduler) == ["default/a-0", "default/b-0", "default/c-0"]


def test_one_bad_job_never_costs_a_plugin_its_place_however_often_it_comes_back() -> None:
    Failing.names = {"a"}
    scheduler = scheduler_of(Failing, node("n1"), *gang("a", 1, cpu=1))
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    for turn in range(4):
        cluster.advance_to(cluster.start + turn * (PAUSE_SECONDS + 1))
        scheduler.run_once()
    assert Failing.asked == ["a"] * 4
    assert scheduler.strikes.count == 0
    Failing.names = set()
    cluster.advance_to(cluster.start + 4 * (PAUSE_SECONDS + 1))
    assert bound(scheduler) == ["default/a-0"]


def test_a_plugin_that_was_left_out_is_asked_again_after_a_while() -> None:
    Failing.names = {"*"}
    scheduler = scheduler_of(Failing, node("n1"), *(thing for name in "abc" for thing in gang(name, 1, cpu=1)))
    scheduler.run_once()
    assert scheduler.last_session is not None
    assert "failing" not in scheduler.last_session.plugins
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    Failing.names = set()
    cluster.advance_to(cluster.start + OUT_SECONDS + 1)
    scheduler.run_once()
    assert scheduler.last_session is not None
    assert "failing" in scheduler.last_session.plugins


def test_a_plugin_that_breaks_the_session_is_left_out_and_the_cycle_goes_on() -> None:
    scheduler = scheduler_of(Opening, node("n1"), *gang("a", 1, cpu=1))
    result = scheduler.run_once()
    assert result.error is None
    assert [made.pod for made in result.decisions] == ["default/a-0"]
    assert scheduler.strikes.count == 1


@pytest.mark.parametrize(("plugin", "evicts"), [(Guard, False), (Failing, True)])
def test_who_cannot_be_asked_about_protection_protects_everybody(plugin: type[Plugin], *, evicts: bool) -> None:
    low = [priority_class("low", 1), *gang("low", 2, gpu=1, priority_class="low")]
    scheduler = scheduler_of(plugin, node("n1", gpu=2), *low, more=", gangpreempt")
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    assert bound(scheduler) == ["default/low-0", "default/low-1"]
    cluster.advance_to(cluster.start + 5)
    cluster.add([priority_class("high", 100), *gang("high", 2, gpu=1, priority_class="high")])
    evicted = []
    for cycle in range(8):  # long enough for the plugin to lose its place
        cluster.advance_to(cluster.start + 6 + cycle)
        evicted += [made.pod for made in scheduler.run_once().decisions if isinstance(made, Evict)]
    assert bool(evicted) is evicts


def test_a_dropped_plugin_is_in_no_list_that_anybody_holds() -> None:
    Failing.names = {"*"}
    scheduler = scheduler_of(Failing, node("n1"), *(thing for name in "abc" for thing in gang(name, 1, cpu=1)))
    scheduler.run_once()
    session = scheduler.last_session
    assert session is not None
    assert session.job_valid(0) is None
    assert np.array_equal(session.protected(Eviction.PREEMPT, 0, np.arange(2, dtype=np.intp)), [False, False])
