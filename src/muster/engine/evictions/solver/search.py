"""The search for one beneficiary's victims: growth over its tasks, scenarios over the victims.

A gang grows: victims are found for its first task, then for more, and those found are kept. While the victims at hand
are enough, growth goes by doubling, as far as a count of free places says; else further units are offered one by one,
and a dry run is made for the nodes of the last one, with everybody offered there. Where a queue's limit is in the way,
room on nodes does not suffice, and others go with them, wherever they are. Filters pass over scenarios that cannot work
before any dry run. The search stops at the first offer that works, which may hold more than is needed (everybody on a
node, or a gang that a larger one made superfluous): what is not needed goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from muster.engine.constraints import constraint_of, domain_of, has_topology
from muster.engine.domains import search_space
from muster.engine.evictions.budgets import Budgets, within_ratio
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.simulation import Plan, Simulation, joined, trim
from muster.engine.evictions.solver.places import FreePlaces, could_suffice, forecast, of_jobs_on
from muster.engine.evictions.solver.pool import Unit, VictimLine
from muster.engine.evictions.solver.trial import Trials
from muster.engine.evictions.surplus import broken_by
from muster.engine.placing import PROMISES
from muster.engine.placing.contract import Modes
from muster.engine.waiting import queue_holds
from muster.framework import Eviction, Purpose, Scenario, ScenarioFilter, Session
from muster.kernels.placement import FUTURE
from muster.snapshot import OperationKind, Rows, Statement, TaskStatus

_NOBODY: Rows = np.empty(0, np.intp)


class TrialsUsedUp(Exception):  # noqa: N818 - not an error: the search was told to stop here
    """The bound on dry runs was reached."""


@dataclass(slots=True)
class Search:
    """One search of at most so many dry runs; its simulation holds the solution afterwards, or is as it was."""

    session: Session
    kind: Eviction
    options: SolverOptions
    budgets: Budgets
    most: int
    line: VictimLine
    trials: Trials
    places: FreePlaces
    simulation: Simulation
    #: Units that were offered, and dry runs that were made.
    units: list[Unit] = field(default_factory=list)
    made: int = 0
    #: Jobs of which PodDisruptionBudgets keep a unit, and with it all that comes after it.
    _kept: set[int] = field(default_factory=set)
    #: Victims at hand that could stay in the last step; see `Trials.run`.
    _stayed: Rows = field(default_factory=lambda: _NOBODY)
    #: Whether the last dry run had worked, and was not valid.
    _refused: bool = False
    _statement: Statement = field(init=False)
    _base: int = field(init=False)
    _filters: Sequence[ScenarioFilter] = field(init=False)

    def __post_init__(self) -> None:
        self._statement = self.simulation.statement
        self._base = self._statement.mark()
        self._filters = self.session.scenario_filters(self.kind, self.simulation.job)

    def solve(self, pending: Rows) -> Plan | None:
        """Find victims for all of `pending`; None: there are none."""
        outcome = self._find(pending)
        while self.options.looks_ahead and outcome is not None and len(outcome.moved):
            done = self._statement.operations[self._base :]
            taken = joined([one.tasks for one in done if one.kind is OperationKind.EVICT])
            if len(taken) == len(outcome.victims):
                break
            # Who moves finds a place in the next cycle, when the others have left and those who stay never have.
            self._statement.rollback(self._base)
            going = outcome.victims
            outcome = self._attempt(pending, going, going, going=going, opening=taken, modes=(FUTURE,))
            broken = () if outcome is None else broken_by(self.session.snapshot, outcome.evicted, outcome.moved)
            if outcome is not None and any(not np.isin(self.line.left(job), outcome.evicted).all() for job in broken):
                # A gang that was to move would lose its minimum, and not go whole.
                self._statement.rollback(self._base)
                return None
        return outcome

    def _find(self, pending: Rows) -> Plan | None:
        if self.options.trim and self.places.suffices(pending):
            outcome = self._attempt(pending, _NOBODY, _NOBODY)
            if outcome is not None:
                return outcome
        if has_topology(self.session, self.simulation.job):
            return self._solve_in_domains(pending)
        chosen: Sequence[Unit] = ()
        counts = self.places.count(pending)
        if len(counts) == 1:
            # Without trimming, growth takes somebody for its first pods too where there is room for some of them.
            can_tell = self.options.trim or counts[0].have == 0
            told = forecast(counts[0], self._all_units())
            if told is None:
                return None
            chosen = told
            if chosen and can_tell:
                outcome = self._follow(pending, chosen)
                if outcome is not None and (self.options.trim or _holds(outcome, chosen)):
                    return self._trimmed(pending, outcome)
                self._statement.rollback(self._base)
        return self._solve_by_steps(pending) or self._solve_within_limits(pending, chosen)

    def _solve_in_domains(self, pending: Rows) -> Plan | None:
        """As `solve`, for a gang that must, or would rather, stay inside a domain: one domain after the other.

        A part of such a gang has no place of its own, so it does not grow task by task.
        """
        session, topology = self.session, self.session.snapshot.topology
        constraint, placed = (
            constraint_of(session, self.simulation.job),
            domain_of(session.snapshot, self.simulation.job),
        )
        roomy: Sequence[Unit] | None = None
        for domain in search_space(session, self.simulation.job, constraint, placed, Purpose.EVICT).tolist():
            lo, hi = int(topology.lo[domain]), int(topology.hi[domain])
            inside = [unit for unit in self._all_units() if any(lo <= node < hi for node in unit.nodes)]
            counts = self.places.count(pending, lo, hi)
            chosen = forecast(counts[0], inside) if len(counts) == 1 else inside
            outcome = self._follow(pending, self._with_spared_parts(chosen)) if chosen else None
            if outcome is not None:
                return self._trimmed(pending, outcome)
            roomy = chosen if roomy is None else roomy
        return None if roomy is None else self._solve_within_limits(pending, roomy)

    def _solve_within_limits(self, pending: Rows, chosen: Sequence[Unit]) -> Plan | None:
        """Where a queue's limit is in the way: units that make room, with as many more as it takes, wherever they are.

        In KAI such a job waits. Who moves gives nothing back.
        """
        fits = partial(queue_holds, self.session, self.simulation.job, pending)
        if not self.options.looks_ahead or self.kind is Eviction.CONSOLIDATE or fits():
            return None

        def helps(units: Sequence[Unit]) -> bool:
            return self.simulation.without(joined([unit.tasks for unit in units]), fits)

        taken = set(chosen)
        further = [unit for unit in self._all_units() if unit not in taken]
        for count in range(1, len(further) + 1) if helps([*chosen, *further]) else ():
            going = self._within_budgets(self._with_spared_parts([*chosen, *further[:count]]))
            outcome = self._follow(pending, going) if helps(going) else None
            if outcome is not None:
                return self._trimmed(pending, outcome)
        return None

    def _with_spared_parts(self, chosen: Sequence[Unit]) -> list[Unit]:
        """The units, and all else of the gangs that they would break: what these could spare before, wherever it is."""
        snapshot = self.session.snapshot
        going = joined([unit.tasks for unit in chosen])
        places = (TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
        promised = np.flatnonzero(np.isin(snapshot.tasks.status, places)).astype(np.intp)
        taken, broken = set(chosen), set(broken_by(snapshot, going, promised))
        return [unit for unit in self.units if unit.job in broken or unit in taken]

    def _trimmed(self, pending: Rows, outcome: Plan) -> Plan:
        """The solution that the simulation holds, without what it does not need.

        A unit goes back whole; what a gang could spare goes back only if its core does not leave. Most units are told
        to be needed by counting places, without a dry run.
        """
        kept = self._parts_of(outcome)
        # Without any victim there was no place: one unit cannot be too much.
        if not self.options.trim or len(kept) < 2:
            return outcome
        found = list(self._statement.operations[self._base :])
        self._statement.rollback(self._base)
        counts = self.places.count(pending)
        for count in counts:
            for unit in kept:
                count.take(unit)
        spare = [unit for unit in kept if all(count.suffice_without([unit]) for count in counts)]

        def works(needed: list[Unit]) -> bool:
            """Whether these of the spare units are enough, with all that is needed; that is the solution then."""
            nonlocal outcome, found
            back = set(spare).difference(needed)
            left = [unit for unit in kept if unit not in back]
            if any(_has_later(unit, kept, left) for unit in back):
                return False
            if not all(count.suffice_without(back) for count in counts):
                return False
            victims = joined([unit.tasks for unit in left])
            smaller = self._attempt(pending, victims, victims, going=victims)
            is_smaller = smaller is not None and len(smaller.victims) < len(outcome.victims)
            if smaller is not None and is_smaller:
                outcome, found = smaller, list(self._statement.operations[self._base :])
            self._statement.rollback(self._base)
            return is_smaller

        try:
            trim(spare, works)
        except TrialsUsedUp:
            self._statement.rollback(self._base)  # what was found stands, whole as it is
        self._statement.redo(found)
        return outcome

    def _parts_of(self, outcome: Plan) -> list[Unit]:
        """The units of which somebody goes, in order."""
        gone = set(outcome.victims.tolist())
        return [unit for unit in self.units if not gone.isdisjoint(unit.tasks.tolist())]

    def _follow(self, pending: Rows, chosen: Sequence[Unit]) -> Plan | None:
        """Dry-run what the forecast says."""
        victims = joined([unit.tasks for unit in chosen])
        if not self._passes(pending, victims, _NOBODY, victims):
            return None
        return self._attempt(pending, victims, victims, going=victims)

    def _solve_by_steps(self, pending: Rows) -> Plan | None:
        outcome = self._grow(pending, 0, _NOBODY)
        while outcome is not None and (tasks := len(outcome.placed)) < len(pending):
            self._statement.rollback(self._base)
            recorded = self._keep(outcome)
            outcome = self._grow(pending if self._may_jump(outcome) else pending[: tasks + 1], tasks, recorded)
        if outcome is not None:
            return self._trimmed(pending, outcome)
        self._statement.rollback(self._base)
        return None

    def _keep(self, outcome: Plan) -> Rows:
        """Victims for the next step: the rest of a gang stays at hand where a part of it had to go."""
        kept = joined([unit.tasks for unit in self._parts_of(outcome)])
        if not self.options.trim:
            self._stayed = kept[~np.isin(kept, outcome.victims)]
        return kept

    def _may_jump(self, outcome: Plan) -> bool:
        """Whether steps may be left out: what is not trimmed depends on who could stay, or was moved where, on the way.

        Who had no place among fewer has none among more; and a search that has taken nobody takes somebody.
        """
        return self.options.trim or (len(outcome.evicted) > 0 and len(outcome.moved) == 0)

    def _grow(self, pending: Rows, tasks: int, recorded: Rows) -> Plan | None:
        """Find places for more than `tasks` of `pending`: as far as the victims `recorded` reach, or for one more."""
        snapshot, mark = self.session.snapshot, self._statement.mark()
        self.trials.begin_offers()
        self.simulation.evict(recorded)
        reach = self.places.reach(pending, tasks) if len(recorded) else tasks
        while reach > tasks:
            outcome = self._attempt(pending[:reach], recorded, recorded)
            if outcome is not None:
                return outcome
            reach = tasks + (reach - tasks) // 2
        pending = pending[: tasks + 1]
        taken = set(recorded.tolist())
        offered: list[Unit] = []
        everybody = recorded
        counts = self.places.count(pending)
        for unit in self._all_units():
            if int(unit.tasks[0]) in taken:
                continue
            offered.append(unit)
            everybody = np.concatenate((everybody, unit.tasks))
            for count in counts:
                count.offer(unit)
            nodes = sorted(set(snapshot.tasks.node[snapshot.tasks_of(unit.job)].tolist()))
            choices = [of_jobs_on(node, offered) for node in nodes if could_suffice(counts, node)]
            outcome = self._try_each(choices, pending, recorded, everybody)
            if outcome is not None:
                return outcome
        self._statement.rollback(mark)
        return None

    def _all_units(self) -> Iterable[Unit]:
        """Units in the order in which victims go; each is made when somebody first comes to it."""
        yield from self.units  # also what others add meanwhile
        while (unit := self.line.pop()) is not None:
            if unit.job in self._kept or not self._within_budgets([unit]):
                self._kept.add(unit.job)  # what else it has needs this unit, or is needed less
                continue
            self.units.append(unit)
            yield unit

    def _within_budgets(self, units: list[Unit]) -> list[Unit]:
        """Those of the units that PodDisruptionBudgets let go together; of a job nothing after what they keep."""
        if not self.budgets or not units:
            return units
        allowed = self.budgets.allowed(joined([unit.tasks for unit in units]))
        owner = np.repeat(np.arange(len(units)), [len(unit.tasks) for unit in units])
        refused = set(owner[~allowed].tolist())
        kept: set[int] = set()
        found: list[Unit] = []
        for number, unit in enumerate(units):
            if number in refused or unit.job in kept:
                kept.add(unit.job)
            else:
                found.append(unit)
        return found

    def _try_each(self, choices: Sequence[list[Unit]], pending: Rows, recorded: Rows, everybody: Rows) -> Plan | None:
        """Dry runs, each without some of those that were offered, as far as budgets let these go."""
        self._refused = False
        tried: list[list[Unit]] = [[]]
        for units in map(self._within_budgets, choices):
            if units in tried:
                continue
            tried.append(units)
            potential = joined([unit.tasks for unit in units])
            passes = self._passes(pending, everybody, recorded, potential)
            if not passes and self.options.looks_ahead:
                continue  # in KAI what is refused in the end leaves its trace; see `Trials.keep_open`
            both = np.concatenate((recorded, potential))
            outcome = self._attempt(pending, both, everybody, going=potential, may_stand=passes)
            if outcome is not None or self._refused:
                return outcome  # what the validators refuse they refuse with this offer, whatever the node
        return None

    def _passes(self, pending: Rows, offered: Rows, recorded: Rows, potential: Rows) -> bool:
        """Cheap questions before a dry run: plugins' filters, budgets, and how many jobs would go."""
        limit = self.options.most_victims
        taken = np.concatenate((recorded, potential)) if len(recorded) else potential
        if limit >= 0 and len(set(self.session.snapshot.tasks.job[taken].tolist())) > limit:
            return False
        if self._filters:
            scenario = Scenario(self.kind, self.simulation.job, pending, offered, taken, _NOBODY)
            if not all(check(scenario) for check in self._filters):
                return False
        if self.budgets and not self.budgets.allowed(potential).all():
            return False
        # Who moves needs a place beside the beneficiary's.
        everybody = np.concatenate((pending, taken))
        return self.kind is not Eviction.CONSOLIDATE or self.places.hold_all(everybody, potential)

    def _attempt(
        self,
        pending: Rows,
        victims: Rows,
        offered: Rows,
        *,
        going: Rows = _NOBODY,
        may_stand: bool = True,
        opening: Rows | None = None,
        modes: Modes = PROMISES,
    ) -> Plan | None:
        """One dry run without `victims`, of whom those in `going` are still there; what fails leaves no trace.

        `may_stand`: whether it is valid if it works and the validators agree. `opening`: see `Trials.run`.
        """
        if self.made >= self.most:
            raise TrialsUsedUp
        self.made += 1
        self.session.tally.dry_runs += 1
        mark = self._statement.mark()
        self.simulation.evict(going)
        outcome = self.trials.run(pending, victims, self._stayed, opening, modes=modes)
        limit = self.options.max_disruption_ratio
        self._refused = outcome is not None and (
            (limit is not None and not within_ratio(self.session.snapshot, outcome.victims, pending, limit))
            or not (may_stand and self.trials.judge(outcome, offered))
        )
        if self._refused:
            self.trials.keep_open()
        if outcome is None or self._refused:
            self._statement.rollback(mark)
            return None
        return outcome


def _has_later(unit: Unit, units: Sequence[Unit], going: Sequence[Unit]) -> bool:
    """Whether a part of the same job that was taken later, and so is needed more, leaves."""
    return any(later.job == unit.job and later in going for later in units[units.index(unit) + 1 :])


def _holds(outcome: Plan, chosen: Sequence[Unit]) -> bool:
    """Whether a forecast came true to the letter: all units go, or all move.

    Who stays, or moves while others go, would have been left alone by growth where it took them first; what they
    leave free then falls to others. Trimming sets that right, without it growth has to be gone through.
    """
    tasks = sum(len(unit.tasks) for unit in chosen)
    return tasks in (len(outcome.evicted), len(outcome.moved))
