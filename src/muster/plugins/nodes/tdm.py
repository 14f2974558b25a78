"""Time division: nodes that belong to somebody else by day, and to batch jobs in the hours that are left.

Nodes with the label `volcano.sh/revocable-zone` take pods only while the window of their zone is open, and only pods
that say that they may be sent away again. When a window closes, those that may be evicted leave, as many of each job at
a time as its budget allows, once per period. Time is the session's, on the clock of the time zone that the arguments
name. Pods that may use zones are classes of their own, named after the zones that are open.

A window holds its first minute and not its last; one that ends before it begins goes on past midnight, and one that
ends where it begins is always open. Hours are those of the clock on the wall: on the days when clocks change, a window
may be an hour longer or shorter. The annotation `volcano.sh/jdb-max-unavailable` or `volcano.sh/jdb-min-available` of a
PodGroup is its budget, as a number or as a percentage of all its pods, rounded up; a job that says nothing gives one
pod at a time. A value that makes no sense lets nobody go, and is logged. Pods that are leaving, waiting or on their way
count as not available.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from msgspec import Meta

from muster.api import Pod, is_preemptable, parse_duration
from muster.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE
from muster.api.names import PREEMPTABLE as PREEMPTABLE_MARK
from muster.framework.plugin import Arguments, Departure, Eviction, Evictor, NodeScores, Plugin
from muster.framework.reasons import FITS, Verdicts, reason
from muster.snapshot import NO_ROW, PREEMPTABLE, JobTable, Mask, Rows, TaskStatus
from muster.snapshot.classes import Division

if TYPE_CHECKING:
    from muster.framework.session import Session


NOT_REVOCABLE = reason(
    "revocable-node",
    "are in a revocable zone, and the pod does not say that it may be sent away",
    remedy='set the annotation volcano.sh/revocable-zone to "*" on the pod',
)
ZONE_CLOSED = reason(
    "revocable-zone-closed", "are in a revocable zone that is closed now", remedy="wait for it to open"
)
ZONE_UNKNOWN = reason(
    "revocable-zone-unknown",
    "are in a revocable zone without hours",
    remedy="set tdm.revocable-zone.<name> in the plugin's arguments",
)

_ZONES: Final = "tdm.revocable-zone"
_PERIOD: Final = "tdm.evict.period"
_TIME_ZONE: Final = "tdm.time-zone"
_Read = TypeVar("_Read")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_GRAMMAR: Final = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")
log = logging.getLogger(__name__)
#: Pods that a job without a budget gives at a time.
_BY_DEFAULT: Final = 1


class TdmArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of the tdm plugin."""

    zones: Annotated[
        dict[str, str],
        Meta(
            description='Hours in which a zone is open, such as "10:00-21:00"; given as `tdm.revocable-zone.<name>`, '
            "one argument per zone."
        ),
    ] = msgspec.field(name=_ZONES, default_factory=dict)
    period: Annotated[
        str, Meta(description="How much time is at least between two rounds of evictions from closed zones.")
    ] = msgspec.field(name=_PERIOD, default="1m")
    time_zone: Annotated[
        str, Meta(description="The time zone whose clock the hours are read on, such as Europe/Berlin.")
    ] = msgspec.field(name=_TIME_ZONE, default="UTC")


class Tdm(Plugin):
    """Use revocable nodes while their zone is open, and leave them when it closes."""

    name = "tdm"
    summary = (
        "Nodes of revocable zones take pods in the hours of their zone, and only pods that may be sent away again."
    )
    orders_by = "whether it may be evicted"
    Args = TdmArguments
    victim_kinds = frozenset({Eviction.PREEMPT})

    @staticmethod
    def read_arguments(raw: Mapping[str, Any]) -> Arguments:  # Any: values as YAML gave them
        """Check arguments, also those whose names hold the names of zones."""
        given = {name: value for name, value in raw.items() if value is not None}
        prefix = f"{_ZONES}."
        zones = {name: given.pop(name) for name in sorted(given) if name.startswith(prefix)}
        for name, hours in zones.items():
            _checked(name, parse_window, hours)
        given[_ZONES] = {name.removeprefix(prefix): hours for name, hours in zones.items()}
        arguments = msgspec.convert(given, TdmArguments, strict=False)
        if _checked(_PERIOD, parse_duration, arguments.period) <= 0:
            raise ValueError(f'{_PERIOD}: expected a duration above zero such as "1m", got "{arguments.period}"')
        _checked(_TIME_ZONE, parse_time_zone, arguments.time_zone)
        return arguments

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        given = cast("TdmArguments", arguments)
        self._windows: dict[str, Window] = {zone: parse_window(hours) for zone, hours in given.zones.items()}
        self._period = parse_duration(given.period)
        self._time_zone = parse_time_zone(given.time_zone)
        self._named = False

    def divide_classes(self, session: Session) -> Division | None:
        """Tell pods that may use open zones from those that may use none."""
        moment = local(session.now, self._time_zone)
        self._open = frozenset(zone for zone, window in self._windows.items() if window.is_open(moment))
        tasks = session.snapshot.tasks
        self._may_use: Mask = np.array([may_use_zones(pod) for pod in tasks.pods], np.bool_)
        return Division(self._may_use.astype(np.intp), ("", f"open={','.join(sorted(self._open))}"))

    def open(self, session: Session) -> None:
        super().open(session)
        codes, known = session.snapshot.nodes.labels.column(REVOCABLE_ZONE)
        self._codes, self._zones = codes, list(known)
        #: Nodes of any zone; an empty label is none.
        self._revocable: Mask = np.array([bool(zone) for zone in self._zones] + [False], np.bool_)[codes]
        moment = local(session.now, self._time_zone)
        for window in self._windows.values():
            if (change := window.next_change(moment)) is not None:
                session.look_again(change.timestamp())

    def close(self) -> None:
        if self._named:
            self.session.memory[self.name] = self.session.now

    # -- nodes ---------------------------------------------------------------------------------------------

    def node_mask(self, cls: int) -> Verdicts:
        if not self._part(cls):
            return np.where(self._revocable, NOT_REVOCABLE.number, FITS).astype(np.int16)
        verdicts: Verdicts = np.array([*(self._verdict(zone) for zone in self._zones), FITS], np.int16)[self._codes]
        return verdicts

    def _verdict(self, zone: str) -> int:
        if not zone or zone in self._open:
            return FITS
        return ZONE_CLOSED.number if zone in self._windows else ZONE_UNKNOWN.number

    def node_score(self, cls: int) -> NodeScores:
        """Pods that may use an open zone should: other nodes are left to those that may not."""
        if not self._part(cls):
            return NodeScores()
        scores = [100.0 if zone in self._open else 0.0 for zone in self._zones]
        return NodeScores(np.array([*scores, 0.0])[self._codes])

    def _part(self, cls: int) -> int:
        return int(self.session.class_parts[self.name][cls])

    # -- jobs ----------------------------------------------------------------------------------------------

    def job_order(self, job: int) -> bool:
        """Jobs that may not be preempted first."""
        return self._gives_way(job)

    def job_pipelined(self, job: int) -> int:
        jobs = self.session.snapshot.jobs
        placed = jobs.ready_count(job) + int(jobs.counts[job, TaskStatus.PIPELINED])
        return max(0, int(jobs.min_member[job]) - placed)

    def job_starving(self, job: int) -> bool:
        """A job that gives way takes from nobody; any other wants a place for every pod."""
        return not self._gives_way(job) and int(self.session.snapshot.jobs.counts[job, TaskStatus.PENDING]) > 0

    def _gives_way(self, job: int) -> bool:
        record = self.session.snapshot.jobs.records[job]
        return record.annotations.get(PREEMPTABLE_MARK, record.labels.get(PREEMPTABLE_MARK, "")) in _TRUE

    # -- evictions -------------------------------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """For pods that are bound to stay: running ones that are not, on ordinary nodes, within their jobs' budgets."""
        if evictor.breaks_gangs or kind is not Eviction.PREEMPT:
            return None
        tasks = self.session.snapshot.tasks
        if ((tasks.flags[evictor.tasks] & PREEMPTABLE) != 0).any() or self._may_use[evictor.tasks].any():
            return candidates[:0]
        here = self._evictable(candidates)
        return self._within_budgets(here[~self._revocable[tasks.node[here]]])

    def must_leave(self) -> Sequence[Departure]:
        """Pods on nodes of closed zones, once per period."""
        last = self.session.memory.get(self.name)
        closed = [code for code, zone in enumerate(self._zones) if zone in self._windows and zone not in self._open]
        tasks = self.session.snapshot.tasks
        here = self._evictable(np.flatnonzero(tasks.node != NO_ROW).astype(np.intp))
        here = here[np.isin(self._codes[tasks.node[here]], closed)]
        if len(here) == 0:
            return ()
        if last is not None and self.session.now < last + self._period:
            self.session.look_again(last + self._period)
            return ()
        self._named = True
        self.session.look_again(self.session.now + self._period)
        leaving = self._within_budgets(self.session.sort_tasks(here)[::-1])
        return [departure for code in closed if len((departure := self._departure(code, leaving)).tasks)]

    def _departure(self, code: int, leaving: Rows) -> Departure:
        tasks = leaving[self._codes[self.session.snapshot.tasks.node[leaving]] == code]
        return Departure(tasks, f"the revocable zone {self._zones[code]} of its node is closed")

    def _evictable(self, candidates: Rows) -> Rows:
        """Those of the candidates that run on a node and may be evicted."""
        tasks = self.session.snapshot.tasks
        runs = (tasks.status[candidates] == TaskStatus.RUNNING) & (tasks.node[candidates] != NO_ROW)
        willing = (tasks.flags[candidates] & PREEMPTABLE) != 0
        rows: Rows = candidates[runs & willing & (tasks.job[candidates] != NO_ROW)]
        return rows

    def _within_budgets(self, tasks: Rows) -> Rows:
        """As many of each job as its budget allows, the first ones."""
        snapshot = self.session.snapshot
        left: dict[int, int] = {}
        keep = np.zeros(len(tasks), np.bool_)
        for position, job in enumerate(snapshot.tasks.job[tasks].tolist()):
            if job not in left:
                left[job] = evictions_allowed(snapshot.jobs, job)
            keep[position] = left[job] > 0
            left[job] -= 1
        rows: Rows = tasks[keep]
        return rows


def _checked(argument: str, read: Callable[[Any], _Read], given: object) -> _Read:  # Any: as YAML gave it
    """Read a value. Raises ValueError that names the argument."""
    try:
        return read(given)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from error


def may_use_zones(pod: Pod) -> bool:
    """Whether a pod says that it may be sent away; a zone by name is not understood, as in Volcano, and means no."""
    annotations = pod.metadata.annotations
    zone = annotations.get(REVOCABLE_ZONE)
    if zone is not None:
        return zone == "*"
    return PREEMPTABLE_MARK in annotations and is_preemptable(pod)


@dataclass(frozen=True, slots=True)
class Window:
    """The hours of a day at which something is open."""

    start: time
    end: time

    def is_open(self, moment: datetime) -> bool:
        """Whether it is open at a moment of its time zone."""
        now = moment.time().replace(second=0, microsecond=0)
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def next_change(self, moment: datetime) -> datetime | None:
        """When it opens or closes next; None: it never does."""
        if self.start == self.end:
            return None
        days = (moment.date(), moment.date() + timedelta(days=1))
        edges = [datetime.combine(day, edge, moment.tzinfo) for day in days for edge in (self.start, self.end)]
        # Compared as moments: on a day when clocks change, the hours on the wall are not in order.
        return min((edge for edge in edges if edge.timestamp() > moment.timestamp()), key=datetime.timestamp)


def parse_window(text: object) -> Window:
    """Read a window such as "10:00-21:00". Raises ValueError, with what was given and an example."""
    match = _GRAMMAR.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        hours = [int(number) for number in match.groups()]
        if hours[0] < 24 and hours[2] < 24 and hours[1] < 60 and hours[3] < 60:
            return Window(time(hours[0], hours[1]), time(hours[2], hours[3]))
    raise ValueError(f'expected the hours of a day such as "10:00-21:00" (0:00 to 23:59), got {text!r}')


def parse_time_zone(name: str) -> tzinfo:
    """Find a time zone by its name. Raises ValueError, with an example."""
    if name == "UTC":
        return UTC  # known without a database of time zones
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f'expected the name of a time zone such as "UTC" or "Europe/Berlin", got {name!r}') from None


def local(now: float, zone: tzinfo) -> datetime:
    """A moment in seconds since the epoch, on the clock of a time zone."""
    return datetime.fromtimestamp(now, zone)


def evictions_allowed(jobs: JobTable, job: int) -> int:
    """How many more pods may be taken from the job now."""
    counts = jobs.counts[job]
    running = int(counts[TaskStatus.RUNNING])
    ended = int(counts[TaskStatus.SUCCEEDED] + counts[TaskStatus.FAILED])
    record = jobs.records[job]
    return allowance(record.annotations, record.id, jobs.task_count(job), running, ended)


def allowance(annotations: Mapping[str, str], job: str, total: int, running: int, ended: int) -> int:
    """How many pods a job gives up, of `total` pods of which some run and some have ended."""
    if text := annotations.get(JDB_MIN_AVAILABLE):
        kept = _count(text, total, f"{job} {JDB_MIN_AVAILABLE}")
        return 0 if kept is None else max(0, running - kept)
    if text := annotations.get(JDB_MAX_UNAVAILABLE):
        most = _count(text, total, f"{job} {JDB_MAX_UNAVAILABLE}")
        return 0 if most is None else max(0, most - (total - ended - running))
    return min(_BY_DEFAULT, running)


@lru_cache(maxsize=65536)  # so that a wrong one is logged once
def _count(text: str, total: int, place: str) -> int | None:
    """A number of pods, given as such or as a percentage; None: it is neither."""
    number = text.strip().removesuffix("%")
    if not (number.isascii() and number.isdecimal()):
        log.warning('event=bad-mark job=%s error="expected a number or a percentage such as 30%%, got %r"', place, text)
        return None
    return -(-int(number) * total // 100) if text.strip().endswith("%") else int(number)
