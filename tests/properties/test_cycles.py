"""Random small clusters through the whole scheduler on the embedded cluster, cycle by cycle."""

from collections import Counter
from dataclasses import dataclass
from random import Random

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject, Pod, PodGroup, group_of, role_of
from muster.cluster import MemoryCluster
from muster.framework import SchedulerConfig, parse_config
from muster.kernels.planes import ALLOCATABLE, USED
from muster.scheduler import Scheduler, builtin_registry
from muster.simulate import simulate
from muster.testing import gang, node, pod, pod_group, priority_class, queue

REGISTRY = builtin_registry()
MAX_CYCLES = 60

_PLUGINS = {
    "proportion": "[{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]",
    "capacity": "[{name: predicates}, {name: capacity}, {name: nodeorder}]",
    "none": "[{name: predicates}, {name: overcommit}]",
}
CONFIGS = {
    name: parse_config(
        'actions: "enqueue, allocate, backfill"\n'
        f"tiers: [{{plugins: [{{name: priority}}, {{name: gang}}]}}, {{plugins: {plugins}}}]",
        name,
    )
    for name, plugins in _PLUGINS.items()
}


@dataclass(frozen=True)
class World:
    objects: tuple[KubeObject, ...]
    config: SchedulerConfig


@st.composite
def worlds(draw: st.DrawFn) -> World:
    objects: list[KubeObject] = [priority_class("high", 100)]
    for index in range(draw(st.integers(1, 4))):
        made = node(
            f"n{index}",
            gpu=draw(st.integers(0, 8)),
            cpu=draw(st.integers(1, 16)),
            pods=draw(st.sampled_from([3, 110])),
            unschedulable=draw(st.integers(0, 6)) == 0,
        )
        objects.append(made)
    names = ["default", *(f"q{index}" for index in range(draw(st.integers(0, 2))))]
    for name in names[1:]:
        limit = draw(st.none() | st.integers(0, 10))
        capability = {} if limit is None else {"gpu": limit, "cpu": 16}
        objects.append(queue(name, weight=draw(st.integers(1, 4)), capability=capability, created=0.0))
    for index in range(draw(st.integers(1, 6))):
        objects.extend(draw(jobs(f"j{index}", names)))
    return World(tuple(objects), CONFIGS[draw(st.sampled_from(sorted(CONFIGS)))])


@st.composite
def jobs(draw: st.DrawFn, name: str, queues: list[str]) -> list[KubeObject]:
    created = float(draw(st.integers(0, 3)))
    size = draw(st.integers(1, 5))
    run = draw(st.none() | st.sampled_from([5.0, 20.0]))
    gpu, cpu = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    kind = draw(st.sampled_from(["gang", "gang", "roles", "lone"]))
    if kind == "lone":
        return [pod(name, created=created, run_seconds=run, gpu=gpu, cpu=cpu)]
    minimum = draw(st.integers(0, size))
    queue_name = draw(st.sampled_from(queues))
    urgent = draw(st.sampled_from(["", "high"]))
    if kind == "gang":
        return gang(
            name,
            size,
            minimum=minimum,
            queue=queue_name,
            priority_class=urgent,
            created=created,
            run_seconds=run,
            gpu=gpu,
            cpu=cpu,
        )
    roles = {"chief": 1, "worker": draw(st.integers(0, size))}
    group = pod_group(
        name, minimum=sum(roles.values()), roles=roles, queue=queue_name, priority_class=urgent, created=created
    )
    members = [
        pod(f"{name}-{role}-{i}", group=name, role=role, created=created, run_seconds=run, gpu=gpu, cpu=cpu)
        for role, count in (("chief", 1), ("worker", size))
        for i in range(count)
    ]
    return [group, *members]


def scheduler_of(world: World) -> Scheduler:
    return Scheduler(MemoryCluster(world.objects), world.config, REGISTRY)


def check_nodes(scheduler: Scheduler) -> None:
    """No node is over-committed, now or in its future."""
    assert scheduler.last_session is not None
    nodes = scheduler.last_session.snapshot.nodes
    assert (nodes.state[USED] <= nodes.state[ALLOCATABLE]).all()
    assert (nodes.future_idle() >= 0).all()
    assert (nodes.state >= 0).all()


def check_gangs(cluster: MemoryCluster) -> None:
    """A gang has nodes for its minimum, of the job and of every role, or for nobody."""
    placed: Counter[tuple[str, str | None]] = Counter()
    for member in cluster.store.all(Pod):
        if member.spec.node_name:
            key = f"{member.namespace}/{group_of(member)}"
            placed.update([(key, None), (key, role_of(member))])
    for group in cluster.store.all(PodGroup):
        total = placed[group.key, None]
        assert total == 0 or total >= group.spec.min_member
        for role, minimum in group.spec.min_task_member.items():
            assert total == 0 or placed[group.key, role] >= minimum


def check_books(scheduler: Scheduler) -> None:
    """Counters and totals of the session equal what its tasks add up to."""
    assert scheduler.last_session is not None
    snapshot = scheduler.last_session.snapshot
    held = np.zeros_like(snapshot.jobs.allocated)
    for task, status in enumerate(snapshot.tasks.status.tolist()):
        if status in (1, 2, 3, 4, 5):
            held[snapshot.tasks.job[task]] += snapshot.request(task)
    assert (held == snapshot.jobs.allocated).all()


@given(worlds())
def test_every_cycle_keeps_the_invariants_and_the_cluster_comes_to_rest(world: World) -> None:
    scheduler = scheduler_of(world)
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    for _ in range(MAX_CYCLES):
        result = scheduler.run_once()
        assert result.error is None
        assert result.failures == ()
        check_nodes(scheduler)
        check_gangs(cluster)
        check_books(scheduler)
        if not cluster.store.has_events and cluster.next_event_at() is None:
            break
        cluster.advance_to(cluster.now() + 1.0)
    else:
        cluster.advance_to(cluster.now() + 1000.0)
    assert scheduler.run_once().decisions == () or cluster.next_event_at() is not None


@given(worlds(), st.randoms(use_true_random=False))
def test_the_same_input_in_any_order_gives_the_same_output_byte_for_byte(world: World, random: Random) -> None:
    first = simulate(world.objects, world.config, registry=REGISTRY, cycles=MAX_CYCLES)
    again = simulate(world.objects, world.config, registry=REGISTRY, cycles=MAX_CYCLES)
    shuffled = list(world.objects)
    random.shuffle(shuffled)
    other = simulate(shuffled, world.config, registry=REGISTRY, cycles=MAX_CYCLES)
    texts = [msgspec.json.encode(result.to_json()) for result in (first, again, other)]
    assert texts[0] == texts[1]
    assert texts[0] == texts[2]


@given(worlds())
def test_without_arrivals_a_simulation_settles(world: World) -> None:
    result = simulate(world.objects, world.config, registry=REGISTRY, cycles=MAX_CYCLES)
    assert result.settled
    assert result.cycles[-1].decisions == ()
