"""What follows from fair shares: whose turn it is among sibling queues, and who may take back from whom.

Keys are plain tuples, so the order is total: queues within their fair share, queues that stay within their quota with
the job in question, higher priority, queues that touch nothing they have no share of, the smaller part of what they may
keep (with the job, or without the victims that leave), the smaller part as it is, and the smaller entitlement. KAI
compares entitlements only where one is smaller in every resource, else by age, which can run in circles; here the first
resource that differs decides. Age and name come last and are added by the session. Keys are asked for very often;
nothing here allocates more than the key.

Who reclaims and who gives are compared where their lines part. There the giver may lose a unit while it has more than
it may keep of some resource that the taker wants, or more than its quota of one while the taker stays within its own. A
unit is asked about before it goes, so the last one may take the giver below. At the end no queue above the taker may be
further beyond its fair share than the siblings it took from. Numbers are those at the start of the search for victims.

A unit is a task beyond a pod set's minimum, or the core of a job: as many victims of each pod set as its minimum, the
first ones; the core is the last unit. So a gang is never half charged, and an elastic job pays task by task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from muster.engine.evictions.surplus import spare_tasks
from muster.engine.gangs import beyond_roles, pod_sets
from muster.plugins.queues.fairshare.tree import FairShares
from muster.snapshot import NO_ROW, UNLIMITED, Amounts, Rows, Snapshot

#: How much a whole unit weighs that a queue holds without any share of the resource.
_NO_SHARE_PENALTY: Final = 1000

TurnKey = tuple[bool, bool, int, bool, float, float, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Entitled:
    """One queue's entitlements, as plain numbers."""

    #: Column, quota, what makes one whole, and whether the queue has any share.
    columns: list[tuple[int, int, float, bool]]
    #: Column and fair share of the resources that must all be exceeded.
    core: list[tuple[int, int]]
    #: What it may keep, in column order.
    keeps: tuple[int, ...]


class QueueTurns:
    """The order of queues for one session."""

    def __init__(self, shares: FairShares, priorities: Sequence[int]) -> None:
        self._shares = shares
        self._priorities = priorities
        self._keeps = shares.allocatable()
        #: Of queues that somebody asked about, made when first asked.
        self._known: dict[int, _Entitled] = {}

    def key(self, queue: int, held: Sequence[int], wanted: Sequence[int], leaving: Sequence[int]) -> TurnKey:
        """Where a queue stands that holds `held`, with a job that wants `wanted` and victims that hold `leaving`."""
        mine = self._known.get(queue) or self._entitled(queue)
        beyond_quota = trespasses = False
        now = later = 0.0
        for column, quota, whole, has_share in mine.columns:
            have = held[column]
            with_job = have + wanted[column]
            beyond_quota = beyond_quota or with_job > quota
            trespasses = trespasses or (with_job > 0 and not has_share)
            now = max(now, have / whole)
            later = max(later, (with_job - leaving[column]) / whole)
        over = bool(mine.core) and all(held[column] > fair for column, fair in mine.core)
        return over, beyond_quota, -self._priorities[queue], trespasses, later, now, mine.keeps

    def dominant_share(self, queue: int, held: Sequence[int]) -> float:
        """How much of what it may keep a queue has, of the resource it has most of."""
        mine = self._known.get(queue) or self._entitled(queue)
        return max((held[column] / whole for column, _, whole, _ in mine.columns), default=0.0)

    def _entitled(self, queue: int) -> _Entitled:
        shares = self._shares
        keeps: list[int] = self._keeps[queue].tolist()
        quota: list[int] = shares.quota[queue].tolist()
        columns = [
            (column, quota[column], self._whole(column, keeps[column]), keeps[column] > 0) for column in shares.columns
        ]
        core = [(column, int(shares.fair[queue, column])) for column in shares.core]
        known = self._known[queue] = _Entitled(columns, core, tuple(keeps[column] for column in shares.columns))
        return known

    def _whole(self, column: int, keeps: int) -> float:
        """What makes one whole of a resource; an amount without any share of it counts a thousandfold."""
        whole = int(self._shares.total[column]) if keeps >= UNLIMITED else keeps
        return whole or int(self._shares.units[column]) / _NO_SHARE_PENALTY


class ReclaimRules:
    """The rules of one session; `multiplier` of 1 or more makes it harder for a taker that is beyond its share.

    With `unrequested`, queues give also for having too much of what the taker does not ask for, as in KAI.
    """

    def __init__(self, shares: FairShares, multiplier: float = 1.0, *, unrequested: bool = False) -> None:
        self.unrequested = unrequested
        self.lines = shares.lines
        self.columns = shares.columns
        # By way of its text, so that 1.1 means eleven tenths.
        self.multiplier = Fraction(str(multiplier)).as_integer_ratio()
        self.fair: list[list[int]] = shares.fair.tolist()
        self._quota: list[list[int]] = shares.quota.tolist()
        self._firm: list[list[int]] = shares.firm_limits.tolist()
        self._keeps: list[list[int]] = shares.allocatable().tolist()
        self._partings: dict[tuple[int, int], tuple[int, int]] = {}

    def within_share(self, queue: int, held: Sequence[int], wanted: Sequence[int]) -> bool:
        """Would the queue stay within its fair share?"""
        return self._within(held, wanted, self.fair[queue])

    def within_firm_limit(self, queue: int, firm: Sequence[int], wanted: Sequence[int]) -> bool:
        """Would jobs that are not preemptible stay within what they may hold in the queue?"""
        return self._within(firm, wanted, self._firm[queue])

    def _within(self, held: Sequence[int], wanted: Sequence[int], bound: Sequence[int]) -> bool:
        return all(held[column] + wanted[column] <= bound[column] for column in self.columns)

    def gives_surplus(self, giver: int, left: Sequence[int], columns: Collection[int] = ()) -> bool:
        """Has the giver more than it may keep, of some resource, or some of these?"""
        return self._exceeds(left, self._keeps[giver], columns)

    def _exceeds(self, left: Sequence[int], bound: Sequence[int], columns: Collection[int]) -> bool:
        return any(left[column] > bound[column] for column in columns or self.columns)

    def owes_quota(
        self,
        taker: int,
        held: Sequence[int],
        wanted: Sequence[int],
        giver: int,
        left: Sequence[int],
        columns: Collection[int] = (),
    ) -> bool:
        """Has the giver more than its quota of some resource (of these), while the taker stays within its own?"""
        return self._within(held, wanted, self._quota[taker]) and self._exceeds(left, self._quota[giver], columns)

    def parting(self, one: int, other: int) -> tuple[int, int]:
        """The first two queues, from the top, in which the lines of two queues differ."""
        known = self._partings.get((one, other))
        if known is not None:
            return known
        first = second = NO_ROW
        for first, second in zip(reversed(self.lines[one]), reversed(self.lines[other]), strict=False):
            if first != second:
                break
        self._partings[one, other] = first, second
        return first, second

    def parent(self, queue: int) -> int:
        line = self.lines[queue]
        return line[1] if len(line) > 1 else NO_ROW


class Charges:
    """One taker's account: what queues would be left with, while units are taken one after another."""

    def __init__(self, rules: ReclaimRules, taker: int, wanted: Sequence[int], held: Amounts) -> None:
        """`held`: int64[queues, resources], what every queue holds with all below it."""
        self._rules = rules
        self._taker = taker
        self._wanted = wanted
        self._held = held
        self._asks = {column for column in rules.columns if wanted[column] > 0}
        self._left: dict[int, list[int]] = {}
        #: Resources that were taken from a queue.
        self._touched: dict[int, set[int]] = {}

    def may_give(self, queue: int) -> bool:
        """May a unit be taken from the queue, as things stand?"""
        taker, giver = self._rules.parting(self._taker, queue)
        left = self._left.get(giver) or self._row(giver)
        # Having much of what the taker does not want exposes no queue.
        columns = () if self._rules.unrequested else self._asks
        return self._rules.gives_surplus(giver, left, columns) or self._rules.owes_quota(
            taker, self._row(taker), self._wanted, giver, left, columns
        )

    def take(self, queue: int, amounts: Sequence[int], sign: int = 1) -> None:
        """Charge a unit to a queue and all above it; `sign` -1 gives it back."""
        taken = {column for column in self._rules.columns if amounts[column] > 0}
        for row in self._rules.lines[queue]:
            left = self._left.setdefault(row, self._row(row))
            for column in taken:
                left[column] -= sign * amounts[column]
            self._touched.setdefault(row, set()).update(taken)

    def give_back(self, queue: int, amounts: Sequence[int]) -> None:
        """Undo the last `take`; what it touched stays noted, which can only make the check of bounds stricter."""
        self.take(queue, amounts, -1)

    def stays_in_bounds(self) -> bool:
        """Is nobody above the taker further beyond its fair share than a sibling that was taken from?"""
        rules = self._rules
        for row in rules.lines[self._taker]:
            left = self._left.get(row) or self._row(row)
            held = [have + want for have, want in zip(left, self._wanted, strict=True)]
            above = rules.parent(row)
            for sibling, theirs in self._left.items():
                if (
                    sibling != row
                    and rules.parent(sibling) == above
                    and self._is_beyond(row, held, sibling, theirs, self._touched[sibling] | self._asks)
                ):
                    return False
        return True

    def _is_beyond(self, row: int, held: Sequence[int], sibling: int, theirs: Sequence[int], columns: set[int]) -> bool:
        """Is the queue over its fair share of a resource by at least as much as its sibling?"""
        fair, other = self._rules.fair[row], self._rules.fair[sibling]
        times, by = self._rules.multiplier
        return any(
            held[column] > fair[column]
            and 0 < other[column] < UNLIMITED
            and held[column] * other[column] * times >= theirs[column] * fair[column] * by
            for column in columns
        )

    def _row(self, queue: int) -> list[int]:
        row: list[int] = self._held[queue].tolist()
        return row


def victim_units(snapshot: Snapshot, victims: Rows) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield the jobs of victims, in the order in which they come first, with the units of each."""
    by_job: dict[int, list[int]] = {}
    for task, job in zip(victims.tolist(), snapshot.tasks.job[victims].tolist(), strict=True):
        by_job.setdefault(job, []).append(task)
    for job, tasks in by_job.items():
        yield job, _units(snapshot, job, tasks)


def gang_units(snapshot: Snapshot, victims: Rows) -> list[tuple[int, list[int]]]:
    """Units of victims in the order given: each that its gang can spare alone, the rest of a gang as one."""
    spare = spare_tasks(snapshot, victims)
    cores: dict[int, list[int]] = {}
    units: list[tuple[int, list[int]]] = []
    owners = snapshot.tasks.job[victims].tolist()
    for task, job, is_spare in zip(victims.tolist(), owners, spare.tolist(), strict=True):
        if is_spare:
            units.append((job, [task]))
        elif job in cores:
            cores[job].append(task)
        else:
            cores[job] = [task]
            units.append((job, cores[job]))
    return units


def _units(snapshot: Snapshot, job: int, tasks: Sequence[int]) -> list[list[int]]:
    if len(tasks) == 1 or snapshot.jobs.goes_whole[job]:
        return [list(tasks)]
    minimums = {pods.role: pods.minimum for pods in pod_sets(snapshot, job)}
    whole = NO_ROW in minimums
    extra = 0 if whole else beyond_roles(snapshot, job)
    core: list[int] = []
    units: list[list[int]] = []
    seen: dict[int, int] = {}
    for task in tasks:
        role = NO_ROW if whole else int(snapshot.tasks.role[task])
        seen[role] = seen.get(role, 0) + 1
        if seen[role] <= minimums.get(role, 0):
            core.append(task)
        elif extra > 0:
            extra -= 1
            core.append(task)
        else:
            units.append([task])
    return [*units, core] if core else units
