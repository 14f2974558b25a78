"""Volcano's CronJobs: times that can be told, and names that leave room for those of their Jobs."""

from __future__ import annotations

from typing import Final

from muster.admission.request import Findings, Known, Request, Settings, read
from muster.api import Problem, UserError
from muster.api.errors import Problems, at_least, one_of
from muster.api.objects.batch import CronJob
from muster.api.validate_workloads import CONCURRENCY
from muster.controllers.cron import parse_schedule

#: A Job's name is a label of its pods, and ends with a dash and a time.
_MAX_NAME: Final = 63 - 11
_SCHEDULE, _ZONE = "spec.schedule", "spec.timeZone"


def validate_cron_job(request: Request, known: Known, settings: Settings) -> Findings:
    """Find what is wrong with a CronJob that is made or changed; its Jobs are asked about when they are made."""
    del known, settings
    cron = read(request.document, CronJob)
    spec = cron.spec
    yield from _times(spec.schedule, spec.time_zone)
    yield from one_of("spec.concurrencyPolicy", spec.concurrency_policy, CONCURRENCY)
    yield from at_least("spec.startingDeadlineSeconds", spec.starting_deadline_seconds, 0)
    yield from at_least("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit, 0)
    yield from at_least("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit, 0)
    if len(cron.name) > _MAX_NAME:
        text = f"expected at most {_MAX_NAME} characters, so that its Jobs can be named after it, got {len(cron.name)}"
        known_as = f"cronJob name must be no more than {_MAX_NAME} characters"
        yield Problem("metadata.name", text, known_as)


def _times(schedule: str, zone: str | None) -> Problems:
    if not schedule:
        yield Problem(_SCHEDULE, 'expected a line of cron such as "0 3 * * *", got nothing', "schedule is required")
        return
    if "TZ" in schedule:
        text = f'expected a line of cron, with its zone in timeZone, got "{schedule}"'
        yield Problem(_SCHEDULE, text, known_as="schedule should not contain TZ or CRON_TZ")
        return
    if zone == "":
        text = 'expected a time zone such as "Etc/UTC", or none at all, got nothing'
        yield Problem(_ZONE, text, known_as="timeZone must be nil or non-empty string")
        zone = None
    elif zone is not None and zone.lower() == "local":
        text = f'expected a time zone such as "Etc/UTC", got "{zone}", which differs between machines'
        yield Problem(_ZONE, text, known_as="timeZone can't be Local")
        zone = None
    try:
        parse_schedule(schedule, zone)
    except UserError as fault:
        known_as = "invalid timeZone" if fault.field == _ZONE else "schedule is not a valid cron expression"
        yield Problem(fault.field, fault.text, known_as)
