"""Tiny random networks and gangs of every kind for the oracle, described twice.

Once as plain data that the exact solver reads (`tests.reference.exact_starts`), once as the objects that the scheduler
reads. The two are made side by side from the same draws, and neither from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from muster.api import (
    KaiPodGroup,
    KaiPodGroupSpec,
    KaiSubGroup,
    KubeObject,
    LabelSelector,
    NetworkTopology,
    ObjectMeta,
    SubGroupPolicy,
    Taint,
    Toleration,
)
from muster.api.names import KAI_GROUP_NAME, KAI_SUBGROUP
from muster.testing import node, pod
from tests.engine.label_networks import RACK, ZONE, sub_group, topology, within
from tests.reference.exact_starts import Amounts, Demand, Nodes, Part, regions_of
from tests.snapshot.networks import SOFT, group, hard, hyper_node

KINDS = ("plain", "elastic", "mixed", "roles", "divided", "master", "policies", "nested")
#: What a node has at most: CPUs and GPUs.
_SIZES = ((8, 4), (8, 2), (4, 4), (6, 3))
#: Pods that a node takes at most.
_PODS = (110, 110, 110, 110, 3, 2, 1)
ROLE, PARTITION, DISK = "role", "partition", "disk"
_RESERVED = Taint(key="reserved", effect="NoSchedule")
_TIER_NAMES = {1: "rack", 2: "spine"}


@dataclass
class Network:
    """Nodes with what they offer (CPUs, GPUs, pods), and domains of HyperNodes with tier and nodes."""

    nodes: dict[str, Amounts] = field(default_factory=dict)
    domains: dict[str, tuple[int, Nodes]] = field(default_factory=dict)
    objects: list[KubeObject] = field(default_factory=list, repr=False)
    #: Racks and zones by labels, for KAI's gangs.
    racks: dict[str, Nodes] = field(default_factory=dict)
    zones: dict[str, Nodes] = field(default_factory=dict)
    #: Nodes with a disk that some pods ask for, and those that are for pods which say so.
    with_disk: set[str] = field(default_factory=set)
    reserved: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Request:
    """What pods of a kind ask for, and what they say of nodes."""

    amounts: Amounts
    needs_disk: bool = False
    may_use_reserved: bool = False

    def allowed(self, network: Network) -> Nodes:
        """Nodes that it may be on."""
        fine = set(network.nodes)
        fine &= network.with_disk if self.needs_disk else fine
        return frozenset(fine if self.may_use_reserved else fine - network.reserved)


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


class Draft:
    """A gang in the making: its pods, as data and as objects."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.network = network
        self.pods: dict[str, Amounts] = {}
        self.allowed: dict[str, Nodes] = {}
        self.parts: list[Part] = []
        self.at_least: list[tuple[tuple[int, ...], int]] = []
        self.objects: list[KubeObject] = []

    def add(
        self,
        pods: int,
        request: Request,
        *,
        label: str = "",
        role: str = "",
        labels: Mapping[str, str] | None = None,
        of_kai: bool = False,
    ) -> frozenset[str]:
        """Add so many equal pods; return their names."""
        stem = f"{self.name}-{label}" if label else self.name
        names = [f"{stem}-{k}" for k in range(pods)]
        for name in names:
            self.pods[name] = (*request.amounts, 1)
            self.allowed[name] = request.allowed(self.network)
            self.objects.append(
                pod(
                    name,
                    group=None if of_kai else self.name,
                    role=role,
                    cpu=request.amounts[0],
                    gpu=request.amounts[1],
                    labels=labels or {},
                    annotations={KAI_GROUP_NAME: self.name} if of_kai else {},
                    selector={DISK: "fast"} if request.needs_disk else {},
                    tolerations=[Toleration(key="reserved", operator="Exists")] if request.may_use_reserved else (),
                )
            )
        return frozenset(names)

    def demand(self) -> Demand:
        return Demand(self.pods, tuple(self.parts), tuple(self.at_least), self.allowed)


# -- networks ------------------------------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn, *, labelled: bool = False) -> Network:
    """One to three spines of uneven racks, nodes beside racks, nodes in no domain; at most nine nodes."""
    made = Network()
    spines = []
    for spine in range(draw(st.integers(1, 3))):
        racks, own = [], []
        for rack in range(draw(st.integers(1, 2))):
            names = [f"s{spine}r{rack}n{k}" for k in range(draw(st.integers(1, 2)))]
            _add_nodes(draw, made, names, {ZONE: f"s{spine}", RACK: f"r{rack}"})
            racks.append(f"s{spine}r{rack}")
            made.racks[racks[-1]] = frozenset(names)
            if not labelled:
                made.domains[racks[-1]] = (1, frozenset(names))
                made.objects.append(hyper_node(racks[-1], 1, nodes=names, tier_name=_TIER_NAMES[1]))
        if draw(st.booleans()):
            own = [f"s{spine}n"]
            _add_nodes(draw, made, own, {ZONE: f"s{spine}"} if labelled else {})
        # A node that lacks one of the labels is in no domain of them.
        inside = frozenset([] if labelled else own).union(*(made.racks[name] for name in racks))
        made.zones[f"s{spine}"] = inside
        if not labelled and draw(st.integers(0, 3)):
            made.domains[f"s{spine}"] = (2, inside)
            spines.append(f"s{spine}")
            made.objects.append(hyper_node(spines[-1], 2, nodes=own, inside=racks, tier_name=_TIER_NAMES[2]))
    if len(spines) > 1 and draw(st.integers(0, 3)) == 0:
        made.domains["core"] = (7, frozenset().union(*(made.domains[name][1] for name in spines[:2])))
        made.objects.append(hyper_node("core", 7, inside=spines[:2], tier_name="core"))
    if draw(st.booleans()):
        _add_nodes(draw, made, ["loose"], {})
    if labelled:
        made.objects.append(topology())
    return made


def _add_nodes(draw: st.DrawFn, made: Network, names: list[str], labels: Mapping[str, str]) -> None:
    for name in names:
        cpu, gpu = draw(st.sampled_from(_SIZES))
        pods = draw(st.sampled_from(_PODS))
        made.nodes[name] = (cpu, gpu, pods)
        marks = draw(st.integers(0, 9))
        if marks < 6:
            made.with_disk.add(name)
        if marks in (5, 9):
            made.reserved.add(name)
        more = {DISK: "fast"} if name in made.with_disk else {}
        taints = [_RESERVED] if name in made.reserved else []
        made.objects.append(node(name, cpu=cpu, gpu=gpu, pods=pods, labels={**labels, **more}, taints=taints))


# -- gangs ---------------------------------------------------------------------------------------------------------

_LIMITS = st.sampled_from([None, "soft", 1, 1, 2, 2])
_AMOUNTS = st.sampled_from([(1, 1), (2, 2), (4, 2), (1, 3), (2, 0), (3, 1), (2, 4), (0, 0)])
#: How far a gang has been let in.
_PHASES = st.sampled_from(["Inqueue", "Inqueue", "Pending", ""])
#: Whether pods ask for a disk, and whether they may use reserved nodes.
_MARKS = st.sampled_from([(False, True), (False, True), (False, True), (False, False), (True, True)])


@st.composite
def requests(draw: st.DrawFn) -> Request:
    return Request(draw(_AMOUNTS), *draw(_MARKS))


def _constraint(draw: st.DrawFn, network: Network, drawn: str | int | None) -> NetworkTopology | None:
    if drawn is None:
        return None
    if isinstance(drawn, str):
        return SOFT
    has_tier = any(tier == drawn for tier, _ in network.domains.values())
    return hard(_TIER_NAMES[drawn] if has_tier and draw(st.booleans()) else drawn)


def _limit(drawn: str | int | None) -> int | None:
    return drawn if isinstance(drawn, int) else None


@st.composite
def gangs(draw: st.DrawFn, name: str, kind: str, network: Network) -> Gang:
    """A gang of a kind."""
    if kind == "nested":
        return draw(_nested(name, network))
    if kind == "roles":
        return draw(_of_roles(name, network))
    if kind in ("divided", "master", "policies"):
        return draw(_divided(name, network, kind))
    count = draw(st.integers(1, 5))
    draft, alike = Draft(name, network), draw(requests())
    for k in range(count):
        request = draw(requests()) if kind == "mixed" else alike
        draft.add(1, request, label=str(k))
    minimum = count if kind == "plain" else draw(st.integers(1, count))
    drawn = draw(_LIMITS)
    draft.parts.append(Part(frozenset(draft.pods), minimum, regions_of(network.domains, _limit(drawn))))
    objects = [group(name, minimum, _constraint(draw, network, drawn), phase=draw(_PHASES)), *draft.objects]
    return Gang(name, kind, draft.demand(), objects, _limit(drawn), soft=drawn == "soft")


@st.composite
def _of_roles(draw: st.DrawFn, name: str, network: Network) -> Gang:
    """Roles with minimums of their own, which add up to no more than the gang's."""
    draft, minimums = Draft(name, network), {}
    for number in range(draw(st.integers(1, 3))):
        role, count = f"r{number}", draw(st.integers(1, 3))
        own = draft.add(count, draw(requests()), label=role, role=role)
        minimums[role] = draw(st.integers(0, count))
        draft.parts.append(Part(own, minimums[role]))
    least = sum(minimums.values())
    minimum = draw(st.integers(max(1, least), max(1, len(draft.pods))))
    drawn = draw(_LIMITS)
    draft.parts.append(Part(frozenset(draft.pods), minimum, regions_of(network.domains, _limit(drawn))))
    named = {role: least for role, least in minimums.items() if least}
    objects = [
        group(name, minimum, _constraint(draw, network, drawn), roles=named, phase=draw(_PHASES)),
        *draft.objects,
    ]
    return Gang(name, "roles", draft.demand(), objects, _limit(drawn), soft=drawn == "soft")


@st.composite
def _divided(draw: st.DrawFn, name: str, network: Network, kind: str) -> Gang:
    """Partitions of workers, with a policy of their own; beside them a master, or partitions of another policy."""
    draft, drawn = Draft(name, network), draw(_LIMITS)
    policies, least = [], 0
    roles: dict[str, list[Part]] = {}
    has_roles = draw(st.integers(0, 2)) == 0

    def partitions(role: str, most: int) -> None:
        nonlocal least
        size, count, inner = draw(st.integers(1, 3 if most > 2 else 2)), draw(st.integers(1, most)), draw(_LIMITS)
        needed = draw(st.integers(1, count))
        request, regions, first = draw(requests()), regions_of(network.domains, _limit(inner)), len(draft.parts)
        for partition in range(count):
            labels = {ROLE: role, PARTITION: str(partition)}
            extra, label = draw(st.integers(0, 1)), f"{role[0]}{partition}"
            own = draft.add(size, request, label=label, labels=labels, role=role if has_roles else "")
            request = draw(st.sampled_from([request, request, request, draw(requests())]))
            own |= draft.add(extra, request, label=f"{label}x", labels=labels, role=role if has_roles else "")
            draft.parts.append(Part(own, size, regions, may_stay_out=True))
            roles.setdefault(role, []).append(draft.parts[-1])
        policies.append(_policy(role, [PARTITION], size, needed, _constraint(draw, network, inner)))
        draft.at_least.append((tuple(range(first, first + count)), needed))
        least += size * needed

    partitions("worker", 3)
    if kind == "policies":
        partitions("server", 2)
    if kind == "master":
        own = draft.add(1, draw(requests()), label="master", labels={ROLE: "master"})
        least += 1
        if draw(st.booleans()):
            own_limit = draw(_LIMITS)
            allowed = regions_of(network.domains, _limit(own_limit))
            draft.at_least.append(((len(draft.parts),), 1))
            draft.parts.append(Part(own, 1, allowed, may_stay_out=True))
            policies.append(_policy("master", [], 1, 1, _constraint(draw, network, own_limit)))
    minimum, named = draw(st.one_of(st.integers(0, least), st.just(len(draft.pods)))), {}
    for role, parts in roles.items() if has_roles else ():
        pods = frozenset().union(*(part.pods for part in parts))
        named[role] = draw(st.integers(1, len(pods)))
        draft.parts.append(Part(pods, named[role]))
    minimum = max(minimum, sum(named.values()))
    draft.parts.append(Part(frozenset(draft.pods), minimum, regions_of(network.domains, _limit(drawn))))
    constraint = _constraint(draw, network, drawn)
    objects = [group(name, minimum, constraint, policies, roles=named, phase=draw(_PHASES)), *draft.objects]
    return Gang(name, kind, draft.demand(), objects, _limit(drawn), soft=drawn == "soft")


def _policy(role: str, keys: list[str], size: int, needed: int, inner: NetworkTopology | None) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=role,
        label_selector=LabelSelector(match_labels={ROLE: role}),
        match_label_keys=keys or [ROLE],
        sub_group_size=size,
        min_sub_groups=needed,
        network_topology=inner,
    )


@st.composite
def _nested(draw: st.DrawFn, name: str, network: Network) -> Gang:
    """A gang of KAI: two or three sub-groups, some below others, with levels that they must or would stay within."""
    levels = {"": None, ZONE: tuple(network.zones.values()), RACK: tuple(network.racks.values())}
    draft, groups = Draft(name, network), []
    preferred = {"": ["", ZONE, RACK], ZONE: ["", RACK], RACK: [""]}

    def part(label: str, minimum: int | None, own: frozenset[str], *, tight: bool, parent: str | None) -> KaiSubGroup:
        level = draw(st.sampled_from(["", ZONE, RACK] if tight else ["", ZONE]))
        wished = draw(st.sampled_from(["", "", *preferred[level]]))
        draft.parts.append(Part(own, minimum or 0, levels[level]))
        return sub_group(label, minimum, within(level, wished) if level or wished else None, parent=parent)

    parent = draw(st.sampled_from(["", "both", "outer"]))
    below: frozenset[str] = frozenset()
    elastic = draw(st.integers(0, 2)) == 0
    for number in range(draw(st.integers(1, 3))):
        label, minimum = f"g{number}", draw(st.integers(1, 2))
        count = minimum + (draw(st.integers(0, 1)) if elastic else 0)
        # One pod may ask for something else.
        sizes = [(count - 1, "x"), (1, "")] if draw(st.integers(0, 3)) == 0 else [(count, "")]
        made = [
            draft.add(size, draw(requests()), label=f"{label}{more}", labels={KAI_SUBGROUP: label}, of_kai=True)
            for size, more in sizes
        ]
        own = frozenset().union(*made)
        inside = bool(parent) and number < 2
        below |= own if inside else frozenset()
        groups.append(part(label, minimum, own, tight=True, parent="both" if inside else None))
    least = sum(one.min_member or 0 for one in groups)
    if parent:
        groups.append(part("both", None, below, tight=False, parent="outer" if parent == "outer" else None))
    if parent == "outer":
        groups.append(part("outer", None, below, tight=False, parent=None))
    outer = part("", least, frozenset(draft.pods), tight=False, parent=None).topology_constraint
    spec = KaiPodGroupSpec(min_member=least, queue="default", topology_constraint=outer, sub_groups=groups)
    made_group = KaiPodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
    return Gang(name, "nested", draft.demand(), [made_group, *draft.objects])
