"""Tiny random clusters for the oracle: gangs of every kind, described twice.

Once as plain data that the exact solver reads (`tests.reference.exact_starts`), once as the objects that the scheduler
reads. The two are made side by side from the same draws, and neither from the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from muster.api import (
    KaiPodGroup,
    KaiPodGroupSpec,
    KubeObject,
    LabelSelector,
    NetworkTopology,
    ObjectMeta,
    Pod,
    PodGroup,
    SubGroupPolicy,
)
from muster.api.names import KAI_GROUP_NAME, KAI_SUBGROUP, PREEMPTABLE
from muster.testing import node, pod, pod_group, priority_class
from tests.engine.label_networks import RACK, ZONE, sub_group, topology, within
from tests.reference.exact_starts import Amounts, Demand, Nodes, Part, regions_of
from tests.snapshot.networks import SOFT, group, hard, hyper_node

#: What a node has at most: CPUs and GPUs.
_SIZES = ((8, 4), (8, 2), (4, 4), (6, 3))
KINDS = ("plain", "elastic", "mixed", "divided", "master", "nested")
ROLE, PARTITION = "role", "partition"
PRIORITIES = {"low": 10, "high": 90}


@dataclass
class Network:
    """Nodes with what they offer, and domains of HyperNodes with tier and nodes."""

    nodes: dict[str, Amounts] = field(default_factory=dict)
    domains: dict[str, tuple[int, Nodes]] = field(default_factory=dict)
    objects: list[KubeObject] = field(default_factory=list, repr=False)
    #: Racks and zones by labels, for KAI's gangs.
    racks: dict[str, Nodes] = field(default_factory=dict)
    zones: dict[str, Nodes] = field(default_factory=dict)


@dataclass
class Gang:
    """A gang that waits: what it demands, and the objects that say so."""

    name: str
    kind: str
    demand: Demand
    objects: list[KubeObject] = field(repr=False)
    #: The highest tier that all its pods may span; None: any.
    limit: int | None = None
    soft: bool = False


@dataclass
class World:
    """A cluster with pods that run for good, and gangs that wait."""

    network: Network
    free: dict[str, Amounts]
    gangs: list[Gang]
    fillers: list[KubeObject] = field(repr=False)

    def __repr__(self) -> str:
        """What the solver reads: objects as well would bury it."""
        gangs = "".join(f"\n  {gang.name}, {gang.kind}, soft {gang.soft}: {gang.demand}" for gang in self.gangs)
        return f"nodes {self.network.nodes}\ndomains {self.network.domains}\nfree {self.free}{gangs}"

    @property
    def objects(self) -> list[KubeObject]:
        return [*self.network.objects, *self.fillers, *(thing for gang in self.gangs for thing in gang.objects)]


@dataclass
class Crowd:
    """A world whose one gang is more important than others that run: by pod, their node and what they ask for."""

    world: World
    others: dict[str, tuple[str, Amounts]]
    running: list[KubeObject] = field(repr=False)

    @property
    def free(self) -> dict[str, Amounts]:
        """What is left beside the others."""
        left = dict(self.world.free)
        for name, asked in self.others.values():
            left[name] = (left[name][0] - asked[0], left[name][1] - asked[1])
        return left

    @property
    def objects(self) -> list[KubeObject]:
        classes = [priority_class(name, value) for name, value in PRIORITIES.items()]
        return [*classes, *self.world.objects, *self.running]


@st.composite
def crowds(draw: st.DrawFn, kind: str) -> Crowd:
    """A world with one gang of a kind, and lone pods or pairs that would have to go for it."""
    world = draw(worlds(kind))
    for thing in world.gangs[0].objects:
        assert isinstance(thing, Pod | PodGroup | KaiPodGroup)
        thing.spec.priority_class_name = "high"
    for thing in world.fillers:
        thing.metadata.annotations[PREEMPTABLE] = "false"
    crowd = Crowd(world, {}, [])
    for name in sorted(world.network.nodes):
        for number in range(draw(st.integers(1, 4))):
            asked, left = draw(st.sampled_from([(1, 1), (2, 2), (4, 2), (2, 0)])), crowd.free[name]
            if asked[0] > left[0] or asked[1] > left[1]:
                continue
            job = f"other-{name}-{number}" if draw(st.booleans()) else f"pair-{number}"
            pod_name = f"{job}-{name}"
            crowd.others[pod_name] = (name, asked)
            if not any(thing.metadata.name == job for thing in crowd.running):
                crowd.running.append(pod_group(job, minimum=1, priority_class="low", phase="Running"))
            made = pod(pod_name, group=job, cpu=asked[0], gpu=asked[1], node=name, grace_seconds=1)
            made.spec.priority_class_name = "low"
            crowd.running.append(made)
    return crowd


@st.composite
def networks(draw: st.DrawFn, *, labelled: bool = False) -> Network:
    """One to three spines of uneven racks, nodes beside racks, nodes in no domain; at most eight nodes."""
    made = Network()
    for spine in range(draw(st.integers(1, 3))):
        racks, own = [], []
        for rack in range(draw(st.integers(1, 2))):
            names = [f"s{spine}r{rack}n{k}" for k in range(draw(st.integers(1, 2)))]
            _add_nodes(draw, made, names, {ZONE: f"s{spine}", RACK: f"r{rack}"})
            racks.append(f"s{spine}r{rack}")
            made.racks[racks[-1]] = frozenset(names)
            if not labelled:
                made.domains[racks[-1]] = (1, frozenset(names))
                made.objects.append(hyper_node(racks[-1], 1, nodes=names))
        if not labelled and draw(st.booleans()):
            own = [f"s{spine}n"]
            _add_nodes(draw, made, own, {})
        inside = frozenset(own).union(*(made.racks[name] for name in racks))
        made.zones[f"s{spine}"] = inside
        if not labelled and draw(st.integers(0, 3)):
            made.domains[f"s{spine}"] = (2, inside)
            made.objects.append(hyper_node(f"s{spine}", 2, nodes=own, inside=racks))
    if draw(st.booleans()):
        _add_nodes(draw, made, ["loose"], {})
    if labelled:
        made.objects.append(topology())
    return made


def _add_nodes(draw: st.DrawFn, made: Network, names: list[str], labels: Mapping[str, str]) -> None:
    for name in names:
        cpu, gpu = made.nodes[name] = draw(st.sampled_from(_SIZES))
        made.objects.append(node(name, cpu=cpu, gpu=gpu, labels=labels))


_LIMITS = st.sampled_from([None, "soft", 1, 1, 2, 2])
_REQUESTS = st.sampled_from([(1, 1), (2, 2), (4, 2), (1, 3), (2, 0), (3, 1), (2, 4)])


def _constraint(drawn: str | int | None) -> NetworkTopology | None:
    if drawn is None:
        return None
    return SOFT if isinstance(drawn, str) else hard(drawn)


@st.composite
def gangs(draw: st.DrawFn, name: str, kind: str, network: Network) -> Gang:
    """A gang of a kind."""
    if kind == "nested":
        return draw(_nested(name, network))
    if kind in ("divided", "master"):
        return draw(_divided(name, network, with_master=kind == "master"))
    count = draw(st.integers(1, 5))
    alike = draw(_REQUESTS)
    requests = [draw(_REQUESTS) if kind == "mixed" else alike for _ in range(count)]
    minimum = count if kind == "plain" else draw(st.integers(1, count))
    drawn = draw(_LIMITS)
    limit = drawn if isinstance(drawn, int) else None
    pods = {f"{name}-{k}": request for k, request in enumerate(requests)}
    whole = Part(frozenset(pods), minimum, regions_of(network.domains, limit))
    objects: list[KubeObject] = [group(name, minimum, _constraint(drawn))]
    objects += [_pod(pod_name, name, request, {}) for pod_name, request in pods.items()]
    return Gang(name, kind, Demand(pods, (whole,)), objects, limit, soft=drawn == "soft")


def _pod(name: str, job: str, request: Amounts, labels: Mapping[str, str]) -> KubeObject:
    return pod(name, group=job, cpu=request[0], gpu=request[1], labels=labels)


@st.composite
def _divided(draw: st.DrawFn, name: str, network: Network, *, with_master: bool) -> Gang:
    """Partitions of workers, with a policy of their own; a master of another policy, or of none."""
    size, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    drawn, inner = draw(_LIMITS), draw(_LIMITS)
    limit, inner_limit = (given if isinstance(given, int) else None for given in (drawn, inner))
    needed = draw(st.integers(1, count))
    request = draw(_REQUESTS)
    pods: dict[str, Amounts] = {}
    objects: list[KubeObject] = []
    parts: list[Part] = []
    regions = regions_of(network.domains, inner_limit)
    for partition in range(count):
        own = {f"{name}-w{partition}-{k}": request for k in range(size + draw(st.integers(0, 1)))}
        pods |= own
        parts.append(Part(frozenset(own), size, regions, may_stay_out=True))
        labels = {ROLE: "worker", PARTITION: str(partition)}
        objects += [_pod(pod_name, name, asked, labels) for pod_name, asked in own.items()]
    policies = [_policy("worker", [PARTITION], size, needed, inner)]
    at_least = [(tuple(range(count)), needed)]
    if with_master:
        master, asked = f"{name}-master-0", draw(_REQUESTS)
        pods[master] = asked
        objects.append(_pod(master, name, asked, {ROLE: "master"}))
        if draw(st.booleans()):
            own_limit = draw(_LIMITS)
            allowed = regions_of(network.domains, own_limit if isinstance(own_limit, int) else None)
            parts.append(Part(frozenset([master]), 1, allowed, may_stay_out=True))
            at_least.append(((count,), 1))
            policies.append(_policy("master", [], 1, 1, own_limit))
    minimum = draw(st.integers(0, needed * size + (1 if with_master else 0)))
    parts.append(Part(frozenset(pods), minimum, regions_of(network.domains, limit)))
    demand = Demand(pods, tuple(parts), tuple(at_least))
    return Gang(
        name,
        "master" if with_master else "divided",
        demand,
        [group(name, minimum, _constraint(drawn), policies), *objects],
        limit,
        soft=drawn == "soft",
    )


def _policy(role: str, keys: list[str], size: int, needed: int, drawn: str | int | None) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=role,
        label_selector=LabelSelector(match_labels={ROLE: role}),
        match_label_keys=keys or [ROLE],
        sub_group_size=size,
        min_sub_groups=needed,
        network_topology=_constraint(drawn),
    )


@st.composite
def _nested(draw: st.DrawFn, name: str, network: Network) -> Gang:
    """A gang of KAI: two or three sub-groups, some below another, with levels that they must stay within."""
    levels = {"": None, ZONE: tuple(network.zones.values()), RACK: tuple(network.racks.values())}
    outer = draw(st.sampled_from(["", "", ZONE]))
    pods: dict[str, Amounts] = {}
    parts: list[Part] = []
    objects: list[KubeObject] = []
    groups = []
    parent = draw(st.sampled_from(["", "both"]))
    parent_level = draw(st.sampled_from(["", ZONE])) if parent else ""
    below: set[str] = set()
    for number in range(draw(st.integers(1, 3))):
        label, level = f"g{number}", draw(st.sampled_from(["", ZONE, RACK]))
        request, minimum = draw(_REQUESTS), draw(st.integers(1, 2))
        own = {f"{name}-{label}-{k}": request for k in range(minimum)}
        pods |= own
        parts.append(Part(frozenset(own), minimum, levels[level]))
        inside = bool(parent) and number < 2
        below |= set(own) if inside else set()
        groups.append(sub_group(label, minimum, within(level) if level else None, parent=parent if inside else None))
        for pod_name, asked in own.items():
            made = pod(pod_name, cpu=asked[0], gpu=asked[1], labels={KAI_SUBGROUP: label})
            made.metadata.annotations[KAI_GROUP_NAME] = name
            objects.append(made)
    if parent:
        groups.append(sub_group(parent, None, within(parent_level) if parent_level else None))
        parts.append(Part(frozenset(below), 0, levels[parent_level]))
    parts.append(Part(frozenset(pods), len(pods), levels[outer]))
    spec = KaiPodGroupSpec(
        min_member=len(pods),
        queue="default",
        topology_constraint=within(outer) if outer else None,
        sub_groups=groups,
    )
    made_group = KaiPodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
    return Gang(name, "nested", Demand(pods, tuple(parts)), [made_group, *objects])


@st.composite
def worlds(draw: st.DrawFn, kind: str, *, others: Sequence[str] = KINDS, most_gangs: int = 1) -> World:
    """A cluster, partly full, with one gang of the kind; with more gangs, the others are of any kind that fits it."""
    network = draw(networks(labelled=kind == "nested"))
    free = dict(network.nodes)
    fillers: list[KubeObject] = []
    for name in sorted(network.nodes):
        cpu, gpu = draw(st.sampled_from([(0, 0), (0, 0), (1, 1), (2, 2), (4, 2)]))
        if (cpu or gpu) and cpu <= free[name][0] and gpu <= free[name][1]:
            free[name] = (free[name][0] - cpu, free[name][1] - gpu)
            fillers.append(pod(f"filler-{name}", cpu=cpu, gpu=gpu, node=name))
    beside = [kind] if kind == "nested" else [other for other in others if other != "nested"]
    more = "bc"[: draw(st.integers(0, most_gangs - 1))]
    made = [draw(gangs(name, draw(st.sampled_from(beside)), network)) for name in more]
    return World(network, free, [draw(gangs("a", kind, network)), *made], fillers)
