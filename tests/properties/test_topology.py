"""Random networks, running pods and jobs with constraints through the whole scheduler, cycle by cycle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from muster.api import (
    HyperNode,
    KubeObject,
    NetworkTopology,
    Node,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    group_of,
    role_of,
)
from muster.api.names import RUN_SECONDS
from muster.cluster import MemoryCluster
from muster.framework import SchedulerConfig, parse_config
from muster.kernels.planes import ALLOCATABLE, USED
from muster.scheduler import Scheduler, builtin_registry
from muster.simulate import simulate
from muster.snapshot.mirror.jobs import first_match
from muster.testing import node, priority_class
from tests.reference.trees import nodes_inside, smallest_around
from tests.snapshot.networks import SOFT, group, hard, hyper_node, members, parts

REGISTRY = builtin_registry(third_party=False)
CYCLES = 9
ROOT = ""

_PLUGINS = {
    "plain": "[{name: predicates}, {name: network-topology-aware}]",
    "packed": "[{name: drf}, {name: predicates}, {name: proportion}, {name: network-topology-aware}, {name: binpack}]",
    "spread": "[{name: predicates}, {name: nodeorder}, {name: network-topology-aware}]",
    "proposed": "[{name: predicates}, {name: propose}, {name: network-topology-aware}]",
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


# -- making worlds ----------------------------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> list[KubeObject]:
    """Trees of one to three tiers side by side, racks of any size, and nodes outside."""
    objects: list[KubeObject] = []
    spines = []
    for s in range(draw(st.integers(1, 3))):
        inside = []
        for r in range(draw(st.integers(0, 3))):
            names = [f"s{s}-r{r}-n{k}" for k in range(draw(st.integers(0, 3)))]
            objects += [node(name, gpu=4, cpu=8, pods=draw(st.sampled_from([3, 110]))) for name in names]
            inside.append(f"s{s}-r{r}")
            objects.append(hyper_node(inside[-1], 1, nodes=names, tier_name="rack"))
        own = [f"s{s}-n{k}" for k in range(draw(st.integers(0, 1)))]
        objects += [node(name, gpu=4, cpu=8) for name in own]
        spines.append(f"s{s}")
        objects.append(hyper_node(spines[-1], 2, nodes=own, inside=inside, tier_name="spine"))
    if draw(st.booleans()):
        objects.append(hyper_node("top", draw(st.integers(3, 4)), inside=spines[: draw(st.integers(1, 3))]))
    objects += [node(f"loose{k}", gpu=4, cpu=8) for k in range(draw(st.integers(0, 2)))]
    return objects


constraints = st.one_of(
    st.none(),
    st.just(SOFT),
    st.sampled_from([1, 2, 3, 9]).map(hard),
    st.sampled_from(["rack", "spine"]).map(hard),
)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> list[KubeObject]:
    """A gang, elastic or not, with roles or parts or neither; all its pods run equally long, or for ever."""
    run = draw(st.none() | st.sampled_from([2.0, 4.0]))
    common: dict[str, Any] = {"run_seconds": run, "created": 0.0}
    urgent = draw(st.sampled_from(["", "high"]))
    kind = draw(st.sampled_from(["flat", "flat", "roles", "parts", "parts"]))
    topology = draw(constraints)
    pods: list[KubeObject] = []
    if kind == "parts":
        size, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        for part in range(count):
            extra = draw(st.integers(0, 1))
            pods += members(name, size + extra, part=str(part), gpu=draw(st.integers(0, 3)), cpu=1, **common)
        if draw(st.booleans()):
            pods += members(name, 1, first=90, gpu=1, **common)
        needed = draw(st.none() | st.integers(0, count))
        policy = parts(size, needed, draw(constraints))
        minimum = draw(st.integers(0, size * (needed or 0)))
        return [group(name, minimum, topology, [policy], priority_class=urgent, created=0.0), *pods]
    if kind == "roles":
        counts = {"chief": 1, "worker": draw(st.integers(1, 4)), "idle": draw(st.integers(0, 2))}
        needed_roles = {role: draw(st.integers(0, count)) for role, count in counts.items()}
        pods += members(name, counts["chief"], role="chief", gpu=draw(st.integers(0, 2)), cpu=2, **common)
        pods += members(name, counts["worker"], first=10, role="worker", gpu=draw(st.integers(1, 4)), **common)
        pods += members(name, counts["idle"], first=50, role="idle", **common)
        minimum = sum(needed_roles.values())
        return [group(name, minimum, topology, roles=needed_roles, priority_class=urgent, created=0.0), *pods]
    count = draw(st.integers(1, 6))
    pods += members(name, count, gpu=draw(st.integers(0, 4)), cpu=draw(st.integers(0, 4)), **common)
    return [group(name, draw(st.integers(0, count)), topology, priority_class=urgent, created=0.0), *pods]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    objects: list[KubeObject] = [priority_class("high", 100), *draw(networks())]
    names = [item.name for item in objects if isinstance(item, Node)]
    busy: list[KubeObject] = [group("busy", 0, created=0.0)]
    for k, where in enumerate(draw(st.lists(st.sampled_from(names), max_size=6, unique=True)) if names else []):
        until = draw(st.none() | st.sampled_from([1.0, 3.0, 5.0]))
        busy += members("busy", 1, on=[where], first=k, gpu=draw(st.integers(1, 4)), run_seconds=until, created=0.0)
    objects += busy
    for index in range(draw(st.integers(1, 4))):
        objects += draw(jobs(f"j{index}"))
    return World(tuple(objects), CONFIGS[draw(st.sampled_from(sorted(CONFIGS)))])


# -- what must hold ---------------------------------------------------------------------------------------------------


class Network:
    """The tree as sets of node names, to judge decisions without the code that made them."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        listed = list(objects)
        hyper_nodes = {item.name: item for item in listed if isinstance(item, HyperNode)}
        nodes = {item.name for item in listed if isinstance(item, Node)}
        own: dict[str, set[str]] = {ROOT: nodes}
        children: dict[str, list[str]] = {ROOT: []}
        for name, item in hyper_nodes.items():
            named = [(m.type, m.selector.exact_match.name) for m in item.spec.members if m.selector.exact_match]
            own[name] = {member for kind, member in named if kind == "Node"}
            children[name] = [member for kind, member in named if kind == "HyperNode"]
        self.sets = {name: nodes_inside(own, children, name) for name in own}
        self.tiers = {name: item.spec.tier for name, item in hyper_nodes.items()}
        self.tiers[ROOT] = max(self.tiers.values()) + 1
        self.names = {item.spec.tier_name: item.spec.tier for item in hyper_nodes.values() if item.spec.tier_name}

    def span(self, nodes: Iterable[str]) -> int:
        """The tier of the smallest domain around the nodes; of two with the same nodes, the lower."""
        depth = {name: -tier for name, tier in self.tiers.items()}
        return self.tiers[smallest_around(self.sets, depth, list(nodes))]

    def limit(self, topology: NetworkTopology | None) -> int | None:
        """The highest tier that a hard constraint allows; None: any. -1: none, as no tier has the name."""
        if topology is None or topology.mode != "hard":
            return None
        if topology.highest_tier_allowed is not None:
            return topology.highest_tier_allowed
        return self.names.get(topology.highest_tier_name, -1)


def members_of(cluster: MemoryCluster) -> Mapping[str, list[Pod]]:
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for one in cluster.store.all(Pod):
        found[f"{one.namespace}/{group_of(one)}"].append(one)
    return found


def part_of(owner: PodGroup, one: Pod) -> tuple[int, tuple[str, ...]]:
    return first_match(owner.spec.sub_group_policy, one.metadata.labels)


def check_constraints(network: Network, cluster: MemoryCluster) -> None:
    """No pods of a job, nor of one of its parts, that have a node and are not done, span more than is allowed."""
    pods = members_of(cluster)
    for known in cluster.store.all(PodGroup):
        spec = known.spec
        placed = [p for p in pods[known.key] if p.spec.node_name and p.status.phase not in ("Succeeded", "Failed")]
        check_span(network, spec.network_topology, placed)
        for part in {part_of(known, one) for one in placed}:
            own = [one for one in placed if part_of(known, one) == part]
            policy = spec.sub_group_policy[part[0]] if part[0] >= 0 else None
            check_span(network, policy.network_topology if policy else None, own)


def check_span(network: Network, topology: NetworkTopology | None, pods: list[Pod]) -> None:
    limit = network.limit(topology)
    if limit is not None and pods:
        assert network.span(one.spec.node_name for one in pods) <= limit, [(p.name, p.spec.node_name) for p in pods]


def check_minimums(cluster: MemoryCluster) -> None:
    """A gang has nodes for its minimum, of the job, of each role and of each part, or for nobody."""
    pods = members_of(cluster)
    for known in cluster.store.all(PodGroup):
        spec = known.spec
        placed = [one for one in pods[known.key] if one.spec.node_name]
        if not placed:
            continue
        assert len(placed) >= spec.min_member
        roles = Counter(role_of(one) for one in placed)
        for role, minimum in spec.min_task_member.items():
            assert roles[role] >= minimum, (known.name, role)
        sizes = Counter(part_of(known, one) for one in placed)
        for number, policy in enumerate(spec.sub_group_policy):
            started = [count for (policy_row, _), count in sizes.items() if policy_row == number]
            assert all(count >= (policy.sub_group_size or 1) for count in started), (known.name, sizes)
            assert len(started) >= (policy.min_sub_groups or 0), (known.name, sizes)


def check_nodes(scheduler: Scheduler) -> None:
    assert scheduler.last_session is not None
    nodes = scheduler.last_session.snapshot.nodes
    assert (nodes.state[USED] <= nodes.state[ALLOCATABLE]).all()
    assert (nodes.future_idle() >= 0).all()


@given(worlds())
def test_no_cycle_breaks_a_hard_constraint_or_a_minimum_or_fills_a_node_beyond_its_size(world: World) -> None:
    network = Network(world.objects)
    cluster = MemoryCluster(world.objects)
    scheduler = Scheduler(cluster, world.config, REGISTRY)
    for _ in range(CYCLES):
        result = scheduler.run_once()
        assert result.error is None
        assert result.failures == ()
        check_constraints(network, cluster)
        check_minimums(cluster)
        check_nodes(scheduler)
        cluster.advance_to(cluster.now() + 1.0)


@given(worlds(), st.randoms(use_true_random=False))
def test_shuffled_input_and_the_same_input_again_give_the_same_decisions(world: World, random: Random) -> None:
    first = simulate(world.objects, world.config, registry=REGISTRY, cycles=CYCLES)
    again = simulate(world.objects, world.config, registry=REGISTRY, cycles=CYCLES)
    shuffled = list(world.objects)
    random.shuffle(shuffled)
    other = simulate(shuffled, world.config, registry=REGISTRY, cycles=CYCLES)
    texts = [msgspec.json.encode(result.to_json()) for result in (first, again, other)]
    assert texts[0] == texts[1]
    assert texts[0] == texts[2]


def restarted(cluster: MemoryCluster, config: SchedulerConfig, cycle: int) -> Scheduler:
    """A scheduler that has just been started and has seen nothing but the objects as they are now."""
    scheduler = Scheduler(cluster, config, REGISTRY)
    cluster.poll()
    for kind in (Node, HyperNode, Queue, PriorityClass, PodGroup, Pod):
        for item in cluster.store.all(kind):
            scheduler.mirror.upsert(item)
    scheduler.n_cycles = cycle
    return scheduler


def standing(cluster: MemoryCluster) -> dict[str, object]:
    """What PodGroups say, without messages: a new scheduler counts their numbers at once, another now and then."""
    return {
        group.key: (
            *(group.status.phase, group.status.running, group.status.succeeded, group.status.failed),
            *((known.type, known.status, known.reason) for known in group.status.conditions),
        )
        for group in cluster.store.all(PodGroup)
    }


@given(worlds())
def test_a_scheduler_that_is_restarted_before_every_cycle_decides_the_same(world: World) -> None:
    steady_cluster, other_cluster = MemoryCluster(world.objects), MemoryCluster(world.objects)
    steady = Scheduler(steady_cluster, world.config, REGISTRY)
    for cycle in range(CYCLES):
        first = steady.run_once()
        other = restarted(other_cluster, world.config, cycle).run_once()
        assert first.decisions == other.decisions
        assert standing(steady_cluster) == standing(other_cluster)
        for cluster in (steady_cluster, other_cluster):
            cluster.advance_to(cluster.now() + 1.0)


def test_the_worlds_of_these_tests_have_pods_that_end() -> None:
    """Completions are part of what is tested, so the annotation must be the one that the cluster reads."""
    (one,) = members("job", 1, run_seconds=2.0)
    assert one.metadata.annotations[RUN_SECONDS] == "2"
