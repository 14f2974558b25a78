"""Looking for places exactly, where placing in order has failed: the gang as a problem for the compiled search.

The parts of the problem are the job and its sub-groups; their candidates are the domains that constraints allow and
that have slots enough. Parts with few candidates come first. The search has so many steps for a job and for a cycle;
if they are not used up, no answer is a proof. Pods for which other pods matter are beyond it.
Callers: the walk through the domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from muster.engine.boards import Boards
from muster.engine.constraints import Constraint, subgroup_constraint, subgroup_domain
from muster.engine.domains import holding
from muster.engine.placing.runs import Attempt
from muster.framework import FITS, Session
from muster.kernels.search import ENDED, NONE, Gang, make_desk, packed, search_places
from muster.snapshot import BEST_EFFORT_PENDING, NO_ROW, READY_STATUSES, Amounts, Mask, Rows

#: What putting a problem together counts for, in steps.
_OVERHEAD: Final = 500
#: Parts × nodes beyond which a problem is not put together at all.
_LARGEST: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class _Kind:
    """Tasks of one part that are alike."""

    role: int
    cls: int
    tasks: Rows


@dataclass(frozen=True, slots=True)
class _Part:
    """A sub-group, or a job that has none; `domains` None: wherever the job is."""

    kinds: tuple[_Kind, ...]
    need: int
    policy: int
    domains: Rows | None

    def likeness(self) -> tuple[object, ...]:
        """Equal for parts that may change places."""
        kinds = tuple((kind.role, kind.cls, len(kind.tasks)) for kind in self.kinds)
        return kinds, self.need, self.policy, None if self.domains is None else self.domains.tobytes()


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

    def places(self, job: int, attempts: Sequence[Attempt], domains: Sequence[int], *, everything: bool) -> Answer:
        """Nodes for tasks of a job in one of the domains: for all, or for as many as it takes to start."""
        if not self._is_worthwhile(attempts):
            return Answer()
        parts = [self._part(attempt, domains) for attempt in attempts if attempt]
        able = [part for part in parts if part.domains is None or len(part.domains)]
        if not able or (everything and len(able) < len(parts)):
            return Answer(is_proof=True)
        problem = _Problem(self._session, self._boards, job, able, domains, everything=everything)
        found = self.solve(job, problem.gang, problem.kinds_of_room())
        if not isinstance(found, np.ndarray):
            return Answer(is_proof=found == NONE)
        return Answer(problem.read(found))

    def solve(self, job: int, gang: Gang, kinds_of_room: Sequence[Amounts]) -> Rows | int:
        """Kinds and nodes that the search finds on one kind of room after the other; else NONE, or ENDED."""
        for free in kinds_of_room:
            steps = min(self._steps_per_job - self._used.get(job, 0), self._left) - _OVERHEAD
            if steps <= 0 or len(free) * len(gang.parts) > _LARGEST:
                self._ended.add(job)
                return ENDED
            desk = make_desk(gang, free, steps)
            count = search_places(gang, desk)
            spent = int(desk.budget[1]) + _OVERHEAD
            self._used[job] = self._used.get(job, 0) + spent
            self._left -= spent
            if count == ENDED:
                self._ended.add(job)
                return ENDED
            if count >= 0:
                placed: Rows = desk.placed[:count]
                return placed
        return NONE

    def knows(self, tasks: Rows) -> bool:
        """Whether places depend on nothing that the search does not know of."""
        return self._live.isdisjoint(tasks.tolist())

    def _is_worthwhile(self, attempts: Sequence[Attempt]) -> bool:
        """Whether placing in order may have missed something: not so for equal tasks of one part."""
        tasks = attempts[0].tasks
        if attempts[0].is_part:
            tasks = np.concatenate([attempt.tasks for attempt in attempts])
        else:
            cls = self._session.snapshot.tasks.cls[tasks]
            if (cls == cls[0]).all():
                return False
        return self.knows(tasks)

    def _part(self, attempt: Attempt, domains: Sequence[int]) -> _Part:
        session, table = self._session, self._session.snapshot.tasks
        n_classes = len(session.snapshot.classes)
        keys = table.role[attempt.tasks].astype(np.int64) * n_classes + table.cls[attempt.tasks]
        kinds = [
            _Kind(key // n_classes, key % n_classes, attempt.tasks[keys == key]) for key in dict.fromkeys(keys.tolist())
        ]
        kinds.sort(key=lambda kind: (-self._size(kind.cls), kind.cls, kind.role))
        if not attempt.is_part:
            return _Part(tuple(kinds), 0, NO_ROW, None)
        need = session.subgroup_deficit(attempt.subgroup)
        constraint = subgroup_constraint(session, attempt.subgroup)
        policy = int(session.snapshot.subgroups.policy[attempt.subgroup])
        return _Part(tuple(kinds), need, policy, self._candidates(attempt, constraint, domains, max(1, need)))

    def _size(self, cls: int) -> float:
        """The part of the cluster that a task of a class asks for."""
        snapshot = self._session.snapshot
        return float((snapshot.classes.requests[cls, 0] / np.maximum(self._session.total, 1)).max())

    def _candidates(self, attempt: Attempt, constraint: Constraint, domains: Sequence[int], needed: int) -> Rows | None:
        """Domains that a sub-group may have and that have slots for what it needs, lowest tier first."""
        if constraint.limit is None:
            return None
        session, topology = self._session, self._session.snapshot.topology
        placed = subgroup_domain(session.snapshot, attempt.subgroup)
        inside = np.concatenate([topology.inside(domain) for domain in domains])
        allowed = topology.tier[inside] <= constraint.limit
        if placed != NO_ROW:
            around = topology.highest_within(placed, constraint.limit)
            allowed &= (inside >= around) & (inside <= topology.last[around]) & (around != NO_ROW)
        if session.domain_gradients(attempt.job, attempt.subgroup, domains[0]) is not None:
            for domain in domains:
                proposed = session.domain_gradients(attempt.job, attempt.subgroup, domain) or [inside[:0]]
                within = (inside >= domain) & (inside <= topology.last[domain])
                allowed &= ~within | np.isin(inside, np.concatenate(proposed))
        found = holding(session, self._boards, attempt.tasks, needed, inside[allowed])
        ordered: Rows = found[np.lexsort((found, topology.tier[found]))]
        return ordered


class _Problem:
    """A gang as the compiled search takes it; nodes that hold none of its tasks are left out."""

    def __init__(
        self,
        session: Session,
        boards: Boards,
        job: int,
        parts: Sequence[_Part],
        domains: Sequence[int],
        *,
        everything: bool,
    ) -> None:
        self._session = session
        self._boards = boards
        # Those with the fewest candidates first, as they are the hardest; those that may go anywhere last.
        self._parts = sorted(
            parts, key=lambda part: (part.domains is None, _length(part.domains), -_tasks_of(part), part.likeness()[0])
        )
        self._kinds = [kind for part in self._parts for kind in part.kinds]
        self._classes = sorted({kind.cls for kind in self._kinds})
        requests = session.snapshot.classes.requests[self._classes, 0]
        self._columns = np.flatnonzero(requests.any(axis=0))
        self._requests = requests[:, self._columns]
        self._roles = sorted({kind.role for kind in self._kinds})
        self._rows = self._useful_rows(domains)
        self.gang = self._gang(job, domains, everything=everything)

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

    def _useful_rows(self, domains: Sequence[int]) -> Rows:
        """Nodes of the domains, in order, on which some class of the gang may be and has, or will have, room."""
        snapshot = self._session.snapshot
        inside: Mask = np.zeros(len(snapshot.nodes), np.bool_)
        for domain in domains:
            inside[snapshot.topology.lo[domain] : snapshot.topology.hi[domain]] = True
        rows = np.flatnonzero(inside).astype(np.int32)
        free = snapshot.nodes.future_idle()[rows][:, self._columns]
        fits = (free[None] >= self._requests[:, None]) | (self._requests[:, None] == 0)
        self._allowed = np.stack([self._boards.verdicts(cls)[rows] == FITS for cls in self._classes])
        useful: Mask = (fits.all(axis=2) & self._allowed).any(axis=0)
        self._allowed = self._allowed[:, useful]
        kept: Rows = rows[useful]
        return kept

    def _gang(self, job: int, domains: Sequence[int], *, everything: bool) -> Gang:
        needs, policies = self._needs(job, everything=everything)
        cands = [np.array(domains, np.int32)]
        parts = [[NO_ROW, 0, NO_ROW, 0, 0, 0, len(domains), 0]]
        is_divided = self._parts[0].policy != NO_ROW or len(self._parts) > 1 or self._parts[0].need > 0
        kinds = 0
        listed = {b"": (0, 0)}
        before: object = None
        for part in self._parts:
            key = b"" if part.domains is None else part.domains.tobytes()
            if part.domains is not None and key not in listed:
                begin = sum(map(len, cands))
                cands.append(part.domains)
                listed[key] = (begin, begin + len(part.domains))
            columns = [part.need, policies.get(part.policy, NO_ROW), kinds, kinds + len(part.kinds)]
            kinds += len(part.kinds)
            parts.append([0, *columns, *listed[key], int(is_divided and part.likeness() == before)])
            before = part.likeness()
        nodes, colors, slices, order = self._cells(cands)
        gang = Gang(
            parts=np.array(parts, np.int32),
            kinds=np.array(
                [[self._roles.index(k.role), self._classes.index(k.cls), len(k.tasks)] for k in self._kinds], np.int32
            ),
            requests=self._requests,
            allowed=self._allowed,
            cands=slices,
            cand_nodes=order,
            needs=needs,
            nodes=nodes,
            colors=colors,
        )
        return packed(gang)

    def _needs(self, job: int, *, everything: bool) -> tuple[Amounts, dict[int, int]]:
        """What is missing: tasks of the job, of roles, ready sub-groups of policies; and where the policies stand."""
        session, snapshot = self._session, self._session.snapshot
        waiting = sum(len(kind.tasks) for kind in self._kinds)
        needs = [waiting if everything else max(1, session.job_deficit(job))]
        is_gang = bool(session.asked("job_ready"))
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

    def _cells(self, lists: list[Rows]) -> tuple[Rows, Amounts, Rows, Rows]:
        """Nodes by the smallest candidate that holds them, which of those are alike, and candidates as slices."""
        topology, domains = self._session.snapshot.topology, np.concatenate(lists)
        lo = np.searchsorted(self._rows, topology.lo[domains]).astype(np.int32)
        hi = np.searchsorted(self._rows, topology.hi[domains]).astype(np.int32)
        cell_of = np.zeros(len(self._rows), np.int32)
        distinct, firsts = np.unique(domains, return_index=True)
        around: dict[int, int] = {}
        # Rows of domains are numbered from the top down, so the smallest that holds a node writes last.
        for cell, k in enumerate(firsts.tolist()):
            around[cell] = int(cell_of[lo[k]]) if cell and lo[k] < hi[k] else NO_ROW
            cell_of[lo[k] : hi[k]] = cell
        sizes = np.bincount(cell_of, minlength=len(distinct))
        listed: list[set[int]] = [set() for _ in distinct]
        for number, some in enumerate(lists):
            for cell in np.searchsorted(distinct, some).tolist():
                listed[cell].add(number)
        is_single = [bool(sizes[cell] == hi[k] - lo[k]) for cell, k in enumerate(firsts.tolist())]
        names: dict[object, int] = {}
        colors = [
            names.setdefault(
                (around[cell], tuple(sorted(listed[cell]))) if is_single[cell] else -1 - cell,
                len(names),
            )
            for cell in range(len(distinct))
        ]
        cells = np.searchsorted(distinct, domains)
        cands = np.stack((lo, hi, np.where(np.array(is_single)[cells], cells, NO_ROW)), axis=1).astype(np.int32)
        kinds = np.zeros(len(self._rows), np.int32)
        if not self._allowed.all():
            kinds = np.unique(self._allowed.T, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
        runs = np.cumsum(np.diff(cell_of, prepend=-1) != 0)
        free = self._session.snapshot.nodes.future_idle()[self._rows][:, self._columns]
        order = np.lexsort((*free.T, kinds, runs)).astype(np.int32)
        return np.stack((cell_of, kinds), axis=1), np.array(colors, np.int64), cands, order


def _length(domains: Rows | None) -> int:
    return 0 if domains is None else len(domains)


def _tasks_of(part: _Part) -> int:
    return sum(len(kind.tasks) for kind in part.kinds)
