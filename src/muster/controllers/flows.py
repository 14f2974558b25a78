"""JobFlows: Jobs that are made of JobTemplates one after the other, and what became of them.

A Job is made when those that it depends on are complete, or as far as the probe asks. A flow has succeeded when all of
its Jobs are complete; one that fails ends it, and no further Job is made. Templates say which Jobs were made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from muster.api import KubeObject
from muster.api.objects.batch import (
    Flow,
    FlowJobStatus,
    FlowState,
    Job,
    JobFlow,
    JobFlowStatus,
    JobTemplate,
    TaskProbe,
)
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
    merged,
    owner_of,
    owner_reference,
    target_of,
)

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEED: Final = "Succeed"
FAILED: Final = "Failed"
_OF_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
_OF_FLOW: Final = "volcano.sh/createdByJobFlow"
_COMPLETED: Final = "Completed"
#: Seconds until a flow says that a template is missing.
_LACK_SECONDS: Final = 2.0
#: Phases of Jobs, and the field of the flow's status that lists those in it.
_LISTED: Final = {
    "Pending": "pending_jobs",
    "Running": "running_jobs",
    "Failed": "failed_jobs",
    _COMPLETED: "completed_jobs",
    "Terminated": "terminated_jobs",
}
_KNOWN: Final = frozenset({*_LISTED, "Completing", "Terminating"})


def reconcile(flow: JobFlow, templates: Mapping[str, JobTemplate], jobs: Mapping[str, Job]) -> Plan:
    """What to ask for next, for one flow; templates by name, and the Jobs that it made by name."""
    if flow.metadata.deletion_timestamp is not None:
        return Plan()
    status = _status(flow, jobs)
    phase = _phase(flow, status)
    status.state = FlowState(phase=phase)
    actions: list[Action] = []
    if phase in (PENDING, RUNNING):
        actions += _makings(flow, templates, jobs)
    elif phase == SUCCEED and flow.spec.job_retain_policy == "delete":
        actions += [Delete(target_of(jobs[name])) for name in sorted(jobs)]
        status = msgspec.structs.replace(flow.status, state=FlowState(phase=SUCCEED)) if _has_ended(flow) else status
    # A flow that waits for its first template has nothing to tell, and whoever edits it meanwhile meets no conflict.
    has_news = bool(jobs or actions or flow.status.state.phase or phase != PENDING)
    if has_news and status != flow.status:
        body: Json = msgspec.to_builtins(status, enc_hook=encode_hook, str_keys=True)
        actions.append(WriteStatus(target_of(flow), body, flow.metadata.resource_version))
        if phase != flow.status.state.phase and phase in (SUCCEED, FAILED):
            actions.append(Tell(target_of(flow), phase, f"JobFlow is {phase}", is_warning=phase == FAILED))
    return Plan(tuple(actions))


def _has_ended(flow: JobFlow) -> bool:
    return flow.status.state.phase in (SUCCEED, FAILED)


def _phase(flow: JobFlow, status: JobFlowStatus) -> str:
    """Where the Jobs take a flow; one that has ended stays so, whatever becomes of its Jobs."""
    if _has_ended(flow):
        return flow.status.state.phase
    if len(status.completed_jobs) == len(flow.spec.flows):
        return SUCCEED
    if status.failed_jobs or status.terminated_jobs:
        return FAILED
    has_begun = bool(status.running_jobs or status.completed_jobs)
    return RUNNING if has_begun or flow.status.state.phase == RUNNING else PENDING


def _status(flow: JobFlow, jobs: Mapping[str, Job]) -> JobFlowStatus:
    names: dict[str, list[str]] = {field: [] for field in (*_LISTED.values(), "un_know_jobs")}
    told = []
    for each in flow.spec.flows:
        job = jobs.get(job_name(flow, each))
        if job is None:
            continue
        phase = job.status.state.phase
        if phase in _LISTED:
            names[_LISTED[phase]].append(job.name)
        elif phase and phase not in _KNOWN:
            names["un_know_jobs"].append(job.name)
        ended = job.status.state.last_transition_time if phase in (_COMPLETED, "Failed", "Terminated") else None
        made = job.metadata.creation_timestamp
        told.append(
            FlowJobStatus(
                name=job.name,
                state=phase,
                start_timestamp=made,
                end_timestamp=ended,
                restart_count=job.status.retry_count,
            )
        )
    lists = {field: found or () for field, found in names.items()}
    return JobFlowStatus(**lists, job_status_list=told or (), state=flow.status.state)


# -- Jobs ------------------------------------------------------------------------------------------------------


def job_name(flow: JobFlow, each: Flow) -> str:
    """The name of the Job that a flow makes of a template."""
    return f"{flow.name}-{each.name}"


def missing_templates(flow: JobFlow, templates: Mapping[str, JobTemplate], jobs: Mapping[str, Job]) -> list[str]:
    """Templates that the flow could go on with if they were there."""
    if flow.metadata.deletion_timestamp is not None or _phase(flow, _status(flow, jobs)) not in (PENDING, RUNNING):
        return []
    return [each.name for each in _startable(flow, jobs) if each.name not in templates]


def _startable(flow: JobFlow, jobs: Mapping[str, Job]) -> Iterator[Flow]:
    for each in flow.spec.flows:
        if job_name(flow, each) not in jobs and _may_start(flow, each, jobs):
            yield each


def _makings(flow: JobFlow, templates: Mapping[str, JobTemplate], jobs: Mapping[str, Job]) -> Iterator[Action]:
    for each in _startable(flow, jobs):
        template = templates.get(each.name)
        if template is None:
            continue  # it is made when the template is
        yield Create(_document(flow, each, template))
        yield Tell(target_of(flow), "Created", f"Job {job_name(flow, each)} is made of JobTemplate {template.name}")


def _may_start(flow: JobFlow, each: Flow, jobs: Mapping[str, Job]) -> bool:
    if each.depends_on is None:
        return True
    probes = () if each.depends_on.probe is None else each.depends_on.probe.task_status_list
    return all(_is_far_enough(jobs.get(f"{flow.name}-{target}"), probes) for target in each.depends_on.targets)


def _is_far_enough(job: Job | None, probes: Sequence[TaskProbe]) -> bool:
    """Whether a Job is complete or, where a probe names tasks of it, as many pods of those as must are in the phase."""
    if job is None:
        return False
    if job.status.state.phase == _COMPLETED:
        return True
    tasks = {task.name: task for task in job.spec.tasks}
    own = [probe for probe in probes if probe.task_name in tasks]
    return bool(own) and all(_count(job, probe) >= _least(tasks[probe.task_name].min_available) for probe in own)


def _count(job: Job, probe: TaskProbe) -> int:
    state = job.status.task_status_count.get(probe.task_name)
    return 0 if state is None else state.phase.get(probe.phase, 0)


def _least(minimum: int | None) -> int:
    return max(1, minimum or 1)


def _document(flow: JobFlow, each: Flow, template: JobTemplate) -> Json:
    marks = {_OF_TEMPLATE: f"{flow.namespace}.{template.name}", _OF_FLOW: f"{flow.namespace}.{flow.name}"}
    return {
        "apiVersion": Job.api_version,
        "kind": Job.kind,
        "metadata": {
            "name": job_name(flow, each),
            "namespace": flow.namespace,
            "labels": dict(marks),
            "annotations": dict(marks),
            "ownerReferences": [owner_reference(flow)],
        },
        "spec": _patched(template.spec, {} if each.patch is None else each.patch.job_spec or each.patch.spec),
    }


def _patched(spec: Json, patch: Json) -> Json:
    """The spec of a template with what a flow wants otherwise; tasks are found by their names."""
    tasks = {task.get("name"): task for task in spec.get("tasks") or ()}
    for change in patch.get("tasks") or ():
        tasks[change.get("name")] = merged(tasks.get(change.get("name"), {}), change)
    rest = {name: value for name, value in patch.items() if name != "tasks"}
    return {**merged(spec, rest), "tasks": list(tasks.values())}


class FlowController(Keeper):
    """The JobFlows and JobTemplates of a cluster."""

    name = "jobflows"

    def __init__(self) -> None:
        super().__init__()
        self._flows: dict[str, JobFlow] = {}
        self._templates: dict[str, JobTemplate] = {}
        self._jobs: dict[str, dict[str, Job]] = {}
        #: Templates that flows lack, and since when; told once, where they have not come in time.
        self._lacking: dict[str, _Lack] = {}

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        del now
        is_gone = kind == "DELETED"
        if isinstance(thing, JobFlow):
            self.keep(self._flows, thing, is_gone=is_gone)
            self.agenda.add(thing.key)
        elif isinstance(thing, JobTemplate):
            self.keep(self._templates, thing, is_gone=is_gone)
            for flow in self._flows.values():
                if flow.namespace == thing.namespace:
                    self.agenda.add(flow.key)
        elif isinstance(thing, Job) and (key := owner_of(thing, JobFlow)):
            self.keep(self._jobs.setdefault(key, {}), thing, is_gone=is_gone)
            self.agenda.add(key)

    def steps(self, now: float) -> Iterator[Step]:
        for key in self.agenda.ready(now):
            flow = self._flows.get(key)
            if flow is None:
                self._jobs.pop(key, None)
                self._lacking.pop(key, None)
                self.agenda.settle(key, now)
                continue
            templates = {each.name: each for each in self._templates.values() if each.namespace == flow.namespace}
            own = self._jobs.get(key, {}).values()
            jobs = {
                job.name: job for job in own if any(o.uid == flow.metadata.uid for o in job.metadata.owner_references)
            }
            plan = reconcile(flow, templates, jobs)
            plan = self._with_word_of_lack(flow, plan, missing_templates(flow, templates, jobs), now)
            self.agenda.remind(key, plan.due)
            yield Step(self.name, key, plan)

    def _with_word_of_lack(self, flow: JobFlow, plan: Plan, missing: list[str], now: float) -> Plan:
        """Let a flow say what it waits for, unless that is about to come: files are applied in any order."""
        if not missing:
            self._lacking.pop(flow.key, None)
            return plan
        lack = self._lacking.get(flow.key)
        if lack is None or lack.names != missing:
            lack = self._lacking[flow.key] = _Lack(missing, now + _LACK_SECONDS)
        if lack.is_told:
            return plan
        if now < lack.tell_at:
            return replace(plan, due=lack.tell_at)
        lack.is_told = True
        said = f"JobFlow waits for JobTemplate {', '.join(missing)}: not found in namespace {flow.namespace}"
        return replace(plan, actions=(*plan.actions, Tell(target_of(flow), "TemplateNotFound", said, is_warning=True)))


@dataclass(slots=True)
class _Lack:
    """Templates that a flow waits for, and when to say so."""

    names: list[str]
    tell_at: float
    is_told: bool = False


_check: type[Controller] = FlowController  # the contract
