"""Guaranteed runtimes on random small clusters: whatever evicts, a protected gang keeps its minimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.evictions.surplus import holds_minimum
from muster.framework import SchedulerConfig, Session, parse_config
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror, OperationKind, Rows, TaskStatus
from tests.plugins.runtime_stage import NOW, stamped
from tests.properties.test_task_evictions import World, act, worlds

REGISTRY = builtin_registry(third_party=False)
RUNTIME = 100.0


def config(action: str, share: str = "capacity", arguments: str = "") -> SchedulerConfig:
    """The usual plugins; minruntime stands last, where the tier rule for victims would never ask it."""
    return parse_config(
        f"""
actions: "{action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false, enableReclaimable: false}}]
- plugins: [{{name: predicates}}, {{name: {share}}}, {{name: nodeorder}}]
- plugins:
  - name: minruntime
    arguments: {{defaultReclaimMinRuntime: {RUNTIME:g}, defaultPreemptMinRuntime: {RUNTIME:g}s}}
configurations: [{{name: {action}, arguments: {{{arguments}}}}}]
""",
        action,
    )


CONFIGS = {
    "preempt": config("preempt"),
    "preempt, topology-aware": config("preempt", arguments="enableTopologyAwarePreemption: true"),
    "preempt, solver": config("preempt", arguments="strategy: solver"),
    "reclaim": config("reclaim", "proportion"),
    "reclaim, solver": config("reclaim", "fairshare", arguments="strategy: solver"),
    "consolidation": config("consolidation", "fairshare"),
    "gangpreempt": config("gangpreempt"),
    "gangreclaim": config("gangreclaim"),
    "gangpreempt, with the remainder": config("gangpreempt", arguments="evictRemainder: true"),
}


@st.composite
def started_worlds(draw: st.DrawFn) -> World:
    """Worlds whose gangs have been complete for a while: for too short a time, just long enough, or nobody knows."""
    world = draw(worlds())
    for name in world.groups:
        world.groups[name] = stamped(world.groups[name], draw(st.sampled_from([0, RUNTIME - 1, RUNTIME, None])))
    return world


def opened(world: World, chosen: SchedulerConfig) -> Session:
    mirror = Mirror()
    for item in world.all():
        mirror.upsert(item)
    return Session(mirror.snapshot(), chosen, REGISTRY, now=NOW)


def taken(session: Session) -> Rows:
    """Tasks that were evicted, those that got another place included."""
    tasks = [
        operation.tasks
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is OperationKind.EVICT
    ]
    return np.concatenate(tasks) if tasks else np.empty(0, np.intp)


@pytest.mark.parametrize("name", CONFIGS)
@given(world=started_worlds())
def test_no_protected_gang_falls_below_its_minimum(name: str, world: World) -> None:
    session = opened(world, CONFIGS[name])
    snapshot = session.snapshot
    ran = snapshot.tasks.status == TaskStatus.RUNNING
    act(session)
    gone = taken(session)
    for job, record in enumerate(snapshot.jobs.records):
        if record.started is None or record.started + RUNTIME <= NOW:
            continue
        own = snapshot.tasks_of(job)
        if not np.isin(own, gone).any():
            continue
        staying = own[ran[own] & ~np.isin(own, gone)]
        assert holds_minimum(snapshot, job, staying), f"{record.id} keeps {len(staying)} of {record.min_member}"
