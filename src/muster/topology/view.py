"""The topology tree with what is free in it, as data that every drawing is made from.

Made from objects as they stand in files or in a cluster, faults included: a tree that the scheduler would not use
is drawn as far as it can be, with each fault on the HyperNode that has it; so is a very deep one, whose lowest domains
are left out with their nodes standing in the last one drawn. Amounts are of one resource, in base
units. Domains and nodes are in natural order of their names, and a node stands in the smallest domain that
holds it. Clusters with one Topology (labels of nodes) and no HyperNodes are drawn as if they had those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from muster.api import HyperNode, KubeObject, Node, ObjectMeta, Pod, Topology, pod_request, to_base
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.snapshot.hypernodes import ROOT, HyperNodeForest, build_forest, natural
from muster.snapshot.labels import LabelTopology, NodeLabels, build_label_topology

_ENDED = ("Succeeded", "Failed")
#: How many domains are drawn inside each other at most; networks have three or four.
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node: what it has, what pods take, and whether something keeps new pods away."""

    name: str
    total: int
    used: int
    note: str = ""

    @property
    def free(self) -> int:
        return max(0, self.total - self.used)


@dataclass(frozen=True, slots=True)
class DomainView:
    """A domain: `nodes` are those in no smaller domain; the totals count every node inside, once."""

    name: str
    tier: int
    tier_name: str = ""
    domains: tuple[DomainView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    faults: tuple[str, ...] = ()
    n_nodes: int = 0
    total: int = 0
    used: int = 0

    @property
    def free(self) -> int:
        return max(0, self.total - self.used)

    @property
    def is_root(self) -> bool:
        return self.name == ROOT


@dataclass(frozen=True, slots=True)
class TopologyView:
    """The whole tree. `tiers`: number, names and count of domains, the highest first, without the root."""

    resource: str
    root: DomainView
    tiers: tuple[tuple[int, tuple[str, ...], int], ...]


@dataclass(slots=True)
class Objects:
    """The objects that a tree is made of, by name."""

    nodes: dict[str, Node] = field(default_factory=dict)
    hyper_nodes: dict[str, HyperNode] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    topologies: dict[str, Topology] = field(default_factory=dict)

    @staticmethod
    def of(objects: Iterable[KubeObject]) -> Objects:
        """Pick them out of others."""
        found = Objects()
        for thing in objects:
            if isinstance(thing, Node):
                found.nodes[thing.name] = thing
            elif isinstance(thing, HyperNode):
                found.hyper_nodes[thing.name] = thing
            elif isinstance(thing, Pod):
                found.pods.append(thing)
            elif isinstance(thing, Topology):
                found.topologies[thing.name] = thing
        return found

    def tree(self) -> dict[str, HyperNode]:
        """The HyperNodes; where there are none, the domains of the one Topology that there is."""
        if self.hyper_nodes or len(self.topologies) != 1:
            return self.hyper_nodes
        [topology] = self.topologies.values()
        return label_tree(topology, self.nodes)


def make_view(objects: Objects, resource: str = "") -> TopologyView:
    """Look at the tree; without a resource, at the scarce one: GPUs, else another device, else CPUs."""
    resource = resource or scarce_resource(objects.nodes.values())
    hyper_nodes = objects.tree()
    forest = build_forest(hyper_nodes, objects.nodes)
    maker = _Maker(forest, hyper_nodes, _node_views(objects, resource))
    root = maker.root()
    names: dict[int, set[str]] = {}
    counts: dict[int, int] = {}
    for name, tier in forest.tiers.items():
        counts[tier] = counts.get(tier, 0) + 1
        names.setdefault(tier, set()).update(filter(None, [hyper_nodes[name].spec.tier_name]))
    tiers = tuple((tier, tuple(sorted(names[tier])), counts[tier]) for tier in sorted(counts, reverse=True))
    return TopologyView(resource, root, tiers)


def scarce_resource(nodes: Iterable[Node]) -> str:
    """The device of which there is most, GPUs before others; CPUs where there is none."""
    totals: dict[str, int] = {}
    for node in nodes:
        for name, quantity in node.status.allocatable.items():
            if "/" in name:
                totals[name] = totals.get(name, 0) + to_base(name, quantity)
    devices = [name for name, total in totals.items() if total]
    return min(devices, key=lambda name: (not name.endswith("/gpu"), -totals[name], name), default="cpu")


def prune(view: TopologyView, tier: int) -> TopologyView:
    """Leave out nodes and domains below a tier; what is above keeps its totals."""

    def pruned(domain: DomainView) -> DomainView:
        kept = tuple(pruned(inner) for inner in domain.domains if inner.tier >= tier)
        return replace(domain, domains=kept, nodes=())

    tiers = tuple(entry for entry in view.tiers if entry[0] >= tier)
    return TopologyView(view.resource, pruned(view.root), tiers)


def _node_views(objects: Objects, resource: str) -> dict[str, NodeView]:
    used: dict[str, int] = {}
    for pod in objects.pods:
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            used[pod.spec.node_name] = used.get(pod.spec.node_name, 0) + pod_request(pod).get(resource, 0)
    views = {}
    for name, node in objects.nodes.items():
        offered = node.status.allocatable.get(resource)
        total = 0 if offered is None else to_base(resource, offered)
        views[name] = NodeView(name, total, used.get(name, 0), _note(node))
    return views


def _note(node: Node) -> str:
    if not node.is_ready:
        return "not ready"
    return "cordoned" if node.spec.unschedulable else ""


class _Maker:
    """Builds domains from the top down; each HyperNode is drawn once, so a cycle ends where it began."""

    def __init__(self, forest: HyperNodeForest, hyper_nodes: dict[str, HyperNode], nodes: dict[str, NodeView]) -> None:
        self._forest = forest
        self._hyper_nodes = hyper_nodes
        self._nodes = nodes
        self._drawn: set[str] = set()
        self._faults: dict[str, list[str]] = {}
        for name, text in forest.all_faults:
            self._faults.setdefault(name, []).append(text)

    def root(self) -> DomainView:
        forest = self._forest
        tops = [name for name in sorted(forest.tiers, key=natural) if name not in forest.parents]
        domains = [self._domain(name) for name in tops]
        # What is left hangs together in a circle: it starts at its first name.
        for name in sorted(forest.tiers, key=natural):
            if name not in self._drawn:
                domains.append(self._domain(name))  # noqa: PERF401 - drawing one marks others as drawn
        inside = {node for name in forest.tiers for node in forest.nodes[name]}
        # As the scheduler does: without HyperNodes there is only the root, of tier 1.
        tier = max(forest.tiers.values(), default=0) + 1
        return self._totals(DomainView(ROOT, tier, domains=tuple(domains)), set(self._nodes), set(self._nodes) - inside)

    def _domain(self, name: str, depth: int = 1) -> DomainView:
        self._drawn.add(name)
        forest = self._forest
        if depth == _MAX_DEPTH:
            return self._deepest(name)
        inner = [child for child in sorted(forest.children[name], key=natural) if child not in self._drawn]
        domain = DomainView(
            name,
            forest.tiers[name],
            self._hyper_nodes[name].spec.tier_name,
            domains=tuple(self._domain(child, depth + 1) for child in inner),
            faults=tuple(self._faults.get(name, ())),
        )
        deeper = {node for child in forest.children[name] if child != name for node in forest.nodes[child]}
        return self._totals(domain, set(forest.nodes[name]), set(forest.own_nodes[name]) - deeper)

    def _deepest(self, name: str) -> DomainView:
        """The last domain that is drawn: it shows the faults and nodes of all that is inside it."""
        forest = self._forest
        inside = dict.fromkeys([name])
        left = [name]
        while left:
            below = [child for child in forest.children[left.pop()] if child not in inside]
            inside.update(dict.fromkeys(below))
            left += below
        self._drawn.update(inside)
        faults = tuple(fault for each in inside for fault in self._faults.get(each, ()))
        domain = DomainView(name, forest.tiers[name], self._hyper_nodes[name].spec.tier_name, faults=faults)
        return self._totals(domain, set(forest.nodes[name]), set(forest.nodes[name]))

    def _totals(self, domain: DomainView, inside: set[str], own: set[str]) -> DomainView:
        views = [self._nodes[name] for name in inside]
        return replace(
            domain,
            nodes=tuple(self._nodes[name] for name in sorted(own, key=natural)),
            n_nodes=len(views),
            total=sum(view.total for view in views),
            used=sum(view.used for view in views),
        )


# -- a label topology as HyperNodes ----------------------------------------------------------------------------


def label_tree(topology: Topology, nodes: Mapping[str, Node]) -> dict[str, HyperNode]:
    """The domains of a topology over the nodes, by name."""
    listed = [nodes[name] for name in sorted(nodes)]
    levels = [level.node_label for level in topology.spec.levels]
    table = build_label_topology(topology.name, levels, NodeLabels(listed), len(listed))
    made = [_hyper_node(table, domain, listed) for domain in range(1, len(table))]
    return {item.name: item for item in made}


def _hyper_node(table: LabelTopology, domain: int, nodes: list[Node]) -> HyperNode:
    level, depth = int(table.level[domain]), len(table.labels)
    if level == depth:
        members = [_member("Node", nodes[row].name) for row in table.nodes(domain).tolist()]
    else:
        inner = [child for child in table.at_level(level + 1).tolist() if table.parent[child] == domain]
        members = [_member("HyperNode", table.names[child]) for child in inner]
    spec = HyperNodeSpec(tier=depth - level + 1, tier_name=table.level_name(level), members=members)
    return HyperNode(metadata=ObjectMeta(name=table.names[domain]), spec=spec)


def _member(kind: str, name: str) -> Member:
    return Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))
