"""HyperNodes as a forest: who is inside whom, which nodes each holds, and what is wrong with them.

Made anew whenever a HyperNode or a node changes. Nodes that a HyperNode names but
that do not exist are left out: nodes come and go. Everything else that is wrong is a fault of each HyperNode that
cannot be believed because of it; `usable_tree` is what is left without those. A chain of HyperNodes may be as long as
it likes: nothing here calls itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from muster.api import HyperNode, Node
from muster.api.objects.topology import MemberSelector, compile_pattern, pattern_matches

#: Name of the domain that holds everything.
ROOT = "<cluster-top-hypernode>"

_DIGITS = re.compile(r"(\d+)")
#: A circle of more HyperNodes is named by its beginning.
_MAX_SHOWN = 8


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts rack-2 before rack-10."""
    parts = [(1, int(part), "") if part.isdecimal() else (2, 0, part) for part in _DIGITS.split(name) if part]
    return (*parts, (0, 0, name))


def select_members(selector: MemberSelector, nodes: Iterable[Node]) -> list[str]:
    """Names of the nodes that a member selector picks; a selector that says nothing picks none."""
    listed = list(nodes)
    if selector.exact_match is not None:
        return [node.name for node in listed if node.name == selector.exact_match.name]
    if selector.regex_match is not None:
        return [node.name for node in listed if pattern_matches(selector.regex_match.pattern, node.name)]
    label = selector.label_match
    if label is not None and (label.match_labels or label.match_expressions):
        return [node.name for node in listed if label.matches(node.metadata.labels)]
    return []


@dataclass(slots=True)
class HyperNodeForest:
    """Parents, children and nodes of HyperNodes, by name; the virtual root is not in it."""

    tiers: dict[str, int] = field(default_factory=dict)
    tier_names: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    #: All HyperNodes that name one as their member, also where only the first could be its parent.
    containers: dict[str, list[str]] = field(default_factory=dict)
    #: HyperNodes that are inside themselves.
    circular: set[str] = field(default_factory=set)
    #: Nodes that a HyperNode names itself.
    own_nodes: dict[str, list[str]] = field(default_factory=dict)
    #: The first fault of each HyperNode that has one.
    faults: dict[str, str] = field(default_factory=dict)
    #: Every fault, with the HyperNode that is to be corrected, in the order they were found.
    all_faults: list[tuple[str, str]] = field(default_factory=list)
    #: Node names by HyperNode, own and those of everything inside it.
    nodes: dict[str, list[str]] = field(default_factory=dict)
    #: By node, the HyperNodes that name it and hold no other that does; more than one overlap.
    owners: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return not self.faults

    def ancestors(self, name: str) -> list[str]:
        """The HyperNode itself, its parent, and so on up."""
        path: dict[str, None] = {}
        while name in self.tiers and name not in path:
            path[name] = None
            name = self.parents.get(name, "")
        return list(path)

    def lowest_common_ancestor(self, a: str, b: str) -> str:
        """The smallest HyperNode that holds both; "" if none does."""
        if a == b:
            return a
        above = self.ancestors(a)
        return next((name for name in self.ancestors(b) if name in above), "")

    def leaves(self, name: str) -> list[str]:
        """HyperNodes without HyperNodes inside, from `name` down, by name."""
        found, left = {name}, [name]
        while left:  # a HyperNode inside itself is met again, and not followed twice
            below = set(self.children.get(left.pop(), ())) - found
            found |= below
            left += below
        return sorted(known for known in found if known in self.tiers and not self.children[known])


def build_forest(hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> HyperNodeForest:
    """Put HyperNodes together; faults name the HyperNode that is to be corrected."""
    forest = HyperNodeForest()
    listed = [nodes[name] for name in sorted(nodes)]
    for name in sorted(hyper_nodes):
        spec = hyper_nodes[name].spec
        forest.tiers[name] = spec.tier
        if spec.tier_name:
            _name_tier(forest, name, spec.tier_name, spec.tier)
        forest.children[name] = []
        forest.containers[name] = []
        forest.own_nodes[name] = []
    for name in sorted(hyper_nodes):
        _add_members(forest, name, hyper_nodes[name], listed, nodes)
    _find_circles(forest)
    _find_wrong_tiers(forest)
    _gather_nodes(forest)
    _find_overlaps(forest)
    return forest


def _fault(forest: HyperNodeForest, name: str, text: str) -> None:
    forest.faults.setdefault(name, text)
    forest.all_faults.append((name, text))


def _name_tier(forest: HyperNodeForest, name: str, tier_name: str, tier: int) -> None:
    known = forest.tier_names.setdefault(tier_name, tier)
    if known != tier:
        _fault(forest, name, f"tier name {tier_name!r} stands for tier {known} elsewhere and for tier {tier} here")


def _add_members(
    forest: HyperNodeForest, name: str, hyper_node: HyperNode, listed: list[Node], nodes: Mapping[str, Node]
) -> None:
    own: dict[str, None] = {}
    for member in hyper_node.spec.members:
        selector = member.selector
        if not _readable(forest, name, selector):
            continue
        if member.type == "HyperNode":
            for child in _child_names(forest, name, selector):
                _add_child(forest, name, child)
        elif selector.exact_match is not None:
            if selector.exact_match.name in nodes:
                own[selector.exact_match.name] = None
        else:
            own.update(dict.fromkeys(select_members(selector, listed)))
    forest.own_nodes[name] = list(own)


def _readable(forest: HyperNodeForest, name: str, selector: MemberSelector) -> bool:
    """False, and a fault, for a pattern that cannot be compiled: it got past whoever admits objects."""
    if selector.regex_match is not None:
        try:
            compile_pattern(selector.regex_match.pattern)
        except ValueError as error:
            _fault(forest, name, str(error))
            return False
    return True


def _child_names(forest: HyperNodeForest, name: str, selector: MemberSelector) -> list[str]:
    if selector.exact_match is not None:
        return [selector.exact_match.name]
    if selector.regex_match is not None:
        pattern = selector.regex_match.pattern
        return [other for other in sorted(forest.tiers) if other != name and pattern_matches(pattern, other)]
    return []


def _add_child(forest: HyperNodeForest, name: str, child: str) -> None:
    if child not in forest.tiers:
        _fault(forest, name, f"member HyperNode {child!r} does not exist")
        return
    containers = forest.containers[child]
    if name in containers:
        return
    if containers:
        _fault(forest, name, f"HyperNode {child!r} is a member of {containers[0]!r} already")
        if len(containers) == 1:
            _fault(forest, containers[0], f"HyperNode {child!r} is a member of {name!r} too")
    else:
        forest.parents[child] = name
        forest.children[name].append(child)
    containers.append(name)


def _find_circles(forest: HyperNodeForest) -> None:
    """HyperNodes that are inside themselves: among those that are left when all that stand in none are taken away."""
    waiting = {name: len(containers) for name, containers in forest.containers.items()}
    members: dict[str, list[str]] = {name: [] for name in forest.tiers}
    for name, containers in forest.containers.items():
        for container in containers:
            members[container].append(name)
    free = [name for name, count in waiting.items() if not count]
    while free:
        for member in members[free.pop()]:
            waiting[member] -= 1
            if not waiting[member]:
                free.append(member)
    for name in sorted(name for name, count in waiting.items() if count):
        if circle := _way_back(forest, name):
            forest.circular.add(name)
            shown = circle if len(circle) <= _MAX_SHOWN else [*circle[:_MAX_SHOWN], f"… {len(circle)} HyperNodes …"]
            _fault(forest, name, f"is inside itself: {' in '.join([*shown, name])}")


def _way_back(forest: HyperNodeForest, start: str) -> list[str]:
    """The HyperNodes around one, from itself to the last before itself again; empty if it is not inside itself."""
    came_from: dict[str, str] = {}
    reached = [start]
    for name in reached:  # grows while it is walked
        for container in forest.containers[name]:
            if container == start:
                path = [name]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if container not in came_from:
                came_from[container] = name
                reached.append(container)
    return []


def _inside_out(forest: HyperNodeForest) -> list[str]:
    """Names so that each comes after all that is inside it; in a circle, as far as that can be."""
    order: list[str] = []
    seen: set[str] = set()
    for top in forest.tiers:
        left = [(top, False)]
        while left:
            name, entered = left.pop()
            if entered:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                left.append((name, True))
                left += ((child, False) for child in forest.children[name])
    return order


def _gather_nodes(forest: HyperNodeForest) -> None:
    for name in _inside_out(forest):
        found = dict.fromkeys(forest.own_nodes[name])
        for child in forest.children[name]:
            # Not there yet: a circle closes here.
            found.update(dict.fromkeys(forest.nodes.get(child, ())))
        forest.nodes[name] = sorted(found)


def _find_overlaps(forest: HyperNodeForest) -> None:
    """A node named by two HyperNodes is an overlap unless one is inside the other; then the inner one counts."""
    for name in sorted(forest.own_nodes):
        for node in forest.own_nodes[name]:
            forest.owners.setdefault(node, []).append(name)
    around: dict[str, set[str]] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for node, names in sorted(forest.owners.items()):
        if len(names) == 1:
            continue
        for name in names:
            if name not in around:
                around[name] = set(forest.ancestors(name)[1:])
        outer = {other for name in names for other in names if other in around[name]}
        # In a circle each is around the other: then all of them are asked.
        inner = [name for name in names if name not in outer] or names
        forest.owners[node] = inner
        for pair in permutations(inner, 2):
            shared.setdefault(pair, []).append(node)
    for (name, other), nodes in sorted(shared.items()):
        more = f" and {len(nodes) - 1} more are" if len(nodes) > 1 else " is"
        _fault(forest, name, f"node {nodes[0]!r}{more} in {other!r} too")


def _find_wrong_tiers(forest: HyperNodeForest) -> None:
    for name in sorted(forest.parents):
        parent = forest.parents[name]
        tier, inner = forest.tiers[parent], forest.tiers[name]
        if tier <= inner:
            _fault(forest, parent, f"tier {tier} is not above tier {inner} of its member {name!r}")
