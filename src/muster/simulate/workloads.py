"""Jobs, what makes Jobs, and JobFlows of files: what nobody could run is refused before the simulation begins.

They are asked what an API server with Muster's definitions and webhooks would ask, so that a file is refused in the
same words, and noted where a webhook would warn. Arguments that plugins cannot use are refused here, as misspelt fields
of files are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from muster.admission.cron_jobs import validate_cron_job
from muster.admission.jobs import validate_job, validate_job_flow
from muster.admission.request import CREATE, Caution, Facts, Findings, Request, Settings
from muster.api import Problem, UserError, decode, encode, parse_duration
from muster.api.errors import at_least, one_of
from muster.api.objects.batch import CronJob, Job, JobFlow, JobSpec, JobTemplate, Json, LifecyclePolicy, fill_job_spec
from muster.api.validate_workloads import template_problems
from muster.controllers.job_plugins import argument_problems, plugin_names

Workload = Job | JobTemplate | JobFlow | CronJob
_ITERATIONS = ("any", "all")
_RETAIN = ("retain", "delete")
_FROM_TASKS = "spec.minAvailable"
_ARGUMENTS = "spec.plugins."


def check_each(workloads: Iterable[Workload], places: Mapping[int, str]) -> None:
    """Refuse those that nobody could run; queues may come later. Raises UserError.

    `places`: where objects were written, by their identity.
    """
    settings = Settings().with_job_plugins(plugin_names())
    for thing in workloads:
        for found in _problems(thing, settings):
            subject = f"{thing.kind} {thing.key}"
            raise UserError(found.text, place=places.get(id(thing), ""), subject=subject, field=found.field)


def cautions(workloads: Iterable[Workload], known: Facts) -> Iterator[tuple[Workload, Caution]]:
    """What webhooks would warn of, where the cluster has what is `known`; arguments of plugins are refused in files."""
    settings = Settings().with_job_plugins(plugin_names())
    for thing in workloads:
        rule = validate_job_flow if isinstance(thing, JobFlow) else validate_job
        if isinstance(thing, Job | JobFlow):
            found = rule(Request(CREATE, encode(thing), {}), known, settings)
            yield from (
                (thing, each) for each in found if isinstance(each, Caution) and not each.field.startswith(_ARGUMENTS)
            )


def _problems(thing: Workload, settings: Settings) -> Iterator[Problem]:
    if isinstance(thing, JobFlow):
        yield from _of_flow(thing)
        yield from _refused(validate_job_flow(Request(CREATE, encode(thing), {}), Facts(), settings))
    elif isinstance(thing, CronJob):
        yield from _refused(validate_cron_job(Request(CREATE, encode(thing), {}), Facts(), settings))
        yield from _of_job("spec.jobTemplate.spec", thing.spec.job_template.spec, thing, settings)
    else:
        yield from _of_job("spec", _spec_of(thing), thing, settings)


def _refused(findings: Findings) -> Iterator[Problem]:
    return (found for found in findings if isinstance(found, Problem))


def _spec_of(thing: Job | JobTemplate) -> Json:
    spec: Json = msgspec.to_builtins(thing.spec)
    return spec


def _of_flow(flow: JobFlow) -> Iterator[Problem]:
    yield from one_of("spec.jobRetainPolicy", flow.spec.job_retain_policy, _RETAIN)
    seen: set[str] = set()
    for index, each in enumerate(flow.spec.flows):
        here = f"spec.flows[{index}].name"
        if not each.name:
            yield Problem(here, "expected the name of a JobTemplate, got nothing")
        elif each.name in seen:
            yield Problem(here, f'expected a JobTemplate that no flow before has, got "{each.name}" again')
        seen.add(each.name)


def _of_job(field: str, spec: Json, thing: Workload, settings: Settings) -> Iterator[Problem]:
    """What is wrong with a Job, or with those that would be made; `field`: where its spec stands."""
    document = {
        "apiVersion": Job.api_version,
        "kind": Job.kind,
        "metadata": {"name": thing.name, "namespace": thing.namespace},
        "spec": msgspec.json.decode(msgspec.json.encode(spec)),
    }
    try:
        written = decode(document)
        assert isinstance(written, Job)
        found = [*_of_spec(written.spec), *_asked_for(written, document, settings)]
    except UserError as fault:
        found = [Problem(fault.field, fault.text)]
    for problem in found:
        yield problem._replace(field=f"{field}{problem.field.removeprefix('spec')}")


def _of_spec(spec: JobSpec) -> Iterator[Problem]:
    """What the definition of Jobs refuses, and what pods could not be made of."""
    yield from _duration("spec.runningEstimate", spec.running_estimate)
    yield from _policies("spec.policies", spec.policies)
    for index, task in enumerate(spec.tasks):
        here = f"spec.tasks[{index}]"
        yield from at_least(f"{here}.replicas", task.replicas, 0)
        yield from _policies(f"{here}.policies", task.policies)
        if task.depends_on is not None:
            yield from one_of(f"{here}.dependsOn.iteration", task.depends_on.iteration, _ITERATIONS)
        yield from template_problems(f"{here}.template", task.template)


def _policies(field: str, policies: Iterable[LifecyclePolicy]) -> Iterator[Problem]:
    for index, policy in enumerate(policies):
        yield from _duration(f"{field}[{index}].timeout", policy.timeout)


def _duration(field: str, given: str | None) -> Iterator[Problem]:
    try:
        if given is not None:
            parse_duration(given)
    except ValueError as fault:
        yield Problem(field, str(fault))


def _asked_for(job: Job, document: Json, settings: Settings) -> Iterator[Problem]:
    """What webhooks refuse, and arguments that plugins cannot use."""
    is_told = bool(job.spec.min_available)
    fill_job_spec(document["spec"], settings.scheduler_names[0])
    findings = validate_job(Request(CREATE, document, {}), Facts(), settings)
    found = [each for each in _refused(findings) if each.field != "spec.queue"]
    # A minimum that nobody wrote is the sum of those of the tasks, and wrong only because one of these is.
    yield from chain(
        (each for each in found if is_told or each.field != _FROM_TASKS),
        (each for each in found if not is_told and each.field == _FROM_TASKS),
    )
    yield from argument_problems(job)
