"""Random small clusters with evictions, through the whole scheduler on the embedded cluster, for every strategy."""

from dataclasses import replace

import pytest
from hypothesis import event, given

from muster.cluster import MemoryCluster
from muster.framework import SchedulerConfig, parse_config
from muster.simulate import simulate
from muster.snapshot.messages import Evict, Nominate
from tests.properties.test_cycles import REGISTRY, World, check_books, check_nodes, scheduler_of, worlds

MAX_CYCLES = 150

_GANG_AWARE = """
configurations:
- {name: preempt, arguments: {gangAwareEnable: true}}
- {name: reclaim, arguments: {gangAwareEnable: true}}
"""
_TOPOLOGY_AWARE = """
configurations:
- {name: preempt, arguments: {enableTopologyAwarePreemption: true}}
"""
STRATEGIES = {
    "tasks": ("preempt, reclaim", ""),
    "gangs": ("gangpreempt, gangreclaim", ""),
    "gang-aware": ("preempt, reclaim", _GANG_AWARE),
    "topology-aware": ("preempt", _TOPOLOGY_AWARE),
}


def with_evictions(world: World, strategy: str) -> World:
    actions, options = STRATEGIES[strategy]
    plain = parse_config(f'actions: "enqueue, allocate, {actions}, backfill"\ntiers: []\n{options}', strategy)
    config = SchedulerConfig(plain.actions, world.config.tiers, plain.configurations)
    return replace(world, config=config)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@given(world=worlds())
def test_evictions_serve_somebody_keep_the_books_and_come_to_an_end(strategy: str, world: World) -> None:
    scheduler = scheduler_of(with_evictions(world, strategy))
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    for _ in range(MAX_CYCLES):
        result = scheduler.run_once()
        assert result.error is None
        assert result.failures == ()
        check_nodes(scheduler)
        check_books(scheduler)
        promised = {made.job for made in result.decisions if isinstance(made, Nominate) and made.node}
        for made in result.decisions:
            if isinstance(made, Evict):
                event("evicts")
                assert made.beneficiary in promised, "evicted for nobody"
                assert made.beneficiary != made.job or strategy in ("tasks", "topology-aware")
        following = cluster.next_event_at()
        if not cluster.store.has_events and following is None:
            return
        cluster.advance_to(max(cluster.now() + 1.0, following or 0.0))
    raise AssertionError("the cluster does not come to rest: somebody evicts for ever")


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@given(world=worlds())
def test_the_same_input_gives_the_same_decisions_and_records(strategy: str, world: World) -> None:
    changed = with_evictions(world, strategy)
    first, second = (simulate(changed.objects, changed.config, cycles=6, registry=REGISTRY).to_json() for _ in range(2))
    assert first == second
