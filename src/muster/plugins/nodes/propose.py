"""Propose: have the domain tried first that a look-ahead on slot counts expects to win, and spare the other trials.

The full search tries every domain of the lowest tier that has a solution, with all sub-groups in each. `propose`
predicts the outcome and puts the winner into a gradient of its own, before the tier that it is from. Lower tiers that
may have a solution stay in front of it, and if the proposal does not fit the search goes on as if there were none: it
can save work, not lose a solution. Jobs without sub-groups have no use for it: their domains are tried best first.

Sub-groups are handed out in the order of the real search, each to the best domain of the lowest tier that has room, in
all candidates at the same time: candidates never overlap, so one pass over the domain columns serves them all. No node
is chosen and nothing of the snapshot changes. For gangs of equal tasks the prediction is what the search will find; for
mixed ones it is an estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards, boards_of
from muster.engine.constraints import Constraint, constraint_of, domain_of
from muster.engine.domains import ROOT, domain_future_idle, domain_totals, gradients, holding
from muster.engine.gangs import Portion, by_subgroup, pending_tasks_of, requests_of, required_subgroups
from muster.framework import points
from muster.framework.plugin import Plugin
from muster.framework.session import Session
from muster.kernels.placement import FUTURE
from muster.snapshot import BEST_EFFORT, GATED, NO_ROW, Amounts, Mask, Rows


class Propose(Plugin):
    """Predict the best domain for jobs with sub-groups."""

    name = "propose"
    summary = "Tries the network domain first that a look-ahead expects to suit a job with sub-groups best."

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        return propose(self.session, job, scope) if subgroup == NO_ROW else None


def propose(session: Session, job: int, scope: int) -> list[Rows] | None:
    """Gradients inside the domain `scope` with the expected winner first; None: there is nothing to predict."""
    snapshot = session.snapshot
    # Where part of the job runs already, nearness decides, and few domains are left to try.
    if not snapshot.jobs.records[job].sub_groups or domain_of(snapshot, job) != NO_ROW:
        return None
    steps = gradients(snapshot.topology, constraint_of(session, job), scope, NO_ROW)
    tasks = pending_tasks_of(snapshot, job)
    tasks = tasks[(snapshot.tasks.flags[tasks] & (BEST_EFFORT | GATED)) == 0]
    if len(tasks) == 0 or all(len(step) == 1 for step in steps):
        return None
    return _with_proposal(session, job, session.sort_tasks(tasks), steps)


def _with_proposal(session: Session, job: int, tasks: Rows, steps: list[Rows]) -> list[Rows]:
    """Put the winner of the lowest tier that is expected to have one in front of its tier."""
    boards = boards_of(session)
    needed = max(1, session.job_deficit(job))
    answer: list[Rows] = []
    for number, step in enumerate(steps):
        possible = holding(session, tasks, needed, step)
        if len(possible) == 0:
            continue
        winner = NO_ROW
        if len(possible) > 1:
            winner = LookAhead(session, boards, job, by_subgroup(session, job, tasks), possible).best()
        if winner == NO_ROW:
            answer.append(possible)
            continue
        return [*answer, np.array([winner], np.intp), possible, *steps[number + 1 :]]
    return answer


@dataclass(frozen=True, slots=True)
class _Part:
    """A sub-group as the look-ahead sees it."""

    portion: Portion
    constraint: Constraint
    #: Tasks by class: of all that wait, and of those that make the sub-group ready.
    waiting: dict[int, int]
    needed: dict[int, int]
    #: What the waiting tasks ask for together, and those that make it ready.
    request: Amounts
    taken: Amounts


class LookAhead:
    """One prediction for one job and candidate domains that do not overlap."""

    def __init__(self, session: Session, boards: Boards, job: int, portions: list[Portion], candidates: Rows) -> None:
        self._session = session
        self._topology = session.snapshot.topology
        self._job = job
        self._portions = portions
        self._candidates = np.sort(candidates)
        everything = self._topology.inside(0)
        self._used, self._allocatable = domain_totals(session.snapshot, everything)
        self._free = domain_future_idle(session.snapshot, everything)
        self._untouched: Mask = np.asarray(self._used.sum(axis=1) == 0)
        self._parts = self._sort_out()
        classes = dict.fromkeys(cls for part in self._parts for cls in part.waiting)
        self._room = {cls: self._slots(boards, cls) for cls in classes}
        self._scarce = {cls: self._scarcest(cls) for cls in classes}
        #: Per domain: which candidate holds it, -1: none.
        self._owner = self._owners(len(everything))
        self._scores = np.zeros(len(candidates))
        self._placed = np.zeros(len(candidates), np.int64)
        self._ready_groups: dict[int, Rows] = {}

    def best(self) -> int:
        """The candidate with the best predicted score; NO_ROW: none is expected to hold the job."""
        # How many more ready sub-groups each policy needs.
        policies = self._session.snapshot.subgroups.policy
        missing = Counter(int(policies[required]) for required in required_subgroups(self._session, self._job))
        deficit = max(1, self._session.job_deficit(self._job))
        done: Mask = np.zeros(len(self._candidates), np.bool_)
        for part in self._parts:
            self._hand_out(part, done)
            done = self._placed >= deficit
            for policy, lack in missing.items():
                done &= self._ready_groups.get(policy, np.zeros(len(done), np.intp)) >= lack
            if done.all():
                break
        fitting = np.flatnonzero(done)
        if len(fitting) == 0:
            return NO_ROW
        return int(self._candidates[min(fitting.tolist(), key=self._preference)])

    def _preference(self, k: int) -> tuple[float, float, int, int]:
        """Best score, then least room left over, then fewest larger domains broken open, then tree order."""
        domain = int(self._candidates[k])
        cls = next(iter(self._parts[0].waiting))
        return (-float(self._scores[k]), float(self._room[cls][domain]), self._untouched_around(domain), domain)

    def _untouched_around(self, domain: int) -> int:
        """How many domains around this one hold nothing yet."""
        count = 0
        while (domain := int(self._topology.parent[domain])) > 0:
            count += bool(self._untouched[domain])
        return count

    # -- what is to be placed ----------------------------------------------------------------------------------

    def _sort_out(self) -> list[_Part]:
        session = self._session
        required = required_subgroups(session, self._job)
        line = sorted(
            self._portions, key=lambda one: (one.subgroup not in required, session.subgroup_key(one.subgroup))
        )
        return [self._part(portion) for portion in line]

    def _part(self, portion: Portion) -> _Part:
        session, snapshot = self._session, self._session.snapshot
        first = portion.tasks[: max(1, session.subgroup_deficit(portion.subgroup))]
        cls = snapshot.tasks.cls
        return _Part(
            portion,
            constraint_of(session, self._job, portion.subgroup),
            _count(cls[portion.tasks]),
            _count(cls[first]),
            requests_of(snapshot, portion.tasks),
            requests_of(snapshot, first),
        )

    def _slots(self, boards: Boards, cls: int) -> NDArray[np.float64]:
        slots = boards.get(cls, FUTURE).slots(self._session.snapshot, 0, len(self._session.snapshot.nodes))
        return self._topology.sums(slots, self._topology.inside(ROOT)).astype(np.float64)

    def _owners(self, n_domains: int) -> Rows:
        owner = np.full(n_domains, -1, np.intp)
        for k, domain in enumerate(self._candidates.tolist()):
            owner[domain : int(self._topology.last[domain]) + 1] = k
        return owner

    # -- one step ------------------------------------------------------------------------------------------------

    def _hand_out(self, part: _Part, done: Mask) -> None:
        """Give the sub-group its best domain in every candidate that still needs it."""
        rows = self._eligible(part, done)
        if len(rows) == 0:
            return
        scores = self._predict(part, rows)
        owner = self._owner[rows]
        order = np.lexsort((rows, -scores, self._topology.tier[rows], owner))
        first = order[np.unique(owner[order], return_index=True)[1]]
        chosen, owners = rows[first], owner[first]
        self._scores[owners] += scores[first]
        self._placed[owners] += sum(part.needed.values())
        policy = int(self._session.snapshot.subgroups.policy[part.portion.subgroup])
        self._ready_groups.setdefault(policy, np.zeros(len(done), np.intp))[owners] += 1
        self._take(part, chosen)

    def _eligible(self, part: _Part, done: Mask) -> Rows:
        topology = self._topology
        limit = part.constraint.limit
        if limit is None:
            rows = self._candidates[~done]
        else:
            rows = np.flatnonzero((self._owner >= 0) & (topology.tier <= limit)).astype(np.intp)
            rows = rows[~done[self._owner[rows]]]
        # A part of a slot may be a whole one on the right node: better a proposal too many than a solution missed.
        room = sum(np.minimum(np.ceil(self._room[cls][rows]), count) for cls, count in part.waiting.items())
        fits = np.asarray(room >= sum(part.needed.values()))
        asked = part.request if bool(part.constraint) and not part.constraint.soft else part.taken
        fits &= (self._free[rows] >= asked).all(axis=1)
        kept: Rows = rows[fits]
        return kept

    def _predict(self, part: _Part, rows: Rows) -> NDArray[np.float64]:
        """Scores with what was handed out so far; plugins that cannot be asked about that speak for now."""
        scores = np.zeros(len(rows))
        job, subgroup = self._job, part.portion.subgroup
        for ask in self._session.asked(points.DOMAIN_SCORE):
            plugin = getattr(ask, "__self__", None)
            if isinstance(plugin, Plugin) and points.EXPECTED_DOMAIN_SCORE.is_implemented(type(plugin)):
                expected = plugin.expected_domain_score(part.request, self._used[rows], self._allocatable[rows])
                scores = scores + expected
            else:
                scores = scores + ask(job, subgroup, rows)
        return scores

    def _take(self, part: _Part, chosen: Rows) -> None:
        """Book the tasks in the chosen domains, in those around them up to the candidates, and inside them."""
        rows = chosen
        tops = self._candidates[self._owner[chosen]]
        while len(rows):
            self._book(part.needed, part.taken, rows)
            below = rows != tops
            rows, tops = self._topology.parent[rows[below]], tops[below]
        for domain in chosen.tolist():
            self._spill(part, domain, 1.0)

    def _spill(self, part: _Part, domain: int, share: float) -> None:
        """Guess how tasks spread over the domains inside: the fullest that takes all of them, else largest first."""
        cls, count = next(iter(part.needed.items()))
        left, room = share * count, self._room[cls]
        line = sorted(self._topology.children[domain], key=lambda child: (-room[child], child))
        whole = [child for child in line if room[child] >= left]
        for child in [min(whole, key=lambda child: (room[child], child))] if whole else line:
            amount = min(left, float(room[child]))
            if amount <= 0:
                break
            inside = amount / count
            needed = {kind: round(inside * number) for kind, number in part.needed.items()}
            self._book(needed, np.rint(inside * part.taken).astype(np.int64), np.array([child], np.intp))
            self._spill(part, child, inside)
            left -= amount

    def _book(self, tasks: dict[int, int], amounts: Amounts, rows: Rows) -> None:
        self._used[rows] += amounts
        self._free[rows] -= amounts
        requests = self._session.snapshot.classes.requests
        for cls, room in self._room.items():
            scarce = self._scarce[cls]
            wanted = max(int(requests[cls, 0, scarce]), 1)
            lost = sum(count * int(requests[other, 0, scarce]) / wanted for other, count in tasks.items())
            room[rows] = np.maximum(room[rows] - lost, 0)

    def _scarcest(self, cls: int) -> int:
        """The resource that limits how many tasks of a class the network takes."""
        request = self._session.snapshot.classes.requests[cls, 0]
        return int(np.where(request > 0, self._free[0] / np.maximum(request, 1), np.inf).argmin())


def _count(classes: Rows) -> dict[int, int]:
    kinds, counts = np.unique(classes, return_counts=True)
    return {int(kind): int(count) for kind, count in zip(kinds, counts, strict=True)}
