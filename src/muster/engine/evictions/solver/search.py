"""The search for one beneficiary's victims: growth over its tasks, scenarios over the victims.

A gang grows: victims are found for its first task, then for more, and those found are kept. While the victims at hand
are enough, growth goes by doubling, as far as a count of free places says; else further units are offered one by one,
and a dry run is made for the nodes of the last one, with everybody offered there. Filters pass over
scenarios that cannot work before any dry run. Callers: `path`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.constraints import has_topology, job_constraint, job_domain
from muster.engine.domains import search_space
from muster.engine.evictions.budgets import Budgets, within_ratio
from muster.engine.evictions.solver.forecast import forecast
from muster.engine.evictions.solver.offers import Offers
from muster.engine.evictions.solver.options import SolverOptions
from muster.engine.evictions.solver.pool import Unit, VictimLine
from muster.engine.evictions.solver.room import Places, Room, could_suffice
from muster.engine.evictions.solver.topology_filter import topology_filter
from muster.engine.evictions.solver.trial import Outcome, Trials
from muster.engine.evictions.solver.trim import trimmed, unit_tasks
from muster.framework import Eviction, Purpose, Scenario, ScenarioFilter, Session
from muster.snapshot import Operation, Rows, Statement

_NOBODY: Rows = np.empty(0, np.int32)


class TrialsUsedUp(Exception):  # noqa: N818 - not an error: the search was told to stop here
    """The bound on dry runs was reached."""


@dataclass(slots=True)
class Allowance:
    """Dry runs that are left: for the job, and for the whole run of the action."""

    per_job: int
    per_cycle: int

    def spend(self) -> None:
        if self.per_job <= 0 or self.per_cycle <= 0:
            raise TrialsUsedUp
        self.per_job -= 1
        self.per_cycle -= 1


@dataclass(frozen=True, slots=True)
class Solution:
    """What a search found; its operations are in the statement."""

    outcome: Outcome
    #: Units that were offered in all, and dry runs that were made.
    offered: int
    trials: int


class Search:
    """One search; its statement holds the solution afterwards, or is as it was."""

    def __init__(
        self,
        session: Session,
        kind: Eviction,
        job: int,
        line: VictimLine,
        trials: Trials,
        room: Room,
        statement: Statement,
        budgets: Budgets,
        allowance: Allowance,
        options: SolverOptions,
    ) -> None:
        self._session = session
        self._kind = kind
        self._job = job
        self._line = line
        self._trials = trials
        self._room = room
        self._statement = statement
        self._budgets = budgets
        self._allowance = allowance
        self._options = options
        own = topology_filter(session, job)
        self._filters: Sequence[ScenarioFilter] = [*session.scenario_filters(kind, job), *([own] if own else ())]
        self._units: list[Unit] = []
        self._used_up = False
        self._made = 0
        self._base = 0
        #: Victims at hand that could stay in the last step; see `Trials.run`.
        self._stayed: Rows = _NOBODY

    def solve(self, pending: Rows) -> Solution | None:
        """Find victims for all of `pending`; None: there are none."""
        self._base = self._statement.mark()
        if self._options.trim and self._room.suffices(pending):
            outcome = self._try(pending, _NOBODY, _NOBODY)
            if outcome is not None:
                return Solution(outcome, 0, self._made)
        if has_topology(self._session, self._job):
            return self._solve_in_domains(pending)
        counts = self._room.count(pending)
        if len(counts) == 1:
            # Without trimming, growth takes somebody for its first pods too where there is room for some of them.
            can_tell = self._options.trim or counts[0].have == 0
            chosen = forecast(counts[0], self._all_units())
            if chosen is None:
                return None
            if chosen and can_tell:
                outcome = self._follow(pending, chosen)
                if outcome is not None and (self._options.trim or _holds(outcome, chosen)):
                    return self._finished(pending, outcome)
                self._statement.rollback(self._base)
        return self._solve_by_steps(pending)

    def _solve_in_domains(self, pending: Rows) -> Solution | None:
        """As `solve`, for a gang that must, or would rather, stay inside a domain: one domain after the other.

        A part of such a gang has no place of its own, so it does not grow task by task.
        """
        session, topology = self._session, self._session.snapshot.topology
        constraint, placed = job_constraint(session, self._job), job_domain(session.snapshot, self._job)
        for domain in search_space(session, self._job, constraint, placed, Purpose.EVICT).tolist():
            lo, hi = int(topology.lo[domain]), int(topology.hi[domain])
            inside = [unit for unit in self._all_units() if any(lo <= node < hi for node in unit.nodes)]
            counts = self._room.count(pending, lo, hi)
            chosen = forecast(counts[0], inside) if len(counts) == 1 else inside
            outcome = self._follow(pending, chosen) if chosen else None
            if outcome is not None:
                return self._finished(pending, outcome)
        return None

    def _finished(self, pending: Rows, outcome: Outcome) -> Solution:
        """The solution that the statement holds, without what it does not need."""
        jobs = set(self._session.snapshot.tasks.job[outcome.victims].tolist())
        # Without any victim there was no place: one unit cannot be too much.
        if not self._options.trim or not jobs or (len(self._units) == 1 and len(jobs) == 1):
            return Solution(outcome, len(self._units), self._made)
        statement = self._statement
        kept: list[Operation] = list(statement.operations[self._base :])

        def attempt(units: Sequence[Unit], fewer_than: int) -> Outcome | None:
            victims = unit_tasks(units)
            self._evict(victims)
            found, _ = self._attempt(pending, victims, victims)
            if found is not None and len(found.victims) < fewer_than:
                kept[:] = statement.operations[self._base :]
            else:
                found = None
            statement.rollback(self._base)
            return found

        statement.rollback(self._base)
        try:
            outcome = trimmed(self._units, outcome, self._room.count(pending), attempt)
        except TrialsUsedUp:
            statement.rollback(self._base)  # what was found stands, whole as it is
        statement.redo(kept)
        return Solution(outcome, len(self._units), self._made)

    def _follow(self, pending: Rows, chosen: list[Unit]) -> Outcome | None:
        """Dry-run what the forecast says."""
        victims = np.concatenate([unit.tasks for unit in chosen])
        if not self._passes(pending, victims, _NOBODY, victims):
            return None
        mark = self._statement.mark()
        self._evict(victims)
        outcome, _ = self._attempt(pending, victims, victims)
        if outcome is None:
            self._statement.rollback(mark)
        return outcome

    def _solve_by_steps(self, pending: Rows) -> Solution | None:
        statement = self._statement
        base = statement.mark()
        recorded: Rows = _NOBODY
        tasks = 1
        while True:
            outcome = self._grow(pending[:tasks], recorded)
            if outcome is None:
                statement.rollback(base)
                return None
            if tasks == len(pending):
                return self._finished(pending, outcome)
            statement.rollback(base)
            recorded = self._keep(outcome)
            further = self._jump(pending, tasks, recorded) if self._may_jump(outcome) else None
            if further is not None:
                tasks, outcome = further
                if tasks == len(pending):
                    return self._finished(pending, outcome)
                statement.rollback(base)
                recorded = self._keep(outcome)
            tasks += 1

    def _keep(self, outcome: Outcome) -> Rows:
        """Victims for the next step: the rest of a gang stays at hand where a part of it had to go."""
        gone = set(outcome.victims.tolist())
        kept = unit_tasks([unit for unit in self._units if not gone.isdisjoint(unit.tasks.tolist())])
        if not self._options.trim:
            self._stayed = kept[~np.isin(kept, outcome.victims)]
        return kept

    def _may_jump(self, outcome: Outcome) -> bool:
        """Whether steps may be left out: what is not trimmed depends on who could stay, or was moved where, on the way.

        Who had no place among fewer has none among more; and a search that has taken nobody takes somebody.
        """
        return self._options.trim or (len(outcome.evicted) > 0 and len(outcome.moved) == 0)

    def _jump(self, pending: Rows, tasks: int, recorded: Rows) -> tuple[int, Outcome] | None:
        """How far the victims at hand reach beyond `tasks`, with the outcome; None: not one further."""
        statement = self._statement
        mark = statement.mark()
        self._evict(recorded)
        reach = self._room.reach(pending, tasks)
        while reach > tasks:
            outcome = self._try(pending[:reach], recorded, recorded)
            if outcome is not None:
                return reach, outcome
            reach = tasks + (reach - tasks) // 2
        statement.rollback(mark)
        return None

    def _grow(self, pending: Rows, recorded: Rows) -> Outcome | None:
        """Find places for `pending`, beginning with the victims `recorded`."""
        statement = self._statement
        mark = statement.mark()
        self._evict(recorded)
        if len(recorded) and self._room.suffices(pending):
            outcome = self._try(pending, recorded, recorded)
            if outcome is not None:
                return outcome
        taken = set(recorded.tolist())
        offers = Offers(recorded)
        counts = self._room.count(pending)
        for unit in self._all_units():
            if int(unit.tasks[0]) in taken:
                continue
            offers.add(unit)
            for count in counts:
                count.offer(unit)
            outcome = self._try_nodes(pending, recorded, self._nodes_of(unit.job), offers, counts)
            if outcome is not None:
                return outcome
        statement.rollback(mark)
        return None

    def _all_units(self) -> Sequence[Unit]:
        return _Units(self)

    def unit(self, position: int) -> Unit | None:
        """A unit in the order in which victims go; made when first asked for."""
        while position >= len(self._units) and not self._used_up:
            unit = self._line.pop()
            if unit is None:
                self._used_up = True
            else:
                self._units.append(unit)
        return self._units[position] if position < len(self._units) else None

    def _try_nodes(
        self,
        pending: Rows,
        recorded: Rows,
        nodes: Sequence[int],
        offers: Offers,
        counts: list[Places],
    ) -> Outcome | None:
        """Dry runs for the nodes of the job offered last, each with everybody offered there."""
        jobs_seen: set[frozenset[int]] = {frozenset()}
        everybody = offers.everybody()
        for node in nodes:
            jobs = offers.jobs_on(node)
            if jobs in jobs_seen or not could_suffice(counts, node):
                continue
            jobs_seen.add(jobs)
            potential = offers.tasks_of(jobs)
            if not self._passes(pending, everybody, recorded, potential):
                continue
            mark = self._statement.mark()
            self._evict(potential)
            outcome, refused = self._attempt(pending, np.concatenate((recorded, potential)), everybody)
            if outcome is not None:
                return outcome
            self._statement.rollback(mark)
            if refused:
                return None  # what the validators refuse they refuse with this offer, whatever the node
        return None

    def _nodes_of(self, job: int) -> list[int]:
        """All nodes that a job is on."""
        tasks = self._session.snapshot.tasks
        return sorted(set(tasks.node[self._session.snapshot.tasks_of(job)].tolist()))

    def _passes(self, pending: Rows, offered: Rows, recorded: Rows, potential: Rows) -> bool:
        """Cheap questions before a dry run: plugins' filters, budgets, and how many jobs would go."""
        limit = self._options.max_victims
        if limit is not None:
            jobs = self._session.snapshot.tasks.job[np.concatenate((recorded, potential))]
            if len(np.unique(jobs)) > limit:
                return False
        if self._filters:
            taken = np.concatenate((recorded, potential)) if len(recorded) else potential
            scenario = Scenario(self._kind, self._job, pending, offered, taken, _NOBODY)
            if not all(check(scenario) for check in self._filters):
                return False
        return not self._budgets or bool(self._budgets.allowed(potential).all())

    def _try(self, pending: Rows, victims: Rows, offered: Rows) -> Outcome | None:
        mark = self._statement.mark()
        outcome, _ = self._attempt(pending, victims, offered)
        if outcome is None:
            self._statement.rollback(mark)
        return outcome

    def _attempt(self, pending: Rows, victims: Rows, offered: Rows) -> tuple[Outcome | None, bool]:
        """One dry run; the second part says whether validators refused what had worked."""
        self._allowance.spend()
        self._made += 1
        self._session.tally.dry_runs += 1
        outcome = self._trials.run(pending, victims, self._stayed)
        if outcome is None:
            return None, False
        limit = self._options.max_disruption_ratio
        if limit is not None and not within_ratio(self._session.snapshot, outcome.victims, pending, limit):
            return None, True
        if not self._trials.judge(outcome, pending, offered):
            return None, True
        return outcome, False

    def _evict(self, tasks: Rows) -> None:
        self._statement.evict(tasks, self._job)


def _holds(outcome: Outcome, chosen: Sequence[Unit]) -> bool:
    """Whether a forecast came true to the letter: all units go, or all move.

    Who stays, or moves while others go, would have been left alone by growth where it took them first; what they
    leave free then falls to others. `trim` sets that right, without it growth has to be gone through.
    """
    tasks = sum(len(unit.tasks) for unit in chosen)
    return tasks in (len(outcome.evicted), len(outcome.moved))


class _Units(Sequence[Unit]):
    """The units of a search as a sequence that grows while it is read."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def __len__(self) -> int:
        raise TypeError("how many units there are is not known before they are made")

    def __getitem__(self, position: int) -> Unit:  # type: ignore[override]
        unit = self._search.unit(position)
        if unit is None:
            raise IndexError
        return unit
