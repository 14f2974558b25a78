"""Checks of Kubernetes' own objects, for `validate`: pods, nodes, volumes and claims, budgets, quotas.

Each kind has its checks of meaning and, apart from them, what cannot be counted in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from muster.api import names
from muster.api.errors import Problem, Problems, UserError, at_least, choices, one_of
from muster.api.objects.claims import (
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    StorageClass,
    requested_devices,
)
from muster.api.objects.meta import KubeObject, LabelSelector, LabelSelectorRequirement
from muster.api.objects.node import Node, NodeSelector
from muster.api.objects.pod import Affinity, Container, Pod
from muster.api.objects.scheduling import PodDisruptionBudget, PriorityClass, ResourceQuota
from muster.api.resources import amounts, pod_request, pod_scoring_request

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_PERCENT: Final = re.compile(r"[0-9]+%")
#: More pods than any cluster has, and so few that sums of two still fit the columns.
MAX_PODS: Final = 10**9


def _pod(pod: Pod) -> Problems:
    spec = pod.spec
    yield from _run_seconds(pod)
    yield from _pod_amounts(pod)
    yield from _ports("spec.containers", spec.containers)
    yield from _ports("spec.initContainers", spec.init_containers)
    yield from one_of("spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)
    yield from at_least("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    yield from _affinity(spec.affinity)
    for index, toleration in enumerate(spec.tolerations):
        yield from one_of(f"spec.tolerations[{index}].effect", toleration.effect, _TAINT_EFFECTS)
    for index, spread in enumerate(spec.topology_spread_constraints):
        here = f"spec.topologySpreadConstraints[{index}]"
        yield from at_least(f"{here}.maxSkew", spread.max_skew, 1)
        yield from one_of(f"{here}.whenUnsatisfiable", spread.when_unsatisfiable, _UNSATISFIABLE)
        yield from selector_problems(f"{here}.labelSelector", spread.label_selector)


def _run_seconds(pod: Pod) -> Problems:
    text = pod.metadata.annotations.get(names.RUN_SECONDS)
    if text is not None and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None:
        field = f'metadata.annotations["{names.RUN_SECONDS}"]'
        yield Problem(field, f'expected a number of seconds such as "90", got "{text}"')


def _pod_amounts(pod: Pod) -> Problems:
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


def _containers(field: str, containers: Sequence[Container]) -> Problems:
    for index, container in enumerate(containers):
        yield from amounts(f"{field}[{index}].resources.requests", container.resources.requests)
        yield from amounts(f"{field}[{index}].resources.limits", container.resources.limits)


def _total(pod: Pod) -> Problems:
    """What only shows when the containers are added up."""
    try:
        pod_request(pod)
        pod_scoring_request(pod)
    except UserError as error:
        yield Problem("spec", f"{error.field}: {error.text}")


def _ports(field: str, containers: Sequence[Container]) -> Problems:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not 0 <= port.host_port <= 65535:
                text = f"expected a port between 1 and 65535, got {port.host_port}"
                yield Problem(f"{field}[{index}].ports[{number}].hostPort", text)


def _affinity(affinity: Affinity | None) -> Problems:
    if affinity is None:
        return
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    if affinity.node_affinity is not None:
        here = "spec.affinity.nodeAffinity"
        yield from _node_selector(f"{here}.{required}", affinity.node_affinity.required)
        for index, wish in enumerate(affinity.node_affinity.preferred):
            field = f"{here}.{preferred}[{index}].preference.matchExpressions"
            yield from _requirements(field, wish.preference.match_expressions, _NODE_OPERATORS)
    for name, pods in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        if pods is None:
            continue
        terms = [(f"spec.affinity.{name}.{required}[{i}]", term) for i, term in enumerate(pods.required)]
        terms += [
            (f"spec.affinity.{name}.{preferred}[{i}].podAffinityTerm", wish.pod_affinity_term)
            for i, wish in enumerate(pods.preferred)
        ]
        for field, term in terms:
            if not term.topology_key:
                yield Problem(f"{field}.topologyKey", "expected the name of a node label, got nothing")
            yield from selector_problems(f"{field}.labelSelector", term.label_selector)
            yield from selector_problems(f"{field}.namespaceSelector", term.namespace_selector)


def _node_selector(field: str, selector: NodeSelector | None) -> Problems:
    for index, term in enumerate(selector.node_selector_terms if selector else ()):
        here = f"{field}.nodeSelectorTerms[{index}]"
        yield from _requirements(f"{here}.matchExpressions", term.match_expressions, _NODE_OPERATORS)
        yield from _requirements(f"{here}.matchFields", term.match_fields, ("In", "NotIn"))


def selector_problems(field: str, selector: LabelSelector | None) -> Problems:
    """Yield what is wrong with a selector over labels; nothing is wrong with none."""
    if selector is not None:
        yield from _requirements(f"{field}.matchExpressions", selector.match_expressions, _LABEL_OPERATORS)


def _requirements(field: str, requirements: Sequence[LabelSelectorRequirement], operators: Collection[str]) -> Problems:
    for index, requirement in enumerate(requirements):
        here = f"{field}[{index}]"
        if not requirement.key:
            yield Problem(f"{here}.key", "expected the name of a label, got nothing")
        if requirement.operator not in operators:
            yield Problem(f"{here}.operator", f'expected {choices(operators)}, got "{requirement.operator}"')
        elif requirement.operator in {"In", "NotIn"} and not requirement.values:
            yield Problem(f"{here}.values", f"expected at least one value for {requirement.operator}, got none")
        elif requirement.operator in {"Exists", "DoesNotExist"} and requirement.values:
            yield Problem(f"{here}.values", f"expected no values for {requirement.operator}")
        elif requirement.operator in {"Gt", "Lt"}:
            yield from _one_integer(f"{here}.values", requirement.values)


def _one_integer(field: str, values: Sequence[str]) -> Problems:
    if len(values) != 1 or re.fullmatch(r"[+-]?[0-9]+", values[0]) is None:
        yield Problem(field, f"expected one integer in quotes, got {list(values)}")


def _node(node: Node) -> Problems:
    for index, taint in enumerate(node.spec.taints):
        yield from one_of(f"spec.taints[{index}].effect", taint.effect, _TAINT_EFFECTS)
    yield from _node_amounts(node)
    yield from amounts("status.capacity", node.status.capacity)


def _node_amounts(node: Node) -> Problems:
    yield from amounts("status.allocatable", node.status.allocatable)


def _budget(budget: PodDisruptionBudget) -> Problems:
    spec = budget.spec
    yield from selector_problems("spec.selector", spec.selector)
    yield from _number_or_percent("spec.minAvailable", spec.min_available)
    yield from _number_or_percent("spec.maxUnavailable", spec.max_unavailable)
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Problem("spec", "expected minAvailable or maxUnavailable, got both; drop one")


def _number_or_percent(field: str, value: int | str | None) -> Problems:
    if isinstance(value, str) and _PERCENT.fullmatch(value) is None:
        yield Problem(field, f'expected a number or a percentage such as "50%", got "{value}"')
    elif isinstance(value, int):
        yield from at_least(field, value, 0)


def _priority_class(priority: PriorityClass) -> Problems:
    yield from one_of("preemptionPolicy", priority.preemption_policy, _PREEMPTION_POLICIES)


def _quota_amounts(quota: ResourceQuota) -> Problems:
    yield from amounts("spec.hard", quota.spec.hard)
    yield from amounts("status.hard", quota.status.hard)
    yield from amounts("status.used", quota.status.used)


def _volume(volume: PersistentVolume) -> Problems:
    yield from _volume_amounts(volume)
    if volume.spec.node_affinity is not None:
        yield from _node_selector("spec.nodeAffinity.required", volume.spec.node_affinity.required)


def _volume_amounts(volume: PersistentVolume) -> Problems:
    yield from amounts("spec.capacity", volume.spec.capacity)


def _claim(claim: PersistentVolumeClaim) -> Problems:
    yield from _claim_amounts(claim)
    yield from selector_problems("spec.selector", claim.spec.selector)


def _claim_amounts(claim: PersistentVolumeClaim) -> Problems:
    yield from amounts("spec.resources.requests", claim.spec.resources.requests)


def _storage_class(storage: StorageClass) -> Problems:
    yield from one_of("volumeBindingMode", storage.volume_binding_mode, _BINDING_MODES)


def _device_claim_amounts(claim: ResourceClaim) -> Problems:
    for name, count in requested_devices(claim).items():
        if not 0 <= count <= MAX_PODS:
            yield Problem("spec.devices.requests", f'expected at most {MAX_PODS} devices of "{name}", got {count}')


# Any: each function takes the type it is registered for.
Checks = Mapping[type[KubeObject], Callable[[Any], Problems]]

CORE_CHECKS: Final[Checks] = {
    Pod: _pod,
    Node: _node,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    ResourceQuota: _quota_amounts,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    StorageClass: _storage_class,
    ResourceClaim: _device_claim_amounts,
}
CORE_AMOUNTS: Final[Checks] = {
    Pod: _pod_amounts,
    Node: _node_amounts,
    ResourceQuota: _quota_amounts,
    PersistentVolume: _volume_amounts,
    PersistentVolumeClaim: _claim_amounts,
    ResourceClaim: _device_claim_amounts,
}
