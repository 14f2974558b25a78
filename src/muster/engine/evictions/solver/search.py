"""The search for one beneficiary's victims: growth over its tasks, scenarios over the victims.

A gang grows: victims are found for its first task, then for more, and those found are kept. While the victims at hand
are enough, growth goes by doubling, as far as a count of free places says; else further units are offered one by one,
and a dry run is made for the nodes of the last one, with everybody offered there. Filters pass over scenarios that
cannot work before any dry run. The search stops at the first offer that works, which may hold more than is needed
(everybody on a node, or a gang that a larger one made superfluous): what is not needed goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.constraints import constraint_of, domain_of, has_topology
from muster.engine.domains import search_space
from muster.engine.evictions.budgets import Budgets, within_ratio
from muster.engine.evictions.simulation import Simulation, joined, trim
from muster.engine.evictions.solver.places import FreePlaces, Places, could_suffice, forecast
from muster.engine.evictions.solver.pool import Unit, VictimLine
from muster.engine.evictions.solver.trial import TrialResult, Trials
from muster.engine.evictions.surplus import keep_minimum
from muster.framework import Eviction, Purpose, Scenario, Session
from muster.snapshot import Rows, TaskStatus

_NOBODY: Rows = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """How far the search goes, and what it respects."""

    #: Dry runs for one beneficiary, and in one run of the action.
    max_trials_per_job: int = 1000
    max_trials_per_cycle: int = 20_000
    #: Jobs that may have to go for one beneficiary; negative: any number.
    max_victims: int = -1
    #: Beneficiaries of one queue that are tried; None: all.
    max_jobs_per_queue: int | None = None
    ignore_pdb: bool = False
    #: Evicted ÷ requested resources; None: no limit.
    max_disruption_ratio: float | None = None
    #: Pass over a job when one that is easier to place has failed already.
    use_signatures: bool = True
    #: Give victims back that turn out not to be needed.
    trim: bool = True
    #: Go on with the next victim where a protected gang could only be broken; if not, the line of victims ends there.
    pass_over_protected: bool = True
    #: Jobs that their queue's quota keeps out hold up nobody behind them.
    pass_over_blocked: bool = True
    #: Take from those, too, whom the cycle has placed but not yet bound: they wait again, and nobody was told.
    take_back_binds: bool = False
    #: Break and move gangs also for those who have their minimum and want more; if not, these take spare pods only.
    growth_breaks_gangs: bool = False


class TrialsUsedUp(Exception):  # noqa: N818 - not an error: the search was told to stop here
    """The bound on dry runs was reached."""


@dataclass(slots=True)
class TrialBudget:
    """Dry runs that are left: for the job, and for the whole run of the action."""

    per_job: int
    per_cycle: int

    def spend(self) -> None:
        if self.per_job <= 0 or self.per_cycle <= 0:
            raise TrialsUsedUp
        self.per_job -= 1
        self.per_cycle -= 1


class Offers:
    """What a step of growth has been offered so far, after the victims that a search has already.

    A step may be offered thousands of units, so an answer costs what it says and not what was offered.
    """

    def __init__(self, recorded: Rows) -> None:
        self._units: list[Unit] = []
        self._by_node: dict[int, set[int]] = {}
        self._by_job: dict[int, list[int]] = {}
        #: `recorded` and the tasks of all units; only the first `_count` are filled.
        self._tasks = recorded.copy()
        self._count = len(recorded)

    def add(self, unit: Unit) -> None:
        """One more unit is offered."""
        self._by_job.setdefault(unit.job, []).append(len(self._units))
        for node in unit.nodes:
            self._by_node.setdefault(node, set()).add(unit.job)
        self._units.append(unit)
        end = self._count + len(unit.tasks)
        if end > len(self._tasks):
            self._tasks = np.resize(self._tasks, 2 * end)
        self._tasks[self._count : end] = unit.tasks
        self._count = end

    def jobs_on(self, node: int) -> frozenset[int]:
        """Jobs of which something on the node was offered."""
        return frozenset(self._by_node.get(node, ()))

    def tasks_of(self, jobs: Iterable[int]) -> Rows:
        """All tasks of these jobs that were offered, in the order of the offers."""
        positions = sorted(position for job in jobs for position in self._by_job[job])
        return joined([self._units[position].tasks for position in positions])

    def everybody(self) -> Rows:
        """The victims that there were already, and everybody who was offered."""
        return self._tasks[: self._count]


class Search:
    """One search; its simulation holds the solution afterwards, or is as it was."""

    def __init__(
        self,
        session: Session,
        kind: Eviction,
        options: SolverOptions,
        budgets: Budgets,
        budget: TrialBudget,
        line: VictimLine,
        trials: Trials,
        places: FreePlaces,
        simulation: Simulation,
    ) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._budgets = budgets
        self._budget = budget
        self._line = line
        self._trials = trials
        self._places = places
        self._simulation = simulation
        self._statement = simulation.statement
        self._job = simulation.job
        self._filters = session.scenario_filters(kind, self._job)
        self._used_up = False
        self._base = self._statement.mark()
        #: Victims at hand that could stay in the last step; see `Trials.run`.
        self._stayed: Rows = _NOBODY
        #: Units that were offered, and dry runs that were made.
        self.units: list[Unit] = []
        self.made = 0

    def solve(self, pending: Rows) -> TrialResult | None:
        """Find victims for all of `pending`; None: there are none."""
        if self._options.trim and self._places.suffices(pending):
            outcome, _ = self._attempt(pending, _NOBODY, _NOBODY)
            if outcome is not None:
                return outcome
        if has_topology(self._session, self._job):
            return self._solve_in_domains(pending)
        counts = self._places.count(pending)
        if len(counts) == 1:
            # Without trimming, growth takes somebody for its first pods too where there is room for some of them.
            can_tell = self._options.trim or counts[0].have == 0
            chosen = forecast(counts[0], self._all_units())
            if chosen is None:
                return None
            if chosen and can_tell:
                outcome = self._follow(pending, chosen)
                if outcome is not None and (self._options.trim or _holds(outcome, chosen)):
                    return self._trimmed(pending, outcome)
                self._statement.rollback(self._base)
        return self._solve_by_steps(pending)

    def _solve_in_domains(self, pending: Rows) -> TrialResult | None:
        """As `solve`, for a gang that must, or would rather, stay inside a domain: one domain after the other.

        A part of such a gang has no place of its own, so it does not grow task by task.
        """
        session, topology = self._session, self._session.snapshot.topology
        constraint, placed = constraint_of(session, self._job), domain_of(session.snapshot, self._job)
        for domain in search_space(session, self._job, constraint, placed, Purpose.EVICT).tolist():
            lo, hi = int(topology.lo[domain]), int(topology.hi[domain])
            inside = [unit for unit in self._all_units() if any(lo <= node < hi for node in unit.nodes)]
            counts = self._places.count(pending, lo, hi)
            chosen = forecast(counts[0], inside) if len(counts) == 1 else inside
            outcome = self._follow(pending, self._with_spared_parts(chosen)) if chosen else None
            if outcome is not None:
                return self._trimmed(pending, outcome)
        return None

    def _with_spared_parts(self, chosen: Sequence[Unit]) -> list[Unit]:
        """The units, and all else of the gangs that they would break: what these could spare before, wherever it is."""
        snapshot = self._session.snapshot
        going = joined([unit.tasks for unit in chosen])
        promised = np.flatnonzero(snapshot.tasks.status == TaskStatus.PIPELINED).astype(np.int32)
        broken = {
            job
            for job in {unit.job for unit in chosen}
            if not keep_minimum(snapshot, np.array([job], np.int32), going, promised)
        }
        taken = {int(unit.tasks[0]) for unit in chosen}
        return [unit for unit in self.units if unit.job in broken or int(unit.tasks[0]) in taken]

    def _trimmed(self, pending: Rows, outcome: TrialResult) -> TrialResult:
        """The solution that the simulation holds, without what it does not need.

        A unit goes back whole; what a gang could spare goes back only if its core does not leave. Most units are told
        to be needed by counting places, without a dry run.
        """
        taken = set(outcome.victims.tolist())
        kept = [unit for unit in self.units if not taken.isdisjoint(unit.tasks.tolist())]
        # Without any victim there was no place: one unit cannot be too much.
        if not self._options.trim or len(kept) < 2:
            return outcome
        found = list(self._statement.operations[self._base :])
        self._statement.rollback(self._base)
        counts = self._places.count(pending)
        for count in counts:
            for unit in kept:
                count.take(unit)
        spare = [unit for unit in kept if all(count.can_spare(unit) for count in counts)]

        def works(rows: Rows) -> bool:
            """Whether the spare units of these tasks are enough, with all that is needed; that is the solution then."""
            nonlocal outcome, found
            staying = set(rows.tolist())
            back = [unit for unit in spare if int(unit.tasks[0]) not in staying]
            going = {int(unit.tasks[0]) for unit in kept} - {int(unit.tasks[0]) for unit in back}
            left = [unit for unit in kept if int(unit.tasks[0]) in going]
            if any(_has_later(unit, kept, going) for unit in back):
                return False
            if not _are_enough(counts, back):
                return False
            victims = joined([unit.tasks for unit in left])
            smaller, _ = self._attempt(pending, victims, victims, going=victims)
            if smaller is not None and len(smaller.victims) < len(outcome.victims):
                outcome, found = smaller, list(self._statement.operations[self._base :])
            else:
                smaller = None
            self._statement.rollback(self._base)
            return smaller is not None

        try:
            trim([unit.tasks for unit in spare], works)
        except TrialsUsedUp:
            self._statement.rollback(self._base)  # what was found stands, whole as it is
        self._statement.redo(found)
        return outcome

    def _follow(self, pending: Rows, chosen: list[Unit]) -> TrialResult | None:
        """Dry-run what the forecast says."""
        victims = joined([unit.tasks for unit in chosen])
        if not self._passes(pending, victims, _NOBODY, victims):
            return None
        return self._attempt(pending, victims, victims, going=victims)[0]

    def _solve_by_steps(self, pending: Rows) -> TrialResult | None:
        recorded: Rows = _NOBODY
        tasks = 1
        while True:
            outcome = self._grow(pending[:tasks], recorded)
            if outcome is None:
                self._statement.rollback(self._base)
                return None
            if tasks == len(pending):
                return self._trimmed(pending, outcome)
            self._statement.rollback(self._base)
            recorded = self._keep(outcome)
            further = self._jump(pending, tasks, recorded) if self._may_jump(outcome) else None
            if further is not None:
                tasks, outcome = further
                if tasks == len(pending):
                    return self._trimmed(pending, outcome)
                self._statement.rollback(self._base)
                recorded = self._keep(outcome)
            tasks += 1

    def _keep(self, outcome: TrialResult) -> Rows:
        """Victims for the next step: the rest of a gang stays at hand where a part of it had to go."""
        gone = set(outcome.victims.tolist())
        kept = joined([unit.tasks for unit in self.units if not gone.isdisjoint(unit.tasks.tolist())])
        if not self._options.trim:
            self._stayed = kept[~np.isin(kept, outcome.victims)]
        return kept

    def _may_jump(self, outcome: TrialResult) -> bool:
        """Whether steps may be left out: what is not trimmed depends on who could stay, or was moved where, on the way.

        Who had no place among fewer has none among more; and a search that has taken nobody takes somebody.
        """
        return self._options.trim or (len(outcome.evicted) > 0 and len(outcome.moved) == 0)

    def _jump(self, pending: Rows, tasks: int, recorded: Rows) -> tuple[int, TrialResult] | None:
        """How far the victims at hand reach beyond `tasks`, with the outcome; None: not one further."""
        mark = self._statement.mark()
        self._simulation.evict(recorded)
        reach = self._places.reach(pending, tasks)
        while reach > tasks:
            outcome, _ = self._attempt(pending[:reach], recorded, recorded)
            if outcome is not None:
                return reach, outcome
            reach = tasks + (reach - tasks) // 2
        self._statement.rollback(mark)
        return None

    def _grow(self, pending: Rows, recorded: Rows) -> TrialResult | None:
        """Find places for `pending`, beginning with the victims `recorded`."""
        mark = self._statement.mark()
        self._simulation.evict(recorded)
        if len(recorded) and self._places.suffices(pending):
            outcome, _ = self._attempt(pending, recorded, recorded)
            if outcome is not None:
                return outcome
        taken = set(recorded.tolist())
        offers = Offers(recorded)
        counts = self._places.count(pending)
        for unit in self._all_units():
            if int(unit.tasks[0]) in taken:
                continue
            offers.add(unit)
            for count in counts:
                count.offer(unit)
            outcome = self._try_nodes(pending, recorded, unit.job, offers, counts)
            if outcome is not None:
                return outcome
        self._statement.rollback(mark)
        return None

    def _all_units(self) -> Iterable[Unit]:
        """Units in the order in which victims go; each is made when somebody first comes to it."""
        position = 0
        while True:
            if position == len(self.units):
                unit = None if self._used_up else self._line.pop()
                if unit is None:
                    self._used_up = True
                    return
                self.units.append(unit)
            yield self.units[position]
            position += 1

    def _try_nodes(
        self, pending: Rows, recorded: Rows, job: int, offers: Offers, counts: list[Places]
    ) -> TrialResult | None:
        """Dry runs for the nodes of the job offered last, each with everybody offered there."""
        snapshot = self._session.snapshot
        jobs_seen: set[frozenset[int]] = {frozenset()}
        everybody = offers.everybody()
        for node in sorted(set(snapshot.tasks.node[snapshot.tasks_of(job)].tolist())):
            jobs = offers.jobs_on(node)
            if jobs in jobs_seen or not could_suffice(counts, node):
                continue
            jobs_seen.add(jobs)
            potential = offers.tasks_of(jobs)
            if not self._passes(pending, everybody, recorded, potential):
                continue
            both = np.concatenate((recorded, potential))
            outcome, refused = self._attempt(pending, both, everybody, going=potential)
            if outcome is not None or refused:
                return outcome  # what the validators refuse they refuse with this offer, whatever the node
        return None

    def _passes(self, pending: Rows, offered: Rows, recorded: Rows, potential: Rows) -> bool:
        """Cheap questions before a dry run: plugins' filters, budgets, and how many jobs would go."""
        limit = self._options.max_victims
        taken = np.concatenate((recorded, potential)) if len(recorded) else potential
        if limit >= 0 and len(np.unique(self._session.snapshot.tasks.job[taken])) > limit:
            return False
        if self._filters:
            scenario = Scenario(self._kind, self._job, pending, offered, taken, _NOBODY)
            if not all(check(scenario) for check in self._filters):
                return False
        return not self._budgets or bool(self._budgets.allowed(potential).all())

    def _attempt(
        self, pending: Rows, victims: Rows, offered: Rows, *, going: Rows = _NOBODY
    ) -> tuple[TrialResult | None, bool]:
        """One dry run without `victims`, of whom those in `going` are still there; what fails leaves no trace.

        The second part says whether validators refused what had worked.
        """
        self._budget.spend()
        self.made += 1
        self._session.tally.dry_runs += 1
        mark = self._statement.mark()
        self._simulation.evict(going)
        outcome = self._trials.run(pending, victims, self._stayed)
        limit = self._options.max_disruption_ratio
        is_refused = outcome is not None and (
            (limit is not None and not within_ratio(self._session.snapshot, outcome.victims, pending, limit))
            or not self._trials.judge(outcome, pending, offered)
        )
        if outcome is None or is_refused:
            self._statement.rollback(mark)
            return None, is_refused
        return outcome, False


def _has_later(unit: Unit, units: Sequence[Unit], going: set[int]) -> bool:
    """Whether a part of the same job that was taken later, and so is needed more, leaves."""
    own = [other for other in units if other.job == unit.job]
    at = [int(other.tasks[0]) for other in own].index(int(unit.tasks[0]))
    return any(int(later.tasks[0]) in going for later in own[at + 1 :])


def _are_enough(counts: Sequence[Places], back: Sequence[Unit]) -> bool:
    """Whether there are places enough when these units, which were taken, stay after all."""
    for count in counts:
        for unit in back:
            count.give_back(unit)
    enough = all(count.have >= count.wanted for count in counts)
    for count in counts:
        for unit in back:
            count.take(unit)
    return enough


def _holds(outcome: TrialResult, chosen: Sequence[Unit]) -> bool:
    """Whether a forecast came true to the letter: all units go, or all move.

    Who stays, or moves while others go, would have been left alone by growth where it took them first; what they
    leave free then falls to others. Trimming sets that right, without it growth has to be gone through.
    """
    tasks = sum(len(unit.tasks) for unit in chosen)
    return tasks in (len(outcome.evicted), len(outcome.moved))
