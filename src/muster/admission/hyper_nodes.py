"""HyperNodes: there are members, each is selected in exactly one way, and patterns can be read.

A HyperNode that does not fit into the tree is admitted with a warning: tools write the tree object by object, and it is
whole only after the last one. Until then the HyperNodes with a fault are out of use. Jobs whose constraint names a tier
that nothing is called are warned about as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.admission.request import Caution, Findings, Known, Request, Settings, read
from muster.api import HyperNode, NetworkTopology, Problem, problems
from muster.api.objects.topology import pattern_matches
from muster.snapshot.hypernodes import build_forest

HyperNodes = Mapping[str, HyperNode]


def validate_hyper_node(request: Request, known: Known, settings: Settings) -> Findings:
    """Find what is wrong with a HyperNode."""
    del settings
    hyper_node = read(request.document, HyperNode)
    found = list(problems(hyper_node))
    if not hyper_node.spec.members:
        text = "expected at least one member, got none"
        found.append(Problem("spec.members", text, known_as="member must have at least one member"))
    yield from found
    if not found:
        yield from _tree_faults(hyper_node, known.hyper_nodes())


def _tree_faults(hyper_node: HyperNode, standing: HyperNodes) -> Findings:
    """What is wrong with the tree with this HyperNode and was not before; nodes are left out of it."""
    before = _related(hyper_node, standing)
    known_faults = set(build_forest(before, {}).all_faults)
    for name, text in build_forest({**before, hyper_node.name: hyper_node}, {}).all_faults:
        if (name, text) not in known_faults:
            about = "" if name == hyper_node.name else f"HyperNode {name}: "
            yield Caution("spec.members", f"{about}{text}; it is out of use until this is corrected")


def _related(hyper_node: HyperNode, standing: HyperNodes) -> dict[str, HyperNode]:
    """The part of the tree that a HyperNode bears on: those inside it, or inside until now, and all around them.

    The whole tree may hold thousands of patterns, and most requests are about a leaf.
    """
    versions = [each for each in (hyper_node, standing.get(hyper_node.name)) if each is not None]
    found = {hyper_node.name, *(name for each in versions for name in standing if _selects(each, name))}
    by_name: dict[str, list[str]] = {}
    by_pattern = [each for each in standing.values() if any(_patterns(each))]
    for name, each in standing.items():
        for member in each.spec.members:
            if member.type == "HyperNode" and member.selector.exact_match is not None:
                by_name.setdefault(member.selector.exact_match.name, []).append(name)
    new = list(found)
    while new:
        inner = new.pop()
        around = (*by_name.get(inner, ()), *(each.name for each in by_pattern if _selects(each, inner)))
        new += (outer for outer in around if outer not in found)
        found.update(around)
    spec = hyper_node.spec
    if spec.tier_name:
        found |= {name for name, each in standing.items() if each.spec.tier_name == spec.tier_name}
    return {name: standing[name] for name in sorted(found) if name in standing}


def _patterns(hyper_node: HyperNode) -> Iterable[str]:
    for member in hyper_node.spec.members:
        if member.type == "HyperNode" and member.selector.regex_match is not None:
            yield member.selector.regex_match.pattern


def _selects(hyper_node: HyperNode, name: str) -> bool:
    """Whether a HyperNode is a member of another one, by name or by pattern."""
    for member in hyper_node.spec.members:
        exact = member.selector.exact_match
        if member.type == "HyperNode" and exact is not None and exact.name == name:
            return True
    return name != hyper_node.name and any(_is_match(pattern, name) for pattern in _patterns(hyper_node))


def _is_match(pattern: str, name: str) -> bool:
    try:
        return pattern_matches(pattern, name)
    except ValueError:  # of a HyperNode that came before there was anybody to refuse it
        return False


# -- tiers that jobs name --------------------------------------------------------------------------------------


def tier_cautions(field: str, topology: NetworkTopology | None, known: Known) -> Findings:
    """Say what a constraint lacks; an absent one lacks nothing."""
    if topology is None:
        return
    if topology.highest_tier_name:
        tiers = sorted({each.spec.tier_name for each in known.hyper_nodes().values() if each.spec.tier_name})
        if topology.highest_tier_name not in tiers:
            there = f"there are {', '.join(tiers)}" if tiers else "no HyperNode has a tierName"
            text = f'no HyperNode is of tier "{topology.highest_tier_name}"; {there}'
            yield Caution(f"{field}.highestTierName", f"{text}. The job waits until one is")
    elif topology.mode == "hard" and topology.highest_tier_allowed is None:
        text = "hard mode needs highestTierAllowed or highestTierName; the job waits without one"
        yield Caution(f"{field}.mode", text)
