"""What would be if some pods went: the one object through which strategies evict, place and take back.

It writes to the statement of one beneficiary's turn, which nobody outside hears of before the pipeline commits it. Also
the two searches over lists of victims that need nothing but an answer whether a list will do: the shortest prefix that
does, and what of a list can go back.

Why a victim was chosen is told in one form for every strategy: a word that metrics count, a line for people, and
facts. Who chose attaches to the operation that evicts something that can be asked for the record of a task; nothing is
made unless somebody asks. Records hold names and plain numbers: the same input gives the same record, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from muster.engine.placing import EVERYWHERE, NOW_OR_LATER, Goal, Outcome, Scope, door_of
from muster.engine.placing.contract import Modes
from muster.framework import Rejection, Session
from muster.snapshot import Operation, OperationKind, Rows, Statement, TaskStatus

#: What takes a place from somebody.
TAKES: Final = (OperationKind.EVICT, OperationKind.RECALL)
_NOBODY: Rows = np.empty(0, np.intp)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a strategy found; its operations are in the simulation."""

    #: Tasks of the beneficiary that get a place.
    placed: Rows
    evicted: Rows
    #: Victims that have a place elsewhere.
    moved: Rows = field(default_factory=lambda: _NOBODY)

    @property
    def victims(self) -> Rows:
        """Who goes, and who moves."""
        return np.concatenate((self.evicted, self.moved)) if len(self.moved) else self.evicted


class Simulation:
    """Changes for the benefit of one job; `why_not` says of a plan why it may not be done."""

    def __init__(
        self,
        session: Session,
        job: int,
        statement: Statement,
        why_not: Callable[[Plan], Rejection | None] = lambda _: None,
    ) -> None:
        self.job = job
        self._why_not = why_not
        #: Why the last plan of those that were not accepted was not.
        self.refusal: Rejection | None = None
        #: What a dry run has to find places for.
        self.goal = Goal.START
        self.statement = statement
        self._session = session
        self._door = door_of(session)

    def evict(self, tasks: Rows, record: VictimRecords | None = None) -> None:
        self.statement.evict(tasks, self.job, record=record)

    def place(
        self,
        tasks: Rows,
        scope: Scope = EVERYWHERE,
        modes: Modes = NOW_OR_LATER,
        goal: Goal = Goal.START,
        *,
        job: int = -1,
    ) -> Outcome:
        """Give tasks of the beneficiary, or of another job, places at the one door."""
        return self._door.place(self.job if job < 0 else job, tasks, self.statement, scope, modes, goal)

    def put(self, tasks: Rows, nodes: Rows) -> None:
        """Put equal tasks on these very nodes, which were cleared for them."""
        self._door.put(tasks, nodes, self.statement)

    def without(self, victims: Rows, ask: Callable[[], T]) -> T:
        """The answer to a question that is asked while the victims are gone."""
        mark = self.statement.mark()
        self.evict(victims)
        answer = ask()
        self.statement.rollback(mark)
        return answer

    def placements(self, tasks: Rows, victims: Rows, scope: Scope = EVERYWHERE) -> list[Operation] | None:
        """A dry run: where tasks of the beneficiary would go if the victims were gone; None: they do not fit."""
        self._session.tally.dry_runs += 1

        def placed() -> list[Operation] | None:
            mark = self.statement.mark()
            return self.statement.operations[mark:] if self.place(tasks, scope, goal=self.goal) else None

        return self.without(victims, placed) or None

    def accepts(self, plan: Plan) -> bool:
        """Whether a plan, as it stands in the simulation, may be done."""
        reason = self._why_not(plan)
        self.refusal = reason or self.refusal
        return reason is None

    def evicted(self) -> Rows:
        """Whom the statement evicts, in order, as it stands."""
        tasks = self._tasks_of(OperationKind.EVICT)
        leaving: Rows = tasks[self._session.snapshot.tasks.status[tasks] == TaskStatus.RELEASING]
        return leaving

    def placed(self) -> Rows:
        """Whom the statement promises a place, in order."""
        return self._tasks_of(OperationKind.PIPELINE)

    def _tasks_of(self, kind: OperationKind) -> Rows:
        return joined([operation.tasks for operation in self.statement.operations if operation.kind is kind])


def shortest_prefix(count: int, works: Callable[[int], bool]) -> int | None:
    """The smallest k up to `count` for which `works(k)`, which stays true once it is; None: not even for all.

    Doubling, then halving: a short answer among many units costs few trials.
    """
    low, high = -1, 0
    while not works(high):
        if high == count:
            return None
        low, high = high, min(count, max(1, 2 * high))
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def trim(units: Sequence[T], works: Callable[[list[T]], bool]) -> list[T]:
    """Units that cannot be done without, of a list that works; the last ones are the dearest and go back first.

    Blocks are tried before their halves, so that many needless units cost few trials.
    """
    kept = list(units)

    def tried(lo: int, hi: int) -> None:
        """Try to give units lo..hi back; those after them are settled."""
        if works([*kept[:lo], *kept[hi:]]):
            del kept[lo:hi]
        elif hi - lo > 1:
            middle = (lo + hi) // 2
            tried(middle, hi)
            tried(lo, middle)

    if kept:
        tried(0, len(kept))
    return kept


def joined(units: Sequence[Rows]) -> Rows:
    """All tasks of units."""
    tasks: Rows = np.concatenate(units) if units else _NOBODY
    return tasks


@dataclass(frozen=True, slots=True)
class VictimRecord:
    """Why one pod was evicted."""

    #: One of few words.
    reason: str
    text: str
    #: The same for programs, ready for JSON.
    facts: Mapping[str, object]

    def of_task(self, _task: int) -> VictimRecord:
        """Where all tasks of an operation go for one reason, the record itself is attached."""
        return self


@runtime_checkable
class VictimRecords(Protocol):
    """What an operation that evicts may carry: a record of each of its tasks."""

    def of_task(self, task: int, /) -> VictimRecord: ...


class RunnerUp(NamedTuple):
    """Who would have been next (a job, a pod, a domain), and why it lost."""

    name: str
    reason: str
