"""HyperNodes from node labels: one tier per label, the narrowest first.

A label value is a domain; a domain's parent is the next wider label that its nodes have. Nodes without a label are
left out of that tier and hang where the next wider label puts them, so trees may be uneven. The result does not
depend on the order of the nodes, and its names are valid and unique: see `domain_names`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.api import HyperNode, LabelSelector, Node, ObjectMeta, UserError
from muster.api.objects.meta import LabelSelectorRequirement
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
from muster.snapshot.hypernodes import natural

#: A tier, counted from 0, and a label value.
_Key = tuple[int, str]

_MAX_NAME = 253
_N_HASH = 8
_NOT_ALLOWED = re.compile(r"[^a-z0-9.-]+")
#: A dot that does not stand between letters or digits.
_STRAY_DOT = re.compile(r"(?<![a-z0-9])\.|\.(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make: label keys from the narrowest to the widest, and how to write it."""

    keys: tuple[str, ...]
    tier_names: tuple[str, ...]
    prefix: str = ""
    #: Select nodes by label rather than by name: nodes that come later join by themselves.
    by_label: bool = False


@dataclass(slots=True)
class Generated:
    """HyperNodes, tier by tier, and the nodes that lack each label."""

    hyper_nodes: list[HyperNode]
    lacking: dict[str, list[str]]


@dataclass(slots=True)
class _Domain:
    own: list[str] = field(default_factory=list)
    inner: list[_Key] = field(default_factory=list)
    #: Every node inside, with the labels that say where it is.
    nodes: set[str] = field(default_factory=set)


def make_plan(keys: str, tier_names: str = "", prefix: str = "", *, by_label: bool = False) -> Plan:
    """Read the options of the command. Raises UserError."""
    labels = _listed(keys)
    if not labels:
        raise UserError("--from-labels: expected names of node labels, separated by commas")
    names = _listed(tier_names) or tuple(key.rpartition("/")[2] for key in labels)
    if tier_names and len(names) != len(labels):
        raise UserError(f"--tier-names: expected {len(labels)} names, one per label, got {len(names)}")
    for option, values in (("--from-labels", labels), ("--tier-names", names if tier_names else ())):
        if twice := [value for value, n in Counter(values).items() if n > 1]:
            raise UserError(f'{option}: "{twice[0]}" stands there twice')
    if len(set(names)) != len(names):
        names = labels  # short forms that clash say nothing; the whole keys differ
    prefix = prefix.rstrip("-")
    if prefix and _slug(prefix) != prefix:
        raise UserError(f'--prefix: expected lower-case letters, digits, "-" and ".", got "{prefix}"')
    return Plan(labels, names, prefix, by_label)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in (piece.strip() for piece in text.split(",")) if part)


def generate(nodes: Iterable[Node], plan: Plan) -> Generated:
    """Make the HyperNodes. Raises UserError when a domain would have two parents."""
    listed = sorted(nodes, key=lambda node: natural(node.name))
    labels = {node.name: node.metadata.labels for node in listed}
    domains: dict[_Key, _Domain] = {}
    for node in listed:
        for tier, key in enumerate(plan.keys):
            if value := labels[node.name].get(key):
                domain = domains.setdefault((tier, value), _Domain())
                domain.own.append(node.name)
                domain.nodes.add(node.name)
                break
    _add_parents(domains, labels, plan.keys)
    names = domain_names(domains, plan)
    made = [_hyper_node(key, domains[key], names, plan) for key in _ordered(domains)]
    lacking = {key: [name for name, own in labels.items() if not own.get(key)] for key in plan.keys}
    return Generated(made, {key: short for key, short in lacking.items() if short})


def _ordered(keys: Iterable[_Key]) -> list[_Key]:
    return sorted(keys, key=lambda key: (key[0], natural(key[1])))


def _add_parents(domains: dict[_Key, _Domain], labels: Mapping[str, Mapping[str, str]], keys: Sequence[str]) -> None:
    """From the narrowest tier up, as a wider domain has the nodes of those inside it."""
    for tier in range(len(keys)):
        for key in _ordered(key for key in domains if key[0] == tier):
            parent = _parent(key, domains[key], labels, keys)
            if parent is not None:
                outer = domains.setdefault(parent, _Domain())
                outer.inner.append(key)
                outer.nodes |= domains[key].nodes


def _parent(key: _Key, domain: _Domain, labels: Mapping[str, Mapping[str, str]], keys: Sequence[str]) -> _Key | None:
    tier, value = key
    for wider in range(tier + 1, len(keys)):
        witnesses: dict[str, str] = {}
        for node in sorted(domain.nodes, key=natural):
            if found := labels[node].get(keys[wider]):
                witnesses.setdefault(found, node)
        if len(witnesses) > 1:
            (a, node_a), (b, node_b) = list(witnesses.items())[:2]
            raise UserError(
                f'{keys[tier]} "{value}" is in two places: {keys[wider]} "{a}" (node {node_a}) and '
                f'"{b}" (node {node_b}); give it a value of its own in each, or order the labels from narrow to wide'
            )
        if witnesses:
            return wider, next(iter(witnesses))
    return None


# -- names ---------------------------------------------------------------------------------------------------


def domain_names(keys: Iterable[_Key], plan: Plan) -> dict[_Key, str]:
    """Names for domains: the label value, made valid; with the tier where two share a name, else with a hash."""
    ordered = _ordered(keys)
    names = {key: _name(plan.prefix, key[1]) for key in ordered}
    for longer in (_with_tier, _with_hash):
        counts = Counter(names.values())
        names = {key: longer(key, plan) if counts[name] > 1 else name for key, name in names.items()}
    if len(set(names.values())) != len(names):
        names = {key: _with_hash(key, plan) for key in ordered}
    return names


def _with_tier(key: _Key, plan: Plan) -> str:
    return _name(plan.prefix, plan.tier_names[key[0]], key[1])


def _with_hash(key: _Key, plan: Plan) -> str:
    digest = hashlib.sha256(f"{key[0]}/{key[1]}".encode()).hexdigest()[:_N_HASH]
    return f"{_with_tier(key, plan)[: _MAX_NAME - _N_HASH - 1].rstrip('.-')}-{digest}"


def _name(*parts: str) -> str:
    slug = _slug("-".join(part for part in parts if part))
    # A value without any letter or digit that a name may have.
    return slug or "domain"


def _slug(text: str) -> str:
    allowed = _NOT_ALLOWED.sub("-", text.lower())
    return _STRAY_DOT.sub("-", allowed).strip("-")[:_MAX_NAME].rstrip("-.")


# -- objects -------------------------------------------------------------------------------------------------


def _hyper_node(key: _Key, domain: _Domain, names: Mapping[_Key, str], plan: Plan) -> HyperNode:
    members = [_exact("HyperNode", names[inner]) for inner in _ordered(domain.inner)]
    if domain.own and plan.by_label:
        members.append(Member(type="Node", selector=MemberSelector(label_match=_labelled(key, plan))))
    else:
        members += [_exact("Node", node) for node in domain.own]
    spec = HyperNodeSpec(tier=key[0] + 1, tier_name=plan.tier_names[key[0]], members=members)
    return HyperNode(metadata=ObjectMeta(name=names[key]), spec=spec)


def _exact(kind: str, name: str) -> Member:
    return Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def _labelled(key: _Key, plan: Plan) -> LabelSelector:
    """Nodes with the label; in wider tiers only those that no narrower one holds."""
    tier, value = key
    without = tuple(LabelSelectorRequirement(key=narrower, operator="DoesNotExist") for narrower in plan.keys[:tier])
    return LabelSelector(match_labels={plan.keys[tier]: value}, match_expressions=without)
