"""Tasks of Jobs: names, counts, partitions, and what exclusive CPUs ask of their pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.admission.job_policies import policy_problems
from muster.admission.kube_names import label, pod_name
from muster.admission.model import Settings
from muster.admission.pod_templates import template_pod, template_problems
from muster.api import Pod, Problem, Quantity, ResourceRequirements
from muster.api.errors import Problems, at_least, one_of
from muster.api.objects.batch import Job, JobTask, PartitionPolicy
from muster.api.resources import CPU, MEMORY
from muster.api.validate import network_topology, uncountable

_TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")


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
