"""What somebody thinks of changing: nodes that come or go, jobs, priorities, another configuration.

A change is plain data that says in words what it is, and that can be made to a run of the embedded cluster; the objects
that the run was made of are never touched. Queues have a file of their own. Every error says what was named and what
would be right; who gave the change adds the flag.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from msgspec.structs import replace

from muster.api import (
    WORKLOADS,
    HyperNode,
    KaiPodGroup,
    KubeObject,
    Node,
    Pod,
    PodGroup,
    PriorityClass,
    UserError,
    group_of,
)
from muster.api.fields import did_you_mean
from muster.api.names import HOSTNAME, KAI_PRIORITY_CLASSES
from muster.api.objects.batch import Job
from muster.api.objects.topology import ExactMatch, Member, MemberSelector
from muster.api.objects.workloads import ForeignWorkload
from muster.cluster import MemoryCluster
from muster.cluster.clock import stamp_of
from muster.controllers.embedded import served
from muster.explain import find_job, find_pods
from muster.explain.words import counted
from muster.framework import SchedulerConfig
from muster.simulate import Run
from muster.simulate.run import check_workloads
from muster.snapshot import Snapshot
from muster.snapshot.messages import Evict
from muster.snapshot.records import pod_of_lone_job
from muster.whatif.estimates import Estimates, job_of

#: Pods that stay on a node that is drained: a DaemonSet would make them anew at once, a kubelet's own are nobody's.
_MIRROR: Final = "kubernetes.io/config.mirror"
_SYSTEM_CLASSES: Final = ("system-cluster-critical", "system-node-critical")
#: Apart enough for the order of a file to be the order of age.
_STEP: Final = timedelta(microseconds=1)
_MADE: Final = "-new-"


@dataclass(slots=True)
class Scene:
    """A run to which changes are made before it goes on, and what they led to by themselves."""

    run: Run
    #: When pods of it are expected to end.
    estimates: Estimates
    #: Pods that a change itself took from their nodes; the scheduler had no say in it.
    evicted: list[Evict] = field(default_factory=list)
    #: What is worth knowing, a sentence each.
    notes: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> MemoryCluster:
        return self.run.cluster

    def picture(self) -> Snapshot:
        """The cluster as the scheduler sees it now."""
        return self.run.scheduler.observe()


class Change(Protocol):
    """One thing to change."""

    @property
    def text(self) -> str:
        """What is changed, in words that complete "with ..."."""
        ...

    def apply(self, scene: Scene) -> None:
        """Make the change. Raises UserError for what cannot be changed."""
        ...


# -- nodes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddNodes:
    """More nodes like one that is there, or like one of a file."""

    count: int
    #: The name of a node, or the node itself.
    like: str | Node

    @property
    def text(self) -> str:
        name = self.like if isinstance(self.like, str) else self.like.name
        return f"{counted(self.count, 'more node')} like {name}"

    def apply(self, scene: Scene) -> None:
        original = find_node(scene.cluster, self.like) if isinstance(self.like, str) else self.like
        taken = {node.name for node in scene.cluster.store.all(Node)}
        names = _new_names(original.name, self.count, taken)
        scene.cluster.add([_twin(original, name) for name in names])
        for hyper_node in list(scene.cluster.store.all(HyperNode)):
            if any(_names_it(member, original.name) for member in hyper_node.spec.members):
                more = [Member("Node", MemberSelector(exact_match=ExactMatch(name))) for name in names]
                spec = replace(hyper_node.spec, members=[*hyper_node.spec.members, *more])
                scene.cluster.replace_object(replace(hyper_node, spec=spec))


def _new_names(stem: str, count: int, taken: Collection[str]) -> list[str]:
    number = 0
    names: list[str] = []
    while len(names) < count:
        number += 1
        if (name := f"{stem}{_MADE}{number}") not in taken:
            names.append(name)
    return names


def _twin(node: Node, name: str) -> Node:
    """A node that has just joined: ready, not cordoned, and empty."""
    labels = {**node.metadata.labels, **({HOSTNAME: name} if HOSTNAME in node.metadata.labels else {})}
    meta = replace(node.metadata, name=name, uid="", labels=labels, creation_timestamp=None)
    taints = [taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
    spec = replace(node.spec, unschedulable=False, taints=taints)
    return replace(node, metadata=meta, spec=spec, status=replace(node.status, conditions=[]))


def _names_it(member: Member, name: str) -> bool:
    exact = member.selector.exact_match
    return member.type == "Node" and exact is not None and exact.name == name


def find_node(cluster: MemoryCluster, name: str) -> Node:
    """The node of a name. Raises UserError that names the nearest one."""
    found = cluster.store.get(Node, name)
    if found is None:
        known = sorted(node.name for node in cluster.store.all(Node))
        raise UserError(f'there is no node "{name}"{did_you_mean(name, known) or _listed("nodes", known)}')
    return found


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon a node and ask its pods to leave, as `kubectl drain` does."""

    node: str

    @property
    def text(self) -> str:
        return f"node {self.node} drained"

    def apply(self, scene: Scene) -> None:
        node = find_node(scene.cluster, self.node)
        scene.cluster.replace_object(replace(node, spec=replace(node.spec, unschedulable=True)))
        pods = [pod for pod in scene.cluster.store.pods_on(node.name) if _leaves(pod)]
        gone = [Evict(pod.key, node.name, job_of(pod), "", f"drain: node {node.name} is drained") for pod in pods]
        scene.cluster.evict(gone)
        scene.evicted += gone
        for pod in pods:
            if not pod.metadata.owner_references and group_of(pod) is None:
                scene.notes.append(f"Pod {pod.key} on node {node.name} has no owner: nobody would make it anew")


def _leaves(pod: Pod) -> bool:
    is_of_node = any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)
    return not is_of_node and _MIRROR not in pod.metadata.annotations


# -- jobs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submit:
    """Objects that somebody would create: a job, with all that it needs."""

    objects: tuple[KubeObject, ...]
    #: Where they are from, in words.
    source: str = ""

    @property
    def text(self) -> str:
        kinds = sorted({f"{thing.kind} {thing.key}" for thing in self.objects if not isinstance(thing, Pod)})
        shown = kinds or sorted(f"Pod {thing.key}" for thing in self.objects)
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        return f"{', '.join(shown[:3])}{more} submitted"

    def apply(self, scene: Scene) -> None:
        check_workloads(self.objects, {})
        things = self.objects
        if scene.run.is_live:
            # On a live cluster controllers make the pods; here they would take over everything that is there.
            things = tuple(_with_pods(things, scene.cluster.now()))
            scene.notes += _of_others(things, scene.run)
        now = stamp_of(scene.cluster.now())
        scene.cluster.add([_stamped(thing, now + number * _STEP) for number, thing in enumerate(things)])


def _stamped(thing: KubeObject, moment: object) -> KubeObject:
    """A new object: it is the youngest, whatever else has no stamp."""
    meta = replace(thing.metadata, creation_timestamp=thing.metadata.creation_timestamp or moment)
    return replace(thing, metadata=meta)


def _with_pods(things: Sequence[KubeObject], now: float) -> Iterator[KubeObject]:
    """Objects and, where they are workloads, the gangs and pods that controllers would make of them."""
    yield from things
    if any(type(thing) in WORKLOADS.values() for thing in things):
        apart = MemoryCluster(things, start=now)
        apart.attach(served(apart))
        apart.poll()
        given = {(type(thing), thing.key) for thing in things}
        for kind in (PodGroup, KaiPodGroup, Pod):
            yield from (thing for thing in apart.store.all(kind) if (kind, thing.key) not in given)


def _of_others(things: Sequence[KubeObject], run: Run) -> Iterator[str]:
    for thing in things:
        if isinstance(thing, Pod) and run.scheduler.mirror.is_foreign(thing):
            name = thing.spec.scheduler_name or "no scheduler"
            yield f"Pod {thing.key} names {name}, not a scheduler that is asked about here: nobody places it"


@dataclass(frozen=True, slots=True)
class Delete:
    """A job that somebody would delete, with all of its pods."""

    job: str

    @property
    def text(self) -> str:
        return f"job {self.job} deleted"

    def apply(self, scene: Scene) -> None:
        scene.cluster.delete(_top_owner(scene, find_thing(scene, self.job)))


def find_thing(scene: Scene, name: str) -> KubeObject:
    """The workload, PodGroup or lone pod that a name means. Raises UserError that names near ones."""
    for thing in workloads(scene.cluster):
        if name in (thing.key, thing.name):
            return thing
    picture = scene.picture()
    pods = find_pods(picture, name)
    row = int(picture.tasks.job[pods[0]]) if pods else find_job(picture, name)
    record = picture.jobs.records[row]
    if record.source is not None:
        return record.source
    lone = pod_of_lone_job(record.id)
    pod = None if lone is None else scene.cluster.store.get(Pod, lone)
    if pod is None:
        raise UserError(f"job {record.id} has no PodGroup")
    return pod


def workloads(cluster: MemoryCluster) -> Iterator[KubeObject]:
    """Everything of which controllers make pods."""
    for kind in WORKLOADS.values():
        yield from cluster.store.all(kind)


def _top_owner(scene: Scene, thing: KubeObject) -> KubeObject:
    """Who would make it anew if it alone went; itself, if nobody would."""
    by_uid = {known.metadata.uid: known for known in workloads(scene.cluster)}
    while owners := [by_uid[each.uid] for each in thing.metadata.owner_references if each.uid in by_uid]:
        thing = owners[0]
    return thing


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Another priority for a job: the name of a class, or a number."""

    job: str
    priority: str

    @property
    def text(self) -> str:
        return f"priority {self.priority} for {self.job}"

    def apply(self, scene: Scene) -> None:
        name, value = self._class(scene.cluster)
        thing = find_thing(scene, self.job)
        for changed in _with_priority(thing, name, value):
            scene.cluster.replace_object(changed)
        for pod in pods_of(scene, thing):
            spec = replace(pod.spec, priority=value, priority_class_name=name)
            scene.cluster.replace_object(replace(pod, spec=spec))

    def _class(self, cluster: MemoryCluster) -> tuple[str, int]:
        """The class that is meant and its value; a number gets a class of its own."""
        classes = {known.name: known.value for known in cluster.store.all(PriorityClass)}
        known = {**KAI_PRIORITY_CLASSES, **classes}
        if self.priority in known:
            return self.priority, known[self.priority]
        try:
            value = int(self.priority)
        except ValueError:
            names = sorted(known if classes else ())
            near = did_you_mean(self.priority, names) or _listed("classes", names)
            raise UserError(
                f'expected a number or a PriorityClass, got "{self.priority}", which is neither{near}'
            ) from None
        if not -(2**31) <= value < 2**31:
            raise UserError(f"expected a number of 32 bits, got {value}")
        name = f"priority-{value}"
        if name not in classes:
            made = PriorityClass(value=value)
            cluster.add([replace(made, metadata=replace(made.metadata, name=name))])
        return name, value


def _with_priority(thing: KubeObject, name: str, value: int) -> Iterator[KubeObject]:
    if isinstance(thing, PodGroup | KaiPodGroup | Job):
        yield replace(thing, spec=replace(thing.spec, priority_class_name=name))
    elif isinstance(thing, Pod):
        yield replace(thing, spec=replace(thing.spec, priority=value, priority_class_name=name))
    elif isinstance(thing, ForeignWorkload):
        return  # its pods and its gang are changed


def pods_of(scene: Scene, thing: KubeObject) -> list[Pod]:
    """The pods of a job, whatever stands for it."""
    if isinstance(thing, Pod):
        return [thing]
    group = thing.name if isinstance(thing, PodGroup | KaiPodGroup) else ""
    by_uid: dict[str, KubeObject] = {thing.metadata.uid: thing}
    found = []
    for pod in scene.cluster.store.all(Pod):
        is_member = bool(group) and pod.namespace == thing.namespace and group_of(pod) == group
        if is_member or any(owner.uid in by_uid for owner in pod.metadata.owner_references):
            found.append(pod)
    return found


def _listed(noun: str, known: Sequence[str]) -> str:
    if not known:
        return f"; there are no {noun}"
    more = f" and {len(known) - 5} more" if len(known) > 5 else ""
    return f"; {noun}: {', '.join(known[:5])}{more}"


# -- the scheduler ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UseConfig:
    """Another configuration of the scheduler."""

    config: SchedulerConfig
    name: str

    @property
    def text(self) -> str:
        return f"configuration {self.name}"

    def apply(self, scene: Scene) -> None:
        scene.run.configure(self.config)
