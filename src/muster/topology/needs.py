"""Whether a PodGroup's topology constraints can ever be met: on empty nodes, by totals and by room per node.

Bounds from below: what is called too large surely is; what is not may still not fit. The minimum counts, not what
the job would like to have, and amounts that other pods use do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.api import NetworkTopology, Pod, PodGroup, SubGroupPolicy, format_amount, group_of, pod_request
from muster.api.resources import PODS, to_base_all
from muster.snapshot.hypernodes import ROOT, HyperNodeForest
from muster.snapshot.topology import UsableTree
from muster.topology.view import Objects

Request = dict[str, int]
#: What a node takes that does not say how many pods it takes.
_DEFAULTS = {PODS: 110}


def _members(policy: SubGroupPolicy, pods: Sequence[Pod]) -> list[Pod]:
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
            yield from self._constraint(field, policy.network_topology, size, _members(policy, pods))

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
