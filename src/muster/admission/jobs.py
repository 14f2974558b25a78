"""Volcano's Jobs and JobFlows: new ones, changed ones, the order in which their parts start, and what is left open.

A new Job must be one that can run as a whole: its tasks, their order, policies, plugins, volumes and queue. Of a Job
that exists, only counts and the priority may change; a controller has made pods of the rest.

Of two flows with one name the later counts, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from muster.admission.hyper_nodes import tier_cautions
from muster.admission.job_tasks import count_problems, policy_problems, task_problems
from muster.admission.pods import label_value, subdomain
from muster.admission.queues import queue_reference
from muster.admission.request import (
    CREATE,
    Caution,
    Findings,
    Json,
    Known,
    Request,
    Settings,
    differences,
    field_of,
    read,
    spec_of,
)
from muster.api import Problem, problems
from muster.api.documents import without_nulls
from muster.api.errors import Problems, at_least, choices
from muster.api.names import DEFAULT_QUEUE
from muster.api.objects.batch import Job, JobFlow, JobSpec, JobTask, JobVolume, fill_job_spec
from muster.api.validate import network_topology
from muster.controllers.job_plugins import argument_problems
from muster.controllers.job_plugins.contract import flag

_MPI: Final = "mpi"
#: What may change in a Job that exists, in its spec and in its tasks.
_FREE: Final = frozenset({"minAvailable", "priorityClassName"})
_FREE_IN_TASKS: Final = frozenset({"replicas", "minAvailable"})
_NO_ORDER_OF_TASKS: Final = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
_NO_ORDER_OF_JOBS: Final = "jobflow Flow is not DAG"


def validate_job(request: Request, known: Known, settings: Settings) -> Findings:
    """Find what is wrong with a Job that is made or changed."""
    job = read(request.document, Job)
    if request.operation == CREATE:
        yield from _creation(job, known, settings)
        yield from (Caution(found.field, found.text) for found in argument_problems(job))
    else:
        yield from _update(job, request)
    yield from _out_of_reach(job.spec)
    yield from tier_cautions("spec.networkTopology", job.spec.network_topology, known)
    for index, task in enumerate(job.spec.tasks):
        if task.partition_policy is not None:
            here = f"spec.tasks[{index}].partitionPolicy.networkTopology"
            yield from tier_cautions(here, task.partition_policy.network_topology, known)


def _creation(job: Job, known: Known, settings: Settings) -> Problems:
    spec = job.spec
    yield from problems(job)
    yield from label_value("metadata.name", job.name)
    yield from _counts(spec)
    yield from at_least("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0)
    yield from at_least("spec.minSuccess", spec.min_success, 1)
    yield from network_topology("spec.networkTopology", spec.network_topology)
    if not spec.tasks:
        yield Problem("spec.tasks", "expected at least one task, got none", "No task specified in job spec")
    yield from task_problems(job, settings)
    yield from dependency_problems(spec.tasks)
    yield from policy_problems("spec.policies", spec.policies)
    yield from _plugins(spec, settings)
    yield from _volumes(spec.volumes)
    yield from queue_reference("spec.queue", spec.queue or DEFAULT_QUEUE, known, leaf=True)


def _counts(spec: JobSpec) -> Problems:
    yield from at_least("spec.minAvailable", spec.min_available, 0)
    yield from at_least("spec.maxRetry", spec.max_retry, 0)
    pods = sum(max(task.replicas, 0) for task in spec.tasks)
    if spec.tasks and spec.min_available > pods:
        text = f"expected at most the replicas of all tasks, {pods}, got {spec.min_available}"
        known_as = "job 'minAvailable' should not be greater than total replicas in tasks"
        yield Problem("spec.minAvailable", text, known_as)


def _out_of_reach(spec: JobSpec) -> Findings:
    pods = sum(max(task.replicas, 0) for task in spec.tasks)
    if spec.min_success is not None and spec.min_success > pods:
        text = f"expected at most the replicas of all tasks, {pods}, got {spec.min_success}; the job can only fail"
        yield Caution("spec.minSuccess", text)
    at_once = sum(max(task.replicas, 0) for task in spec.tasks if task.depends_on is None or not task.depends_on.name)
    least = spec.min_available or sum(map(_least, spec.tasks))
    if least > at_once:
        whose = "the pods of tasks that depend on no others"
        text = f"expected at most {at_once}, {whose}, got {least}; the job waits for pods that wait for it to run"
        yield Caution("spec.minAvailable", text)


def _least(task: JobTask) -> int:
    """How many pods of a task count where nobody says how many of the job have to start."""
    policy = task.partition_policy
    if task.min_available is not None or policy is None or not policy.min_partitions:
        return task.replicas if task.min_available is None else task.min_available
    return policy.min_partitions * policy.partition_size


def _plugins(spec: JobSpec, settings: Settings) -> Problems:
    for name in sorted(spec.plugins):
        if name not in settings.job_plugins:
            text = f'expected {choices(settings.job_plugins)}, got "{name}"'
            yield Problem(f"spec.plugins.{name}", text, known_as=f"unable to find job plugin: {name}")
    if _MPI in spec.plugins:
        master = flag(spec.plugins[_MPI], "master", "master")
        if master not in (task.name for task in spec.tasks):
            text = f'expected the name of a task as --master, got "{master}"'
            yield Problem(f"spec.plugins.{_MPI}", text, known_as="The specified mpi master task was not found")


def _volumes(volumes: Sequence[JobVolume]) -> Problems:
    paths: set[str] = set()
    for index, volume in enumerate(volumes):
        here = f"spec.volumes[{index}]"
        if not volume.mount_path:
            yield Problem(f"{here}.mountPath", "expected a path, got nothing", "mountPath is required")
        elif volume.mount_path in paths:
            text = f'expected a path of its own, got "{volume.mount_path}" again'
            yield Problem(f"{here}.mountPath", text, known_as=f"duplicated mountPath: {volume.mount_path}")
        paths.add(volume.mount_path)
        if volume.volume_claim is None and not volume.volume_claim_name:
            known_as = "either VolumeClaim or VolumeClaimName must be specified"
            yield Problem(here, "expected volumeClaimName or volumeClaim, got neither", known_as)
        elif volume.volume_claim is not None and volume.volume_claim_name:
            text = "expected volumeClaimName, for a claim that exists, or volumeClaim, for a new one, got both"
            yield Problem(here, text)
        elif volume.volume_claim_name:
            yield from subdomain(f"{here}.volumeClaimName", volume.volume_claim_name)


# -- changes -------------------------------------------------------------------------------------------------


def _update(job: Job, request: Request) -> Problems:
    yield from _counts(job.spec)
    yield from count_problems(job)
    old, new = (without_nulls(_fixed(document)) for document in (request.old, request.document))
    for found in differences(old, new):
        field = field_of(("spec", *found.path))
        if field == "spec.tasks":
            text = "expected the tasks that the job was made with, got more or fewer of them"
            yield Problem(field, text, known_as="job updates may not add or remove tasks")
        else:
            free = "minAvailable, priorityClassName, and replicas and minAvailable of tasks"
            text = f"expected no change: of a job that exists, only {free} may change"
            yield Problem(field, text, known_as="job updates may not change fields other than these")
        return


def _fixed(document: Json) -> Json:
    """The spec without what may change, and without what the controller fills in."""
    spec = document.get("spec") or {}
    fixed = {name: value for name, value in spec.items() if name not in _FREE and value not in ({}, [], "")}
    tasks = [task for task in spec.get("tasks") or () if isinstance(task, dict)]
    fixed["tasks"] = [{name: value for name, value in task.items() if name not in _FREE_IN_TASKS} for task in tasks]
    volumes = [volume for volume in spec.get("volumes") or () if isinstance(volume, dict)]
    fixed["volumes"] = [_as_written(volume) for volume in volumes]
    return fixed


def _as_written(volume: Json) -> Json:
    """A volume without the name that the controller gave to the claim that it made."""
    return {name: value for name, value in volume.items() if name != "volumeClaimName" or not volume.get("volumeClaim")}


# -- defaults --------------------------------------------------------------------------------------------------


def fill_job(document: Json, request: Request, known: Known, settings: Settings) -> None:
    """Fill in what a Job leaves open; what is written stays."""
    del request, known
    fill_job_spec(spec_of(document), settings.scheduler_names[0])


# -- what waits for what, and JobFlows -------------------------------------------------------------------------


def in_order(needs: Mapping[str, Collection[str]]) -> list[str] | None:
    """Return the names, each after those it needs and otherwise as listed; None when there is no such order."""
    missing = {name: len(set(needed)) for name, needed in needs.items()}
    place = {name: index for index, name in enumerate(needs)}
    followers: dict[str, list[str]] = {}
    for name, needed in needs.items():
        for each in set(needed):
            followers.setdefault(each, []).append(name)
    order: list[str] = []
    free = [name for name, count in missing.items() if not count]
    while free:
        order += free
        freed = []
        for name in free:
            for follower in followers.get(name, ()):
                missing[follower] -= 1
                if not missing[follower]:
                    freed.append(follower)
        free = sorted(freed, key=place.__getitem__)
    return order if len(order) == len(needs) else None


def start_order(tasks: Sequence[JobTask]) -> list[str] | None:
    """Return the tasks' names, each after those it depends on; None when there is no such order."""
    return in_order({task.name: task.depends_on.name if task.depends_on else () for task in tasks})


def dependency_problems(tasks: Sequence[JobTask]) -> Problems:
    """Find tasks that wait for one that is not there, and tasks that wait for each other."""
    names = {task.name for task in tasks}
    unknown = False
    for index, task in enumerate(tasks):
        for needed in task.depends_on.name if task.depends_on else ():
            if needed not in names:
                unknown = True
                text = f'expected the name of a task of this job, got "{needed}"'
                yield Problem(f"spec.tasks[{index}].dependsOn.name", text, _NO_ORDER_OF_TASKS)
    if not unknown and start_order(tasks) is None:
        text = "expected dependsOn to leave an order to start in, got tasks that wait for each other"
        yield Problem("spec.tasks", text, _NO_ORDER_OF_TASKS)


def validate_job_flow(request: Request, known: Known, settings: Settings) -> Findings:
    """Find flows that wait for one that is not there, and flows that wait for each other."""
    del known, settings
    flows = read(request.document, JobFlow).spec.flows
    if not flows:
        yield Caution("spec.flows", "expected at least one flow, got none; no job is started")
    places = {flow.name: index for index, flow in enumerate(flows)}
    needs = {flow.name: flow.depends_on.targets if flow.depends_on else () for flow in flows}
    unknown = [(name, target) for name, targets in needs.items() for target in targets if target not in places]
    for name, target in unknown:
        text = f'expected the name of a flow of this JobFlow, got "{target}"'
        known_as = f"{_NO_ORDER_OF_JOBS}: vertex is not defined: {target}"
        yield Problem(f"spec.flows[{places[name]}].dependsOn.targets", text, known_as)
    if not unknown and in_order(needs) is None:
        text = "expected dependsOn to leave an order to start in, got flows that wait for each other"
        yield Problem("spec.flows", text, _NO_ORDER_OF_JOBS)
