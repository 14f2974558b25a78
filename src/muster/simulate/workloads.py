"""Jobs, JobFlows and CronJobs of files: what nobody could run is refused before the simulation begins.

They are asked what an API server with Muster's webhooks would ask, so that a file is refused in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.admission.cron_jobs import validate_cron_job
from muster.admission.jobs import validate_job, validate_job_flow
from muster.admission.request import CREATE, Facts, Findings, Request, Settings
from muster.api import Problem, UserError, encode
from muster.api.objects.batch import CronJob, Job, JobFlow, fill_job_spec
from muster.controllers.job_plugins import plugin_names

Workload = Job | JobFlow | CronJob


def check_each(workloads: Iterable[Workload], places: Mapping[int, str]) -> None:
    """Refuse those that nobody could run; queues may come later. Raises UserError.

    `places`: where objects were written, by their identity.
    """
    settings = Settings().with_job_plugins(plugin_names())
    for thing in workloads:
        for found in _problems(thing, settings):
            if found.field != "spec.queue":
                subject = f"{thing.kind} {thing.key}"
                raise UserError(found.text, place=places.get(id(thing), ""), subject=subject, field=found.field)


def _problems(thing: Workload, settings: Settings) -> Iterator[Problem]:
    """What would be refused."""
    found: Findings = iter(())
    if isinstance(thing, Job):
        document = encode(thing)
        fill_job_spec(document.setdefault("spec", {}), settings.scheduler_names[0])  # type: ignore[arg-type]  # it is a mapping
        found = validate_job(Request(CREATE, document, {}), Facts(), settings)
    elif isinstance(thing, JobFlow):
        found = validate_job_flow(Request(CREATE, encode(thing), {}), Facts(), settings)
    else:
        found = validate_cron_job(Request(CREATE, encode(thing), {}), Facts(), settings)
    yield from (problem for problem in found if isinstance(problem, Problem))
