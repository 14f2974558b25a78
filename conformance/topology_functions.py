"""Function cases about the network: the tree of HyperNodes, topology constraints, candidate domains.

As in `functions`, an adapter builds the input and calls the function of Muster that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from conformance.cases import Body
from conformance.pictures import decode_as, document
from conformance.scheduling import NOW
from muster.api import HyperNode, NetworkTopology, Node, Pod, PodGroup, Queue, decode, decode_hook, names
from muster.api.objects.topology import MemberSelector
from muster.engine.constraints import Constraint, resolve
from muster.engine.domains import gradients, holding
from muster.framework import PluginOption, Purpose, SchedulerConfig, Session
from muster.kernels.planes import PIPELINED, RELEASING, USED
from muster.plugins.jobs.gang import Gang
from muster.plugins.nodes.network_topology_aware import NetworkTopologyArguments, NetworkTopologyAware
from muster.scheduler import builtin_registry
from muster.snapshot import NO_ROW, Mirror, TopologyTable
from muster.snapshot.hypernodes import HyperNodeForest, build_forest, select_members
from muster.snapshot.topology import build_topology

_EVICT = str(int(Purpose.EVICT))
_MAX_DOMAINS = "hypernode.gradient.evict.max-hypernodes"


# -- the tree ------------------------------------------------------------------------------------------------


def _named_nodes(hyper_nodes: Iterable[HyperNode]) -> dict[str, Node]:
    """The nodes that HyperNodes name: they exist in these cases, although they are not listed."""
    members = [member for item in hyper_nodes for member in item.spec.members if member.type == "Node"]
    listed = sorted({member.selector.exact_match.name for member in members if member.selector.exact_match})
    return {name: decode_as(Node, document(Node, name, {})) for name in listed}


def _forest(given: Body) -> HyperNodeForest:
    found = [decode_as(HyperNode, item) for item in given["hyperNodes"]]
    return build_forest({item.name: item for item in found}, _named_nodes(found))


def _tree(given: Body) -> Body:
    """The objects arrive one after the other, later ones replace earlier ones."""
    mirror = Mirror()
    found = [decode_as(HyperNode, step["object"]) for step in given["steps"]]
    for item in (*_named_nodes(found).values(), *found):
        mirror.upsert(item)
    forest = mirror.snapshot().topology.forest
    by_tier: dict[str, list[str]] = {}
    for name, tier in sorted(forest.tiers.items()):
        by_tier.setdefault(str(tier), []).append(name)
    return {
        "ready": forest.ready,
        "errorOccurred": bool(forest.faults),
        "parents": {name: forest.parents.get(name, "") for name in forest.tiers},
        "tiers": dict(forest.tiers),
        "byTier": by_tier,
        "realNodes": dict(forest.nodes),
    }


def _ancestors(given: Body) -> Body:
    return {"ancestors (self first, nearest first)": _forest(given).ancestors(given["hyperNode"])}


def _lowest_common_ancestor(given: Body) -> Body:
    return {"lca": _forest(given).lowest_common_ancestor(given["a"], given["b"])}


def _leaves(given: Body) -> Body:
    return {"leafHyperNodes": _forest(given).leaves(given["hyperNode"])}


def _select_members(given: Body) -> Body:
    selector = msgspec.convert(given["selector"], MemberSelector, dec_hook=decode_hook)
    return {"members": select_members(selector, [decode_as(Node, item) for item in given["nodes"]])}


def _is_selected(given: Body) -> Body:
    """Whether a pattern or label selector of the HyperNode picks the node; a node without an object has no labels."""
    known = {item["metadata"]["name"]: item for item in given["nodes"]}
    node = decode_as(Node, known.get(given["node"]) or document(Node, given["node"], {}))
    [found] = [item for item in given["hyperNodes"] if item["metadata"]["name"] == given["hyperNode"]]
    selectors = [
        member.selector
        for member in decode_as(HyperNode, found).spec.members
        if member.type == "Node" and member.selector.exact_match is None
    ]
    return {"error": False, "match": any(select_members(selector, [node]) for selector in selectors)}


# -- constraints ---------------------------------------------------------------------------------------------


def _topology(given: Body) -> NetworkTopology | None:
    spec = given.get("networkTopology")
    return None if spec is None else msgspec.convert(spec, NetworkTopology, dec_hook=decode_hook)


def _network(highest: int) -> TopologyTable:
    """A tree whose root has the given tier."""
    top = decode_as(HyperNode, document(HyperNode, "top", {"tier": highest - 1}))
    return build_topology({"top": top}, {})[0]


def _soft_to_hard(given: Body) -> Body:
    constraint = resolve(_topology(given), _network(given["maxTier"]))
    hard = {"mode": "hard", "highestTierAllowed": constraint.limit} if constraint else None
    return {"changed": constraint.soft, "networkTopology": hard}


def _constraint(given: Body) -> Constraint | None:
    """The constraint; None: it cannot be resolved, and the job waits."""
    try:
        return resolve(_topology(given), _network(9))
    except ValueError:
        return None


def _is_hard(given: Body) -> Body:
    constraint, spec = _constraint(given), _topology(given)
    hard = constraint is None or (bool(constraint) and not constraint.soft)
    return {"hard": hard, "tier": (spec.highest_tier_allowed or 0) if spec else 0}


def _is_soft(given: Body) -> Body:
    constraint = _constraint(given)
    return {"soft": constraint is not None and constraint.soft}


# -- the plugin ----------------------------------------------------------------------------------------------


def _arguments(given: Body) -> Body:
    own = NetworkTopologyAware.read_arguments(given["arguments"])
    assert isinstance(own, NetworkTopologyArguments)
    return {
        "normalPodBinpackEnable": own.normal_pods,
        "normalPodBinpackFading": own.fading,
        "weights": {
            "GlobalWeight": own.weight,
            "HyperNodeBinPackingCPU": own.cpu,
            "HyperNodeBinPackingMemory": own.memory,
            "HyperNodeBinPackingResources": dict(own.resources),
        },
    }


def _eviction_domains(given: Body) -> Body:
    """Domains of two tiers with a node in each lower one; those for evictions, grouped by tier again."""
    lower, upper = given["gradients"]
    items = [_node(f"node-{name}", {"cpu": "4", "memory": "8Gi", "pods": "110"}) for name in lower]
    items += [_hyper_node(name, 1, "Node", [f"node-{name}"]) for name in lower]
    items += [_hyper_node(outer, 2, "HyperNode", [name]) for outer, name in zip(upper, lower, strict=True)]
    limit = given["maxHyperNodesForEviction"]
    session = _open([*items, *_job(2, 1, {"cpu": "1"})], {_MAX_DOMAINS: limit} if limit else {})
    topology = session.snapshot.topology
    found = session.search_space(session.snapshot.jobs.index["default/job"], Purpose.EVICT)
    domains = [] if found is None else found.tolist()
    tiers = [[topology.names[domain] for domain in domains if topology.tier[domain] == tier] for tier in (1, 2)]
    return {"gradients": [tier for tier in tiers if tier]}


def _is_candidate(given: Body) -> Body:
    """Whether a rack of ten nodes, with so much idle, is tried for a job of ten tasks (or for evictions)."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    items: list[Body] = []
    for rack in ("hn-1-0", "hn-1-1"):
        items += [_node(f"{rack}-{k}", capacity) for k in range(10)]
        items.append(_hyper_node(rack, 1, "Node", [f"{rack}-{k}" for k in range(10)]))
    items.append(_hyper_node("hn-2-0", 2, "HyperNode", ["hn-1-0", "hn-1-1"]))
    need = given["jobMinResource"]
    each = {"cpu": f"{need['MilliCPU'] // 10}m", "memory": str(need["Memory"] // 10)}
    session = _open([*items, *_job(given["highestAllowedTier"], 10, each)], {})
    _occupy(session, given)
    rack_row = session.snapshot.topology.index["hn-1-0"]
    return {"hn-1-0 in gradients": rack_row in _candidates(session, given)}


def _candidates(session: Session, given: Body) -> list[int]:
    snapshot = session.snapshot
    job = snapshot.jobs.index["default/job"]
    if given["purpose"] == _EVICT:
        found = session.search_space(job, Purpose.EVICT)
        return [] if found is None else found.tolist()
    tasks = snapshot.tasks_of(job)
    limit = Constraint(given["highestAllowedTier"])
    steps = gradients(snapshot.topology, limit, snapshot.topology.index[given["searchRoot"]], NO_ROW)
    kept = [holding(session, tasks, len(tasks), step) for step in steps]
    return [int(domain) for domain in np.concatenate(kept)]


def _occupy(session: Session, given: Body) -> None:
    """Let the rack have the given idle and future idle amounts, the same on each node."""
    snapshot = session.snapshot
    rack = snapshot.topology.index["hn-1-0"]
    rows = slice(int(snapshot.topology.lo[rack]), int(snapshot.topology.hi[rack]))
    for name, key in (("cpu", "MilliCPU"), ("memory", "Memory")):
        column = snapshot.axis.index[name]
        idle, future = (given[f"hn-1-0 {kind}"][key] for kind in ("idle", "futureIdle"))
        state = snapshot.nodes.state
        state[USED, rows, column] = (given["hn-1-0 allocatable"][key] - idle) // 10
        state[RELEASING, rows, column] = max(future - idle, 0) // 10
        state[PIPELINED, rows, column] = max(idle - future, 0) // 10


def _node(name: str, amounts: Body) -> Body:
    return {**document(Node, name, {}), "status": {"allocatable": amounts}}


def _hyper_node(name: str, tier: int, kind: str, members: list[str]) -> Body:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return document(HyperNode, name, {"tier": tier, "members": listed})


def _job(tier: int, tasks: int, requests: Body) -> list[Body]:
    topology = {"mode": "hard", "highestTierAllowed": tier}
    container = {"name": "main", "resources": {"requests": requests}}
    items = [
        document(Queue, "default", {}),
        document(PodGroup, "job", {"minMember": tasks, "networkTopology": topology}),
    ]
    for k in range(tasks):
        pod = document(Pod, f"job-{k}", {"containers": [container]})
        pod["metadata"]["annotations"] = {names.GROUP_NAME: "job"}
        items.append(pod)
    return items


def _open(items: list[Body], arguments: Body) -> Session:
    mirror = Mirror()
    for item in items:
        mirror.upsert(decode(item))
    options = (PluginOption(Gang.name), PluginOption(NetworkTopologyAware.name, arguments=arguments))
    config = SchedulerConfig((), (options,))
    return Session(mirror.snapshot(), config, builtin_registry(third_party=False), now=NOW)


def _no_such_list(_: Body) -> Body:
    """Muster reads all HyperNodes anew when a node comes or goes, and keeps no list of those that could change."""
    return {}


TOPOLOGY_ADAPTERS: dict[str, Callable[[Body], Body]] = {
    "hyperNodeTree": _tree,
    "ancestors": _ancestors,
    "lowestCommonAncestor": _lowest_common_ancestor,
    "leafHyperNodesOf": _leaves,
    "selectMembers": _select_members,
    "nodeMatchesLeafHyperNodeByRegexOrLabel": _is_selected,
    "regexOrLabelLeafHyperNodes": _no_such_list,
    "convertSoftToHardTopology": _soft_to_hard,
    "jobIsHardTopology": _is_hard,
    "subJobIsHardTopology": _is_hard,
    "subJobIsSoftTopology": _is_soft,
    "networkTopologyAware.parseArguments": _arguments,
    "networkTopologyAware.reverseAndCapEvictionGradients": _eviction_domains,
    "networkTopologyAware.gradientPreFilter": _is_candidate,
}
