"""Objects of files, and what they say about each other: names of classes, queues, nodes and networks that nobody has.

Nothing of this is refused: files may hold a part of a cluster on purpose, and what is missing is treated as a cluster
would treat it. Notes of one kind about the same name are one line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from muster.api.errors import UserError, choices
from muster.api.fields import did_you_mean
from muster.api.names import DEFAULT_QUEUE, KAI_PRIORITY_CLASSES, ROOT_QUEUE
from muster.api.objects.batch import ACTIONS, Command, Job, JobFlow, JobSpec, JobTemplate
from muster.api.objects.claims import PersistentVolume, PersistentVolumeClaim, ResourceClaim, StorageClass
from muster.api.objects.meta import KubeObject
from muster.api.objects.node import Node
from muster.api.objects.pod import CRITICAL_CLASSES, Pod, group_of
from muster.api.objects.scheduling import (
    KaiPodGroup,
    KaiPodGroupSpec,
    KaiQueue,
    KaiTopologyConstraint,
    NetworkTopology,
    PodGroup,
    PodGroupSpec,
    PriorityClass,
    Queue,
)
from muster.api.objects.topology import HyperNode, Topology
from muster.api.reading.doubts import Doubts


class Source(msgspec.Struct, frozen=True):
    """Where an object was written: documents and items count from one, lines too."""

    file: str
    document_index: int
    line: int
    item: int | None = None

    def __str__(self) -> str:
        text = f"{self.file}: document {self.document_index}"
        return text if self.item is None else f"{text}, item {self.item}"


class Loaded(msgspec.Struct, frozen=True):
    """An object and where it came from."""

    object: KubeObject
    source: Source


_ENDED = frozenset({"Succeeded", "Failed"})


class Remark(NamedTuple):
    """Something about one object that may not be meant."""

    loaded: Loaded
    field: str
    text: str
    #: Remarks about the same are one line.
    about: str


def remarks(loaded: Sequence[Loaded]) -> list[str]:
    """Return a line for each thing that may not be meant."""
    names: dict[type[KubeObject], set[str]] = defaultdict(set)
    for each in loaded:
        if not isinstance(each.object, Pod):  # nothing names pods
            names[type(each.object)].add(each.object.key)
    counts: dict[tuple[str, str, str], int] = {}
    first: dict[tuple[str, str, str], Remark] = {}
    for remark in _remarks(loaded, names):
        key = remark.loaded.object.kind, remark.field, remark.about
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, remark)
    return [_line(remark, counts[key]) for key, remark in first.items()]


def _line(remark: Remark, count: int) -> str:
    thing = remark.loaded.object
    more = f" (and {count - 1:,} more of these)" if count > 1 else ""
    subject = f"{thing.kind} {thing.key}"
    return f"{UserError(remark.text, place=str(remark.loaded.source), subject=subject, field=remark.field)}{more}"


def _remarks(loaded: Sequence[Loaded], names: Mapping[type[KubeObject], set[str]]) -> Iterator[Remark]:
    classes = names[PriorityClass] | CRITICAL_CLASSES | KAI_PRIORITY_CLASSES.keys()
    groups = names[PodGroup] | names[KaiPodGroup]
    queues = names[Queue] | names[KaiQueue] | {DEFAULT_QUEUE, ROOT_QUEUE}
    kai_queues = queues - ({ROOT_QUEUE} - names[Queue])
    networks, trees = _Networks(loaded), _Trees(loaded)
    doubts = Doubts([each.object for each in loaded])

    def of_gang(spec: JobSpec | PodGroupSpec | KaiPodGroupSpec, known: Collection[str]) -> list[_Found]:
        return [*_class(spec.priority_class_name, classes), *_named("spec.queue", "Queue", spec.queue, known)]

    # Any: each takes the type it stands beside.
    of_kind: dict[type[KubeObject], Callable[[Any], Iterable[_Found]]] = {
        Pod: lambda pod: _of_pod(pod, classes, names, groups),
        HyperNode: lambda hyper: _of_hyper_node(hyper, names),
        Job: lambda job: of_gang(job.spec, queues),
        JobFlow: lambda flow: _of_flow(flow, names[JobTemplate]),
        Command: lambda command: _of_command(command, names[Job]),
        PersistentVolumeClaim: lambda claim: _of_claim(claim, names),
        PodGroup: lambda group: [*of_gang(group.spec, queues), *networks.of_group(group)],
        KaiPodGroup: lambda group: [*of_gang(group.spec, kai_queues), *networks.of_kai_group(group)],
        Queue: trees.of_queue,
        KaiQueue: trees.of_queue,
    }
    for each in loaded:
        thing = each.object
        for field, text in doubts.about(thing):
            yield Remark(each, field, text, text)
        find = of_kind.get(type(thing))
        found = () if find is None else find(thing)
        for field, text in found:
            # Every pod may be on a node of its own, and all of those are missing for one reason.
            yield Remark(each, field, text, "" if field == "spec.nodeName" else text)


_Found = tuple[str, str]


def _named(field: str, kind: str, name: str, known: Collection[str]) -> Iterator[_Found]:
    if name and name not in known:
        yield field, f'there is no {kind} "{name}" in the input{did_you_mean(name, known)}'


def _class(name: str, known: Collection[str]) -> Iterator[_Found]:
    if name and name not in known:
        text = f'there is no PriorityClass "{name}" in the input, so it decides nothing{did_you_mean(name, known)}'
        yield "spec.priorityClassName", text


def _of_hyper_node(hyper: HyperNode, names: Mapping[type[KubeObject], set[str]]) -> Iterator[_Found]:
    if not hyper.spec.members:
        yield "spec.members", "expected at least one member, got none; the HyperNode holds no nodes"
    for index, member in enumerate(hyper.spec.members):
        kind = HyperNode if member.type == HyperNode.kind else Node
        if member.selector.exact_match is not None and len(names[kind]) < _FEW:
            field = f"spec.members[{index}].selector.exactMatch.name"
            yield from _named(field, kind.kind, member.selector.exact_match.name, names[kind])


def _of_flow(flow: JobFlow, templates: Collection[str]) -> Iterator[_Found]:
    for index, part in enumerate(flow.spec.flows):
        if part.name and f"{flow.namespace}/{part.name}" not in templates:
            text = f'there is no JobTemplate "{part.name}" in namespace {flow.namespace} of the input'
            yield f"spec.flows[{index}].name", text


def _of_command(command: Command, jobs: Collection[str]) -> Iterator[_Found]:
    if command.action not in ACTIONS:
        yield "action", f'expected {choices(ACTIONS)}, got "{command.action}"'
    target = command.target
    if target is None or target.kind != Job.kind:
        yield "target", "expected a Job of Volcano, got something else; nobody carries it out"
    elif f"{command.namespace}/{target.name}" not in jobs:
        yield "target.name", f'there is no Job "{target.name}" in namespace {command.namespace} of the input'


def _of_claim(claim: PersistentVolumeClaim, names: Mapping[type[KubeObject], set[str]]) -> Iterator[_Found]:
    yield from _named("spec.volumeName", "PersistentVolume", claim.spec.volume_name, names[PersistentVolume])
    if not claim.spec.volume_name:
        storage = claim.spec.storage_class_name or ""
        volumes = names[PersistentVolume]  # which may be of a class that nobody described
        if not volumes:
            yield from _named("spec.storageClassName", "StorageClass", storage, names[StorageClass])


def _of_pod(
    pod: Pod, classes: Collection[str], names: Mapping[type[KubeObject], set[str]], groups: Collection[str]
) -> Iterator[_Found]:
    spec, nodes = pod.spec, names[Node]
    if not spec.containers:
        yield "spec.containers", "expected at least one container, got none; the pod asks for nothing"
    if spec.priority is None:
        yield from _class(spec.priority_class_name, classes)
    if spec.node_name and spec.node_name not in nodes and pod.status.phase not in _ENDED:
        text = f'there is no Node "{spec.node_name}" in the input, so the pod takes no room'
        yield "spec.nodeName", f"{text}{did_you_mean(spec.node_name, nodes)}" if len(nodes) < _FEW else text
    if not spec.node_name and pod.status.phase == "Running":
        yield "status.phase", "the pod is said to run, and spec.nodeName names no node, so it takes no room"
    for claim in spec.resource_claims:
        name = claim.resource_claim_name
        if name and f"{pod.namespace}/{name}" not in names[ResourceClaim]:
            text = f'there is no ResourceClaim "{name}" in namespace {pod.namespace} of the input'
            yield "spec.resourceClaims", f"{text}, so no device is asked for"
    group = group_of(pod)
    if group is not None and f"{pod.namespace}/{group}" not in groups:
        yield "metadata.annotations", f'there is no PodGroup "{group}" in namespace {pod.namespace} of the input'


#: Among more names, looking for a near one takes longer than it helps.
_FEW = 200


class _Networks:
    """The tiers and levels that there are."""

    def __init__(self, loaded: Sequence[Loaded]) -> None:
        tiers = [each.object.spec for each in loaded if isinstance(each.object, HyperNode)]
        self._names = {tier.tier_name for tier in tiers} - {""}
        self._n_tiers = len(tiers)
        self._levels = {
            each.object.name: [*(level.node_label for level in each.object.spec.levels), *each.object.spec.aliases]
            for each in loaded
            if isinstance(each.object, Topology)
        }

    def of_group(self, group: PodGroup) -> Iterator[_Found]:
        yield from self._tier("spec.networkTopology", group.spec.network_topology)
        for index, policy in enumerate(group.spec.sub_group_policy):
            yield from self._tier(f"spec.subGroupPolicy[{index}].networkTopology", policy.network_topology)

    def _tier(self, field: str, wanted: NetworkTopology | None) -> Iterator[_Found]:
        if wanted is None:
            return
        if not self._n_tiers:
            yield field, "there is no HyperNode in the input, so nothing tells which nodes are close together"
        elif wanted.highest_tier_name and wanted.highest_tier_name not in self._names:
            name = wanted.highest_tier_name
            text = f'no HyperNode of the input has the tier "{name}"{did_you_mean(name, self._names)}'
            yield f"{field}.highestTierName", text

    def of_kai_group(self, group: KaiPodGroup) -> Iterator[_Found]:
        yield from self._level("spec.topologyConstraint", group.spec.topology_constraint)
        for index, sub_group in enumerate(group.spec.sub_groups):
            yield from self._level(f"spec.subGroups[{index}].topologyConstraint", sub_group.topology_constraint)

    def _level(self, field: str, wanted: KaiTopologyConstraint | None) -> Iterator[_Found]:
        if wanted is None or not wanted.topology:
            return
        if wanted.topology not in self._levels:
            yield from _named(f"{field}.topology", "Topology", wanted.topology, self._levels)
            return
        levels = self._levels[wanted.topology]
        for name, level in (
            ("requiredTopologyLevel", wanted.required_topology_level),
            ("preferredTopologyLevel", wanted.preferred_topology_level),
        ):
            if level and level not in levels:
                text = f'Topology {wanted.topology} has no level "{level}"; it has {", ".join(levels)}'
                yield f"{field}.{name}", text


class _Trees:
    """Who is above whom, in both families of queues."""

    def __init__(self, loaded: Sequence[Loaded]) -> None:
        queues = [each.object for each in loaded if isinstance(each.object, Queue | KaiQueue)]
        self._above = {(type(queue), queue.name): _parent(queue) for queue in queues}

    def of_queue(self, queue: Queue | KaiQueue) -> Iterator[_Found]:
        family = type(queue)
        field = "spec.parent" if family is Queue else "spec.parentQueue"
        known = {name for kind, name in self._above if kind is family} | {ROOT_QUEUE, DEFAULT_QUEUE}
        above, way = _parent(queue), [queue.name]
        yield from _named(field, "Queue", above, known)
        while above and above not in way:
            way.append(above)
            above = self._above.get((family, above), "")
        if above == queue.name:
            yield field, f"expected a queue that is not below this one, got {' → '.join([*way, above])}"


def _parent(queue: Queue | KaiQueue) -> str:
    return queue.spec.parent if isinstance(queue, Queue) else queue.spec.parent_queue
