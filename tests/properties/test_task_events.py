"""Plugins with books of their own: what dry runs do and undo is told, and what allocate asks of the search space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from muster.cluster import MemoryCluster
from muster.framework import Eviction, Plugin, PluginOption, Purpose, Registry, Scenario, Session, profile
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot import NO_ROW, Rows, TaskStatus
from muster.snapshot.messages import Bind
from muster.testing import node, pod, pod_group, queue
from tests.properties.busy_worlds import START, World, worlds
from tests.properties.test_whole_runs import PROFILES
from tests.snapshot.networks import hard, hyper_node

_THERE = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


def places(session: Session) -> dict[int, int]:
    """Who has which node, by the snapshot."""
    tasks = session.snapshot.tasks
    there = np.flatnonzero(np.isin(tasks.status, _THERE) & (tasks.node != NO_ROW))
    return {task: int(tasks.node[task]) for task in there.tolist()}


class Ledger(Plugin):
    """Keeps its own list of who is where, and compares it whenever it is asked about an outcome."""

    name = "ledger"
    summary = "Counts what it is told."
    told = 0

    def open(self, session: Session) -> None:
        super().open(session)
        self.book = places(session)

    def tasks_added(self, tasks: Rows, nodes: Rows) -> None:
        Ledger.told += len(tasks)
        for task, row in zip(tasks.tolist(), nodes.tolist(), strict=True):
            assert task not in self.book
            self.book[task] = row

    def tasks_removed(self, tasks: Rows, nodes: Rows) -> None:
        for task, row in zip(tasks.tolist(), nodes.tolist(), strict=True):
            assert self.book.pop(task) == row

    def scenario_validator(self, kind: Eviction, scenario: Scenario) -> bool:
        assert self.book == places(self.session)
        return True


class OnlyTheSecond(Plugin):
    """Lets gangs start in one rack only."""

    name = "second"
    summary = "Names a domain."

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        return np.array([self.session.snapshot.topology.index["r1"]], np.intp)


def with_plugin(name: str, plugin: type[Plugin], cluster: MemoryCluster) -> Scheduler:
    config, known = profile(name), builtin_registry(third_party=False)
    registry = Registry.of([*known.plugins.values(), plugin], known.actions.values())
    return Scheduler(cluster, replace(config, tiers=(*config.tiers, (PluginOption(plugin.name),))), registry)


@pytest.mark.parametrize("profile_name", PROFILES)
@settings(max_examples=15, derandomize=True)
@given(world=worlds())
def test_books_that_follow_what_they_are_told_are_right_in_every_dry_run(profile_name: str, world: World) -> None:
    cluster = MemoryCluster(world.objects(), start=START)
    scheduler = with_plugin(profile_name, Ledger, cluster)
    before = Ledger.told
    bound = 0
    for _ in range(5):
        result = scheduler.run_once()
        assert result.error is None
        assert result.faults == ()
        bound += sum(isinstance(made, Bind) for made in result.decisions)
        session = scheduler.last_session
        assert session is not None
        ledger = session.plugins["ledger"]
        assert isinstance(ledger, Ledger)
        assert ledger.book == places(session)
        cluster.advance_to(cluster.now() + 1)
    assert Ledger.told - before >= bound


def test_allocate_starts_a_gang_where_the_search_space_says() -> None:
    group = pod_group("g", minimum=2)
    group.spec.network_topology = hard(1)
    racks = [hyper_node(f"r{k}", 1, nodes=[f"n{k}"]) for k in range(2)]
    objects = [*(node(f"n{k}", gpu=2) for k in range(2)), *racks, queue("default"), group]
    cluster = MemoryCluster([*objects, *(pod(f"g-{k}", group="g", gpu=1) for k in range(2))])
    result = with_plugin("muster", OnlyTheSecond, cluster).run_once()
    assert [made.node for made in result.decisions if isinstance(made, Bind)] == ["n1", "n1"]
