"""Looking for places exactly, where placing in order has failed: the gang as a problem for the compiled search.

A gang comes as a list of parts, each followed by those inside it: sub-groups of a job, or its tree of groups. Each goes
to one of its candidate domains, inside that of the part around it. The search has so many steps for a job and for a
cycle; if they are not used up, no answer is a proof. Pods for which other pods matter are beyond it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.engine.constraints import constraint_of, domain_of
from muster.engine.domains import holding, search_gradients
from muster.engine.gangs import lacking_subgroups, role_deficit
from muster.engine.placing.runs import Runs, Work
from muster.framework import FITS, JobVerdict, Session, points
from muster.framework.reasons import PLACES_SEARCH_ENDED
from muster.kernels.search import ENDED, NONE, Gang, make_desk, packed, search_places
from muster.snapshot import NO_ROW, Amounts, Mask, Rows, TaskStatus, TopologyTable
from muster.snapshot.labels import LabelTopology

#: What putting a problem together counts for, in steps.
_OVERHEAD: Final = 500
#: Parts × nodes beyond which a problem is not put together at all.
_LARGEST: Final = 4_000_000

#: Domains of a network, of which one is chosen.
Candidates: TypeAlias = tuple[TopologyTable | LabelTopology, Rows]


@dataclass(frozen=True, slots=True)
class SearchPart:
    """Tasks that go to one of their candidates; None: wherever the part around them is."""

    #: The part around it, by its place in the list; NO_ROW for the first, which has candidates.
    parent: int
    tasks: Rows
    candidates: Candidates | None = None
    #: Tasks without which it has nothing, and the sub-group policy that it counts for with them.
    need: int = 0
    policy: int = NO_ROW


class Answer(NamedTuple):
    """Nodes by task row, NO_ROW for tasks without one; None: there are none (that is proven), or none were found."""

    places: Rows | None = None
    is_proof: bool = False


def is_entangled(work: Work) -> bool:
    """Whether it matters for the rest of a gang where its first tasks are: they differ, or it has sub-groups."""
    cls = work.session.snapshot.tasks.cls[work.tasks]
    return work.is_divided or (len(cls) > 1 and bool((cls != cls[0]).any()))


def _domains_inside(session: Session, job: int, subgroup: int, domains: Rows, placed: int) -> Rows | None:
    """Domains that a sub-group may have inside the job's, lowest tier first; None: anywhere there."""
    topology, constraint = session.snapshot.topology, constraint_of(session, job, subgroup)
    if not constraint:
        return None
    around = topology.lca(int(domains.min()), int(domains.max()))
    steps = search_gradients(session, job, subgroup, around, constraint, placed)
    found: Rows = np.concatenate([domains[:0], *steps])
    tops = np.sort(domains)
    at = np.searchsorted(tops, found, side="right") - 1
    return found[(at >= 0) & (found <= np.maximum.accumulate(topology.last[tops])[at])]


def _numbered(values: Rows) -> tuple[Rows, Rows]:
    """Distinct values in the order in which they appear, and the place of each value among them.

    The numbers of rows depend on who came first to the cluster, and may not decide anything.
    """
    distinct, first, places = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], np.argsort(order)[places.reshape(-1)]


def _hardness(part: SearchPart, kind_of: Mapping[int, int]) -> tuple[object, ...]:
    kinds = sorted(kind_of[task] for task in part.tasks.tolist())
    return part.candidates is None, 0 if part.candidates is None else len(part.candidates[1]), -len(kinds), kinds


class Search:
    """Searches of one session, within their budgets."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._left = runs.options.search_steps_per_cycle
        self._used: dict[int, int] = {}
        self._ended: set[int] = set()

    def qualify(self, job: int, verdict: JobVerdict | None) -> JobVerdict | None:
        """The verdict on a job that has no place, as it is if a search was not through when its steps were used up."""
        return verdict if verdict is None or job not in self._ended else replace(verdict, reason=PLACES_SEARCH_ENDED)

    def knows(self, tasks: Rows) -> bool:
        """Whether it can place tasks: they are not on the move, and no other pods matter for them."""
        is_waiting = self._runs.session.snapshot.tasks.status[tasks] == TaskStatus.PENDING
        return bool(is_waiting.all()) and self._runs.live.isdisjoint(tasks.tolist())

    def places_in(self, work: Work, domains: Rows, *, everything: bool, roomy: Collection[int] = ()) -> Answer:
        """Places for a job in one of some domains, where placing its sub-groups in order may have missed something.

        `roomy`: sub-groups that take part with all they have.
        """
        session, network = work.session, work.session.snapshot.topology
        if not is_entangled(work) or not self.knows(work.tasks):
            return Answer()
        parts: list[SearchPart] = []
        #: Domains for sub-groups of a policy; gradients take long to make.
        known: dict[tuple[int, int], Rows | None] = {}
        for subgroup, tasks in work.parts:
            if subgroup == NO_ROW:
                parts.append(SearchPart(0, tasks))
                continue
            need = len(tasks) if subgroup in roomy else session.subgroup_deficit(subgroup)
            policy = int(session.snapshot.subgroups.policy[subgroup])
            key = policy, domain_of(session.snapshot, work.job, subgroup)
            if key not in known:
                known[key] = _domains_inside(session, work.job, subgroup, domains, key[1])
            inside = known[key]
            if inside is not None:
                inside = holding(session, tasks, max(1, need), inside)
            if inside is None or len(inside):
                parts.append(SearchPart(0, tasks, None if inside is None else (network, inside), need, policy))
            elif everything:
                return Answer(is_proof=True)
        # Those with the fewest candidates first, as they are the hardest; those that may go anywhere last.
        table, tasks = session.snapshot.tasks, work.tasks
        kinds = _numbered(table.role[tasks])[1] * len(tasks) + _numbered(table.cls[tasks])[1]
        kind_of = dict(zip(tasks.tolist(), kinds.tolist(), strict=True))
        parts.sort(key=lambda part: _hardness(part, kind_of))
        first = SearchPart(NO_ROW, work.tasks[:0], (network, domains))
        return self.places(work.job, [first, *parts], everything=everything)

    def places(self, job: int, parts: Sequence[SearchPart], *, everything: bool) -> Answer:
        """Nodes for all tasks, or for as many as the job takes to start: on what is free, else on what will be."""
        problem = _Problem(self._runs, parts) if any(len(part.tasks) for part in parts) else None
        if problem is None or len(problem.rows) == 0:
            return Answer(is_proof=True)
        gang = problem.gang(job, everything=everything)
        for free in problem.kinds_of_room():
            steps = min(self._runs.options.search_steps_per_job - self._used.get(job, 0), self._left) - _OVERHEAD
            if steps <= 0 or len(free) * len(parts) > _LARGEST:
                self._ended.add(job)
                return Answer()
            desk = make_desk(gang, free, steps)
            count = search_places(gang, desk)
            spent = int(desk.budget[1]) + _OVERHEAD
            self._used[job] = self._used.get(job, 0) + spent
            self._left -= spent
            if count == ENDED:
                self._ended.add(job)
                return Answer()
            if count != NONE:
                return Answer(problem.read(desk.placed[:count]))
        return Answer(is_proof=True)


class _Problem:
    """A gang as the compiled search takes it; nodes that hold none of its tasks are left out."""

    def __init__(self, runs: Runs, parts: Sequence[SearchPart]) -> None:
        self._session, self._snapshot = runs.session, runs.session.snapshot
        self._parts = parts
        tasks = np.concatenate([part.tasks for part in parts])
        owners = np.repeat(np.arange(len(parts)), [len(part.tasks) for part in parts])
        classes, cls = _numbered(self._snapshot.tasks.cls[tasks])
        self._roles, role = _numbered(self._snapshot.tasks.role[tasks])
        requests = self._snapshot.classes.requests[classes, 0]
        # Of each part, the kinds that ask for the largest part of the cluster come first.
        sizes = np.unique(-(requests / np.maximum(self._session.total, 1)).max(axis=1), return_inverse=True)[1]
        keys, kind_of = np.unique(np.stack((owners, sizes[cls], cls, role)), axis=1, return_inverse=True)
        self._tasks = [tasks[kind_of.reshape(-1) == kind] for kind in range(keys.shape[1])]
        self._kinds = np.stack((keys[3], keys[2], [len(own) for own in self._tasks]), axis=1).astype(np.intp)
        #: The first kind of each part, and of one more.
        self._first = np.searchsorted(keys[0], np.arange(len(parts) + 1)).tolist()
        self._columns = np.flatnonzero(requests.any(axis=0))
        self._requests = requests[:, self._columns]
        allowed = np.stack([runs.boards.verdicts(cls) == FITS for cls in classes.tolist()])
        self._useful = self._find_useful(allowed)
        self._allowed = allowed[:, self._useful]
        self.rows = np.flatnonzero(self._useful).astype(np.intp)

    def kinds_of_room(self) -> list[Amounts]:
        """What is free now, and what will be if that is more; each to be used up by one search."""
        nodes = self._snapshot.nodes
        future = nodes.future_idle()[self.rows][:, self._columns]
        now = np.minimum(nodes.idle()[self.rows][:, self._columns], future)
        return [now] if np.array_equal(now, future) else [now, future]

    def read(self, placed: Rows) -> Rows:
        """The node row of every task that has a place, by task row."""
        places = np.full(len(self._snapshot.tasks), NO_ROW, np.intp)
        for kind, tasks in enumerate(self._tasks):
            nodes = np.sort(self.rows[placed[placed[:, 0] == kind, 1]])
            places[tasks[: len(nodes)]] = nodes
        return places

    def _find_useful(self, allowed: Mask) -> Mask:
        """Nodes of the outermost domains on which some class of the gang may be and has, or will have, room."""
        outermost, requests = self._parts[0].candidates, self._requests
        assert outermost is not None
        free = self._snapshot.nodes.future_idle()[:, self._columns]
        inside: Mask = np.zeros(len(free), np.bool_)
        inside[_nodes_of(outermost, ~inside)[0]] = True
        fits = (free[None] >= requests[:, None]) | (requests[:, None] == 0)
        useful: Mask = (fits.all(axis=2) & allowed).any(axis=0) & inside
        return useful

    def gang(self, job: int, *, everything: bool) -> Gang:
        """The problem; `everything`: all tasks are needed."""
        listed: dict[object, tuple[int, int]] = {None: (0, 0)}
        lists: list[Candidates] = []
        parts: list[list[int]] = []
        enclosing = {part.parent for part in self._parts}
        before: object = None
        for number, part in enumerate(self._parts):
            key = None if part.candidates is None else (id(part.candidates[0]), part.candidates[1].tobytes())
            if part.candidates is not None and key not in listed:
                begin = sum(len(domains) for _, domains in lists)
                listed[key] = begin, begin + len(part.candidates[1])
                lists.append(part.candidates)
            lo, hi = self._first[number : number + 2]
            own = self._kinds[lo:hi].tolist()
            alike = None if number in enclosing else (part.parent, key, part.need, part.policy, own)
            is_twin = alike is not None and alike == before
            policy = NO_ROW if part.policy == NO_ROW else 1 + len(self._roles) + part.policy
            parts.append([part.parent, part.need, policy, lo, hi, *listed[key], int(is_twin)])
            before = alike
        cell_of, colors, slices, nodes = self._cells(lists)
        needs = self._needs(job, everything=everything)
        columns = self._kinds, self._requests, self._allowed, slices, nodes, needs, cell_of, colors
        return packed(Gang(np.array(parts, np.intp), *columns))

    def _needs(self, job: int, *, everything: bool) -> Amounts:
        """What is missing: tasks of the job, of roles, ready sub-groups of policies."""
        session, snapshot = self._session, self._snapshot
        needs = [sum(map(len, self._tasks)) if everything else max(1, session.job_deficit(job))]
        is_gang = bool(session.asked(points.JOB_READY)) and not everything
        has_pod_sets = is_gang and snapshot.jobs.has_pod_sets(job)
        needs += [role_deficit(snapshot, role) if has_pod_sets else 0 for role in self._roles.tolist()]
        unready = [subgroup for subgroup in snapshot.jobs.subgroups[job] if session.subgroup_deficit(subgroup) > 0]
        needs += [max(0, lack) if is_gang else 0 for lack in lacking_subgroups(snapshot, job, unready)]
        return np.array(needs, np.int64)

    def _cells(self, lists: Sequence[Candidates]) -> tuple[Rows, Amounts, Rows, Rows]:
        """Cells of nodes that are in the same candidates, which of the cells are alike, and candidates as slices."""
        found = [_nodes_of(candidates, self._useful) for candidates in lists]
        nodes = np.searchsorted(self.rows, np.concatenate([rows for rows, _ in found])).astype(np.intp)
        sizes = np.concatenate([count for _, count in found])
        ends = np.cumsum(sizes)
        # Candidates have random numbers: nodes with the same sum of them are in the same candidates.
        numbers = np.random.default_rng(0).integers(1 << 62, size=len(sizes) + len(lists))
        sums = np.zeros(len(self.rows), np.int64)
        np.add.at(sums, nodes, np.repeat(numbers[: len(sizes)], sizes))
        outside, cell_of = np.unique(sums, return_inverse=True)
        first = cell_of[nodes[np.minimum(ends - sizes, len(nodes) - 1)]]
        is_cell = (sizes > 0) & (np.bincount(cell_of)[first] == sizes)
        # Cells may be swapped if they are candidates of the same parts, and else in the same candidates.
        of_list = np.repeat(numbers[len(sizes) :], [len(domains) for _, domains in lists])
        np.add.at(outside, first[is_cell], -numbers[: len(sizes)][is_cell])
        lists_of = np.zeros(len(outside), np.int64)
        np.add.at(lists_of, first[is_cell], of_list[is_cell])
        colors = np.unique(np.stack((outside, lists_of), axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        kinds: NDArray[np.integer] = np.zeros(len(cell_of), np.intp)
        if not self._allowed.all():
            kinds = np.unique(self._allowed.T, axis=0, return_inverse=True)[1].reshape(-1)
        free = self._snapshot.nodes.future_idle()[self.rows][:, self._columns]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((*free[nodes].T, kinds[nodes], cell_of[nodes], owner))
        slices = np.stack((ends - sizes, ends, np.where(is_cell, first, NO_ROW)), axis=1).astype(np.intp)
        return np.stack((cell_of, kinds), axis=1).astype(np.intp), colors.astype(np.int64), slices, nodes[order]


def _nodes_of(candidates: Candidates, useful: Mask) -> tuple[Rows, Rows]:
    """The useful nodes of domains, one domain after the other, and how many there are of each."""
    network, domains = candidates
    order = network.order if isinstance(network, LabelTopology) else np.arange(len(useful), dtype=np.intp)
    is_useful = useful[order]
    before = np.concatenate(([0], np.cumsum(is_useful)))
    lo, sizes = before[network.lo[domains]], before[network.hi[domains]] - before[network.lo[domains]]
    at = np.arange(sizes.sum()) + np.repeat(lo - (np.cumsum(sizes) - sizes), sizes)
    return order[is_useful][at], sizes
