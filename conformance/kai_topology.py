"""KAI's function cases about topologies: levels, domains with room, their order, preferences among nodes.

As in `functions`, an adapter builds the input and calls the function of Muster that answers it. Cases that
describe a tree without its nodes get nodes that make it so: one per innermost domain, and where a domain is said to
have more slots than the domains inside it, further ones with a slot each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from conformance.cases import Body
from conformance.pictures import decode_as, document
from conformance.scheduling import NOW
from muster.api import KaiPodGroup, Node, Pod, Topology, decode, names
from muster.engine.boards import boards_of
from muster.engine.constraints import nodes_of_placed
from muster.engine.placing.nested import (
    choose_domains,
    fill_ratio,
    fullest_first,
    label_topology,
    node_bands,
    read_parts,
)
from muster.framework import SchedulerConfig, Session
from muster.kernels.placement import FUTURE
from muster.scheduler import builtin_registry
from muster.snapshot import NO_ROW, Mirror, Rows, TaskStatus
from muster.snapshot.labels import LabelTopology, NodeLabels, build_label_topology

_NAME = "topology"
_GPU = "nvidia.com/gpu"
#: Asked for by tasks of cases that only count pods.
_SLOT = {"gpu": 1}
#: What KAI's tests multiply steps of preference with.
_STEP = 10_000


@dataclass(frozen=True, slots=True)
class _Spot:
    """A node: its labels, and what is free on it or will be."""

    name: str
    labels: dict[str, str]
    free: Body
    leaving: Body


# -- clusters --------------------------------------------------------------------------------------------------------


def _amounts(given: Body) -> dict[str, str]:
    scale = {"gpu": (_GPU, ""), "milliCpu": ("cpu", "m"), "memory": ("memory", "")}
    return {name: f"{given[key]}{unit}" for key, (name, unit) in scale.items() if given.get(key)}


def _sum(*given: Body) -> Body:
    return {key: sum(one.get(key, 0) for one in given) for key in ("gpu", "milliCpu", "memory")}


def _node(spot: _Spot) -> Node:
    item = document(Node, spot.name, {})
    item["metadata"]["labels"] = spot.labels
    item["status"] = {"allocatable": {**_amounts(_sum(spot.free, spot.leaving)), "pods": "100"}}
    return decode_as(Node, item)


def _pod(name: str, asked: Body, node: str = "", *, leaving: bool = False) -> Pod:
    container = {"name": "main", "resources": {"requests": _amounts(asked)}}
    item = document(Pod, name, {"containers": [container], "nodeName": node})
    item["metadata"]["annotations"] = {} if leaving else {names.KAI_GROUP_NAME: "job"}
    item["status"] = {"phase": "Running" if node else "Pending"}
    if leaving:
        item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return decode_as(Pod, item)


def _topology(levels: Sequence[str], name: str = _NAME) -> Topology:
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return decode_as(Topology, document(Topology, name, spec))


def _session(spots: Sequence[_Spot], tasks: Sequence[Body], given: Body) -> Session:
    """A job with the constraint and the pods of a case; `tasks` are the pending ones, with what they ask for."""
    mirror = Mirror()
    for spot in spots:
        mirror.upsert(_node(spot))
        if any(spot.leaving.get(key) for key in ("gpu", "milliCpu", "memory")):
            mirror.upsert(_pod(f"leaves-{spot.name}", spot.leaving, spot.name, leaving=True))
    tree = given.get("tree") or {}
    if tree:
        mirror.upsert(_topology(tree["levels"], tree.get("name", _NAME)))
    wanted = given.get("constraint") or {}
    levels = {
        "requiredTopologyLevel": wanted.get("required", ""),
        "preferredTopologyLevel": wanted.get("preferred", ""),
    }
    constraint = {"topology": wanted.get("topology", tree.get("name", "")), **levels} if wanted else None
    mirror.upsert(decode(document(KaiPodGroup, "job", {"minMember": 1, "topologyConstraint": constraint})))
    for pod in given.get("jobPods") or ():
        if pod.get("node"):
            mirror.upsert(_pod(pod["name"], {}, pod["node"]))
    for task in tasks:
        mirror.upsert(_pod(task["name"], task))
    return Session(mirror.snapshot(), SchedulerConfig((), ()), builtin_registry(third_party=False), now=NOW)


def _pending(session: Session) -> Rows:
    return np.flatnonzero(session.snapshot.tasks.status == TaskStatus.PENDING).astype(np.intp)


def _choose(session: Session) -> tuple[LabelTopology, Rows] | None:
    """The domains to try for the pending tasks; None: the job has no constraint. Raises ValueError as the product."""
    snapshot = session.snapshot
    job = snapshot.jobs.index["default/job"]
    part = read_parts(session, job)
    if part.topology is None:
        return None
    held = nodes_of_placed(snapshot, snapshot.tasks_of(job))
    return part.topology, choose_domains(session, part, _pending(session), None, held)[0]


# -- trees without nodes ---------------------------------------------------------------------------------------------


def _domain_spots(tree: Body) -> Iterator[_Spot]:
    """Nodes for the domains of `domainsByLevel`, whose ids are label values, the narrowest first."""
    levels, listed = tree["levels"], tree["domainsByLevel"]
    for depth in range(len(levels) - 1, -1, -1):
        for name, domain in sorted((listed.get(levels[depth]) or {}).items()):
            labels = _labels(levels, depth, name)
            inside = listed.get(levels[depth + 1]) or {} if depth + 1 < len(levels) else {}
            inner = [item for child, item in inside.items() if child.partition(".")[2] == name]
            if not inner and domain["allocatablePods"] < 0:
                yield _Spot((domain.get("nodes") or [name])[0], labels, domain["free"], {})
            elif not inner:
                yield _Spot((domain.get("nodes") or [name])[0], labels, {"gpu": domain["allocatablePods"]}, {})
            else:
                for number in range(domain["allocatablePods"] - sum(item["allocatablePods"] for item in inner)):
                    unlisted = dict.fromkeys(levels[depth + 1 :], f"more-{number}")
                    yield _Spot(f"{name}-more-{number}", {**labels, **unlisted}, _SLOT, {})


def _labels(levels: Sequence[str], depth: int, name: str) -> dict[str, str]:
    """All labels of a node in a domain; levels that its id does not tell have one value."""
    values = dict(zip(reversed(levels[: depth + 1]), name.split("."), strict=False))
    return {level: values.get(level, "only") for level in levels}


def _nested_spots(domain: Body, above: dict[str, str]) -> Iterator[_Spot]:
    """Nodes for a tree whose domains list their children."""
    labels = {**above, domain["level"]: domain["id"]}
    for child in domain.get("children") or ():
        yield from _nested_spots(child, labels)
    if not domain.get("children"):
        for node in domain.get("nodes") or [domain["id"]]:
            yield _Spot(node, labels, domain.get("free") or {}, {})


def _levels_below(domain: Body) -> list[str]:
    children = domain.get("children") or ()
    return [domain["level"], *(_levels_below(children[0]) if children else ())]


def _bare(spots: Sequence[_Spot], levels: Sequence[str]) -> LabelTopology:
    """A topology over nodes, without a cluster around it."""
    return build_label_topology(_NAME, levels, NodeLabels([_node(spot) for spot in spots]), len(spots))


def _id(topology: LabelTopology, domain: int) -> str:
    """A domain's own part of its name."""
    return topology.names[domain].removeprefix(f"{topology.names[topology.parent[domain]]}.")


# -- functions -------------------------------------------------------------------------------------------------------


def _subset_nodes(given: Body) -> Body:
    spots = [_Spot(node["name"], node.get("labels") or {}, node["idle"], node["releasing"]) for node in given["nodes"]]
    session = _session(spots, given["tasks"], given)
    names_of = session.snapshot.nodes.names
    try:
        found = _choose(session)
    except ValueError as error:
        # A topology that does not exist is a matter of the job in KAI, a level one of the configuration.
        missing = given["constraint"]["topology"] not in session.snapshot.objects.get(Topology.kind, {})
        return {"fitErrors": [str(error)]} if missing else {"error": str(error)}
    if found is None:
        return {"nodeSets": [sorted(names_of)]}
    topology, domains = found
    if len(domains) == 0:
        return {"fitErrors": ["no domain has room"]}
    return {"nodeSets": [sorted(names_of[row] for row in topology.nodes(domain)) for domain in domains.tolist()]}


def _relevant_levels(given: Body) -> Body:
    session = _session([], [{"name": "task"}], given)
    try:
        part = read_parts(session, session.snapshot.jobs.index["default/job"])
    except ValueError as error:
        return {"error": str(error)}
    assert part.topology is not None
    return {"levels": [part.topology.level_name(level) for level in part.tried]}


def _tree_slots(given: Body) -> Body:
    amounts = {node["name"]: node for node in given["nodes"]}
    spots = [
        _Spot(spot.name, spot.labels, amounts[spot.name]["idle"], amounts[spot.name]["releasing"])
        for spot in _nested_spots(given["root"], {})
    ]
    levels = _levels_below(given["root"])
    session = _session(spots, given["tasks"], {"tree": {"levels": levels}})
    topology = label_topology(session, _NAME)
    cls = int(session.snapshot.tasks.cls[_pending(session)[0]])
    found = topology.sums(boards_of(session).get(cls, FUTURE).slots(session.snapshot, 0, len(session.snapshot.nodes)))
    return {"allocatablePods": {_id(topology, domain): int(found[domain]) for domain in range(1, len(topology))}}


def _allocatable_domains(given: Body) -> Body:
    spots = list(_domain_spots(given["tree"]))
    count = given["tasksCount"]
    asked = given["tasksResources"]
    each = {key: amount / count for key, amount in asked.items()} if any(asked.values()) else _SLOT
    session = _session(spots, [{"name": f"task-{number}", **each} for number in range(count)], given)
    try:
        found = _choose(session)
    except ValueError as error:
        return {"error": str(error)}
    assert found is not None
    topology, domains = found
    ids = [
        f"{topology.level_name(int(topology.level[domain]))}/"
        + ".".join(reversed([part for part in topology.names[domain].split(".") if part != "only"]))
        for domain in domains.tolist()
    ]
    return {"domains": sorted(ids)}


def _common_domain(given: Body) -> Body:
    spots = [_Spot(node["name"], node["labels"], {}, {}) for node in given["nodes"]]
    topology = _bare(spots, given["levels"])
    preferred = (given.get("constraint") or {}).get("preferred")
    narrowest = topology.level_of(preferred) if preferred else None
    domain = topology.common_domain(np.arange(len(spots), dtype=np.intp), narrowest)
    inside = topology.owners(0, len(spots)) != NO_ROW
    return {
        "id": topology.names[domain],
        "level": topology.level_name(int(topology.level[domain])),
        "validNodes": [spot.name for spot, known in zip(spots, inside.tolist(), strict=True) if known],
    }


def _node_scores(given: Body) -> Body:
    """The children of a domain are listed in the order that counts."""
    spots = list(_nested_spots(given["root"], {}))
    topology = _bare(spots, _levels_below(given["root"]))
    ranks = np.zeros(len(topology), np.intp)
    for place, spot in enumerate(spots):
        for level in range(1, len(topology.labels) + 1):
            domain = topology.names.index(".".join(spot.labels[label] for label in topology.labels[:level]))
            ranks[domain] = place
    width = topology.sums(np.ones(len(spots), np.int64))
    bands = node_bands(topology, topology.level_of(given["preferredLevel"]), ranks, width, len(spots))
    return {spot.name: band * _STEP for spot, band in zip(spots, bands.tolist(), strict=True)}


def _sort_tree(given: Body) -> Body | None:
    if not given.get("root"):
        return None
    spots = list(_nested_spots(given["root"], {}))
    topology = _bare(spots, _levels_below(given["root"]))
    keys = ("gpu", "milliCpu", "memory")
    free = np.array([[spot.free.get(key, 0) for key in keys] for spot in spots], np.int64)
    total = np.array([given["tasksResources"][key] for key in keys], np.int64)
    ranks = fullest_first(topology, fill_ratio(total, topology.sums(free), np.ones(len(keys), np.bool_)))

    def tree(domain: int) -> Body:
        inner = np.flatnonzero(topology.parent == domain)
        children = [tree(int(child)) for child in inner[np.argsort(ranks[inner], kind="stable")]]
        named = {"id": _id(topology, domain)}
        return {**named, "children": children} if children else named

    return tree(1)


ADAPTERS: dict[str, Callable[[Body], Body | None]] = {
    "subsetNodes": _subset_nodes,
    "relevantLevels": _relevant_levels,
    "treeAllocatablePods": _tree_slots,
    "allocatableDomains": _allocatable_domains,
    "lowestCommonDomain": _common_domain,
    "nodeScores": _node_scores,
    "sortTree": _sort_tree,
}
