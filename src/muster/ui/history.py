"""The cycles that the dashboard can show: the latest ones whole, older ones as what was decided in them.

A `Moment` is one cycle. It keeps its session, from which every page is made, for as long as there is room: the room is
counted in rows of pods and nodes, so that a small cluster has its whole story and a large one the last few cycles.
What was decided, and what queues held, is kept for `MAX_MOMENTS` cycles. Written by the thread of the feed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api import UserError
from muster.explain import Whys
from muster.explain.model import JobState
from muster.explain.queue_overview import fair_share, queue_loans
from muster.framework import Session
from muster.scheduler import CycleResult, Scheduler
from muster.simulate.report import decision_json
from muster.snapshot import UNLIMITED

Json = dict[str, Any]  # Any: the values of a document are of many types, and only ever written out

#: Rows of pods and nodes in all sessions that are kept.
MAX_ROWS: Final = 2_000_000
MAX_MOMENTS: Final = 5_000
#: Jobs that have a place among the colours; of more than these nobody tells colours apart.
MAX_NAMES: Final = 1_000
#: Queues whose use is kept over time; more lines than these nobody can read.
_MAX_SERIES: Final = 200
#: Above so many jobs the states of all are not counted at each cycle.
_MAX_COUNTED: Final = 20_000


class MomentGoneError(UserError):
    """A cycle that was asked for and is not kept any more, or never was."""


@dataclass(slots=True)
class Moment:
    """One cycle: what it decided, and how everything stood after it."""

    cycle: int
    #: Seconds since the epoch, by the cluster's clock.
    time: float
    decisions: tuple[Json, ...] = ()
    #: Per job: phase, code of the reason and message, where they changed.
    updates: tuple[Json, ...] = ()
    #: Per action: seconds, turns by outcome, dry runs.
    actions: Mapping[str, Json] = field(default_factory=dict)
    failures: tuple[Json, ...] = ()
    error: str = ""
    running: int = 0
    waiting: int = 0
    #: Per queue and resource: what it holds, and its fair share; None: nobody says.
    held: Mapping[str, Mapping[str, tuple[int, int | None]]] = field(default_factory=dict)
    #: What queues held of others' quotas: resource, lender, borrower, amount.
    loans: tuple[tuple[str, str, str, int], ...] = ()
    quarantined: tuple[Json, ...] = ()
    session: Session | None = field(default=None, repr=False)
    #: Answers that were made from the session, by what was asked.
    answers: dict[str, Json] = field(default_factory=dict, repr=False)
    _evicted: frozenset[str] | None = field(default=None, repr=False)

    def evicted_jobs(self) -> frozenset[str]:
        """Jobs of which pods were told to leave."""
        if self._evicted is None:
            self._evicted = frozenset(made["job"] for made in self.decisions if made["kind"] == "evict")
        return self._evicted

    def counts(self) -> dict[str, int]:
        """Decisions by kind."""
        found = {"bind": 0, "evict": 0, "nominate": 0}
        for made in self.decisions:
            found[made["kind"]] = found.get(made["kind"], 0) + 1
        return found


class History:
    """Moments in order, and who wants to hear of new ones."""

    def __init__(self, max_rows: int = MAX_ROWS, max_moments: int = MAX_MOMENTS) -> None:
        self._moments: deque[Moment] = deque(maxlen=max_moments)
        self._max_rows = max_rows
        #: Moments that have their session, the oldest first, and how many rows each has.
        self._whole: deque[tuple[Moment, int]] = deque()
        self._rows = 0
        self._lock = threading.Lock()
        self._listeners: dict[int, Callable[[], None]] = {}
        self._next_listener = 0
        #: Namespaces that were met, and moments that were not looked through for them yet.
        self._namespaces: set[str] = set()
        #: Jobs and queues in the order in which they came.
        self._jobs: dict[str, None] = {}
        self._queues: dict[str, None] = {}
        self._unread: deque[Moment] = deque(maxlen=max_moments)
        self._reading = threading.Lock()

    def __iter__(self) -> Iterator[Moment]:
        with self._lock:
            return iter(list(self._moments))

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def latest(self) -> Moment | None:
        with self._lock:
            return self._moments[-1] if self._moments else None

    def add(self, moment: Moment) -> None:
        """Take a new moment, and let go of the sessions of the oldest ones where there is no room."""
        with self._lock:
            self._moments.append(moment)
            self._unread.append(moment)
            self._name(moment)
            if moment.session is not None:
                rows = len(moment.session.snapshot.tasks) + len(moment.session.snapshot.nodes)
                self._whole.append((moment, rows))
                self._rows += rows
            while len(self._whole) > 1 and (self._rows > self._max_rows or len(self._whole) > len(self._moments)):
                oldest, gone = self._whole.popleft()
                oldest.session = None
                oldest.answers.clear()
                self._rows -= gone
        self.tell()

    def first_whole(self) -> int | None:
        """The number of the first cycle that can be looked at whole."""
        with self._lock:
            return self._whole[0][0].cycle if self._whole else None

    def at(self, cycle: int | None) -> Moment:
        """The moment of a cycle, or the latest; one without a session is not there any more. Raises MomentGoneError."""
        found = self.latest if cycle is None else next((each for each in self if each.cycle == cycle), None)
        if found is None:
            raise MomentGoneError("no cycle has been run yet" if cycle is None else f"there is no cycle {cycle}")
        if found.session is None:
            raise MomentGoneError(f"cycle {cycle} is kept no more; the first one that is: {self.first_whole()}")
        return found

    def namespaces(self) -> set[str]:
        """All namespaces that anything of these moments is in, also of what has gone since."""
        with self._reading:
            while self._unread:
                self._namespaces |= _namespaces(self._unread.popleft())
            latest = self.latest
            aside = set() if latest is None else {each["namespace"] for each in latest.quarantined}
            return (self._namespaces | aside) - {""}

    def names(self) -> Json:
        """Jobs and queues in the order in which they came, as far as they are told apart by colours."""
        with self._lock:
            return {"jobs": list(self._jobs), "queues": list(self._queues)}

    def _name(self, moment: Moment) -> None:
        if moment.session is None or len(self._jobs) >= MAX_NAMES:
            return
        records = moment.session.snapshot.jobs.records
        new = [(each.created, each.id) for each in records if each.id and each.id not in self._jobs]
        self._jobs.update(dict.fromkeys(name for _, name in sorted(new)[: MAX_NAMES - len(self._jobs)]))
        self._queues.update(dict.fromkeys(sorted(moment.held)))

    # -- news ----------------------------------------------------------------------------------------------------

    @property
    def is_heard(self) -> bool:
        """Whether somebody is told of new moments."""
        return bool(self._listeners)

    def listen(self, hear: Callable[[], None]) -> Callable[[], None]:
        """Call `hear`, from any thread, when there is something new; returns what ends that."""
        with self._lock:
            number = self._next_listener
            self._next_listener += 1
            self._listeners[number] = hear
        return lambda: self._forget(number)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._listeners.pop(number, None)

    def tell(self) -> None:
        """Say that something is new."""
        with self._lock:
            hearing = list(self._listeners.values())
        for hear in hearing:
            hear()


def _namespaces(moment: Moment) -> set[str]:
    """The namespaces of what a moment tells about."""
    names = {made[key] for made in moment.decisions for key in ("job", "beneficiary", "pod")}
    names.update(update["job"] for update in moment.updates)
    found = {name.partition("/")[0] for name in names if name}
    if moment.session is not None:
        snapshot = moment.session.snapshot
        found.update(record.namespace for record in snapshot.jobs.records if record.id)
        found.update(name.partition("/")[0] for name in snapshot.tasks.ids if name)
    return found


def moment_of(
    scheduler: Scheduler, result: CycleResult, start: float, observed: Sequence[Json] | None = None
) -> Moment:
    """What is kept of a cycle. `observed`: what happened in the cluster, where others decide; else the decisions."""
    session = scheduler.last_session
    assert session is not None  # the cycle has run
    made = [decision_json(each, result, start) for each in result.decisions] if observed is None else list(observed)
    running, waiting = _counts(session)
    return Moment(
        cycle=result.number,
        time=result.time,
        decisions=tuple(with_queues(session, each) for each in made),
        updates=tuple(
            {"job": each.job, "phase": each.phase, "code": each.unschedulable or "", "message": each.message}
            for each in result.updates
        ),
        actions={
            name: {
                "milliseconds": round(tally.seconds * 1000, 3),
                "attempts": dict(tally.attempts),
                "dryRuns": tally.dry_runs,
                "cutShort": tally.cut_short,
            }
            for name, tally in result.tallies.items()
        },
        failures=tuple({"error": each.error, "what": type(each.decision).__name__.lower()} for each in result.failures),
        error="" if result.error is None else str(result.error),
        running=running,
        waiting=waiting,
        held=_held(session),
        loans=_loans(session),
        quarantined=tuple(aside.to_json() for aside in scheduler.mirror.quarantine),
        session=session,
    )


def with_queues(session: Session, made: Json) -> Json:
    """A decision with the queues and priorities of its job and of the one that it is for."""
    job, beneficiary = made["job"], made["beneficiary"]
    return {
        **made,
        "queue": _queue(session, job),
        "beneficiaryQueue": _queue(session, beneficiary),
        "priority": _priority(session, job),
        "beneficiaryPriority": _priority(session, beneficiary),
    }


def _priority(session: Session, job: str) -> int | None:
    jobs = session.snapshot.jobs
    row = jobs.index.get(job)
    return None if row is None else int(jobs.priority[row])


def _queue(session: Session, job: str) -> str:
    row = session.snapshot.jobs.index.get(job)
    return "" if row is None else session.snapshot.jobs.records[row].queue


def _counts(session: Session) -> tuple[int, int]:
    """Jobs that run, and those that wait; of very many nobody counts."""
    jobs = session.snapshot.jobs
    rows = jobs.live.nonzero()[0].tolist()
    if len(rows) > _MAX_COUNTED:
        return -1, -1
    whys = Whys(session)
    states = [whys.state(row) for row in rows]
    return sum(state in (JobState.RUNNING, JobState.GROWING) for state in states), states.count(JobState.WAITING)


def _loans(session: Session) -> tuple[tuple[str, str, str, int], ...]:
    if len(session.snapshot.queues.records) > _MAX_SERIES:
        return ()
    return tuple((loan.resource, loan.lender, loan.borrower, loan.amount) for loan in queue_loans(session))


def _held(session: Session) -> dict[str, dict[str, tuple[int, int | None]]]:
    table, axis = session.snapshot.queues, session.snapshot.axis
    found: dict[str, dict[str, tuple[int, int | None]]] = {}
    for row, record in list(enumerate(table.records))[:_MAX_SERIES]:
        fair = None if row in table.broken else fair_share(session, row)
        found[record.name] = {
            name: (
                int(table.tree_allocated[row, column]),
                None if fair is None or fair[column] >= UNLIMITED else int(fair[column]),
            )
            for column, name in enumerate(axis.names)
            if name != "pods"
        }
    return found
