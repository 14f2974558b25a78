"""Everything that is wrong with a topology, and with the PodGroups that rely on it.

Errors keep jobs waiting: faults of the tree, objects that an API server would refuse, constraints that no domain can
meet. Warnings are probably mistakes. Notes are worth knowing. Findings are in the order of their level, then of the
objects' names.

Whether a constraint can ever be met is asked on empty nodes, by totals and by room per node. Those are bounds from
below: what is called too large surely is; what is not may still not fit. The minimum counts, not what the job would
like to have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.api import (
    HyperNode,
    KubeObject,
    Loaded,
    NetworkTopology,
    Pod,
    PodGroup,
    SubGroupPolicy,
    format_amount,
    group_of,
    pod_request,
    problems,
)
from muster.api.resources import PODS, to_base_all
from muster.snapshot.hypernodes import ROOT, HyperNodeForest, build_forest, natural
from muster.snapshot.topology import UsableTree
from muster.topology.view import Objects

Level = Literal["error", "warning", "note"]
_ORDER = ("error", "warning", "note")
_MAX_NAMES = 5

#: Codes of findings and what they mean; the reference page is made from it.
CODES: Mapping[str, tuple[Level, str]] = {
    "invalid": ("error", "a field has a value that is surely wrong, such as a regular expression that Go cannot read"),
    "fault": ("error", "a HyperNode cannot be believed, so it is out of use: jobs that need it wait"),
    "tier-unknown": ("error", "a constraint names a tier that no HyperNode has"),
    "tier-missing": ("error", "a hard constraint without a tier"),
    "too-large": ("error", "a constraint that no domain could meet even if the cluster were empty"),
    "no-such-node": ("warning", "an exactMatch for a node that does not exist"),
    "empty": ("warning", "a HyperNode without any node"),
    "outside": ("note", "nodes that are in no HyperNode: only jobs that may span the whole cluster use them"),
}
Request = dict[str, int]
#: What a node takes that does not say how many pods it takes.
_DEFAULTS = {PODS: 110}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at."""

    code: str
    #: Kind and name of the object; "" for what concerns no single object.
    subject: str
    text: str
    #: File and document, where it is known.
    place: str = ""

    @property
    def level(self) -> Level:
        return CODES[self.code][0]

    def to_json(self) -> dict[str, str]:
        return {
            "level": self.level,
            "code": self.code,
            "subject": self.subject,
            "text": self.text,
            "place": self.place,
        }


def check_topology(things: Iterable[KubeObject | Loaded]) -> list[Finding]:
    """Return what there is to say, errors first; objects may be ones that do not pass validation."""
    places: dict[str, str] = {}
    objects: list[KubeObject] = []
    for thing in things:
        found = thing.object if isinstance(thing, Loaded) else thing
        objects.append(found)
        if isinstance(thing, Loaded):
            places[_subject(found)] = f"{thing.source.file}:{thing.source.line}"
    findings = [
        Finding(finding.code, finding.subject, finding.text, places.get(finding.subject, ""))
        for finding in _findings(objects)
    ]
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.level), natural(finding.subject)))


def _subject(thing: KubeObject) -> str:
    return f"{thing.kind} {thing.key}"


def _findings(objects: list[KubeObject]) -> Iterator[Finding]:
    invalid: set[str] = set()
    for thing in objects:
        for problem in problems(thing):
            invalid.add(_subject(thing))
            yield Finding("invalid", _subject(thing), f"{problem.field}: {problem.text}")
    # HyperNodes are looked at whatever is wrong with them; of the rest, amounts must be readable.
    usable = (thing for thing in objects if isinstance(thing, HyperNode) or _subject(thing) not in invalid)
    known = Objects.of(usable)
    forest = build_forest(known.hyper_nodes, known.nodes)
    yield from _faults(forest, invalid)
    yield from _members(known, forest)
    yield from _outside(known, forest)
    needs = Needs(known, forest)
    for thing in objects:
        if isinstance(thing, PodGroup) and _subject(thing) not in invalid:
            for code, text in needs.findings(thing):
                yield Finding(code, _subject(thing), text)


def _faults(forest: HyperNodeForest, invalid: set[str]) -> Iterator[Finding]:
    for name, text in forest.all_faults:
        subject = f"HyperNode {name}"
        # A pattern that cannot be read is a fault of the tree, too; once is enough.
        if subject not in invalid or not text.startswith("expected"):
            yield Finding("fault", subject, text)


def _members(known: Objects, forest: HyperNodeForest) -> Iterator[Finding]:
    for name in sorted(known.hyper_nodes, key=natural):
        missing = _missing_nodes(known.hyper_nodes[name], known)
        if missing:
            yield Finding("no-such-node", f"HyperNode {name}", f"there is no node {_some(missing)}")
        if not forest.nodes[name]:
            yield Finding("empty", f"HyperNode {name}", "holds no node")


def _missing_nodes(hyper_node: HyperNode, known: Objects) -> list[str]:
    exact = [member.selector.exact_match for member in hyper_node.spec.members if member.type == "Node"]
    return [match.name for match in exact if match is not None and match.name and match.name not in known.nodes]


def _outside(known: Objects, forest: HyperNodeForest) -> Iterator[Finding]:
    inside = {node for nodes in forest.nodes.values() for node in nodes}
    outside = sorted(set(known.nodes) - inside, key=natural)
    if outside and known.hyper_nodes:
        count = "1 node is" if len(outside) == 1 else f"{len(outside)} nodes are"
        yield Finding("outside", "", f"{count} in no HyperNode: {_some(outside)}")


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


# -- whether a constraint can ever be met ----------------------------------------------------------------------


def _pods_of(policy: SubGroupPolicy, pods: Sequence[Pod]) -> list[Pod]:
    selector = policy.label_selector
    return [pod for pod in pods if selector is None or selector.matches(pod.metadata.labels)]


def tier_limit(topology: NetworkTopology, forest: HyperNodeForest) -> int:
    """The highest tier allowed by a hard constraint. Raises LookupError that says why it cannot be told."""
    if topology.highest_tier_allowed is not None:
        return topology.highest_tier_allowed
    tier = forest.tier_names.get(topology.highest_tier_name)
    if tier is None:
        known = ", ".join(sorted(forest.tier_names)) or "none"
        raise LookupError(f'no HyperNode has the tier name "{topology.highest_tier_name}"; known: {known}')
    return tier


class Needs:
    """Compares what PodGroups need with what the domains of a tree could hold if nothing ran."""

    def __init__(self, known: Objects, forest: HyperNodeForest) -> None:
        self._forest = forest
        self._tree = UsableTree(forest)
        self._nodes = {
            name: {**_DEFAULTS, **to_base_all(node.status.allocatable)} for name, node in known.nodes.items()
        }
        self._pods: dict[tuple[str, str], list[Pod]] = {}
        for pod in known.pods:
            self._pods.setdefault((pod.namespace, group_of(pod) or ""), []).append(pod)

    def findings(self, group: PodGroup) -> Iterator[tuple[str, str]]:
        """Yield code and text for each constraint of the group that is wrong or cannot be met."""
        pods = self._pods.get((group.namespace, group.name), [])
        yield from self._constraint("networkTopology", group.spec.network_topology, group.spec.min_member, pods)
        for policy in group.spec.sub_group_policy:
            field = f"subGroupPolicy {policy.name}: networkTopology"
            size = policy.sub_group_size or 1
            yield from self._constraint(field, policy.network_topology, size, _pods_of(policy, pods))

    def _constraint(
        self, field: str, topology: NetworkTopology | None, minimum: int, pods: Sequence[Pod]
    ) -> Iterator[tuple[str, str]]:
        if topology is None or topology.mode == "soft":
            return
        if topology.highest_tier_allowed is None and not topology.highest_tier_name:
            yield "tier-missing", f"{field}: mode is hard, but neither highestTierAllowed nor highestTierName is set"
            return
        try:
            limit = tier_limit(topology, self._forest)
        except LookupError as error:
            yield "tier-unknown", f"{field}: {error.args[0]}"
            return
        yield from self._too_large(field, limit, minimum, [pod_request(pod) for pod in pods])

    def _too_large(self, field: str, limit: int, minimum: int, requests: list[Request]) -> Iterator[tuple[str, str]]:
        domains = self._domains(limit)
        if not domains and (faulty := self._faulty(limit)):
            yield "too-large", f"{field}: every HyperNode of tier {limit} or below is out of use, such as {faulty}"
            return
        if not domains:
            lowest = min(self._forest.tiers.values())
            yield "tier-unknown", f"{field}: no HyperNode has tier {limit} or below; the lowest is {lowest}"
            return
        needed = min(minimum, len(requests))
        if not needed:
            return
        smallest = _smallest(requests)
        room = {name: self._slots(nodes, smallest) for name, nodes in domains.items()}
        best = max(sorted(room), key=lambda name: room[name])
        if room[best] < needed:
            each = _amounts(smallest)
            holds = f"{best} has room for {room[best]}" if room[best] else "no node has room for one"
            text = f"{needed} pods with at least {each} each in one domain of tier {limit} or below: {holds}"
            yield "too-large", f"{field}: {text}, even with nothing else running"
        elif lack := self._lack(domains, _least_total(requests, needed)):
            yield "too-large", f"{field}: {lack} in any domain of tier {limit} or below"

    def _domains(self, limit: int) -> dict[str, list[str]]:
        """Nodes of each domain that is allowed and stands in no other allowed one."""
        forest, tree = self._forest, self._tree
        if limit > max(forest.tiers.values(), default=0):
            return {ROOT: list(self._nodes)}
        allowed = {name for name, tier in forest.tiers.items() if tier <= limit and name not in forest.faults}
        return {name: tree.nodes_inside(name) for name in sorted(allowed) if tree.parents[name] not in allowed}

    def _faulty(self, limit: int) -> str:
        """The first HyperNode that a constraint would allow and that is out of use."""
        return next((name for name in sorted(self._forest.faults) if self._forest.tiers[name] <= limit), "")

    def _slots(self, nodes: Sequence[str], request: Request) -> int:
        total = 0
        for node in nodes:
            offered = self._nodes[node]
            total += min(offered.get(name, 0) // amount for name, amount in request.items())
        return total

    def _lack(self, domains: dict[str, list[str]], need: Request) -> str:
        for name, amount in sorted(need.items()):
            most = max(sum(self._nodes[node].get(name, 0) for node in nodes) for nodes in domains.values())
            if name != PODS and amount > most:
                return f"{format_amount(name, amount)} {name} needed, at most {format_amount(name, most)} there is"
        return ""


def _smallest(requests: Sequence[Request]) -> Request:
    """The least that any of the pods asks for, resource by resource."""
    return {name: least for name in requests[0] if (least := min(request.get(name, 0) for request in requests))}


def _least_total(requests: Sequence[Request], needed: int) -> Request:
    """The least that `needed` of the pods can ask for together, resource by resource."""
    names = {name for request in requests for name in request}
    return {name: sum(sorted(request.get(name, 0) for request in requests)[:needed]) for name in names}


def _amounts(request: Request) -> str:
    shown = [f"{format_amount(name, amount)} {name}" for name, amount in sorted(request.items()) if name != PODS]
    return ", ".join(shown) or "nothing"
