"""Checks of meaning, after a document has the right types.

Called by the loader for each object. Only what is surely wrong is refused; everything else is taken as an API
server would take it. `problems` yields all of them in the order of the fields; `check` raises the first.
Paths are written as in the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from muster.api import names
from muster.api.affinity import Affinity, NodeSelector
from muster.api.counting import uncountable
from muster.api.devices import ResourceClaim
from muster.api.errors import UserError
from muster.api.kai import KaiPodGroup, KaiQueue, Topology
from muster.api.meta import KubeObject, LabelSelector, LabelSelectorRequirement
from muster.api.node import Node
from muster.api.patterns import compile_pattern
from muster.api.pod import Container, Pod
from muster.api.policy import PodDisruptionBudget, PriorityClass, ResourceQuota
from muster.api.problems import Problem, Problems, amounts, at_least, choices, one_of
from muster.api.scheduling import NetworkTopology, PodGroup, Queue
from muster.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.api.topology import HyperNode, Member
from muster.api.validate_kai import kai_pod_group, kai_queue, label_topology

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_MODES: Final = ("hard", "soft")
_QUEUE_STATES: Final = ("Open", "Closed", "Closing", "Unknown")
_DEQUEUE_STRATEGIES: Final = ("fifo", "traverse")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
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


def _ports(field: str, containers: Sequence[Container]) -> Problems:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not 0 <= port.host_port <= 65535:
                text = f"expected a port between 1 and 65535, got {port.host_port}"
                yield Problem(f"{field}[{index}].ports[{number}].hostPort", text)


def _run_seconds(pod: Pod) -> Problems:
    text = pod.metadata.annotations.get(names.RUN_SECONDS)
    if text is not None and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None:
        field = f'metadata.annotations["{names.RUN_SECONDS}"]'
        yield Problem(field, f'expected a number of seconds such as "90", got "{text}"')


def _pod(pod: Pod) -> Problems:
    spec = pod.spec
    yield from _run_seconds(pod)
    yield from uncountable(pod)
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
        yield from _selector(f"{here}.labelSelector", spread.label_selector)


def _node(node: Node) -> Problems:
    for index, taint in enumerate(node.spec.taints):
        yield from one_of(f"spec.taints[{index}].effect", taint.effect, _TAINT_EFFECTS)
    yield from uncountable(node)
    yield from amounts("status.capacity", node.status.capacity)


def network_topology(field: str, topology: NetworkTopology | None) -> Problems:
    """How close together pods are to be; of PodGroups and of Jobs."""
    if topology is None:
        return
    yield from one_of(f"{field}.mode", topology.mode, _MODES)
    yield from at_least(f"{field}.highestTierAllowed", topology.highest_tier_allowed, 0)
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        known_as = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
        yield Problem(field, "expected highestTierAllowed or highestTierName, got both; drop one", known_as)


def _pod_group(group: PodGroup) -> Problems:
    spec = group.spec
    yield from at_least("spec.minMember", spec.min_member, 0)
    for role, minimum in spec.min_task_member.items():
        yield from at_least(f"spec.minTaskMember.{role}", minimum, 0)
    yield from uncountable(group)
    yield from network_topology("spec.networkTopology", spec.network_topology)
    seen: set[str] = set()
    for index, policy in enumerate(spec.sub_group_policy):
        here = f"spec.subGroupPolicy[{index}]"
        if not policy.name:
            yield Problem(f"{here}.name", "expected a name, got nothing")
        elif policy.name in seen:
            yield Problem(f"{here}.name", f'expected a name of its own, got "{policy.name}" again')
        seen.add(policy.name)
        yield from at_least(f"{here}.subGroupSize", policy.sub_group_size, 1)
        yield from at_least(f"{here}.minSubGroups", policy.min_sub_groups, 0)
        yield from _selector(f"{here}.labelSelector", policy.label_selector)
        for problem in network_topology(f"{here}.networkTopology", policy.network_topology):
            known_as = problem.known_as and f"in subGroupPolicy '{policy.name}': {problem.known_as}"
            yield problem._replace(known_as=known_as)


def _queue(queue: Queue) -> Problems:
    spec = queue.spec
    yield from at_least("spec.weight", spec.weight, 0)
    yield from uncountable(queue)
    yield from one_of("spec.dequeueStrategy", spec.dequeue_strategy, _DEQUEUE_STRATEGIES)
    if spec.parent and spec.parent == queue.name:
        text = f'expected another queue, got the queue itself, "{spec.parent}"'
        yield Problem("spec.parent", text, known_as="cannot use itself as parent")
    yield from one_of("status.state", queue.status.state, _QUEUE_STATES, known_as="queue state must be in")


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
            known_as = "member regexMatch pattern is invalid"
            yield Problem(f"{field}.regexMatch.pattern", str(error), known_as)
    if selector.label_match is not None and member.type == "HyperNode":
        yield Problem(f"{field}.labelMatch", "expected exactMatch or regexMatch: labels select nodes only")
    yield from _selector(f"{field}.labelMatch", selector.label_match)


def _hyper_node(hyper_node: HyperNode) -> Problems:
    # Volcano admits tier 0, which is what an absent tier is read as.
    yield from at_least("spec.tier", hyper_node.spec.tier, 0)
    for index, member in enumerate(hyper_node.spec.members):
        here = f"spec.members[{index}]"
        if member.type not in {"Node", "HyperNode"}:
            yield Problem(f"{here}.type", f'expected "Node" or "HyperNode", got "{member.type}"')
        yield from _members(f"{here}.selector", member)


def _number_or_percent(field: str, value: int | str | None) -> Problems:
    if isinstance(value, str) and _PERCENT.fullmatch(value) is None:
        yield Problem(field, f'expected a number or a percentage such as "50%", got "{value}"')
    elif isinstance(value, int):
        yield from at_least(field, value, 0)


def _budget(budget: PodDisruptionBudget) -> Problems:
    spec = budget.spec
    yield from _selector("spec.selector", spec.selector)
    yield from _number_or_percent("spec.minAvailable", spec.min_available)
    yield from _number_or_percent("spec.maxUnavailable", spec.max_unavailable)
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Problem("spec", "expected minAvailable or maxUnavailable, got both; drop one")


def _priority_class(priority: PriorityClass) -> Problems:
    yield from one_of("preemptionPolicy", priority.preemption_policy, _PREEMPTION_POLICIES)


def _quota(quota: ResourceQuota) -> Problems:
    yield from uncountable(quota)


def _volume(volume: PersistentVolume) -> Problems:
    yield from uncountable(volume)
    if volume.spec.node_affinity is not None:
        yield from _node_selector("spec.nodeAffinity.required", volume.spec.node_affinity.required)


def _claim(claim: PersistentVolumeClaim) -> Problems:
    yield from uncountable(claim)
    yield from _selector("spec.selector", claim.spec.selector)


def _storage_class(storage: StorageClass) -> Problems:
    yield from one_of("volumeBindingMode", storage.volume_binding_mode, _BINDING_MODES)


# Any: each function takes the type it is registered for.
_CHECKS: Final[dict[type[KubeObject], Callable[[Any], Problems]]] = {
    Pod: _pod,
    Node: _node,
    PodGroup: _pod_group,
    Queue: _queue,
    HyperNode: _hyper_node,
    KaiQueue: kai_queue,
    KaiPodGroup: kai_pod_group,
    Topology: label_topology,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    ResourceQuota: _quota,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    StorageClass: _storage_class,
    ResourceClaim: uncountable,
}
