"""Reservation: the job at the head of its queue that cannot start gets nodes and a time, and nobody may delay it.

When a job has found no place, the earliest moment is looked for at which it would: jobs that are expected to have ended
by then are taken away in a dry run, and the job is placed at the one door, so that gangs, classes and the network count
as they do when it starts. Others may start now if they are expected to end before that moment, or where they leave the
nodes of the reservation the room that it needs. `strict` lets nobody pass who stands behind; `easy` reserves for the
first that cannot start, `conservative` for several.

Run times come from `Session.run_times`. Of a job that nobody knows anything about the end is not waited for, and it
never ends before anything. Reservations are made anew in every cycle: what ends early is used, and what ends late moves
them. Whoever had one goes first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.api import UserError, parse_seconds
from muster.engine.evictions.simulation import Simulation, joined, shortest_prefix
from muster.engine.gangs import pending_tasks_of, requests_of
from muster.framework.plugin import Arguments, Eviction, OrderKey, Plugin, Rejection, Scenario
from muster.framework.reasons import HELD_BACK
from muster.framework.run_times import Expected
from muster.kernels.planes import ALLOCATABLE
from muster.snapshot import GATED, NO_ROW, Amounts, Mask, Rows, TaskStatus
from muster.snapshot.columns import N_COUNTS, OCCUPYING_STATUSES
from muster.snapshot.records import stamp_text

if TYPE_CHECKING:
    from muster.framework.session import Session

_HOUR: Final = 3600.0
#: No expected run time counts for more than a year, also none that nobody knows.
_LONGEST: Final = 365 * 24 * _HOUR
#: Under which names the plugin remembers who has a reservation, and more than have one at a time.
_HELD: Final = "reservation of "
_MANY: Final = 1e6
#: So many nodes of a reservation are named.
_NAMED = 4
#: Tasks that take room on their node, or are promised it, and are not about to leave.
_STAYS: Mask = np.isin(np.arange(N_COUNTS), (*OCCUPYING_STATUSES, TaskStatus.PIPELINED))
_STAYS[TaskStatus.RELEASING] = False
#: Tasks that run, or will where others leave.
_ENDS: Mask = np.isin(np.arange(N_COUNTS), (TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.PIPELINED))


class ReservationArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the reservation plugin."""

    mode: Annotated[
        Literal["easy", "conservative", "strict"],
        Meta(
            description="For whom room is reserved: the first job of a queue that cannot start (easy), the first ones "
            "(conservative), or nobody starts who stands behind it (strict)."
        ),
    ] = "easy"
    depth: Annotated[
        int, Meta(ge=1, le=1000, description="Conservative: for how many jobs of a queue room is reserved.")
    ] = 8
    order: Annotated[
        Literal["queue", "shortest"],
        Meta(description="Of those that may start before it, who goes first: as the queue has it, or the shortest."),
    ] = "queue"
    patience: Annotated[
        str | float,
        Meta(
            description="Room is reserved for a job as large as a node once it has waited for so long: 24h, or "
            "seconds; for one as large as four nodes after half of that, for a quarter of a node after twice. Until "
            "then others may pass it. With `order: shortest` all go by their run times but the one of a "
            "queue that is overdue for longest."
        ),
    ] = msgspec.field(default=0.0)
    setback: Annotated[
        str | float,
        Meta(
            description="With `order: queue`: so much further back in its queue stands a job that is expected to run "
            "for an hour, as if it had come so much later; one of four hours twice as far, one of fifteen minutes half "
            "as far. 0: the queue goes in the order of coming, as in strict mode."
        ),
    ] = msgspec.field(default="90m")
    margin: Annotated[
        float, Meta(ge=1, le=100, description="Run times of jobs that would start early are taken so many times.")
    ] = msgspec.field(default=1.0)


def _seconds_of(name: str, given: str | float) -> float:
    try:
        return parse_seconds(given)
    except ValueError as error:
        raise UserError(f"plugin reservation: arguments: {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Ends:
    """Jobs that run, or are promised places, of which the end is known, the first to end first."""

    #: When each is expected to end, what those up to it hold together, and the tasks of each.
    at: list[float]
    held: Amounts
    tasks: list[Rows]


@dataclass(frozen=True, slots=True)
class Reserved:
    """Places for a job from a moment on."""

    job: int
    at: float
    tasks: Rows
    nodes: Rows
    #: Until when the job is expected to run then.
    until: float
    #: The nodes, each once, and what the job needs of them.
    rows: Rows
    needs: Amounts


class Reservation(Plugin):
    """Reserves room for jobs that wait, and keeps others from delaying them."""

    name = "reservation"
    summary = "Reserve nodes and a time for the job at the head of a queue; others start if they do not delay it."
    Args: ClassVar[type[Arguments]] = ReservationArguments
    wants_run_times = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._options = cast("ReservationArguments", arguments)
        self._patience = _seconds_of("patience", self._options.patience)
        has_setback = self._options.order == "queue" and self._options.mode != "strict"
        self._setback = _seconds_of("setback", self._options.setback) if has_setback else 0.0

    def open(self, session: Session) -> None:
        super().open(session)
        self.reserved: list[Reserved] = []
        #: Queues with a job that could not start, and the first such job.
        self._blocked: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._expected: dict[int, Expected | None] = {}
        self._masks: dict[bytes, Mask] = {}
        #: By reservations, class and number of tasks: where these may start, while nothing more is touched.
        self._allowed: dict[tuple[object, ...], tuple[int, Mask]] = {}
        #: By job with a reservation: what its nodes will have then, while nothing more is touched.
        self._rooms: dict[int, tuple[int, Amounts]] = {}

    # -- who comes first -----------------------------------------------------------------------------------------

    def job_order(self, job: int) -> OrderKey:
        """Who has a reservation first, or is overdue for longest; then as the queue has it, or the shortest.

        Without patience the shortest go first only once somebody waits.
        """
        if self._patience and job in self._foremost:
            return -1.0
        if (place := self._holders.get(job)) is not None:
            return place
        if self._options.order != "shortest":
            return self._moment(job) if self._setback else 0.0
        if self._patience:
            return self._seconds(job)
        return self._seconds(job) if int(self.session.snapshot.jobs.queue[job]) in self._blocked else 0.0

    def job_orders(self, jobs: Rows) -> NDArray[np.float64]:
        if self._options.order != "shortest" and not self._patience and not self._setback:
            return np.zeros(len(jobs))
        return np.array([self.job_order(job) for job in jobs.tolist()], np.float64)

    def _moment(self, job: int) -> float:
        """When a job would have come if its run time were a matter of indifference: the longer it is, the later."""
        seconds = min(self._seconds(job), _LONGEST)
        return float(self.session.snapshot.jobs.created[job]) + self._setback * math.sqrt(seconds / _HOUR)

    @cached_property
    def _holders(self) -> dict[int, float]:
        """Jobs for which room was reserved in the last cycle: nobody who has come since overtakes them."""
        memory, jobs = self.session.memory, self.session.snapshot.jobs
        known = sorted((at, name) for name, at in memory.items() if name.startswith(_HELD))
        rows = [jobs.index.get(name.removeprefix(_HELD)) for _, name in known]
        waiting = [row for row in rows if row is not None and jobs.counts[row, TaskStatus.PENDING]]
        return {row: float(place - len(waiting)) for place, row in enumerate(waiting)}

    @cached_property
    def _overdue_at(self) -> NDArray[np.float64]:
        """By job: the moment at which its patience ends; infinite: it has nothing that waits.

        The patience of a job as large as n nodes is that of the arguments divided by the root of n: the larger it is,
        the more of its wait is for room that nobody leaves free for it, and the fewer there are of its kind. All its
        tasks count, those that run too, so that the moment stays the same while it waits.
        """
        snapshot, table = self.session.snapshot, self.session.snapshot.tasks
        owned = np.flatnonzero(table.job != NO_ROW)
        have = snapshot.nodes.state[ALLOCATABLE].astype(np.float64)
        one = have.sum(axis=0) / np.maximum(1, np.count_nonzero(have, axis=0))
        parts = (snapshot.classes.requests[:, 0] / np.where(one > 0, one, math.inf)).max(axis=1)
        sizes = np.bincount(table.job[owned], weights=parts[table.cls[owned]], minlength=len(snapshot.jobs))
        waits = (sizes > 0) & (snapshot.jobs.counts[:, TaskStatus.PENDING] > 0)
        return np.where(waits, snapshot.jobs.created + self._patience / np.sqrt(np.where(waits, sizes, 1)), math.inf)

    @cached_property
    def _foremost(self) -> set[int]:
        """Of every queue and priority the job that has been overdue for longest.

        Nobody overtakes it before it starts: whoever becomes overdue later comes after it.
        """
        jobs, at = self.session.snapshot.jobs, self._overdue_at
        late = np.flatnonzero(at <= self.session.now)
        _, lines = np.unique(np.stack((jobs.queue[late], jobs.priority[late])), axis=1, return_inverse=True)
        found = set()
        for line in range(lines.max(initial=-1) + 1):
            rows = late[lines == line]
            first = rows[at[rows] == at[rows].min()]
            found.add(min(first.tolist(), key=lambda job: jobs.records[job].id))
        return found

    def queue_closed(self, queue: int) -> Rejection | None:
        first = self._blocked.get(queue)
        if self._options.mode != "strict" or first is None:
            return None
        return Rejection(HELD_BACK, f"behind {self.session.snapshot.jobs.records[first].id}")

    def _has_waited(self, job: int) -> bool:
        """Whether the patience of a job is at an end, and, unless several get room, that of nobody before it."""
        if self._patience and self._options.mode == "easy":
            return job in self._foremost
        return not self._patience or bool(self._overdue_at[job] <= self.session.now)

    def job_waits(self, job: int) -> bool:
        snapshot = self.session.snapshot
        if not self._has_waited(job):
            return False
        queue = int(snapshot.jobs.queue[job])
        is_first = self._blocked.setdefault(queue, job) == job
        depth = self._options.depth if self._options.mode == "conservative" else 1
        if self._options.mode == "strict" or self._counts.get(queue, 0) >= depth:
            return False
        self._counts[queue] = self._counts.get(queue, 0) + 1
        found = self._reserve(job)
        if found is not None:
            self.reserved.append(found)
            self._remember(found)
            self.session.look_again(found.at)
            self._tell(found)
        return is_first and self._options.order == "shortest" and not self._patience

    def _remember(self, found: Reserved) -> None:
        """Note for the next cycles who has a reservation; the order of the notes is that of their turns."""
        if self._setback and not self._patience:
            name = _HELD + self.session.snapshot.jobs.records[found.job].id
            self.session.memory.setdefault(name, self.session.now + len(self.reserved) / _MANY)

    def close(self) -> None:
        """Forget those who have no reservation any more."""
        records = self.session.snapshot.jobs.records
        held = {_HELD + records[known.job].id for known in self.reserved}
        for name in [name for name in self.session.memory if name.startswith(_HELD) and name not in held]:
            del self.session.memory[name]

    def _tell(self, found: Reserved) -> None:
        """Add to why the job waits what it waits for."""
        verdict = self.session.verdicts.get(found.job)
        if verdict is not None:
            names = sorted(self.session.snapshot.nodes.names[row] for row in found.rows.tolist())
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            when = stamp_text(math.ceil(found.at))
            detail = f"reserved from {when}: {', '.join(names[:_NAMED])}{more}"
            said = f"{verdict.detail}; {detail}" if verdict.detail else detail
            self.session.record(found.job, replace(verdict, detail=said))

    # -- who may start before ------------------------------------------------------------------------------------

    def start_nodes(self, job: int, tasks: Rows) -> Rejection | Mask | None:
        jobs = self.session.snapshot.jobs
        first = self._blocked.get(int(jobs.queue[job]), job)
        if self._options.mode == "strict":
            return None if first == job else Rejection(HELD_BACK, f"behind {jobs.records[first].id}")
        expected = self._expectation(job)
        at_most = math.inf if expected is None else expected.at_most * self._options.margin
        ends = self.session.now + at_most
        delayed = [known for known in self.reserved if known.job != job and known.at < ends]
        if not delayed:
            return None
        touched, classes = self.session.snapshot.touched, self.session.snapshot.tasks.cls[tasks].tolist()
        key = (len(tasks), *sorted(set(classes)), *(known.job for known in delayed))
        when, allowed = self._allowed.get(key, (-1, None))
        if allowed is None or when != touched:
            allowed = np.ones(len(self.session.snapshot.nodes), np.bool_)
            for known in delayed:
                allowed[known.rows[~self._leaves_room(known, tasks)]] = False
            # One object for equal masks: whoever has found no place there need not be tried again.
            allowed = self._masks.setdefault(allowed.tobytes(), allowed)
            self._allowed[key] = touched, allowed
        return allowed

    def _leaves_room(self, known: Reserved, tasks: Rows) -> Mask:
        """On which nodes of a reservation these tasks would leave it what it needs, however many of them go there."""
        snapshot = self.session.snapshot
        asked = snapshot.classes.requests[snapshot.tasks.cls[tasks], 0].max(axis=0)
        room = self._room_then(known) - known.needs
        idle = np.maximum(snapshot.nodes.idle()[known.rows], 0)
        wanted = asked > 0
        fit = (idle[:, wanted] // asked[wanted]).min(axis=1, initial=len(tasks))
        many = np.minimum(fit, len(tasks))
        leaves: Mask = (room >= many[:, None] * asked).all(axis=1)
        return leaves

    def _room_then(self, known: Reserved) -> Amounts:
        """What the nodes of a reservation will have when it begins, as things stand now."""
        snapshot = self.session.snapshot
        touched, room = self._rooms.get(known.job, (-1, known.needs))
        if touched != snapshot.touched:
            table = snapshot.tasks
            inside: Mask = np.zeros(len(snapshot.nodes) + 1, np.bool_)  # the last place is that of NO_ROW
            inside[known.rows] = True
            here = np.flatnonzero(inside[table.node] & _STAYS[table.status])
            stays = [task for task in here.tolist() if self._end_of(int(table.job[task])) > known.at]
            held: Amounts = np.zeros_like(known.needs)
            where = np.searchsorted(known.rows, table.node[stays])
            np.add.at(held, where, snapshot.classes.requests[table.cls[stays], 0])
            room = snapshot.nodes.state[ALLOCATABLE, known.rows] - held
            self._rooms[known.job] = snapshot.touched, room
        return room

    # -- who may make room for itself ----------------------------------------------------------------------------

    def scenario_validator(self, kind: Eviction, scenario: Scenario) -> bool:
        """Whoever makes room by evictions, and whoever has to move, delays nobody for whom room is reserved either."""
        return all(
            self._is_kept(known, scenario) for known in self.reserved if not self._comes_before(scenario.evictor, known)
        )

    def _comes_before(self, job: int, known: Reserved) -> bool:
        """Whether a job need not wait for a reservation: it is its own, an earlier one's, or it matters more."""
        jobs = self.session.snapshot.jobs
        if jobs.queue[job] == jobs.queue[known.job] and jobs.priority[job] > jobs.priority[known.job]:
            return True
        holders = [reserved.job for reserved in self.reserved]
        return job in holders[: holders.index(known.job) + 1]

    def _is_kept(self, known: Reserved, scenario: Scenario) -> bool:
        """Whether the nodes of a reservation that tasks would come to have the room that it needs, when it begins."""
        coming = np.concatenate((scenario.pending, scenario.moved))
        touched = np.isin(known.rows, self.session.snapshot.tasks.node[coming])
        if not touched.any():
            return True
        return bool((self._room_then(known) >= known.needs)[touched].all())

    # -- when a job could start ----------------------------------------------------------------------------------

    def _reserve(self, job: int) -> Reserved | None:
        """The earliest moment at which a job has places, as far as run times are known; None: nobody knows one."""
        session, snapshot = self.session, self.session.snapshot
        tasks = pending_tasks_of(snapshot, job)
        tasks = session.sort_tasks(tasks[(snapshot.tasks.flags[tasks] & GATED) == 0])
        if len(tasks) == 0:
            return None
        ends = self._ends
        free = np.maximum(snapshot.nodes.future_idle(), 0).sum(axis=0)
        needed = requests_of(snapshot, tasks[: max(1, session.job_deficit(job))])
        with session.statement() as statement:
            simulation = Simulation(session, job, statement)
            statement.release(tasks)
            for known in self.reserved:
                simulation.put(known.tasks, known.nodes)
            found: dict[int, list[tuple[Rows, Rows]]] = {}

            def works(count: int) -> bool:
                if ((free + (ends.held[count - 1] if count else 0)) < needed).any():
                    return False
                gone, mark = joined(ends.tasks[:count]), statement.mark()
                statement.release(gone)
                placed = simulation.placements(tasks, gone[snapshot.tasks.status[gone] != TaskStatus.PENDING])
                statement.rollback(mark)
                if placed is not None:
                    found[count] = [(operation.tasks, operation.nodes) for operation in placed]
                return placed is not None

            count = shortest_prefix(len(ends.at), works)
            statement.rollback()
        if count is None:
            return None
        at = max(session.now, ends.at[count - 1] if count else session.now)
        return self._made(job, at, found[count])

    def _made(self, job: int, at: float, places: list[tuple[Rows, Rows]]) -> Reserved:
        snapshot = self.session.snapshot
        tasks, nodes = joined([part[0] for part in places]), joined([part[1] for part in places])
        rows, where = np.unique(nodes, return_inverse=True)
        needs: Amounts = np.zeros((len(rows), len(snapshot.axis)), np.int64)
        np.add.at(needs, where, snapshot.classes.requests[snapshot.tasks.cls[tasks], 0])
        return Reserved(job, at, tasks, nodes, at + self._seconds(job), rows.astype(np.intp), needs)

    @cached_property
    def _ends(self) -> Ends:
        snapshot, table = self.session.snapshot, self.session.snapshot.tasks
        # Who is promised a place will leave it, too: a reservation that did not count on that would not be made.
        holds = (_ENDS[table.status] & (table.node != NO_ROW)) | table.reserved
        here = np.flatnonzero(holds & (table.job != NO_ROW)).astype(np.intp)
        here = here[np.argsort(table.job[here], kind="stable")]
        owners = table.job[here]
        firsts = np.flatnonzero(np.diff(owners, prepend=NO_ROW))
        if len(firsts) == 0:
            return Ends([], np.zeros((0, len(snapshot.axis)), np.int64), [])
        at = np.array([self._end_of(job) for job in owners[firsts].tolist()])
        held = np.add.reduceat(snapshot.classes.requests[table.cls[here], 0], firsts, axis=0)
        order = np.lexsort((here[firsts], at))
        order = order[: np.count_nonzero(at < math.inf)]
        lasts = np.append(firsts[1:], len(here))
        pieces = zip(firsts[order].tolist(), lasts[order].tolist(), strict=True)
        tasks = [here[first:last] for first, last in pieces]
        return Ends(at[order].tolist(), np.cumsum(held[order], axis=0), tasks)

    def _end_of(self, job: int) -> float:
        """When a job that runs, or starts now, is expected to end; infinite: nobody knows."""
        if job == NO_ROW:
            return math.inf
        session, jobs = self.session, self.session.snapshot.jobs
        counts = jobs.counts
        if counts.item(job, TaskStatus.ALLOCATED) or counts.item(job, TaskStatus.PIPELINED):
            return session.now + self._seconds(job)  # it starts now, or begins again elsewhere
        if jobs.ready_count(job) < jobs.min_member.item(job):
            return session.now + self._seconds(job)  # it has lost pods, and begins again when it is whole
        return session.run_times.end(jobs.records[job], partial(self._expectation, job), session.now)

    def _seconds(self, job: int) -> float:
        """How long a job is expected to run; infinite: nobody knows."""
        expected = self._expectation(job)
        return math.inf if expected is None else expected.seconds

    def _expectation(self, job: int) -> Expected | None:
        if job not in self._expected:
            snapshot, run_times = self.session.snapshot, self.session.run_times
            record = snapshot.jobs.records[job]
            found = run_times.said(record)
            if found is None:
                found = run_times.of(record, [snapshot.tasks.pods[task] for task in snapshot.tasks_of(job).tolist()])
            self._expected[job] = found
        return self._expected[job]
