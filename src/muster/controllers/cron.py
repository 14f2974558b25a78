"""CronJobs: Jobs that are made at times which a line of cron says.

Names of Jobs come from the minute they are for, so that none is made twice, whoever makes it. Of several times that
were missed only the last is made up for, and only while the deadline lets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from muster.api import KubeObject, UserError, parse_duration
from muster.api.objects.batch import CronJob, CronJobStatus, Job, ObjectReference
from muster.api.objects.meta import encode_hook
from muster.controllers.contract import (
    Action,
    Controller,
    Create,
    Delete,
    EventKind,
    Json,
    Keeper,
    Plan,
    Step,
    Tell,
    WriteStatus,
    owner_of,
    owner_reference,
    stamp,
    target_of,
)

_SCHEDULED: Final = "volcano.sh/cronjob-scheduled-timestamp"
_FORBID: Final = "Forbid"
_REPLACE: Final = "Replace"
_FINISHED: Final = frozenset({"Completed", "Failed", "Terminated"})
_KEPT_SUCCESSFUL: Final = 3
_KEPT_FAILED: Final = 1

# -- lines of cron -----------------------------------------------------------------------------------------------

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_NAMES, start=1)}
_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_YEARS: Final = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times, all of one zone; or moments with a fixed distance from each other."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    #: Whether a day has to be right in both ways, because one of them is any day.
    both: bool = True
    zone: ZoneInfo | None = None
    every_s: float = 0.0

    def after(self, moment: float) -> float | None:
        """The first time after a moment; None: there is none, as on the 31st of February."""
        if self.every_s:
            return moment + self.every_s
        zone = self.zone or UTC
        local = datetime.fromtimestamp(moment, zone).replace(tzinfo=None, second=0, microsecond=0) + timedelta(
            minutes=1
        )
        limit = local + timedelta(days=366 * _YEARS)
        while local < limit:
            if local.month not in self.months:
                local = (local.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._is_day(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in self.hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in self.minutes or not _exists(local, zone, moment):
                local += timedelta(minutes=1)
            else:
                return local.replace(tzinfo=zone).timestamp()
        return None

    def _is_day(self, local: datetime) -> bool:
        of_month, of_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.both else of_month or of_week

    def last(self, after: float, until: float) -> float | None:
        """The last time after one moment and not after another."""
        if self.every_s:
            count = int((until - after) // self.every_s)
            return after + count * self.every_s if count > 0 else None
        found = None
        # From far back, most times would be passed one by one: begin a day before the end where that is enough.
        for begin in (max(after, until - 86_400.0), after):
            moment = self.after(begin)
            while moment is not None and moment <= until:
                found, moment = moment, self.after(moment)
            if found is not None:
                return found
        return None


def _exists(local: datetime, zone: tzinfo, moment: float) -> bool:
    """Whether clocks show this time at all, and later than the moment: in spring an hour is left out."""
    there = local.replace(tzinfo=zone)
    return there.timestamp() > moment and there.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local


def parse_schedule(text: str, zone: str | None = None) -> Schedule:
    """Read a line of cron, as Kubernetes takes it. Raises UserError."""
    line = text.strip()
    if match := re.match(r"(?:CRON_)?TZ=(\S+)\s+(.*)", line):
        zone, line = match[1], match[2]
    if line.startswith("@every "):
        return Schedule(every_s=_every(line.removeprefix("@every ").strip(), text))
    parts = _MACROS.get(line, line).split()
    if len(parts) != len(_FIELDS):
        raise _wrong(text, "five fields: minute, hour, day of the month, month, day of the week")
    sets = [_field(part, *field, text) for part, field in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in sets[4])
    both = any(part.startswith(("*", "?")) for part in (parts[2], parts[4]))
    return Schedule(sets[0], sets[1], sets[2], sets[3], weekdays, both, None if zone is None else _zone(zone))


def _every(text: str, line: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds < 1:
        raise _wrong(line, 'a duration of at least a second, such as "@every 1h30m"')
    return seconds


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise UserError(f'expected a time zone such as "Etc/UTC", got "{name}"', field="spec.timeZone") from None


def _field(part: str, what: str, low: int, high: int, names: Mapping[str, int], line: str) -> frozenset[int]:
    found: set[int] = set()
    for piece in part.split(","):
        span, slash, step = piece.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            begin, end = low, high
        else:
            begin = _number(first, names)
            end = _number(last, names) if dash else (high if slash else begin)
        width = int(step) if step.isdecimal() else 1
        if (slash and not step.isdecimal()) or width < 1 or not low <= begin <= end <= high:
            raise _wrong(line, f"a {what} from {low} to {high}")
        found.update(range(begin, end + 1, width))
    return frozenset(found)


def _number(text: str, names: Mapping[str, int]) -> int:
    return int(text) if text.isdecimal() else names.get(text.lower()[:3], -1)


def _wrong(line: str, wanted: str) -> UserError:
    return UserError(f'expected {wanted}, got "{line}"', field="spec.schedule")


# -- what to do ----------------------------------------------------------------------------------------------------


def reconcile(cron: CronJob, jobs: Mapping[str, Job], now: float) -> Plan:
    """What to ask for next, for one CronJob and the Jobs that it made, by name. Raises UserError."""
    if cron.metadata.deletion_timestamp is not None:
        return Plan()
    schedule = parse_schedule(cron.spec.schedule, cron.spec.time_zone)
    active = [jobs[name] for name in sorted(jobs) if jobs[name].status.state.phase not in _FINISHED]
    actions: list[Action] = [*_old(cron, jobs)]
    status = CronJobStatus(
        active=[_reference(job) for job in active] or (),
        last_schedule_time=cron.status.last_schedule_time,
        last_successful_time=_last_success(cron, jobs),
    )
    if cron.spec.suspend:
        return Plan((*actions, *_write(cron, status)))
    moment = _missed(cron, schedule, now)
    if moment is not None and not (cron.spec.concurrency_policy == _FORBID and active):
        if cron.spec.concurrency_policy == _REPLACE:
            actions += [Delete(target_of(job)) for job in active]
        document = _document(cron, moment)
        actions += [Create(document), Tell(target_of(cron), "Created", f"Job {document['metadata']['name']} is made")]
        status.last_schedule_time = stamp(moment)
    return Plan((*actions, *_write(cron, status)), schedule.after(now))


def _missed(cron: CronJob, schedule: Schedule, now: float) -> float | None:
    """The time for which a Job is due, None if for none."""
    made = cron.metadata.creation_timestamp
    since = cron.status.last_schedule_time or made
    begin = now if since is None else since.timestamp()
    if cron.spec.starting_deadline_seconds is not None:
        begin = max(begin, now - cron.spec.starting_deadline_seconds)
    return schedule.last(begin, now)


def _document(cron: CronJob, moment: float) -> Json:
    template = cron.spec.job_template
    zone = None if cron.spec.time_zone is None else _zone(cron.spec.time_zone)
    told = datetime.fromtimestamp(moment, zone or UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": Job.api_version,
        "kind": Job.kind,
        "metadata": {
            "name": f"{cron.name}-{int(moment) // 60}",
            "namespace": cron.namespace,
            "labels": dict(template.metadata.get("labels") or {}),
            "annotations": {**(template.metadata.get("annotations") or {}), _SCHEDULED: told},
            "ownerReferences": [owner_reference(cron)],
        },
        "spec": template.spec,
    }


def _reference(job: Job) -> ObjectReference:
    return ObjectReference(
        api_version=job.api_version, kind=job.kind, name=job.name, namespace=job.namespace, uid=job.metadata.uid
    )


def _last_success(cron: CronJob, jobs: Mapping[str, Job]) -> datetime | None:
    ends = [job.status.state.last_transition_time for job in jobs.values() if job.status.state.phase == "Completed"]
    stamps = [end for end in (*ends, cron.status.last_successful_time) if end is not None]
    return max(stamps, default=None)


def _old(cron: CronJob, jobs: Mapping[str, Job]) -> Iterator[Delete]:
    """Jobs that ended longer ago than the history goes back."""
    spec = cron.spec
    limits = {
        "Completed": _KEPT_SUCCESSFUL
        if spec.successful_jobs_history_limit is None
        else spec.successful_jobs_history_limit,
        "Failed": _KEPT_FAILED if spec.failed_jobs_history_limit is None else spec.failed_jobs_history_limit,
    }
    for phase, limit in limits.items():
        ended = [job for job in jobs.values() if job.status.state.phase == phase]
        ended.sort(key=lambda job: (job.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC), job.name))
        yield from (Delete(target_of(job)) for job in ended[: max(0, len(ended) - limit)])


def _write(cron: CronJob, status: CronJobStatus) -> tuple[WriteStatus, ...]:
    if status == cron.status:
        return ()
    body: Json = msgspec.to_builtins(status, enc_hook=encode_hook, str_keys=True)
    return (WriteStatus(target_of(cron), body, cron.metadata.resource_version),)


class CronController(Keeper):
    """The CronJobs of a cluster. `repeats`: whether all times to come count as something that is due, or the first."""

    name = "cronjobs"

    def __init__(self, *, repeats: bool = True) -> None:
        super().__init__()
        self._repeats = repeats
        self._crons: dict[str, CronJob] = {}
        self._jobs: dict[str, dict[str, Job]] = {}
        self._told: dict[str, str] = {}

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        del now
        is_gone = kind == "DELETED"
        if isinstance(thing, CronJob):
            self.keep(self._crons, thing, is_gone=is_gone)
            self.agenda.add(thing.key)
        elif isinstance(thing, Job) and (key := owner_of(thing, CronJob)):
            self.keep(self._jobs.setdefault(key, {}), thing, is_gone=is_gone)
            self.agenda.add(key)

    def steps(self, now: float) -> Iterator[Step]:
        for key in self.agenda.ready(now):
            cron = self._crons.get(key)
            if cron is None:
                self._jobs.pop(key, None)
                self.agenda.drop(key)
                self.agenda.settle(key, now)
                continue
            plan = self._plan(cron, now)
            is_first = not self._jobs.get(key) and not any(isinstance(each, Create) for each in plan.actions)
            self.agenda.remind(key, plan.due if self._repeats or is_first else None)
            yield Step(self.name, key, plan)

    def _plan(self, cron: CronJob, now: float) -> Plan:
        own = self._jobs.get(cron.key, {}).values()
        jobs = {job.name: job for job in own if any(o.uid == cron.metadata.uid for o in job.metadata.owner_references)}
        try:
            return reconcile(cron, jobs, now)
        except UserError as fault:
            if self._told.get(cron.key) == str(fault):
                return Plan()
            self._told[cron.key] = str(fault)
            return Plan((Tell(target_of(cron), "CronJobNotServed", str(fault), is_warning=True),))


_check: type[Controller] = CronController  # the contract
