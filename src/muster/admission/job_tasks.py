"""Tasks of Jobs: names, counts, partitions, what exclusive CPUs ask of their pods, and lifecycle policies.

A policy says what happens (events or an exit code) and what to do then; Jobs have some for all of their tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.admission.pods import label, pod_name, template_pod, template_problems
from muster.admission.request import Settings
from muster.api import Pod, Problem, Quantity, ResourceRequirements
from muster.api.errors import Problems, at_least, choices, one_of
from muster.api.objects.batch import ACTIONS, Job, JobTask, LifecyclePolicy, PartitionPolicy
from muster.api.resources import CPU, MEMORY
from muster.api.validate import network_topology, size_problems, uncountable

_TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
_ANY: Final = "*"
EVENTS: Final = (
    _ANY,
    "JobUpdated",
    "PodEvicted",
    "PodFailed",
    "PodPending",
    "TaskCompleted",
    "TaskFailed",
    "Unknown",
)


def task_problems(job: Job, settings: Settings) -> Problems:
    """Find what is wrong with the tasks of a new Job."""
    seen: set[str] = set()
    for index, task in enumerate(job.spec.tasks):
        here = f"spec.tasks[{index}]"
        yield from label(f"{here}.name", task.name)
        if task.name in seen:
            text = f'expected a name of its own, got "{task.name}" again'
            yield Problem(f"{here}.name", text, known_as=f"duplicated task name {task.name}")
        seen.add(task.name)
        yield from pod_name(f"{here}.name", _last_pod(job.name, task))
        yield from policy_problems(f"{here}.policies", task.policies)
        pod = template_pod(f"{here}.template", task)
        yield from (each._replace(field=f"{here}.template.{each.field}") for each in uncountable(pod))
        yield from template_problems(f"{here}.template", pod, settings)
        yield from topology_policy_problems(here, task.topology_policy, pod)
    yield from count_problems(job)


def _last_pod(job: str, task: JobTask) -> str:
    """The longest of the names that the task's pods will have."""
    return f"{job}-{task.name}-{max(task.replicas - 1, 0)}"


def count_problems(job: Job) -> Problems:
    """Find counts that cannot be met; of new Jobs, and of Jobs that are scaled."""
    yield from size_problems(job.spec)
    for index, task in enumerate(job.spec.tasks):
        here = f"spec.tasks[{index}]"
        yield from at_least(f"{here}.replicas", task.replicas, 0)
        yield from at_least(f"{here}.minAvailable", task.min_available, 0)
        yield from at_least(f"{here}.maxRetry", task.max_retry, 0)
        if task.min_available is not None and task.min_available > max(task.replicas, 0):
            text = f"expected at most the replicas, {task.replicas}, got {task.min_available}"
            yield Problem(f"{here}.minAvailable", text, known_as="'minAvailable' is greater than 'replicas' in task")
        if task.partition_policy is not None:
            yield from _partition_problems(here, job.name, task, task.partition_policy)


def _partition_problems(field: str, job: str, task: JobTask, policy: PartitionPolicy) -> Problems:
    here, where = f"{field}.partitionPolicy", f"in task: {task.name}, job: {job}"
    above_0 = f"must be greater than 0 {where}"
    wrong = [
        *at_least(f"{here}.totalPartitions", policy.total_partitions, 1, known_as=f"'TotalPartitions' {above_0}"),
        *at_least(f"{here}.partitionSize", policy.partition_size, 1, known_as=f"'PartitionSize' {above_0}"),
        *at_least(f"{here}.minPartitions", policy.min_partitions, 0),
    ]
    yield from wrong
    yield from network_topology(f"{here}.networkTopology", policy.network_topology)
    if wrong:
        return
    if policy.min_partitions > policy.total_partitions:
        text = f"expected at most totalPartitions, {policy.total_partitions}, got {policy.min_partitions}"
        yield Problem(f"{here}.minPartitions", text)
    pods = policy.total_partitions * policy.partition_size
    if task.replicas != pods:
        text = f"expected totalPartitions times partitionSize, {pods}, got {task.replicas}"
        known_as = f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
        yield Problem(f"{field}.replicas", text, known_as)
    least = policy.min_partitions * policy.partition_size
    if least and task.min_available is not None and task.min_available != least:
        text = f"expected minPartitions times partitionSize, {least}, got {task.min_available}"
        known_as = f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
        yield Problem(f"{field}.minAvailable", text, known_as)


# -- exclusive CPUs ------------------------------------------------------------------------------------------


def topology_policy_problems(field: str, policy: str, pod: Pod) -> Problems:
    """A NUMA policy needs whole CPUs of one's own: requests equal to limits, in every container."""
    here = f"{field}.topologyPolicy"
    yield from one_of(here, policy, _TOPOLOGY_POLICIES)
    if policy in ("", "none"):
        return
    for place, resources in _containers(pod):
        for resource in (CPU, MEMORY):
            limit, request = resources.limits.get(resource), _request(resources, resource)
            if limit is None or request is None or limit.value != request.value or not limit.value:
                text = f'"{policy}" needs a limit of {resource} in {place}, and a request of the same amount'
                yield Problem(here, text)
                return
        cpus = _request(resources, CPU)
        if cpus is not None and cpus.value.denominator != 1:
            text = f'"{policy}" needs a whole number of CPUs in {place}, got "{cpus}"'
            yield Problem(here, text, known_as="the cpu request isn't an integer")


def _containers(pod: Pod) -> Iterable[tuple[str, ResourceRequirements]]:
    for name, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"{name}[{index}]", container.resources


def _request(resources: ResourceRequirements, resource: str) -> Quantity | None:
    """What is asked for; a limit alone is a request, too."""
    return resources.requests.get(resource, resources.limits.get(resource))


# -- lifecycle policies ----------------------------------------------------------------------------------------


def policy_problems(field: str, policies: Iterable[LifecyclePolicy]) -> Problems:
    """Find what is wrong with the policies of one Job or task; together they leave no doubt what to do."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        here = f"{field}[{index}]"
        named = _events(policy)
        yield from _one_policy(here, policy, named)
        for event in sorted(events.intersection(named)):
            text = f'expected an event that no policy before has, got "{event}" again'
            yield Problem(here, text, known_as=f"duplicate event {event}")
        events.update(named)
        if policy.exit_code is not None and policy.exit_code in codes:
            text = f"expected a code that no policy before has, got {policy.exit_code} again"
            yield Problem(f"{here}.exitCode", text, known_as=f"duplicate exitCode {policy.exit_code}")
        if policy.exit_code is not None:
            codes.add(policy.exit_code)
    if _ANY in events and len(events) > 1:
        others = ", ".join(sorted(events - {_ANY}))
        text = f'expected no other event beside "{_ANY}", which stands for all of them, got {others}'
        yield Problem(field, text, known_as=f"if there's {_ANY} here, no other policy should be here")


def _events(policy: LifecyclePolicy) -> list[str]:
    return list(dict.fromkeys(event for event in (policy.event, *policy.events) if event))


def _one_policy(field: str, policy: LifecyclePolicy, events: list[str]) -> Problems:
    if events and policy.exit_code is not None:
        text = "expected events or an exitCode, got both; drop one"
        yield Problem(field, text, known_as="must not specify event and exitCode simultaneously")
    elif not events and policy.exit_code is None:
        text = "expected an event, events or an exitCode, got none of them"
        yield Problem(field, text, known_as="either event and exitCode should be specified")
    if policy.exit_code == 0:
        text = "expected the exit code of a failure, got 0"
        yield Problem(f"{field}.exitCode", text, known_as="0 is not a valid error code")
    for event in events:
        if event not in EVENTS:
            yield Problem(f"{field}.event", f'expected {choices(EVENTS)}, got "{event}"', "invalid policy event")
    if policy.action not in ACTIONS and (policy.action or events):
        got = f'"{policy.action}"' if policy.action else "nothing"
        yield Problem(f"{field}.action", f"expected {choices(ACTIONS)}, got {got}", "invalid policy action")
