"""What can be counted: amounts and numbers of pods that fit the columns of a cycle, alone and added up.

One rule, asked in three places: files (`validate`), webhooks, and the door of the mirror, where who breaks it is
put aside. So all three refuse the same objects with the same words. Fields are written as in the user's file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from muster.api.devices import ResourceClaim, requested_devices
from muster.api.errors import UserError
from muster.api.kai import KaiPodGroup
from muster.api.meta import KubeObject
from muster.api.node import Node
from muster.api.pod import Container, Pod
from muster.api.policy import ResourceQuota
from muster.api.problems import Problem, Problems, amounts
from muster.api.resources import pod_request, pod_scoring_request
from muster.api.scheduling import PodGroup, Queue
from muster.api.storage import PersistentVolume, PersistentVolumeClaim

#: More pods than any cluster has, and so few that sums of two still fit the columns.
MAX_PODS: Final = 10**9


def uncountable(thing: KubeObject) -> Problems:
    """Yield everything in an object that cannot be counted, in the order of the fields."""
    if (find := _COUNTS.get(type(thing))) is not None:
        yield from find(thing)


def check_countable(thing: KubeObject) -> None:
    """Raise UserError for the first thing in an object that cannot be counted."""
    for problem in uncountable(thing):
        raise UserError(problem.text, subject=f"{thing.kind} {thing.key}", field=problem.field)


def _containers(field: str, containers: Sequence[Container]) -> Problems:
    for index, container in enumerate(containers):
        yield from amounts(f"{field}[{index}].resources.requests", container.resources.requests)
        yield from amounts(f"{field}[{index}].resources.limits", container.resources.limits)


def _pod(pod: Pod) -> Problems:
    spec = pod.spec
    found = [
        *_containers("spec.containers", spec.containers),
        *_containers("spec.initContainers", spec.init_containers),
    ]
    found += amounts("spec.overhead", spec.overhead)
    if spec.resources is not None:
        found += amounts("spec.resources.requests", spec.resources.requests)
        found += amounts("spec.resources.limits", spec.resources.limits)
    yield from found
    if not found:
        yield from _total(pod)


def _total(pod: Pod) -> Problems:
    """What only shows when the containers are added up."""
    try:
        pod_request(pod)
        pod_scoring_request(pod)
    except UserError as error:
        yield Problem("spec", f"{error.field}: {error.text}")


def _node(node: Node) -> Problems:
    yield from amounts("status.allocatable", node.status.allocatable)


def _pods(field: str, count: int) -> Problems:
    if count > MAX_PODS:
        yield Problem(field, f"expected at most {MAX_PODS} pods, got {count}")


def _pod_group(group: PodGroup) -> Problems:
    spec = group.spec
    yield from _pods("spec.minMember", spec.min_member)
    yield from _pods("spec.minTaskMember", sum(spec.min_task_member.values()))
    yield from amounts("spec.minResources", spec.min_resources)
    total = 0
    for index, policy in enumerate(spec.sub_group_policy):
        size = 1 if policy.sub_group_size is None else policy.sub_group_size
        yield from _pods(f"spec.subGroupPolicy[{index}].subGroupSize", size)
        total += size * max(policy.min_sub_groups or 0, 0)
    yield from _pods("spec.subGroupPolicy", total)


def _kai_pod_group(group: KaiPodGroup) -> Problems:
    yield from _pods("spec.minMember", group.spec.min_member)
    yield from _pods("spec.subGroups", sum(known.min_member or 0 for known in group.spec.sub_groups))


def _queue(queue: Queue) -> Problems:
    spec = queue.spec
    yield from amounts("spec.capability", spec.capability)
    yield from amounts("spec.deserved", spec.deserved)
    yield from amounts("spec.guarantee.resource", spec.guarantee.resource)


def _quota(quota: ResourceQuota) -> Problems:
    yield from amounts("spec.hard", quota.spec.hard)
    yield from amounts("status.hard", quota.status.hard)
    yield from amounts("status.used", quota.status.used)


def _volume(volume: PersistentVolume) -> Problems:
    yield from amounts("spec.capacity", volume.spec.capacity)


def _claim(claim: PersistentVolumeClaim) -> Problems:
    yield from amounts("spec.resources.requests", claim.spec.resources.requests)


def _device_claim(claim: ResourceClaim) -> Problems:
    for name, count in requested_devices(claim).items():
        if not 0 <= count <= MAX_PODS:
            yield Problem("spec.devices.requests", f'expected at most {MAX_PODS} devices of "{name}", got {count}')


# Any: each function takes the type it is registered for.
_COUNTS: Final[dict[type[KubeObject], Callable[[Any], Problems]]] = {
    Pod: _pod,
    Node: _node,
    PodGroup: _pod_group,
    KaiPodGroup: _kai_pod_group,
    Queue: _queue,
    ResourceQuota: _quota,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    ResourceClaim: _device_claim,
}
