"""What an object of a file says that can be used, and that may not be meant: odd names, amounts and selectors.

`together` asks for it, object by object, beside names that nobody has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from muster.api.fields import did_you_mean
from muster.api.names import HOSTNAME
from muster.api.objects.claims import PersistentVolume, PersistentVolumeClaim, ResourceClaim, requested_devices
from muster.api.objects.meta import KubeObject, ObjectMeta
from muster.api.objects.node import Node
from muster.api.objects.pod import Container, Pod
from muster.api.objects.scheduling import KaiQueue, PodDisruptionBudget, PriorityClass, Queue, ResourceQuota
from muster.api.objects.topology import HyperNode, Topology, pattern_matches
from muster.api.quantity import Quantity
from muster.api.reading.marks import mark_doubts
from muster.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amount_field, unit_of

#: A field, and what may not be meant with it.
Doubt = tuple[str, str]
_is_name: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?").fullmatch
_is_namespace: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch
#: Less memory is no program's, and a unit was probably left out.
_LEAST_MEMORY: Final = 1024
#: Comparing more objects with each other takes longer than it helps.
_MANY: Final = 200_000


class Doubts:
    """Answers for objects that were loaded together."""

    def __init__(self, things: Sequence[KubeObject]) -> None:
        self._nodes = [thing for thing in things if isinstance(thing, Node)]
        self._pods = [thing for thing in things if isinstance(thing, Pod)]
        self._hyper_nodes = [thing.name for thing in things if isinstance(thing, HyperNode)]
        self._defaults = [thing.name for thing in things if isinstance(thing, PriorityClass) and thing.global_default]
        #: Namespaces that are in order.
        self._namespaces = {""}
        #: Labels and annotations that there is nothing to ask about, whatever they say.
        self._plain: set[str] = set()
        #: Specs that were looked at: those of a job are one.
        self._seen: set[int] = set()
        self._resources: set[str] | None = None
        self._labels: set[str] | None = None
        self._of_kind: Mapping[type[KubeObject], Callable[[Any], Iterator[Doubt]]] = {
            Pod: self._of_pod,
            Node: _of_node,
            Queue: self._of_queue,
            KaiQueue: _of_kai_queue,
            ResourceQuota: self._of_quota,
            PodDisruptionBudget: self._of_budget,
            PriorityClass: self._of_class,
            PersistentVolume: _of_volume,
            PersistentVolumeClaim: _of_claim,
            ResourceClaim: _of_devices,
            HyperNode: self._of_hyper_node,
            Topology: self._of_topology,
        }

    def about(self, thing: KubeObject) -> Iterable[Doubt]:
        """What may not be meant with an object; asked of very many, of which nearly all are in order."""
        metadata = thing.metadata
        found = [*self._of_names(thing)] if self._is_odd(metadata) else []
        plain = self._plain
        if not (metadata.labels.keys() <= plain and metadata.annotations.keys() <= plain):
            found += mark_doubts(metadata, plain)
        if not found and isinstance(thing, Pod) and id(thing.spec) in self._seen:
            return ()
        find = self._of_kind.get(type(thing))
        return found if find is None else (*found, *find(thing))

    def _is_odd(self, metadata: ObjectMeta) -> bool:
        return _is_name(metadata.name) is None or metadata.namespace not in self._namespaces

    def _of_names(self, thing: KubeObject) -> Iterator[Doubt]:
        name, namespace = thing.metadata.name, thing.metadata.namespace
        if _is_name(name) is None:
            words = 'lower-case letters, digits, "-" and ".", 253 at most'
            yield "metadata.name", f'no API server takes the name "{name}": expected {words}'
        if namespace in self._namespaces:
            return
        if _is_namespace(namespace) is None:
            words = 'lower-case letters, digits and "-", 63 at most'
            yield "metadata.namespace", f'no API server takes the namespace "{namespace}": expected {words}'
        else:
            self._namespaces.add(namespace)

    def _of_pod(self, pod: Pod) -> Iterator[Doubt]:
        self._seen.add(id(pod.spec))
        yield from _of_containers("spec.containers", pod.spec.containers)
        yield from _of_containers("spec.initContainers", pod.spec.init_containers)
        yield from self._of_keys(pod)

    def _of_keys(self, pod: Pod) -> Iterator[Doubt]:
        """Labels by which pods are kept together or apart, and that no node of the input has."""
        affinity = pod.spec.affinity
        keys = [
            (f"spec.topologySpreadConstraints[{place}]", each.topology_key)
            for place, each in enumerate(pod.spec.topology_spread_constraints)
        ]
        for name, terms in (
            ("podAffinity", affinity and affinity.pod_affinity),
            ("podAntiAffinity", affinity and affinity.pod_anti_affinity),
        ):
            keys += [(f"spec.affinity.{name}", term.topology_key) for term in (terms.required if terms else ())]
        for field, key in keys if self._nodes else ():
            if key != HOSTNAME and key not in self._node_labels:
                text = f'no Node of the input has the label "{key}"{did_you_mean(key, self._node_labels)}'
                yield f"{field}.topologyKey", text

    @property
    def _node_labels(self) -> set[str]:
        if self._labels is None:
            self._labels = set().union(*(node.metadata.labels for node in self._nodes))
        return self._labels

    def _of_queue(self, queue: Queue) -> Iterator[Doubt]:
        spec = queue.spec
        for name, wanted in spec.deserved.items():
            most = spec.capability.get(name)
            if most is not None and most.value and wanted.value > most.value:
                text = f'expected at most the capability, "{most}", got "{wanted}"; the capability decides'
                yield amount_field("spec.deserved", name), text
        for part, given in (
            ("capability", spec.capability),
            ("deserved", spec.deserved),
            ("guarantee.resource", spec.guarantee.resource),
        ):
            yield from self._unknown_resources(f"spec.{part}", given)

    def _of_quota(self, quota: ResourceQuota) -> Iterator[Doubt]:
        yield from self._unknown_resources("spec.hard", quota.spec.hard)

    def _unknown_resources(self, field: str, given: Mapping[str, Quantity]) -> Iterator[Doubt]:
        """Amounts of what no node of the input has; nothing is said where there are no nodes."""
        for name in given if self._nodes else ():
            plain = name.removeprefix("requests.").removeprefix("limits.")
            if plain not in self._known_resources and unit_of(plain) == "milli":
                meant = did_you_mean(plain, self._known_resources) or self._device_called(plain)
                yield amount_field(field, name), f'no node of the input has the resource "{plain}"{meant}'

    @property
    def _known_resources(self) -> set[str]:
        if self._resources is None:
            known = {CPU, MEMORY, PODS, EPHEMERAL_STORAGE}
            self._resources = known.union(*(node.status.allocatable for node in self._nodes))
        return self._resources

    def _device_called(self, name: str) -> str:
        """`gpu` for `nvidia.com/gpu`."""
        found = [each for each in sorted(self._known_resources) if each.rpartition("/")[2] == name]
        return f'; did you mean "{found[0]}"?' if found else ""

    def _of_budget(self, budget: PodDisruptionBudget) -> Iterator[Doubt]:
        spec = budget.spec
        if spec.min_available is None and spec.max_unavailable is None:
            yield "spec", "expected minAvailable or maxUnavailable, got neither; one pod at a time may go"
        if spec.selector is None:
            yield "spec.selector", "expected labels of pods, got nothing; the budget protects nobody"
        elif 0 < len(self._pods) < _MANY and not any(
            pod.namespace == budget.namespace and spec.selector.matches(pod.metadata.labels) for pod in self._pods
        ):
            yield "spec.selector", f"no pod of the input in namespace {budget.namespace} has these labels"

    def _of_class(self, priority: PriorityClass) -> Iterator[Doubt]:
        if priority.global_default and len(self._defaults) > 1:
            others = ", ".join(name for name in sorted(self._defaults) if name != priority.name)
            yield "globalDefault", f"expected one default class, got {others} as well; the lowest counts"

    def _of_hyper_node(self, hyper: HyperNode) -> Iterator[Doubt]:
        for index, member in enumerate(hyper.spec.members if len(self._nodes) < _MANY else ()):
            here = f"spec.members[{index}].selector"
            names = [node.name for node in self._nodes] if member.type == Node.kind else self._hyper_nodes
            pattern, labels = member.selector.regex_match, member.selector.label_match
            if pattern is not None and names and not any(pattern_matches(pattern.pattern, name) for name in names):
                yield f"{here}.regexMatch.pattern", f'no {member.type} of the input matches "{pattern.pattern}"'
            if labels is not None and not labels.match_labels and not labels.match_expressions:
                yield f"{here}.labelMatch", "expected matchLabels or matchExpressions, got neither; it selects no node"
            elif (
                labels is not None
                and self._nodes
                and not any(labels.matches(node.metadata.labels) for node in self._nodes)
            ):
                yield f"{here}.labelMatch", "no Node of the input has these labels"

    def _of_topology(self, topology: Topology) -> Iterator[Doubt]:
        for index, level in enumerate(topology.spec.levels if self._nodes else ()):
            if level.node_label not in self._node_labels:
                meant = did_you_mean(level.node_label, self._node_labels)
                text = f'no Node of the input has the label "{level.node_label}"{meant}'
                yield f"spec.levels[{index}].nodeLabel", text


_PLAIN_RESOURCES: Final = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})
_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def _of_node(node: Node) -> Iterator[Doubt]:
    for name in node.status.allocatable:
        if "/" not in name and name not in _PLAIN_RESOURCES and (near := did_you_mean(name, _PLAIN_RESOURCES)):
            yield amount_field("status.allocatable", name), f"no pod asks for it{near}"
    for index, condition in enumerate(node.status.conditions):
        if condition.type not in _CONDITIONS and (near := did_you_mean(condition.type, _CONDITIONS)):
            yield f"status.conditions[{index}].type", f'"{condition.type}" is no condition that counts{near}'
    if not node.status.allocatable:
        yield "status.allocatable", 'expected amounts such as {cpu: "8"}, got none; no pod fits on the node'


def _of_kai_queue(queue: KaiQueue) -> Iterator[Doubt]:
    for name in ("gpu", "cpu", "memory") if queue.spec.resources is not None else ():
        amount = getattr(queue.spec.resources, name)
        if 0 < amount.limit < amount.quota:
            text = f"expected at least the quota, {amount.quota:g}, got {amount.limit:g}; the limit decides"
            yield f"spec.resources.{name}.limit", text


_STORAGE: Final = "storage"


def _of_volume(volume: PersistentVolume) -> Iterator[Doubt]:
    if _STORAGE not in volume.spec.capacity:
        yield "spec.capacity", 'expected an amount such as {storage: "10Gi"}, got none; no claim gets it'


def _of_devices(claim: ResourceClaim) -> Iterator[Doubt]:
    if not requested_devices(claim):
        yield "spec.devices.requests", "expected at least one request for devices, got none that is read"


def _of_claim(claim: PersistentVolumeClaim) -> Iterator[Doubt]:
    if _STORAGE not in claim.spec.resources.requests and not claim.spec.volume_name:
        yield "spec.resources.requests", 'expected an amount such as {storage: "10Gi"}, got none'


def _of_containers(field: str, containers: Sequence[Container]) -> Iterator[Doubt]:
    for index, container in enumerate(containers):
        for part, given in (("requests", container.resources.requests), ("limits", container.resources.limits)):
            amount = given.get(MEMORY)
            if amount is not None and 0 < amount.value < _LEAST_MEMORY:
                number = amount.text.removesuffix("m")
                is_part = "less than a byte" if amount.value < 1 else f"{float(amount.value):g} bytes"
                text = f'"{amount}" is {is_part}; did you mean "{number}Mi" or "{number}Gi"?'
                yield f"{field}[{index}].resources.{part}.memory", text
