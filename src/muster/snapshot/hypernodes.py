"""HyperNodes as a forest: who is inside whom, which nodes each holds, and what is wrong with them.

Made by the mirror from HyperNode and Node objects whenever one of them changes. Nodes that a HyperNode names but
that do not exist are left out: nodes come and go. Everything else that is wrong is a fault of the HyperNode that
says it; while there are faults, jobs with a topology constraint wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from muster.api import HyperNode, Node
from muster.api.patterns import compile_pattern, matches
from muster.api.topology import MemberSelector

#: Name of the domain that holds everything.
ROOT = "<cluster-top-hypernode>"

_DIGITS = re.compile(r"(\d+)")


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
        return [node.name for node in listed if matches(selector.regex_match.pattern, node.name)]
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
    #: Nodes that a HyperNode names itself.
    own_nodes: dict[str, list[str]] = field(default_factory=dict)
    #: The first fault of each HyperNode that has one.
    faults: dict[str, str] = field(default_factory=dict)
    #: Every fault, with the HyperNode that is to be corrected, in the order they were found.
    all_faults: list[tuple[str, str]] = field(default_factory=list)
    #: Node names by HyperNode, own and those of everything inside it.
    nodes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return not self.faults

    def ancestors(self, name: str) -> list[str]:
        """The HyperNode itself, its parent, and so on up."""
        path: list[str] = []
        while name in self.tiers and name not in path:
            path.append(name)
            name = self.parents.get(name, "")
        return path

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
        forest.own_nodes[name] = []
    for name in sorted(hyper_nodes):
        _add_members(forest, name, hyper_nodes[name], listed, nodes)
    _find_cycles(forest)
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
        return [other for other in sorted(forest.tiers) if other != name and matches(pattern, other)]
    return []


def _add_child(forest: HyperNodeForest, name: str, child: str) -> None:
    if child not in forest.tiers:
        _fault(forest, name, f"member HyperNode {child!r} does not exist")
    elif child in forest.parents and forest.parents[child] != name:
        _fault(forest, name, f"HyperNode {child!r} is a member of {forest.parents[child]!r} already")
    else:
        forest.parents[child] = name
        if child not in forest.children[name]:
            forest.children[name].append(child)


def _find_cycles(forest: HyperNodeForest) -> None:
    for name in sorted(forest.tiers):
        path = forest.ancestors(name)
        if forest.parents.get(path[-1]) == name:
            _fault(forest, name, f"is inside itself: {' in '.join([*path, name])}")
        else:
            parent = forest.parents.get(name)
            if parent is not None and forest.tiers[parent] <= forest.tiers[name]:
                _fault(
                    forest,
                    parent,
                    f"tier {forest.tiers[parent]} is not above tier {forest.tiers[name]} of its member {name!r}",
                )


def _gather_nodes(forest: HyperNodeForest) -> None:
    def gather(name: str) -> list[str]:
        known = forest.nodes.get(name)
        if known is None:
            # There at once, so that a HyperNode inside itself does not gather for ever.
            forest.nodes[name] = forest.own_nodes[name]
            found = dict.fromkeys(forest.own_nodes[name])
            for child in forest.children[name]:
                found.update(dict.fromkeys(gather(child)))
            known = forest.nodes[name] = sorted(found)
        return known

    for name in forest.tiers:
        gather(name)


def _find_overlaps(forest: HyperNodeForest) -> None:
    """A node named by two HyperNodes is an overlap unless one is inside the other; then the inner one counts."""
    owners: dict[str, list[str]] = {}
    for name in sorted(forest.own_nodes):
        for node in forest.own_nodes[name]:
            owners.setdefault(node, []).append(name)
    shared: dict[tuple[str, str], list[str]] = {}
    for node, names in sorted(owners.items()):
        for first, other in combinations(names, 2):
            if first not in forest.ancestors(other) and other not in forest.ancestors(first):
                shared.setdefault((other, first), []).append(node)
    for (other, first), nodes in sorted(shared.items()):
        more = f" and {len(nodes) - 1} more are" if len(nodes) > 1 else " is"
        _fault(forest, other, f"node {nodes[0]!r}{more} in {first!r} too")
