"""Topology constraints of jobs and sub-groups, resolved against the tree of the moment.

A constraint is the highest tier that pods may span. Soft ones allow the root's tier, so that the lowest tier that
fits is preferred and nothing is refused. What cannot be resolved fails closed: an unknown tier name, hard mode
without a tier, and a constraint that only HyperNodes with a fault could hold make the job wait with that reason.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from muster.api import NetworkTopology
from muster.framework import Rejection, Session
from muster.framework.reasons import TOPOLOGY_BROKEN, TOPOLOGY_SPANNED, TOPOLOGY_TIER
from muster.snapshot import ALLOCATED_STATUSES, NO_ROW, Rows, Snapshot, TaskStatus, TopologyTable

_PLACED = np.zeros(16, np.bool_)
# A pod whose node does not report may come back there.
_PLACED[[*ALLOCATED_STATUSES, TaskStatus.PIPELINED, TaskStatus.UNKNOWN]] = True


@dataclass(frozen=True, slots=True)
class Constraint:
    """The highest tier allowed; None: no constraint."""

    limit: int | None = None
    soft: bool = False

    def __bool__(self) -> bool:
        return self.limit is not None


UNCONSTRAINED = Constraint()


def has_topology(session: Session, job: int) -> bool:
    """Whether the job or one of its sub-groups has a topology constraint."""
    return bool(session.snapshot.jobs.has_network[job])


def resolve(spec: NetworkTopology | None, topology: TopologyTable, outer: Constraint = UNCONSTRAINED) -> Constraint:
    """Find the tier that a constraint allows. Raises ValueError that says why it cannot be told.

    `outer` is the constraint of the job around a sub-group: a soft sub-group stays inside it.
    """
    if spec is None:
        return UNCONSTRAINED
    if spec.mode == "soft":
        return Constraint(topology.root_tier if outer.limit is None else outer.limit, soft=True)
    if spec.highest_tier_allowed is not None:
        return Constraint(spec.highest_tier_allowed)
    if spec.highest_tier_name:
        tier = topology.forest.tier_names.get(spec.highest_tier_name)
        if tier is None:
            known = ", ".join(sorted(topology.forest.tier_names)) or "none"
            raise ValueError(f"no HyperNode has the tier name {spec.highest_tier_name!r}; known: {known}")
        return Constraint(tier)
    raise ValueError("mode is hard, but neither highestTierAllowed nor highestTierName is set")


def constraint_of(session: Session, job: int, subgroup: int = NO_ROW) -> Constraint:
    """The constraint on a job, or on one of its sub-groups; tasks that match no policy are held by the job's own.

    Call after `why_not_placeable` found nothing.
    """
    snapshot = session.snapshot
    record = snapshot.jobs.records[job]
    outer = resolve(record.topology, snapshot.topology)
    policy = NO_ROW if subgroup == NO_ROW else int(snapshot.subgroups.policy[subgroup])
    if policy == NO_ROW:
        return outer
    return resolve(record.sub_groups[policy].network_topology, snapshot.topology, outer)


def why_not_placeable(session: Session, job: int) -> Rejection | None:
    """Why no domain can be looked for; None: it can."""
    record = session.snapshot.jobs.records[job]
    topology = session.snapshot.topology
    if not has_topology(session, job):
        return None
    try:
        outer = resolve(record.topology, topology)
        inner = [resolve(policy.network_topology, topology, outer) for policy in record.sub_groups]
    except ValueError as error:
        return Rejection(TOPOLOGY_TIER, str(error))
    for constraint in (outer, *inner):
        fault = fault_of(topology, constraint)
        if fault and constraint.limit is not None and topology.tier.min() > constraint.limit:
            return Rejection(TOPOLOGY_BROKEN, fault)
    spanned = domain_of(session.snapshot, job)
    if outer.limit is not None and spanned != NO_ROW and topology.tier[spanned] > outer.limit:
        names = session.snapshot.nodes.names
        if fault := fault_of(topology, outer, {names[node] for node in placed_nodes(session.snapshot, job).tolist()}):
            return Rejection(TOPOLOGY_BROKEN, fault)
        return Rejection(
            TOPOLOGY_SPANNED,
            f"running pods already span {topology.names[spanned]} of tier {topology.tier[spanned]}, "
            f"above tier {outer.limit}",
        )
    return None


def fault_of(topology: TopologyTable, constraint: Constraint, nodes: Set[str] | None = None) -> str:
    """The first HyperNode that would be allowed and is out of use, with its fault; "" if there is none.

    `nodes`: only HyperNodes that hold one of these.
    """
    forest = topology.forest
    if not forest.faults or constraint.limit is None or constraint.soft:
        return ""
    names = [name for name in sorted(forest.faults) if forest.tiers[name] <= constraint.limit]
    if nodes is not None:
        names = [name for name in names if not nodes.isdisjoint(forest.nodes[name])]
    return f"HyperNode {names[0]}: {forest.faults[names[0]]}" if names else ""


def placed_nodes(snapshot: Snapshot, job: int, subgroup: int = NO_ROW) -> Rows:
    """Nodes of the tasks of a job, or of one of its sub-groups, that have a place; one entry per task."""
    own = snapshot.tasks_of(job)
    return nodes_of_placed(snapshot, own if subgroup == NO_ROW else own[snapshot.tasks.subgroup[own] == subgroup])


def nodes_of_placed(snapshot: Snapshot, tasks: Rows) -> Rows:
    """Nodes of those of the tasks that have a place or are promised one; one entry per task."""
    nodes = snapshot.tasks.node[tasks]
    kept: Rows = nodes[_PLACED[snapshot.tasks.status[tasks]] & (nodes != NO_ROW)]
    return kept


def domain_of(snapshot: Snapshot, job: int, subgroup: int = NO_ROW) -> int:
    """The smallest domain that holds the placed tasks of a job or sub-group; NO_ROW if it has none."""
    return snapshot.topology.domain_of_nodes(placed_nodes(snapshot, job, subgroup))
