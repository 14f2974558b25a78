"""Looking for places exactly, where placing in order has failed: the gang as a problem for the compiled search.

A gang comes as a list of parts, each followed by those inside it: sub-groups of a job, or its tree of groups. Each goes
to one of its candidate domains, inside that of the part around it. The search has so many steps for a job and for a
cycle; if they are not used up, no answer is a proof. Pods for which other pods matter are beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards
from muster.framework import FITS, Session, points
from muster.kernels.search import ENDED, NONE, Gang, make_desk, packed, search_places
from muster.snapshot import BEST_EFFORT_PENDING, NO_ROW, READY_STATUSES, Amounts, Mask, Rows, TopologyTable
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


class Search:
    """Searches of one session, within their budgets."""

    def __init__(self, session: Session, boards: Boards, steps_per_job: int, steps_per_cycle: int) -> None:
        self._session = session
        self._boards = boards
        self._steps_per_job = steps_per_job
        self._left = steps_per_cycle
        self._live = session.live_tasks()
        self._used: dict[int, int] = {}
        self._ended: set[int] = set()

    def has_ended(self, job: int) -> bool:
        """Whether a search for the job was not through when its steps were used up."""
        return job in self._ended

    def knows(self, tasks: Rows) -> bool:
        """Whether places of tasks depend on nothing that the search does not know of."""
        return self._live.isdisjoint(tasks.tolist())

    def places(self, job: int, parts: Sequence[SearchPart], *, everything: bool) -> Answer:
        """Nodes for all tasks, or for as many as the job takes to start: on what is free, else on what will be."""
        problem = _Problem(self._session, self._boards, parts)
        if not problem.has_nodes:
            return Answer(is_proof=True)
        gang = problem.gang(job, everything=everything)
        for free in problem.kinds_of_room():
            steps = min(self._steps_per_job - self._used.get(job, 0), self._left) - _OVERHEAD
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


class _Kind(NamedTuple):
    """Tasks of one part that are alike."""

    part: int
    role: int
    cls: int
    tasks: Rows


class _Problem:
    """A gang as the compiled search takes it; nodes that hold none of its tasks are left out."""

    def __init__(self, session: Session, boards: Boards, parts: Sequence[SearchPart]) -> None:
        self._session = session
        self._parts = parts
        self._kinds = [kind for number, part in enumerate(parts) for kind in self._kinds_of(number, part.tasks)]
        self._classes = sorted({kind.cls for kind in self._kinds})
        requests = session.snapshot.classes.requests[self._classes, 0]
        self._columns = np.flatnonzero(requests.any(axis=0))
        self._requests = requests[:, self._columns]
        self._roles = sorted({kind.role for kind in self._kinds})
        self._allowed = np.stack([boards.verdicts(cls) == FITS for cls in self._classes])
        self._useful = self._find_useful()
        self._allowed = self._allowed[:, self._useful]
        self._rows = np.flatnonzero(self._useful).astype(np.int32)

    @property
    def has_nodes(self) -> bool:
        return len(self._rows) > 0

    def kinds_of_room(self) -> list[Amounts]:
        """What is free now, and what will be if that is more; each to be used up by one search."""
        nodes = self._session.snapshot.nodes
        future = nodes.future_idle()[self._rows][:, self._columns]
        now = np.minimum(nodes.idle()[self._rows][:, self._columns], future)
        return [now] if np.array_equal(now, future) else [now, future]

    def read(self, placed: Rows) -> Rows:
        """The node row of every task that has a place, by task row."""
        places = np.full(len(self._session.snapshot.tasks), NO_ROW, np.int32)
        for k, kind in enumerate(self._kinds):
            nodes = np.sort(self._rows[placed[placed[:, 0] == k, 1]])
            places[kind.tasks[: len(nodes)]] = nodes
        return places

    def _kinds_of(self, part: int, tasks: Rows) -> list[_Kind]:
        """The kinds of tasks of a part, those that ask for the largest part of the cluster first."""
        session, table = self._session, self._session.snapshot.tasks
        pairs = dict.fromkeys(zip(table.role[tasks].tolist(), table.cls[tasks].tolist(), strict=True))
        requests = session.snapshot.classes.requests
        sizes = {cls: float((requests[cls, 0] / np.maximum(session.total, 1)).max()) for _, cls in pairs}
        return [
            _Kind(part, role, cls, tasks[(table.role[tasks] == role) & (table.cls[tasks] == cls)])
            for role, cls in sorted(pairs, key=lambda pair: (-sizes[pair[1]], pair[1], pair[0]))
        ]

    def _find_useful(self) -> Mask:
        """Nodes of the outermost domains on which some class of the gang may be and has, or will have, room."""
        outermost = self._parts[0].candidates
        assert outermost is not None
        free = self._session.snapshot.nodes.future_idle()[:, self._columns]
        inside: Mask = np.zeros(len(free), np.bool_)
        inside[_nodes_of(outermost, ~inside)[0]] = True
        fits = (free[None] >= self._requests[:, None]) | (self._requests[:, None] == 0)
        useful: Mask = (fits.all(axis=2) & self._allowed).any(axis=0) & inside
        return useful

    def gang(self, job: int, *, everything: bool) -> Gang:
        """The problem; `everything`: all tasks are needed."""
        needs, policies = self._needs(job, everything=everything)
        listed: dict[object, tuple[int, int]] = {}
        lists: list[Candidates] = []
        parts: list[list[int]] = []
        enclosing = {part.parent for part in self._parts}
        before: object = None
        kinds = 0
        for number, part in enumerate(self._parts):
            key = None if part.candidates is None else (id(part.candidates[0]), part.candidates[1].tobytes())
            if part.candidates is not None and key not in listed:
                begin = sum(len(domains) for _, domains in lists)
                listed[key] = begin, begin + len(part.candidates[1])
                lists.append(part.candidates)
            own = [(kind.role, kind.cls, len(kind.tasks)) for kind in self._kinds if kind.part == number]
            alike = None if number in enclosing else (part.parent, key, part.need, part.policy, own)
            columns = [part.need, policies.get(part.policy, NO_ROW), kinds, kinds + len(own)]
            is_twin = alike is not None and alike == before
            parts.append([part.parent, *columns, *listed.get(key, (0, 0)), int(is_twin)])
            before = alike
            kinds += len(own)
        cell_of, colors, slices, nodes = self._cells(lists)
        roles, classes = self._roles, self._classes
        return packed(
            Gang(
                parts=np.array(parts, np.int32),
                kinds=np.array(
                    [[roles.index(kind.role), classes.index(kind.cls), len(kind.tasks)] for kind in self._kinds],
                    np.int32,
                ),
                requests=self._requests,
                allowed=self._allowed,
                cands=slices,
                cand_nodes=nodes,
                needs=needs,
                nodes=cell_of,
                colors=colors,
            )
        )

    def _needs(self, job: int, *, everything: bool) -> tuple[Amounts, dict[int, int]]:
        """What is missing: tasks of the job, of roles, ready sub-groups of policies; and where the policies stand."""
        session, snapshot = self._session, self._session.snapshot
        waiting = sum(len(kind.tasks) for kind in self._kinds)
        needs = [waiting if everything else max(1, session.job_deficit(job))]
        is_gang = bool(session.asked(points.JOB_READY)) and not everything
        minimums = is_gang and 0 < snapshot.jobs.min_roles_total[job] <= snapshot.jobs.min_member[job]
        for role in self._roles:
            counts = snapshot.roles.counts[role]
            have = int(counts[list(READY_STATUSES)].sum()) + int(counts[BEST_EFFORT_PENDING])
            needs.append(max(0, int(snapshot.roles.minimum[role]) - have) if minimums else 0)
        policies: dict[int, int] = {}
        for number, policy in enumerate(snapshot.jobs.records[job].sub_groups):
            ready = sum(
                session.subgroup_deficit(subgroup) == 0
                for subgroup in snapshot.jobs.subgroups[job]
                if snapshot.subgroups.policy[subgroup] == number
            )
            policies[number] = len(needs)
            needs.append(max(0, (policy.min_sub_groups or 0) - ready) if is_gang else 0)
        return np.array(needs, np.int64), policies

    def _cells(self, lists: Sequence[Candidates]) -> tuple[Rows, Amounts, Rows, Rows]:
        """Cells of nodes that are in the same candidates, which of the cells are alike, and candidates as slices."""
        found = [_nodes_of(candidates, self._useful) for candidates in lists]
        nodes = np.searchsorted(self._rows, np.concatenate([rows for rows, _ in found])).astype(np.int32)
        sizes = np.concatenate([count for _, count in found])
        ends = np.cumsum(sizes)
        # Candidates have random numbers: nodes with the same sum of them are in the same candidates.
        numbers = np.random.default_rng(0).integers(1 << 62, size=len(sizes) + len(lists))
        sums = np.zeros(len(self._rows), np.int64)
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
        kinds: NDArray[np.integer] = np.zeros(len(cell_of), np.int32)
        if not self._allowed.all():
            kinds = np.unique(self._allowed.T, axis=0, return_inverse=True)[1].reshape(-1)
        free = self._session.snapshot.nodes.future_idle()[self._rows][:, self._columns]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((*free[nodes].T, kinds[nodes], cell_of[nodes], owner))
        slices = np.stack((ends - sizes, ends, np.where(is_cell, first, NO_ROW)), axis=1).astype(np.int32)
        return np.stack((cell_of, kinds), axis=1).astype(np.int32), colors.astype(np.int64), slices, nodes[order]


def _nodes_of(candidates: Candidates, useful: Mask) -> tuple[Rows, Rows]:
    """The useful nodes of domains, one domain after the other, and how many there are of each."""
    network, domains = candidates
    order = network.order if isinstance(network, LabelTopology) else np.arange(len(useful), dtype=np.int32)
    is_useful = useful[order]
    before = np.concatenate(([0], np.cumsum(is_useful)))
    lo, sizes = before[network.lo[domains]], before[network.hi[domains]] - before[network.lo[domains]]
    at = np.arange(sizes.sum()) + np.repeat(lo - (np.cumsum(sizes) - sizes), sizes)
    return order[is_useful][at], sizes
