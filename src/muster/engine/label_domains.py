"""Which domains of a label topology a part of a gang is tried in, in which order, and which of their nodes first.

A part names a required level (all its pods in one domain of it), a preferred one (as narrow as that if possible),
or both. Domains are tried from the narrowest level that counts to the widest that is allowed; inside a level the
fullest that still has room comes first, from the top of the tree down, so that large holes stay whole. A part that
has to spread over several domains of its preferred level begins with the emptiest of them.
What a domain lacks is told by slots per class and by totals; nothing that could work is dropped before a trial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from muster.api import Topology
from muster.engine.boards import Boards
from muster.engine.domains import count_classes
from muster.framework import Session
from muster.kernels.placement import FUTURE
from muster.snapshot import ACTIVE_STATUSES, NO_ROW, Amounts, GroupConstraint, Mask, Rows, Snapshot
from muster.snapshot.labels import ROOT_LEVEL, LabelTopology, build_label_topology

#: Stands for the share of a resource that a domain does not have at all.
_NOT_THERE = 1000.0
#: Nodes are told apart by so many steps of preference.
_BANDS = 10
_ACTIVE = np.zeros(16, np.bool_)
_ACTIVE[list(ACTIVE_STATUSES)] = True


@dataclass(frozen=True, slots=True)
class Levels:
    """A constraint, resolved: levels of a topology, the root being 0."""

    topology: LabelTopology
    required: int | None = None
    preferred: int | None = None

    def tried(self) -> range:
        """The levels whose domains are tried, the narrowest first."""
        widest = ROOT_LEVEL if self.required is None else self.required
        narrowest = widest if self.preferred is None else self.preferred
        return range(narrowest, widest - 1, -1)


@dataclass(frozen=True, slots=True)
class DomainsInOrder:
    """Domains to try, in order, and the preference among nodes (larger goes first), None if there is none."""

    domains: Rows
    bands: NDArray[np.int8] | None = None


def label_topology(session: Session, name: str) -> LabelTopology | None:
    """A topology of the cluster, None if there is no such; its nodes are grouped when it is first looked up."""
    known = session.workspace.setdefault("label-topologies", {})
    assert isinstance(known, dict)
    if name not in known:
        found = session.snapshot.objects.get(Topology.kind, {}).get(name)
        nodes = session.snapshot.nodes
        known[name] = None
        if isinstance(found, Topology):
            labels = [level.node_label for level in found.spec.levels]
            known[name] = build_label_topology(name, labels, nodes.labels, len(nodes))
    topology: LabelTopology | None = known[name]
    return topology


def resolve_levels(session: Session, group: GroupConstraint) -> Levels | None:
    """Find the levels that a group names; None: it names none. Raises ValueError that says what does not exist."""
    if not (group.topology or group.required or group.preferred):
        return None
    topology = label_topology(session, group.topology)
    if topology is None:
        known = ", ".join(sorted(session.snapshot.objects.get(Topology.kind, {}))) or "none"
        raise ValueError(f"there is no topology {group.topology!r}; known: {known}")
    if not (group.required or group.preferred):
        raise ValueError(f"topology {group.topology!r} is named, but no level of it")
    required = topology.level_of(group.required) if group.required else None
    preferred = topology.level_of(group.preferred) if group.preferred else None
    if required is not None and preferred is not None and preferred < required:
        raise ValueError(f"the preferred level {group.preferred!r} is wider than the required {group.required!r}")
    return Levels(topology, required, preferred)


def choose_domains(
    session: Session, boards: Boards, levels: Levels, tasks: Rows, inside: Mask | None, held: Rows
) -> DomainsInOrder:
    """Domains for tasks that may use the nodes `inside` (None: all).

    `held` are the nodes of pods that are bound by the same constraint and have a place: where a level is required,
    the tasks join them there.
    """
    snapshot, topology = session.snapshot, levels.topology
    free = np.maximum(snapshot.nodes.future_idle(), 0)
    usable = np.ones(len(snapshot.nodes), np.int64)
    if inside is not None:
        free *= inside[:, None]
        usable *= inside
    width = topology.sums(usable)
    total = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].sum(axis=0)
    room = topology.sums(free)
    fitting = (width > 0) & (room >= total).all(axis=1) & has_slots(session, boards, topology, tasks, inside)
    if levels.required is not None and len(held):
        fitting &= _joining(topology, levels.required, held, len(snapshot.nodes))
    ranks = fullest_first(topology, fill_ratio(total, room, _counted(snapshot)))
    fitting &= ~_repeats(topology, levels.tried(), width)
    domains = [
        found[np.argsort(ranks[found], kind="stable")]
        for found in (level[fitting[level]] for level in map(topology.at_level, levels.tried()))
    ]
    bands = None
    if levels.preferred is not None:
        bands = node_bands(topology, levels.preferred, ranks, width, len(snapshot.nodes))
    return DomainsInOrder(np.concatenate(domains), bands)


def has_slots(
    session: Session, boards: Boards, topology: LabelTopology, tasks: Rows, inside: Mask | None = None
) -> Mask:
    """Which domains have slots for all the tasks, each class counted by itself."""
    return slot_counts(session, boards, topology, tasks, inside) >= len(tasks)


def slot_counts(
    session: Session, boards: Boards, topology: LabelTopology, tasks: Rows, inside: Mask | None = None
) -> NDArray[np.int64]:
    """For how many of the tasks each domain has slots."""
    found = np.zeros(len(topology), np.int64)
    classes, counts = count_classes(session.snapshot.tasks.cls[tasks])
    for cls, count in zip(classes.tolist(), counts.tolist(), strict=True):
        found += np.minimum(class_slots(session, boards, topology, cls, inside), count)
    return found


def class_slots(
    session: Session, boards: Boards, topology: LabelTopology, cls: int, inside: Mask | None = None
) -> NDArray[np.int64]:
    """How many tasks of a class each domain can take, now or once what leaves is gone."""
    snapshot = session.snapshot
    slots = boards.get(cls, FUTURE).slots(snapshot, 0, len(snapshot.nodes)).astype(np.int64)
    return topology.sums(slots if inside is None else slots * inside)


def fill_ratio(total: Amounts, room: Amounts, counted: Mask) -> NDArray[np.float64]:
    """The largest part of any counted resource of each domain that the tasks would take."""
    asked = np.flatnonzero((total > 0) & counted)
    if len(asked) == 0:
        return np.zeros(len(room))
    free = room[:, asked]
    shares = np.where(free > 0, total[asked] / np.maximum(free, 1), _NOT_THERE)
    ratio: NDArray[np.float64] = shares.max(axis=1)
    return ratio


def fullest_first(topology: LabelTopology, ratio: NDArray[np.float64]) -> Rows:
    """Each domain's place in its level: by the place of its parent, then the fullest, then the name."""
    ranks = np.zeros(len(topology), np.int32)
    for level in range(1, len(topology.labels) + 1):
        domains = topology.at_level(level)
        order = np.lexsort((domains, -ratio[domains], ranks[topology.parent[domains]]))
        ranks[domains[order]] = np.arange(len(domains), dtype=np.int32)
    return ranks


def node_bands(
    topology: LabelTopology, level: int, ranks: Rows, width: NDArray[np.int64], n_nodes: int
) -> NDArray[np.int8]:
    """Per node: the preference for its domain of a level, 10 for the emptiest, less for fuller ones.

    Domains without usable nodes do not count; nodes outside the topology get 0.
    """
    domains = topology.at_level(level)
    domains = domains[width[domains] > 0]
    domains = domains[np.argsort(ranks[domains], kind="stable")]
    by_domain = np.zeros(len(topology) + 1, np.int8)  # the last place is that of NO_ROW
    by_domain[domains] = _BANDS * np.arange(1, len(domains) + 1) // max(1, len(domains))
    found: NDArray[np.int8] = by_domain[topology.owners(level, n_nodes)]
    return found


def nodes_of_active(snapshot: Snapshot, tasks: Rows) -> Rows:
    """Nodes of those of the tasks that have a place or are promised one; one entry per task."""
    table = snapshot.tasks
    nodes = table.node[tasks]
    kept: Rows = nodes[_ACTIVE[table.status[tasks]] & (nodes != NO_ROW)]
    return kept


def _counted(snapshot: Snapshot) -> Mask:
    """Resources that tell how full a domain is: all but the number of pods."""
    return np.array([name != "pods" for name in snapshot.axis.names], np.bool_)


def _joining(topology: LabelTopology, level: int, held: Rows, n_nodes: int) -> Mask:
    """Domains inside those of a level that hold one of the nodes."""
    owners = topology.owners(level, n_nodes)[held]
    chosen = np.zeros(len(topology), np.bool_)
    chosen[owners[owners != NO_ROW]] = True
    narrower = np.flatnonzero(topology.level >= level).astype(np.int32)
    chosen[narrower] = chosen[topology.ancestors(narrower, level)]
    return chosen


def _repeats(topology: LabelTopology, tried: range, width: NDArray[np.int64]) -> Mask:
    """Domains with the same usable nodes as a narrower one that is tried before."""
    widest_child = np.zeros(len(topology), np.int64)
    np.maximum.at(widest_child, topology.parent[1:], width[1:])
    repeated: Mask = (widest_child == width) & (topology.level < tried.start)
    return repeated


@dataclass(frozen=True, slots=True)
class Part:
    """A node of a job's tree of groups, with its levels resolved."""

    name: str = ""
    levels: Levels | None = None
    #: Rows of all roles below; None: the whole job.
    roles: Rows | None = None
    parts: tuple[Part, ...] = ()
    #: Is it a single role?
    is_pod_set: bool = False

    def members(self, snapshot: Snapshot, tasks: Rows) -> Mask:
        """Which tasks of the job belong to it."""
        if self.roles is None:
            return np.ones(len(tasks), np.bool_)
        return np.isin(snapshot.tasks.role[tasks], self.roles)


def read_parts(session: Session, job: int) -> Part:
    """The tree of a job's groups, resolved. Raises ValueError that says what cannot be told."""
    snapshot = session.snapshot
    rows = {snapshot.roles.names[role]: role for role in snapshot.jobs.roles[job]}

    def roles_below(group: GroupConstraint) -> list[int]:
        own = [rows[role] for role in group.roles if role in rows]
        return own + [role for child in group.groups for role in roles_below(child)]

    def read(group: GroupConstraint) -> Part:
        return Part(
            group.name,
            resolve_levels(session, group),
            np.array(roles_below(group), np.int32),
            tuple(read(child) for child in group.groups),
            is_pod_set=not group.groups and group.roles == (group.name,),
        )

    groups = snapshot.jobs.records[job].groups
    # Tasks of roles that no group names belong to the job all the same.
    return Part() if groups is None else replace(read(groups), roles=None, is_pod_set=False)
