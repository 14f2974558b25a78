"""Checks of meaning, after a document has the right types.

Called by the loader for each object. Only what is surely wrong is refused; everything else is taken as an API
server would take it. `problems` yields all of them in the order of the fields; `check` raises the first.
Paths are written as in the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.api import names
from muster.api.affinity import Affinity, NodeSelector
from muster.api.duration import parse_duration
from muster.api.errors import UserError
from muster.api.kai import KaiPodGroup, KaiQueue, KaiQueueResource
from muster.api.meta import KubeObject, LabelSelector, LabelSelectorRequirement
from muster.api.node import Node
from muster.api.patterns import compile_pattern
from muster.api.pod import Container, Pod
from muster.api.policy import PodDisruptionBudget, PriorityClass, ResourceQuota
from muster.api.quantity import Quantity
from muster.api.resources import to_base
from muster.api.scheduling import NetworkTopology, PodGroup, Queue
from muster.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.api.topology import HyperNode, Member


class Problem(NamedTuple):
    """A field, and what would be right."""

    field: str
    text: str


Problems = Iterator[Problem]

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_MODES: Final = ("hard", "soft")
_QUEUE_STATES: Final = ("Open", "Closed", "Closing", "Unknown")
_DEQUEUE_STRATEGIES: Final = ("fifo", "traverse")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_PREEMPTIBILITY: Final = ("preemptible", "non-preemptible", "semi-preemptible")
_PERCENT: Final = re.compile(r"[0-9]+%")


def check(thing: KubeObject) -> None:
    """Raise UserError for the first problem of an object."""
    for problem in problems(thing):
        subject = f"{thing.kind} {thing.key}" if thing.name else thing.kind
        raise UserError(problem.text, subject=subject, field=problem.field)


def problems(thing: KubeObject) -> Problems:
    """Yield everything that is surely wrong with an object."""
    yield from _metadata(thing)
    if (find := _CHECKS.get(type(thing))) is not None:
        yield from find(thing)


def _metadata(thing: KubeObject) -> Problems:
    name = thing.metadata.name
    if not name:
        yield Problem("metadata.name", "expected a name, got nothing")
    elif re.search(r"[/\s]", name):
        yield Problem("metadata.name", f'expected a name without "/" and spaces, got "{name}"')


def _one_of(field: str, value: str | None, allowed: Collection[str]) -> Problems:
    if value and value not in allowed:
        yield Problem(field, f'expected {_choices(allowed)}, got "{value}"')


def _choices(allowed: Collection[str]) -> str:
    quoted = [f'"{word}"' for word in allowed]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _at_least(field: str, value: float | None, least: int) -> Problems:
    if value is not None and value < least:
        yield Problem(field, f"expected a number of at least {least}, got {value:g}")


def _amounts(field: str, quantities: Mapping[str, Quantity]) -> Problems:
    for name, quantity in quantities.items():
        try:
            to_base(name, quantity)
        except UserError as error:
            yield Problem(f'{field}["{name}"]' if "." in name or "/" in name else f"{field}.{name}", error.text)


def _duration(field: str, text: str | None) -> Problems:
    try:
        if text is not None:
            parse_duration(text)
    except ValueError as error:
        yield Problem(field, str(error))


def _requirements(field: str, requirements: Sequence[LabelSelectorRequirement], operators: Collection[str]) -> Problems:
    for index, requirement in enumerate(requirements):
        here = f"{field}[{index}]"
        if not requirement.key:
            yield Problem(f"{here}.key", "expected the name of a label, got nothing")
        if requirement.operator not in operators:
            yield Problem(f"{here}.operator", f'expected {_choices(operators)}, got "{requirement.operator}"')
        elif requirement.operator in {"In", "NotIn"} and not requirement.values:
            yield Problem(f"{here}.values", f"expected at least one value for {requirement.operator}, got none")
        elif requirement.operator in {"Exists", "DoesNotExist"} and requirement.values:
            yield Problem(f"{here}.values", f"expected no values for {requirement.operator}")
        elif requirement.operator in {"Gt", "Lt"}:
            yield from _one_integer(f"{here}.values", requirement.values)


def _one_integer(field: str, values: Sequence[str]) -> Problems:
    if len(values) != 1 or re.fullmatch(r"[+-]?[0-9]+", values[0]) is None:
        yield Problem(field, f"expected one integer in quotes, got {list(values)}")


def _selector(field: str, selector: LabelSelector | None) -> Problems:
    if selector is not None:
        yield from _requirements(f"{field}.matchExpressions", selector.match_expressions, _LABEL_OPERATORS)


def _node_selector(field: str, selector: NodeSelector | None) -> Problems:
    for index, term in enumerate(selector.node_selector_terms if selector else ()):
        here = f"{field}.nodeSelectorTerms[{index}]"
        yield from _requirements(f"{here}.matchExpressions", term.match_expressions, _NODE_OPERATORS)
        yield from _requirements(f"{here}.matchFields", term.match_fields, ("In", "NotIn"))


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
            yield from _selector(f"{field}.labelSelector", term.label_selector)
            yield from _selector(f"{field}.namespaceSelector", term.namespace_selector)


def _containers(field: str, containers: Sequence[Container]) -> Problems:
    for index, container in enumerate(containers):
        here = f"{field}[{index}]"
        yield from _amounts(f"{here}.resources.requests", container.resources.requests)
        yield from _amounts(f"{here}.resources.limits", container.resources.limits)
        for number, port in enumerate(container.ports):
            if not 0 <= port.host_port <= 65535:
                text = f"expected a port between 1 and 65535, got {port.host_port}"
                yield Problem(f"{here}.ports[{number}].hostPort", text)


def _run_seconds(pod: Pod) -> Problems:
    text = pod.metadata.annotations.get(names.RUN_SECONDS)
    if text is not None and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None:
        field = f'metadata.annotations["{names.RUN_SECONDS}"]'
        yield Problem(field, f'expected a number of seconds such as "90", got "{text}"')


def _pod(pod: Pod) -> Problems:
    spec = pod.spec
    yield from _run_seconds(pod)
    yield from _containers("spec.containers", spec.containers)
    yield from _containers("spec.initContainers", spec.init_containers)
    yield from _amounts("spec.overhead", spec.overhead)
    if spec.resources is not None:
        yield from _amounts("spec.resources.requests", spec.resources.requests)
        yield from _amounts("spec.resources.limits", spec.resources.limits)
    yield from _one_of("spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)
    yield from _at_least("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    yield from _affinity(spec.affinity)
    for index, toleration in enumerate(spec.tolerations):
        yield from _one_of(f"spec.tolerations[{index}].effect", toleration.effect, _TAINT_EFFECTS)
    for index, spread in enumerate(spec.topology_spread_constraints):
        here = f"spec.topologySpreadConstraints[{index}]"
        yield from _at_least(f"{here}.maxSkew", spread.max_skew, 1)
        yield from _one_of(f"{here}.whenUnsatisfiable", spread.when_unsatisfiable, _UNSATISFIABLE)
        yield from _selector(f"{here}.labelSelector", spread.label_selector)


def _node(node: Node) -> Problems:
    for index, taint in enumerate(node.spec.taints):
        yield from _one_of(f"spec.taints[{index}].effect", taint.effect, _TAINT_EFFECTS)
    yield from _amounts("status.allocatable", node.status.allocatable)
    yield from _amounts("status.capacity", node.status.capacity)


def _network_topology(field: str, topology: NetworkTopology | None) -> Problems:
    if topology is None:
        return
    yield from _one_of(f"{field}.mode", topology.mode, _MODES)
    yield from _at_least(f"{field}.highestTierAllowed", topology.highest_tier_allowed, 0)
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield Problem(field, "expected highestTierAllowed or highestTierName, got both; drop one")


def _pod_group(group: PodGroup) -> Problems:
    spec = group.spec
    yield from _at_least("spec.minMember", spec.min_member, 0)
    for role, minimum in spec.min_task_member.items():
        yield from _at_least(f"spec.minTaskMember.{role}", minimum, 0)
    yield from _amounts("spec.minResources", spec.min_resources)
    yield from _network_topology("spec.networkTopology", spec.network_topology)
    seen: set[str] = set()
    for index, policy in enumerate(spec.sub_group_policy):
        here = f"spec.subGroupPolicy[{index}]"
        if not policy.name:
            yield Problem(f"{here}.name", "expected a name, got nothing")
        elif policy.name in seen:
            yield Problem(f"{here}.name", f'expected a name of its own, got "{policy.name}" again')
        seen.add(policy.name)
        yield from _at_least(f"{here}.subGroupSize", policy.sub_group_size, 1)
        yield from _at_least(f"{here}.minSubGroups", policy.min_sub_groups, 0)
        yield from _selector(f"{here}.labelSelector", policy.label_selector)
        yield from _network_topology(f"{here}.networkTopology", policy.network_topology)


def _queue(queue: Queue) -> Problems:
    spec = queue.spec
    yield from _at_least("spec.weight", spec.weight, 0)
    yield from _amounts("spec.capability", spec.capability)
    yield from _amounts("spec.deserved", spec.deserved)
    yield from _amounts("spec.guarantee.resource", spec.guarantee.resource)
    yield from _one_of("spec.dequeueStrategy", spec.dequeue_strategy, _DEQUEUE_STRATEGIES)
    if spec.parent and spec.parent == queue.name:
        yield Problem("spec.parent", f'expected another queue, got the queue itself, "{spec.parent}"')
    yield from _one_of("status.state", queue.status.state, _QUEUE_STATES)


def _members(field: str, member: Member) -> Problems:
    selector = member.selector
    ways = [selector.exact_match, selector.regex_match, selector.label_match]
    if sum(way is not None for way in ways) != 1:
        yield Problem(field, "expected exactly one of exactMatch, regexMatch and labelMatch")
    if selector.exact_match is not None and not selector.exact_match.name:
        yield Problem(f"{field}.exactMatch.name", "expected the name of a member, got nothing")
    if selector.regex_match is not None:
        try:
            compile_pattern(selector.regex_match.pattern)
        except ValueError as error:
            yield Problem(f"{field}.regexMatch.pattern", str(error))
    if selector.label_match is not None and member.type == "HyperNode":
        yield Problem(f"{field}.labelMatch", "expected exactMatch or regexMatch: labels select nodes only")
    yield from _selector(f"{field}.labelMatch", selector.label_match)


def _hyper_node(hyper_node: HyperNode) -> Problems:
    # Volcano admits tier 0, which is what an absent tier is read as.
    yield from _at_least("spec.tier", hyper_node.spec.tier, 0)
    for index, member in enumerate(hyper_node.spec.members):
        here = f"spec.members[{index}]"
        if member.type not in {"Node", "HyperNode"}:
            yield Problem(f"{here}.type", f'expected "Node" or "HyperNode", got "{member.type}"')
        yield from _members(f"{here}.selector", member)


def _kai_resource(field: str, resource: KaiQueueResource) -> Problems:
    for name, value in (("quota", resource.quota), ("limit", resource.limit)):
        if value < 0 and value != -1:
            yield Problem(f"{field}.{name}", f"expected zero or more, or -1 for unlimited, got {value:g}")


def _kai_queue(queue: KaiQueue) -> Problems:
    spec = queue.spec
    if spec.resources is not None:
        for name in ("gpu", "cpu", "memory"):
            yield from _kai_resource(f"spec.resources.{name}", getattr(spec.resources, name))
    yield from _duration("spec.preemptMinRuntime", spec.preempt_min_runtime)
    yield from _duration("spec.reclaimMinRuntime", spec.reclaim_min_runtime)
    if spec.parent_queue and spec.parent_queue == queue.name:
        yield Problem("spec.parentQueue", f'expected another queue, got the queue itself, "{queue.name}"')


def _kai_pod_group(group: KaiPodGroup) -> Problems:
    yield from _at_least("spec.minMember", group.spec.min_member, 0)
    yield from _one_of("spec.preemptibility", group.spec.preemptibility, _PREEMPTIBILITY)
    for index, sub_group in enumerate(group.spec.sub_groups):
        here = f"spec.subGroups[{index}]"
        if not sub_group.name:
            yield Problem(f"{here}.name", "expected a name, got nothing")
        yield from _at_least(f"{here}.minMember", sub_group.min_member, 0)


def _number_or_percent(field: str, value: int | str | None) -> Problems:
    if isinstance(value, str) and _PERCENT.fullmatch(value) is None:
        yield Problem(field, f'expected a number or a percentage such as "50%", got "{value}"')
    elif isinstance(value, int):
        yield from _at_least(field, value, 0)


def _budget(budget: PodDisruptionBudget) -> Problems:
    spec = budget.spec
    yield from _selector("spec.selector", spec.selector)
    yield from _number_or_percent("spec.minAvailable", spec.min_available)
    yield from _number_or_percent("spec.maxUnavailable", spec.max_unavailable)
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Problem("spec", "expected minAvailable or maxUnavailable, got both; drop one")


def _priority_class(priority: PriorityClass) -> Problems:
    yield from _one_of("preemptionPolicy", priority.preemption_policy, _PREEMPTION_POLICIES)


def _quota(quota: ResourceQuota) -> Problems:
    yield from _amounts("spec.hard", quota.spec.hard)


def _volume(volume: PersistentVolume) -> Problems:
    yield from _amounts("spec.capacity", volume.spec.capacity)
    if volume.spec.node_affinity is not None:
        yield from _node_selector("spec.nodeAffinity.required", volume.spec.node_affinity.required)


def _claim(claim: PersistentVolumeClaim) -> Problems:
    yield from _amounts("spec.resources.requests", claim.spec.resources.requests)
    yield from _selector("spec.selector", claim.spec.selector)


def _storage_class(storage: StorageClass) -> Problems:
    yield from _one_of("volumeBindingMode", storage.volume_binding_mode, _BINDING_MODES)


# Any: each function takes the type it is registered for.
_CHECKS: Final[dict[type[KubeObject], Callable[[Any], Problems]]] = {
    Pod: _pod,
    Node: _node,
    PodGroup: _pod_group,
    Queue: _queue,
    HyperNode: _hyper_node,
    KaiQueue: _kai_queue,
    KaiPodGroup: _kai_pod_group,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    ResourceQuota: _quota,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    StorageClass: _storage_class,
}
