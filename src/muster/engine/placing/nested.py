"""Nested groups (KAI): a domain of a label topology for the job, inside it one for each group, and so on down.

A part names a required level (all its pods in one domain of it), a preferred one (as narrow as that if possible), or
both. Its domains are tried from the narrowest level that counts to the widest that is allowed; inside a level the
fullest that still has room comes first, from the top of the tree down, so that large holes stay whole. It keeps the
first in which everything below it finds a place; a part that has to spread over several domains of its preferred level
begins with the emptiest of them, and the innermost part that prefers something decides. Pods that already have a place
bind the rest of their part where a level is required.
Invariant: all given tasks are placed, or the statement is as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.api import Topology
from muster.engine.constraints import nodes_of_placed
from muster.engine.domains import ROOT, room_for
from muster.engine.gangs import NOBODY, requests_of, role_deficit
from muster.engine.placing.contract import Scope, together
from muster.engine.placing.runs import Runs, Work
from muster.engine.placing.search import Search, SearchPart
from muster.framework import JobVerdict, Session
from muster.framework.reasons import TOPOLOGY, TOPOLOGY_LEVEL
from muster.snapshot import NO_ROW, Amounts, GroupConstraint, Mask, Rows, Snapshot
from muster.snapshot.labels import ROOT_LEVEL, LabelTopology, build_label_topology

#: Stands for the share of a resource that a domain does not have at all.
_NOT_THERE: Final = 1000.0
#: Nodes are told apart by so many steps of preference.
_BANDS: Final = 10


@dataclass(frozen=True, slots=True)
class Part:
    """A node of a job's tree of groups, with the levels that it names resolved; the root is level 0."""

    name: str = ""
    #: Rows of all roles below; None: the whole job.
    roles: Rows | None = None
    parts: tuple[Part, ...] = ()
    #: Is it a single role?
    is_pod_set: bool = False
    #: None: it names no level.
    topology: LabelTopology | None = None
    required: int | None = None
    preferred: int | None = None

    @property
    def tried(self) -> range:
        """The levels whose domains are tried, the narrowest first."""
        widest = ROOT_LEVEL if self.required is None else self.required
        return range(widest if self.preferred is None else self.preferred, widest - 1, -1)

    def members(self, snapshot: Snapshot, tasks: Rows) -> Mask:
        """Which tasks of the job belong to it."""
        if self.roles is None:
            return np.ones(len(tasks), np.bool_)
        return np.isin(snapshot.tasks.role[tasks], self.roles)


class Nested:
    """Places tasks of jobs that have groups."""

    def __init__(self, runs: Runs, search: Search) -> None:
        self._session = runs.session
        self._runs = runs
        self._search = search
        self._parts: dict[int, Part] = {}

    def place(self, work: Work, scope: Scope) -> bool:
        """Place exactly the tasks of a job that are asked for, or none."""
        job, tasks, mark = work.job, work.tasks, work.statement.mark()
        try:
            if job not in self._parts:
                self._parts[job] = read_parts(self._session, job)
        except ValueError as error:
            work.verdict = JobVerdict(TOPOLOGY_LEVEL, str(error))
            return False
        if self._place_promised(work, self._parts[job]) or self._place(work, self._parts[job], tasks, scope):
            return True
        work.statement.rollback(mark)
        if scope.mask is None and self._search.knows(tasks):
            verdict, places = work.verdict, self._search_places(job, tasks, everything=True)
            if places is not None and self._runs.all_of(work, tasks, Scope(places=places)):
                return True
            work.verdict = self._search.qualify(job, verdict)
        return False

    def least(self, work: Work) -> Rows | None:
        """Nodes by task row for as many of the tasks as the job lacks, whichever they are; None: none were found."""
        is_known = work.job in self._parts and self._search.knows(work.tasks)
        return self._search_places(work.job, work.tasks, everything=False) if is_known else None

    # -- in order ----------------------------------------------------------------------------------------------

    def _place_promised(self, work: Work, whole: Part) -> bool:
        """Place the tasks on the nodes that an earlier cycle set aside for all of them, if levels are kept there."""
        nominated, tasks, mark = self._session.snapshot.tasks.nominated, work.tasks, work.statement.mark()
        if not self._search.knows(tasks) or (nominated[tasks] == NO_ROW).any():
            return False
        if self._runs.all_of(work, tasks, Scope(places=nominated)) and self._keeps_levels(work.job, whole):
            return True
        work.statement.rollback(mark)
        return False

    def _keeps_levels(self, job: int, part: Part) -> bool:
        """Whether what is placed of a part, and of those inside it, stays within the levels that they require."""
        if part.topology is not None and part.required is not None:
            owners = part.topology.owners(part.required, len(self._session.snapshot.nodes))[self._held(job, part)]
            if (owners != owners[:1]).any() or (owners == NO_ROW).any():
                return False
        return all(self._keeps_levels(job, inner) for inner in part.parts)

    def _place(self, work: Work, part: Part, tasks: Rows, scope: Scope) -> bool:
        """Place the tasks of a part in the first of its domains in which they fit."""
        if len(tasks) == 0:
            return True
        if part.topology is None:
            return self._place_members(work, part, tasks, scope)
        domains, bands = choose_domains(self._session, part, tasks, scope.mask, self._held(work.job, part))
        mark = work.statement.mark()
        for domain in domains.tolist():
            mask = np.zeros(len(self._session.snapshot.nodes), np.bool_)
            mask[part.topology.nodes(domain)] = True
            if scope.mask is not None:
                mask &= scope.mask
            inside = Scope(mask=mask, preference=scope.preference if bands is None else bands)
            if self._place_members(work, part, tasks, inside):
                return True
            work.statement.rollback(mark)
        if part.required is None:
            # A preference refuses nothing: nodes outside of the topology will do.
            return self._place_members(work, part, tasks, scope)
        work.verdict = self._no_domain(work.job, part, part.topology, tasks, scope.mask)
        return False

    def _place_members(self, work: Work, part: Part, tasks: Rows, scope: Scope) -> bool:
        """Place what is inside a part: groups by name, then pod sets and single roles in the order of their tasks."""
        left = tasks
        for group in sorted((inner for inner in part.parts if not inner.is_pod_set), key=lambda inner: inner.name):
            mine = group.members(self._session.snapshot, left)
            if not self._place(work, group, left[mine], scope):
                return False
            left = left[~mine]
        pod_sets = [inner for inner in part.parts if inner.is_pod_set]
        roles = self._session.snapshot.tasks.role
        while len(left):
            mine = roles[left] == roles[left[0]]
            inner = next((one for one in pod_sets if one.members(self._session.snapshot, left[:1]).all()), None)
            same = left[mine]
            if not (self._runs.all_of(work, same, scope) if inner is None else self._place(work, inner, same, scope)):
                return False
            left = left[~mine]
        return True

    def _held(self, job: int, part: Part) -> Rows:
        """Nodes of the tasks of a part that have a place."""
        tasks = self._session.snapshot.tasks_of(job)
        return nodes_of_placed(self._session.snapshot, tasks[part.members(self._session.snapshot, tasks)])

    # -- by an exact search ------------------------------------------------------------------------------------

    def _search_places(self, job: int, tasks: Rows, *, everything: bool) -> Rows | None:
        """The nodes of all tasks, or of as many as the job lacks, by task row; None: none were found."""
        topology = self._session.snapshot.topology
        parts = [SearchPart(NO_ROW, NOBODY, (topology, np.array([ROOT], np.intp)))]
        is_possible = self._list(parts, job, self._parts[job], 0, tasks, everything=everything)
        return self._search.places(job, parts, everything=everything).places if is_possible else None

    def _list(
        self, parts: list[SearchPart], job: int, part: Part, parent: int, tasks: Rows, *, everything: bool
    ) -> bool:
        """Note a part and those inside it; False: one of them has no candidate at all, and is needed."""
        if len(tasks) == 0:
            return True
        session, candidates = self._session, None
        if part.topology is not None and part.required is not None:
            needed = len(tasks) if everything else 1
            candidates = part.topology, choose_domains(session, part, tasks, None, self._held(job, part), needed)[0]
            if len(candidates[1]) == 0:
                roles = set(session.snapshot.tasks.role[tasks].tolist())
                return not everything and not any(role_deficit(session.snapshot, role) for role in roles)
        inner = [(group, group.members(session.snapshot, tasks)) for group in part.parts]
        own = ~np.any([mine for _, mine in inner] or [np.zeros(len(tasks), np.bool_)], axis=0)
        number = len(parts)
        parts.append(SearchPart(parent, tasks[own], candidates))
        return all(self._list(parts, job, group, number, tasks[mine], everything=everything) for group, mine in inner)

    # -- reasons -----------------------------------------------------------------------------------------------

    def _no_domain(self, job: int, part: Part, topology: LabelTopology, tasks: Rows, mask: Mask | None) -> JobVerdict:
        """Say how far the domain with the most room is from holding a part."""
        held, widest = self._held(job, part), part.tried[-1]
        detail = together(len(tasks), part.name)
        if widest:
            detail += f" within one {topology.level_name(widest)}"
        if len(held) and widest:
            detail += f", with those in {topology.names[topology.common_domain(held, widest)]}"
        domains = topology.at_level(widest)
        if len(domains):
            room = slot_counts(self._session, topology, tasks, mask)[domains]
            best = int(np.argmax(room))
            how = f" with room for {room[best]}" if room[best] < len(tasks) else ", but they do not fit there together"
            detail += f"; {topology.names[domains[best]]} comes closest{how}"
        task = int(tasks[0])
        return JobVerdict(TOPOLOGY, detail, int(self._session.snapshot.tasks.cls[task]), task)


# -- what the job says ---------------------------------------------------------------------------------------------


def label_topology(session: Session, name: str) -> LabelTopology:
    """A topology of the cluster, its nodes grouped when it is first looked up. Raises ValueError if there is none."""
    known = session.workspace.setdefault("label-topologies", {})
    assert isinstance(known, dict)
    if name not in known:
        objects, nodes = session.snapshot.objects.get(Topology.kind, {}), session.snapshot.nodes
        found = objects.get(name)
        if not isinstance(found, Topology):
            raise ValueError(f"there is no topology {name!r}; known: {', '.join(sorted(objects)) or 'none'}")
        labels = [level.node_label for level in found.spec.levels]
        made = build_label_topology(name, labels, nodes.labels, len(nodes))
        known[name] = replace(made, aliases=found.spec.aliases)
    topology: LabelTopology = known[name]
    return topology


def read_parts(session: Session, job: int) -> Part:
    """The tree of a job's groups, resolved. Raises ValueError that says what cannot be told."""
    snapshot = session.snapshot
    rows = {snapshot.roles.names[role]: role for role in snapshot.jobs.roles[job]}

    def read(group: GroupConstraint) -> Part:
        inner = tuple(read(child) for child in group.groups)
        own = np.array([rows[role] for role in group.roles if role in rows], np.intp)
        roles = np.concatenate([own, *(part.roles for part in inner if part.roles is not None)])
        part = Part(group.name, roles, inner, is_pod_set=not inner and group.roles == (group.name,))
        if not (group.topology or group.required or group.preferred):
            return part
        topology = label_topology(session, group.topology)
        if not (group.required or group.preferred):
            raise ValueError(f"topology {group.topology!r} is named, but no level of it")
        required = topology.level_of(group.required) if group.required else None
        preferred = topology.level_of(group.preferred) if group.preferred else None
        if required is not None and preferred is not None and preferred < required:
            raise ValueError(f"the preferred level {group.preferred!r} is wider than the required {group.required!r}")
        return replace(part, topology=topology, required=required, preferred=preferred)

    groups = snapshot.jobs.records[job].groups
    # Tasks of roles that no group names belong to the job all the same.
    return Part() if groups is None else replace(read(groups), roles=None, is_pod_set=False)


# -- domains -------------------------------------------------------------------------------------------------------


def choose_domains(
    session: Session, part: Part, tasks: Rows, mask: Mask | None, held: Rows, needed: int | None = None
) -> tuple[Rows, NDArray[np.int8] | None]:
    """Domains to try for tasks of a part on the nodes of a mask, in order; and the preference among nodes, if any.

    `held`: nodes of its pods that have a place; `needed`: so many of the tasks, if not all. Nothing that could work is
    dropped.
    """
    needed = len(tasks) if needed is None else needed
    snapshot, topology = session.snapshot, part.topology
    assert topology is not None
    usable = np.ones(len(snapshot.nodes), np.int64) if mask is None else mask.astype(np.int64)
    width = topology.sums(usable)
    total = requests_of(snapshot, tasks)
    room = topology.sums(np.maximum(snapshot.nodes.future_idle(), 0) * usable[:, None])
    fitting = (width > 0) & (slot_counts(session, topology, tasks, mask) >= needed)
    fitting &= (room >= total).all(axis=1) | (needed < len(tasks))
    # Not those with the same usable nodes as a narrower one that is tried before.
    widest_child = np.zeros(len(topology), np.int64)
    np.maximum.at(widest_child, topology.parent[1:], width[1:])
    fitting &= (widest_child != width) | (topology.level >= part.tried.start)
    if part.required is not None and len(held):
        owners = topology.owners(part.required, len(usable))
        fitting &= topology.sums((owners != NO_ROW) & np.isin(owners, owners[held])) > 0
    counted = np.array([name != "pods" for name in snapshot.axis.names], np.bool_)
    ranks = fullest_first(topology, fill_ratio(total, room, counted))
    domains = [
        found[np.argsort(ranks[found], kind="stable")]
        for found in (level[fitting[level]] for level in map(topology.at_level, part.tried))
    ]
    bands = None if part.preferred is None else node_bands(topology, part.preferred, ranks, width, len(usable))
    return np.concatenate(domains), bands


def slot_counts(session: Session, topology: LabelTopology, tasks: Rows, mask: Mask | None) -> NDArray[np.int64]:
    """For how many of the tasks each domain has slots, now or once what leaves is gone."""
    every = slice(0, len(session.snapshot.nodes))
    return room_for(session, tasks, lambda slots: topology.sums(slots if mask is None else slots * mask), every)


def fill_ratio(total: Amounts, room: Amounts, counted: Mask) -> NDArray[np.float64]:
    """The largest part of any counted resource of each domain that the tasks would take."""
    asked = np.flatnonzero((total > 0) & counted)
    free = room[:, asked]
    ratio: NDArray[np.float64] = np.where(free > 0, total[asked] / np.maximum(free, 1), _NOT_THERE).max(1, initial=0.0)
    return ratio


def fullest_first(topology: LabelTopology, ratio: NDArray[np.float64]) -> Rows:
    """Each domain's place in its level: by the place of its parent, then the fullest, then the name."""
    ranks = np.zeros(len(topology), np.intp)
    for level in range(1, len(topology.labels) + 1):
        domains = topology.at_level(level)
        order = np.lexsort((domains, -ratio[domains], ranks[topology.parent[domains]]))
        ranks[domains[order]] = np.arange(len(domains), dtype=np.intp)
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
