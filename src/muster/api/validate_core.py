"""Checks of Kubernetes' own objects, for `validate`: pods, nodes, volumes and claims, budgets, quotas.

Each kind has its checks of meaning and, apart from them, what cannot be counted in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

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
from muster.api.objects.node import Node, NodeSelector, Toleration
from muster.api.objects.pod import Affinity, Container, Pod, PodSpec, TopologySpreadConstraint
from muster.api.objects.scheduling import PodDisruptionBudget, PriorityClass, ResourceQuota
from muster.api.quantity import Quantity
from muster.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    GPU,
    MEMORY,
    PODS,
    amount_field,
    amounts,
    pod_request,
    pod_scoring_request,
)

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Filesystem", "Block")
_VOLUME_PHASES: Final = ("Pending", "Available", "Bound", "Released", "Failed")
_CLAIM_PHASES: Final = ("Pending", "Bound", "Lost")
_TOLERATION_OPERATORS: Final = ("Equal", "Exists", "Lt", "Gt")
_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_INCLUSION: Final = ("Honor", "Ignore")
_STATUSES: Final = ("True", "False", "Unknown")
_SCOPES: Final = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
    *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
)
_MAX_PORT: Final = 65535
_PERCENT: Final = re.compile(r"[0-9]+%")
#: Higher priorities are Kubernetes' own.
_MAX_PRIORITY: Final = 10**9
_SYSTEM: Final = "system-"
#: More pods than any cluster has, and so few that sums of two still fit the columns.
MAX_PODS: Final = 10**9


def _pod(pod: Pod) -> Problems:
    spec = pod.spec
    yield from _pod_amounts(pod)
    for field, containers in (("spec.containers", spec.containers), ("spec.initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _container(f"{field}[{index}]", container)
    yield from _same_names(spec)
    yield from one_of("spec.restartPolicy", spec.restart_policy, _RESTARTS)
    yield from one_of("spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)
    yield from at_least("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    yield from at_least("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1)
    for index, gate in enumerate(spec.scheduling_gates):
        if not gate.name:
            yield Problem(f"spec.schedulingGates[{index}].name", "expected the name of the gate, got nothing")
    yield from _references(spec)
    if spec.affinity is not None:
        yield from _affinity(spec.affinity)
    for index, toleration in enumerate(spec.tolerations):
        yield from _toleration(f"spec.tolerations[{index}]", toleration)
    for index, spread in enumerate(spec.topology_spread_constraints):
        yield from _spread(f"spec.topologySpreadConstraints[{index}]", spread)
    yield from one_of("status.phase", pod.status.phase, _PHASES)


def _same_names(spec: PodSpec) -> Problems:
    """Containers of one name, of either list: no server takes them."""
    if len(spec.containers) + len(spec.init_containers) < 2:  # nearly all pods
        return
    first: dict[str, str] = {}
    for field, containers in (("spec.initContainers", spec.init_containers), ("spec.containers", spec.containers)):
        for index, container in enumerate(containers):
            here = f"{field}[{index}]"
            if container.name and first.setdefault(container.name, here) != here:
                text = f'expected a name of its own, got "{container.name}", which {first[container.name]} has'
                yield Problem(f"{here}.name", text)


def _references(spec: PodSpec) -> Problems:
    """Labels of nodes, claims and volumes by names that nobody could have."""
    for key, text in spec.node_selector.items():
        if fault := label_fault(key, text):
            yield Problem("spec.nodeSelector", fault)
    claims = {claim.name for claim in spec.resource_claims}
    for index, container in enumerate(spec.containers):
        for number, claim in enumerate(container.resources.claims):
            if claim.name not in claims:
                here = f"spec.containers[{index}].resources.claims[{number}].name"
                yield Problem(here, f'expected the name of one of spec.resourceClaims, got "{claim.name}"')
    for index, volume in enumerate(spec.volumes):
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
            here = f"spec.volumes[{index}].persistentVolumeClaim.claimName"
            yield Problem(here, "expected the name of a PersistentVolumeClaim, got nothing")


def _container(field: str, container: Container) -> Problems:
    """What a container asks for has a name that a node can offer, in whole devices, and no more than its limit."""
    for part, amounts_given in (("requests", container.resources.requests), ("limits", container.resources.limits)):
        for name, quantity in amounts_given.items():
            yield from _resource(f"{field}.resources.{part}", name, quantity)
    for name, limit in container.resources.limits.items():
        asked = container.resources.requests.get(name)
        if asked is not None and (asked.value > limit.value or ("/" in name and asked.value != limit.value)):
            wanted = "the limit" if "/" in name else "at most the limit"
            yield Problem(
                amount_field(f"{field}.resources.requests", name), f'expected {wanted}, "{limit}", got "{asked}"'
            )
    yield from one_of(f"{field}.restartPolicy", container.restart_policy, _RESTARTS)
    for index, port in enumerate(container.ports):
        here = f"{field}.ports[{index}]"
        for name, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
            if not 0 <= number <= _MAX_PORT:
                yield Problem(f"{here}.{name}", f"expected a port between 1 and {_MAX_PORT}, got {number}")
        yield from one_of(f"{here}.protocol", port.protocol, _PROTOCOLS)


def _resource(field: str, name: str, quantity: Quantity) -> Problems:
    if "/" not in name:
        if name not in (CPU, MEMORY, EPHEMERAL_STORAGE) and not name.startswith("hugepages-"):
            text = f'expected a resource such as "cpu", "memory" or "{GPU}", got "{name}"'
            yield Problem(amount_field(field, name), text)
    elif label_fault(name, ""):
        text = f'expected a resource such as "{GPU}": a domain in lower case, "/" and a name, got "{name}"'
        yield Problem(amount_field(field, name), text)
    else:
        hint = f", or the annotation {names.GPU_FRACTION} for a part of one" if name == GPU else ""
        yield from _whole(field, name, quantity, hint)


def _whole(field: str, name: str, quantity: Quantity, hint: str = "") -> Problems:
    if quantity.value.denominator != 1:
        of = "" if name == PODS else " of devices"
        text = f'expected a whole number{of}, such as "1"{hint}, got "{quantity}"'
        yield Problem(amount_field(field, name), text)


def _toleration(field: str, toleration: Toleration) -> Problems:
    yield from one_of(f"{field}.operator", toleration.operator, _TOLERATION_OPERATORS)
    yield from one_of(f"{field}.effect", toleration.effect, _TAINT_EFFECTS)
    if toleration.operator == "Exists" and toleration.value:
        yield Problem(f"{field}.value", f'expected no value beside Exists, got "{toleration.value}"')
    if not toleration.key and toleration.operator in ("", "Equal"):
        yield Problem(f"{field}.operator", 'expected "Exists" where no key is given; or give the key of a taint')


def _spread(field: str, spread: TopologySpreadConstraint) -> Problems:
    if spread.max_skew is None:
        yield Problem(f"{field}.maxSkew", "expected a number of at least 1, got nothing")
    yield from at_least(f"{field}.maxSkew", spread.max_skew, 1)
    if not spread.topology_key:
        yield Problem(f"{field}.topologyKey", "expected the name of a node label, got nothing")
    yield from one_of(f"{field}.whenUnsatisfiable", spread.when_unsatisfiable, _UNSATISFIABLE)
    yield from at_least(f"{field}.minDomains", spread.min_domains, 1)
    yield from one_of(f"{field}.nodeAffinityPolicy", spread.node_affinity_policy, _INCLUSION)
    yield from one_of(f"{field}.nodeTaintsPolicy", spread.node_taints_policy, _INCLUSION)
    yield from selector_problems(f"{field}.labelSelector", spread.label_selector)


def mark_problems(thing: KubeObject) -> Problems:
    """Labels that no server would take, and annotations of scheduling that say what nobody understands."""
    for key, text in thing.metadata.labels.items():
        if fault := label_fault(key, text):
            yield Problem("metadata.labels", fault)
    for key, text in thing.metadata.annotations.items():
        wanted = _MARKS.get(key)
        if wanted is not None and wanted.pattern.fullmatch(text) is None:
            yield Problem(f'metadata.annotations["{key}"]', f'expected {wanted.words}, got "{text}"')


class _Mark(NamedTuple):
    """What an annotation may say."""

    pattern: re.Pattern[str]
    words: str


#: What Kubernetes' programs read as a yes or a no.
TRUTH: Final = ("1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False", "")
_TRUTH: Final = _Mark(re.compile("|".join(TRUTH)), '"true" or "false"')
_NUMBER_OR_PERCENT: Final = _Mark(re.compile("[0-9]+%?"), 'a number or a percentage such as "50%"')
_MARKS: Final = {
    names.RUN_SECONDS: _Mark(re.compile(r"[0-9]+(\.[0-9]+)?"), 'a number of seconds such as "90"'),
    names.EXIT: _Mark(re.compile("succeeded|failed"), '"succeeded" or "failed"'),
    names.PREEMPTABLE: _TRUTH,
    names.JDB_MIN_AVAILABLE: _NUMBER_OR_PERCENT,
    names.JDB_MAX_UNAVAILABLE: _NUMBER_OR_PERCENT,
    names.TASK_INDEX: _Mark(re.compile("[0-9]+"), 'a number such as "0"'),
    names.GPU_FRACTION: _Mark(re.compile(r"0?\.[0-9]*[1-9][0-9]*"), 'a part of one GPU such as "0.5"'),
    names.GPU_MEMORY: _Mark(re.compile("0*[1-9][0-9]*"), 'a number of MiB such as "4096"'),
}
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/")
_LABEL_WORDS: Final = 'letters, digits, "-", "_" and "." between letters or digits, 63 at most'


@lru_cache(maxsize=65536)
def label_fault(key: str, text: str) -> str:
    """What is wrong with a label, "" if nothing is; the same few labels stand on many objects."""
    prefix, slash, name = key.rpartition("/")
    if _LABEL_NAME.fullmatch(name) is None or (slash and _LABEL_PREFIX.fullmatch(prefix + slash) is None):
        return f'expected a key of {_LABEL_WORDS}, after a domain and "/" or alone, got "{key}"'
    if text and _LABEL_NAME.fullmatch(text) is None:
        return f'expected a value of {_LABEL_WORDS}, got "{text}" for "{key}"'
    return ""


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


def _affinity(affinity: Affinity) -> Problems:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    if affinity.node_affinity is not None:
        here = "spec.affinity.nodeAffinity"
        yield from _node_selector(f"{here}.{required}", affinity.node_affinity.required)
        for index, wish in enumerate(affinity.node_affinity.preferred):
            yield from _weight(f"{here}.{preferred}[{index}].weight", wish.weight)
            field = f"{here}.{preferred}[{index}].preference.matchExpressions"
            yield from _requirements(field, wish.preference.match_expressions, _NODE_OPERATORS)
    for name, pods in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        if pods is None:
            continue
        terms = [(f"spec.affinity.{name}.{required}[{i}]", term) for i, term in enumerate(pods.required)]
        for index, hope in enumerate(pods.preferred):
            yield from _weight(f"spec.affinity.{name}.{preferred}[{index}].weight", hope.weight)
        terms += [
            (f"spec.affinity.{name}.{preferred}[{i}].podAffinityTerm", wish.pod_affinity_term)
            for i, wish in enumerate(pods.preferred)
        ]
        for field, term in terms:
            if not term.topology_key:
                yield Problem(f"{field}.topologyKey", "expected the name of a node label, got nothing")
            yield from selector_problems(f"{field}.labelSelector", term.label_selector)
            yield from selector_problems(f"{field}.namespaceSelector", term.namespace_selector)


def _weight(field: str, weight: int) -> Problems:
    if not 1 <= weight <= 100:
        yield Problem(field, f"expected a number between 1 and 100, got {weight}")


def _node_selector(field: str, selector: NodeSelector | None) -> Problems:
    if selector is not None and not selector.node_selector_terms:
        yield Problem(f"{field}.nodeSelectorTerms", "expected at least one term, got none; no node would match")
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
        if not taint.key:
            yield Problem(f"spec.taints[{index}].key", "expected the name of the taint, got nothing")
        if taint.effect not in _TAINT_EFFECTS:
            text = f'expected {choices(_TAINT_EFFECTS)}, got "{taint.effect}"'
            yield Problem(f"spec.taints[{index}].effect", text)
    for index, condition in enumerate(node.status.conditions):
        yield from one_of(f"status.conditions[{index}].status", condition.status, _STATUSES)
    yield from _node_amounts(node)
    yield from amounts("status.capacity", node.status.capacity)
    for name, quantity in node.status.allocatable.items():
        if "/" in name or name == PODS:
            yield from _whole("status.allocatable", name, quantity)


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
    elif isinstance(value, str) and int(value[:-1]) > 100:
        yield Problem(field, f'expected a percentage of at most "100%", got "{value}"')
    elif isinstance(value, int):
        yield from at_least(field, value, 0)


def _priority_class(priority: PriorityClass) -> Problems:
    if priority.value > _MAX_PRIORITY and not priority.name.startswith(_SYSTEM):
        yield Problem("value", f"expected at most {_MAX_PRIORITY}; more is for Kubernetes itself, got {priority.value}")
    yield from one_of("preemptionPolicy", priority.preemption_policy, _PREEMPTION_POLICIES)


def _quota(quota: ResourceQuota) -> Problems:
    yield from _quota_amounts(quota)
    for index, scope in enumerate(quota.spec.scopes):
        yield from one_of(f"spec.scopes[{index}]", scope, _SCOPES)
    selector = quota.spec.scope_selector
    for index, wanted in enumerate(() if selector is None else selector.match_expressions):
        here = f"spec.scopeSelector.matchExpressions[{index}]"
        yield from one_of(f"{here}.scopeName", wanted.scope_name, _SCOPES)
        yield from one_of(f"{here}.operator", wanted.operator, _LABEL_OPERATORS)
        if wanted.operator in {"In", "NotIn"} and not wanted.values:
            yield Problem(f"{here}.values", f"expected at least one value for {wanted.operator}, got none")


def _quota_amounts(quota: ResourceQuota) -> Problems:
    yield from amounts("spec.hard", quota.spec.hard)
    yield from amounts("status.hard", quota.status.hard)
    yield from amounts("status.used", quota.status.used)


def _volume(volume: PersistentVolume) -> Problems:
    yield from _volume_amounts(volume)
    for index, mode in enumerate(volume.spec.access_modes):
        yield from one_of(f"spec.accessModes[{index}]", mode, _ACCESS_MODES)
    yield from one_of("spec.volumeMode", volume.spec.volume_mode, _VOLUME_MODES)
    yield from one_of("status.phase", volume.status.phase, _VOLUME_PHASES)
    if volume.spec.node_affinity is not None:
        yield from _node_selector("spec.nodeAffinity.required", volume.spec.node_affinity.required)


def _volume_amounts(volume: PersistentVolume) -> Problems:
    yield from amounts("spec.capacity", volume.spec.capacity)


def _claim(claim: PersistentVolumeClaim) -> Problems:
    yield from _claim_amounts(claim)
    for index, mode in enumerate(claim.spec.access_modes):
        yield from one_of(f"spec.accessModes[{index}]", mode, _ACCESS_MODES)
    yield from one_of("spec.volumeMode", claim.spec.volume_mode, _VOLUME_MODES)
    yield from one_of("status.phase", claim.status.phase, _CLAIM_PHASES)
    yield from selector_problems("spec.selector", claim.spec.selector)


def _claim_amounts(claim: PersistentVolumeClaim) -> Problems:
    yield from amounts("spec.resources.requests", claim.spec.resources.requests)


def _storage_class(storage: StorageClass) -> Problems:
    yield from one_of("volumeBindingMode", storage.volume_binding_mode, _BINDING_MODES)


def _device_claim_amounts(claim: ResourceClaim) -> Problems:
    for name, count in requested_devices(claim).items():
        if not 0 <= count <= MAX_PODS:
            text = f'expected from 1 to {MAX_PODS} devices of "{name}", got {count}'
            yield Problem("spec.devices.requests", text)


# Any: each function takes the type it is registered for.
Checks = Mapping[type[KubeObject], Callable[[Any], Problems]]

CORE_CHECKS: Final[Checks] = {
    Pod: _pod,
    Node: _node,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    ResourceQuota: _quota,
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
