"""Changes that only remedies make: jobs end, minimums fall, and what a reason code says does not hold any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import structs

from muster.api import Condition, KaiPodGroup, Node, Pod, PodGroup, Queue, Toleration, format_amount, to_base
from muster.api.objects.batch import Job
from muster.api.quantity import Quantity
from muster.cluster.clock import stamp_of
from muster.cluster.embedded_server import ended_containers
from muster.explain.remedies import BoundRises, RequestChanges
from muster.explain.words import joined
from muster.snapshot import NO_ROW, TaskStatus
from muster.whatif.changes import Scene, find_thing, pods_of
from muster.whatif.queues import SetQueue


@dataclass(frozen=True, slots=True)
class EndJobs:
    """Jobs finish now."""

    jobs: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{joined(self.jobs)} finished"

    def apply(self, scene: Scene) -> None:
        stamp = stamp_of(scene.cluster.now())
        for job in self.jobs:
            for pod in pods_of(scene, find_thing(scene, job)):
                if pod.spec.node_name and pod.status.phase in ("Pending", "Running"):
                    ends = ended_containers(pod, stamp)
                    status = structs.replace(pod.status, phase="Succeeded", container_statuses=ends)
                    scene.cluster.replace_object(structs.replace(pod, status=status))


@dataclass(frozen=True, slots=True)
class LowerMinimum:
    """A gang makes do with fewer pods."""

    job: str
    to: int

    @property
    def text(self) -> str:
        return f"a minimum of {self.to} for {self.job}"

    def apply(self, scene: Scene) -> None:
        for thing in _gangs(scene, self.job):
            if isinstance(thing, Job):
                spec = structs.replace(thing.spec, min_available=self.to)
                scene.cluster.replace_object(structs.replace(thing, spec=spec))
            elif isinstance(thing, PodGroup):
                group_spec = structs.replace(thing.spec, min_member=self.to, min_task_member={})
                scene.cluster.replace_object(structs.replace(thing, spec=group_spec))
            elif isinstance(thing, KaiPodGroup):
                kai_spec = structs.replace(thing.spec, min_member=self.to)
                scene.cluster.replace_object(structs.replace(thing, spec=kai_spec))


def _gangs(scene: Scene, job: str) -> Iterator[PodGroup | KaiPodGroup | Job]:
    """What says how large a gang is: its PodGroup, and the Job that made it."""
    store = scene.cluster.store
    group = store.get(PodGroup, job) or store.get(KaiPodGroup, job)
    if group is None:
        return
    yield group
    owners = {owner.uid for owner in group.metadata.owner_references}
    yield from (known for known in store.all(Job) if known.metadata.uid in owners)


@dataclass(frozen=True, slots=True)
class RaiseBounds:
    """Queues may hold more, or are promised more."""

    trial: BoundRises

    @property
    def text(self) -> str:
        return f"more {self.trial.resource} for {joined(name for name, _ in self.trial.queues)}"

    def apply(self, scene: Scene) -> None:
        resource = self.trial.resource
        for queue, amount in self.trial.queues:
            field = "quota" if self.trial.is_quota else "limit"
            SetQueue(queue, field, format_amount(resource, amount), resource).apply(scene)


@dataclass(frozen=True, slots=True)
class ChangeRequests:
    """Pods ask for something else."""

    job: str
    trial: RequestChanges

    @property
    def text(self) -> str:
        return f"other requests of {self.job}"

    def apply(self, scene: Scene) -> None:
        ChangePods(self.job, self._changed).apply(scene)

    def _changed(self, pod: Pod) -> Pod:
        renamed, at_most = dict(self.trial.renamed), dict(self.trial.at_most)
        containers = []
        for container in pod.spec.containers:
            given = container.resources
            lists = []
            for amounts in (given.requests, given.limits):
                plain = {renamed.get(name, name): amount for name, amount in amounts.items()}
                lists.append({name: _cut(name, amount, at_most) for name, amount in plain.items()})
            resources = structs.replace(given, requests=lists[0], limits=lists[1])
            containers.append(structs.replace(container, resources=resources))
        return structs.replace(pod, spec=structs.replace(pod.spec, containers=containers))


def _cut(name: str, amount: Quantity, at_most: dict[str, int]) -> Quantity:
    most = at_most.get(name)
    return amount if most is None or to_base(name, amount) <= most else Quantity(format_amount(name, most))


@dataclass(frozen=True, slots=True)
class ChangePods:
    """Pods of a job that wait are made otherwise."""

    job: str
    how: Callable[[Pod], Pod]

    @property
    def text(self) -> str:
        return f"other pods of {self.job}"

    def apply(self, scene: Scene) -> None:
        for pod in pods_of(scene, find_thing(scene, self.job)):
            if not pod.spec.node_name:
                scene.cluster.replace_object(self.how(pod))


def _without_selector(pod: Pod) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, node_selector={}))


def _without_affinity(pod: Pod) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, affinity=None))


def _tolerating(pod: Pod) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, tolerations=[Toleration(operator="Exists")]))


def _without_gates(pod: Pod) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduling_gates=[]))


#: By reason code: how pods are for which it does not hold. Labelling nodes comes to the same as asking for no label.
OF_PODS: Final[dict[str, Callable[[Pod], Pod]]] = {
    "node-selector": _without_selector,
    "node-affinity": _without_affinity,
    "pod-affinity": _without_affinity,
    "pod-anti-affinity": _without_affinity,
    "taint": _tolerating,
    "gated": _without_gates,
}


@dataclass(frozen=True, slots=True)
class ChangeNodes:
    """All nodes are made otherwise."""

    how: Callable[[Node], Node]

    @property
    def text(self) -> str:
        return "other nodes"

    def apply(self, scene: Scene) -> None:
        for node in list(scene.cluster.store.all(Node)):
            changed = self.how(node)
            if changed != node:
                scene.cluster.replace_object(changed)


def _uncordoned(node: Node) -> Node:
    return structs.replace(node, spec=structs.replace(node.spec, unschedulable=False))


def _ready(node: Node) -> Node:
    if node.is_ready:
        return node
    others = [known for known in node.status.conditions if known.type != "Ready"]
    status = structs.replace(node.status, conditions=[*others, Condition(type="Ready", status="True")])
    return structs.replace(node, status=status)


#: By reason code: how nodes are for which it does not hold.
OF_NODES: Final[dict[str, Callable[[Node], Node]]] = {"unschedulable": _uncordoned, "node-not-ready": _ready}


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """A queue is there, and open."""

    queue: str

    @property
    def text(self) -> str:
        return f"queue {self.queue} open"

    def apply(self, scene: Scene) -> None:
        present = scene.cluster.store.get(Queue, self.queue)
        if present is None:
            made = Queue()
            scene.cluster.add([structs.replace(made, metadata=structs.replace(made.metadata, name=self.queue))])
        else:
            status = structs.replace(present.status, state="Open")
            scene.cluster.replace_object(structs.replace(present, status=status))


@dataclass(frozen=True, slots=True)
class DropTopology:
    """A gang may be anywhere in the network."""

    job: str

    @property
    def text(self) -> str:
        return f"no topology constraint for {self.job}"

    def apply(self, scene: Scene) -> None:
        for thing in _gangs(scene, self.job):
            if isinstance(thing, PodGroup):
                spec = structs.replace(thing.spec, network_topology=None)
                scene.cluster.replace_object(structs.replace(thing, spec=spec))
            elif isinstance(thing, KaiPodGroup):
                kai_spec = structs.replace(thing.spec, topology_constraint=None)
                scene.cluster.replace_object(structs.replace(thing, spec=kai_spec))


@dataclass(frozen=True, slots=True)
class DropWaiting:
    """Other queues than one ask for no more than they have."""

    queue: str

    @property
    def text(self) -> str:
        return f"nobody waiting in other queues than {self.queue}"

    def apply(self, scene: Scene) -> None:
        picture = scene.picture()
        tasks, records = picture.tasks, picture.jobs.records
        for row in np.flatnonzero((tasks.status == TaskStatus.PENDING) & (tasks.job != NO_ROW)).tolist():
            pod = scene.cluster.store.get(Pod, tasks.ids[row])
            if pod is not None and records[tasks.job[row]].queue != self.queue:
                scene.cluster.store.remove(pod)
