"""What was asked of the cluster and is not confirmed yet, laid over what the cluster last said.

A decision counts from the moment it is sent: the next snapshot must not give the same room away twice. Until the watch
shows the change, events of the object carry it as if it had happened; when the server refuses, or nothing is heard in
time, the object is reported again as it really is. In the scheduler's thread only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from muster.api import HyperNode, KaiPodGroup, KaiQueue, KubeObject, Pod, PodGroup, Queue, group_of, waits_for
from muster.cluster.written_objects import AnyGroup, AnyQueue, updated_queue, waiting_pod
from muster.snapshot.messages import Event, QueueUpdate
from muster.snapshot.records import pod_of_lone_job

_Kind = TypeVar("_Kind", bound=KubeObject)
_Place = tuple[type[KubeObject], str]


@dataclass(frozen=True, slots=True, eq=False)
class Assumption:
    """One change of one object that is on its way."""

    of: type[KubeObject]
    key: str
    uid: str
    #: What it is about; a newer one on the same topic takes its place.
    topic: str
    #: What the object will be like.
    apply: Callable[[KubeObject], KubeObject]
    #: Whether a version of the object shows that the change, or a later one, has arrived.
    is_confirmed_by: Callable[[KubeObject], bool]


class Assumptions:
    """The true objects, and the changes that are assumed of them."""

    def __init__(self) -> None:
        self._truth: dict[type[KubeObject], dict[str, KubeObject]] = {
            kind: {} for kind in (Pod, PodGroup, KaiPodGroup, HyperNode, Queue, KaiQueue)
        }
        self._held: dict[_Place, list[Assumption]] = defaultdict(list)
        self._made: list[Event] = []
        self._pods_of = _PodsOfJobs()

    def find(self, kind: type[_Kind], key: str) -> _Kind | None:
        """Return an object as the cluster last reported it."""
        found = self._truth[kind].get(key)
        return found if isinstance(found, kind) else None

    def find_assumed(self, kind: type[_Kind], key: str) -> _Kind | None:
        """Return an object as it will be when everything that was asked for has happened."""
        found = self.find(kind, key)
        if found is None:
            return None
        assumed = self._overlaid(found)
        return assumed if isinstance(assumed, kind) else None

    def jobs(self) -> list[str]:
        """All jobs with a PodGroup that have pods, by id."""
        return self._pods_of.jobs()

    def group(self, job: str) -> AnyGroup | None:
        """The PodGroup of a job, of either family, as it will be."""
        return self.find_assumed(PodGroup, job) or self.find_assumed(KaiPodGroup, job)

    def pods(self, job: str) -> list[Pod]:
        """The pods of a job as they will be, by name; a pod without a PodGroup is a job of its own."""
        alone = pod_of_lone_job(job)
        keys = self._pods_of.of(job) if alone is None else [alone]
        pods = (self.find_assumed(Pod, key) for key in keys)
        return [pod for pod in pods if pod is not None]

    def observe(self, event: Event) -> Event:
        """Take in what the cluster reports; return it with what is still assumed laid over it."""
        thing = event.object
        truth = self._truth.get(type(thing))
        if truth is None:
            return event
        place = (type(thing), thing.key)
        if isinstance(thing, Pod):
            self._pods_of.observe(thing, is_gone=event.kind == "DELETED")
        if event.kind == "DELETED":
            truth.pop(thing.key, None)
            self._held.pop(place, None)
            return event
        truth[thing.key] = thing
        if place not in self._held:
            return event
        self._settle(place, thing)
        return Event(event.kind, self._overlaid(thing))

    def hold(self, assumption: Assumption) -> None:
        """Assume a change of an object that is known."""
        place = (assumption.of, assumption.key)
        earlier = (known for known in self._held[place] if known.topic != assumption.topic)
        self._held[place] = [*earlier, assumption]
        self._report(assumption)

    def release(self, assumption: Assumption) -> bool:
        """Assume it no longer; False when it was confirmed or overtaken before."""
        place = (assumption.of, assumption.key)
        if assumption not in self._held.get(place, ()):
            return False
        self._remove(place, assumption)
        self._report(assumption)
        return True

    def is_held(self, assumption: Assumption) -> bool:
        """Whether the cluster has not confirmed it yet."""
        return assumption in self._held.get((assumption.of, assumption.key), ())

    def drain(self) -> list[Event]:
        """Return the events that assuming and releasing made since the last call."""
        made, self._made = self._made, []
        return made

    def _report(self, assumption: Assumption) -> None:
        thing = self._truth[assumption.of].get(assumption.key)
        if thing is not None:
            self._made.append(Event("MODIFIED", self._overlaid(thing)))

    def _settle(self, place: _Place, thing: KubeObject) -> None:
        """Drop what a new version confirms, and everything that was assumed of an object replaced since."""
        for assumption in list(self._held[place]):
            if assumption.uid != thing.metadata.uid or assumption.is_confirmed_by(thing):
                self._remove(place, assumption)

    def _remove(self, place: _Place, assumption: Assumption) -> None:
        self._held[place].remove(assumption)
        if not self._held[place]:
            del self._held[place]

    def _overlaid(self, thing: KubeObject) -> KubeObject:
        for assumption in self._held.get((type(thing), thing.key), ()):
            thing = assumption.apply(thing)
        return thing


class _PodsOfJobs:
    """Keys of pods by job id; pods without a PodGroup are not listed."""

    def __init__(self) -> None:
        self._job_of: dict[str, str] = {}
        self._pods_of: dict[str, set[str]] = {}

    def observe(self, pod: Pod, *, is_gone: bool) -> None:
        group = None if is_gone else group_of(pod)
        self._move(pod.key, None if group is None else f"{pod.namespace}/{group}")

    def jobs(self) -> list[str]:
        return sorted(self._pods_of)

    def of(self, job: str) -> list[str]:
        return sorted(self._pods_of.get(job, ()))

    def _move(self, key: str, job: str | None) -> None:
        before = self._job_of.get(key)
        if before == job:
            return
        if before is not None:
            del self._job_of[key]
            self._pods_of[before].discard(key)
            if not self._pods_of[before]:
                del self._pods_of[before]
        if job is not None:
            self._job_of[key] = job
            self._pods_of.setdefault(job, set()).add(key)


# -- the changes that Muster makes -----------------------------------------------------------------------------


def bound(pod: Pod, node: str) -> Assumption:
    """The pod is on the node; what it was nominated for has served its purpose."""

    def apply(thing: KubeObject) -> KubeObject:
        assert isinstance(thing, Pod)
        spec = replace(thing.spec, node_name=node)
        return replace(thing, spec=spec, status=replace(thing.status, nominated_node_name=""))

    return Assumption(Pod, pod.key, pod.metadata.uid, "bind", apply, lambda thing: _pod(thing).spec.node_name != "")


def leaving(pod: Pod, since: datetime) -> Assumption:
    """The pod was asked to leave."""

    def apply(thing: KubeObject) -> KubeObject:
        return replace(thing, metadata=replace(thing.metadata, deletion_timestamp=since))

    return Assumption(
        Pod, pod.key, pod.metadata.uid, "evict", apply, lambda thing: thing.metadata.deletion_timestamp is not None
    )


def told_to_wait(pod: Pod, reason: str, message: str, since: datetime) -> Assumption:
    """The pod says what it waits for."""

    def is_confirmed(thing: KubeObject) -> bool:
        return waits_for(_pod(thing), reason) or _pod(thing).spec.node_name != ""

    return Assumption(
        Pod,
        pod.key,
        pod.metadata.uid,
        "condition",
        lambda thing: waiting_pod(_pod(thing), message, since),
        is_confirmed,
    )


def nominated(pod: Pod, node: str, says: str, since: datetime) -> Assumption:
    """The pod waits for the node ("": for none), and says so, if anything."""

    def apply(thing: KubeObject) -> KubeObject:
        assert isinstance(thing, Pod)
        promised = replace(thing, status=replace(thing.status, nominated_node_name=node))
        return waiting_pod(promised, says, since) if says else promised

    def is_confirmed(thing: KubeObject) -> bool:
        return _pod(thing).status.nominated_node_name == node or _pod(thing).spec.node_name != ""

    return Assumption(Pod, pod.key, pod.metadata.uid, "nominate", apply, is_confirmed)


def with_status(thing: PodGroup | KaiPodGroup | HyperNode) -> Assumption:
    """The object's status is that of the given version."""
    status = thing.status

    def apply(other: KubeObject) -> KubeObject:
        return replace(other, status=status)

    def is_confirmed(other: KubeObject) -> bool:
        return getattr(other, "status", None) == status

    return Assumption(type(thing), thing.key, thing.metadata.uid, "status", apply, is_confirmed)


def with_use(queue: AnyQueue, update: QueueUpdate) -> Assumption:
    """The queue's status says what the queue holds; whether it is open is for others to say."""

    def apply(other: KubeObject) -> KubeObject:
        return updated_queue(_queue(other), update)

    def is_confirmed(other: KubeObject) -> bool:
        return updated_queue(_queue(other), update).status == _queue(other).status

    return Assumption(type(queue), queue.key, queue.metadata.uid, "status", apply, is_confirmed)


def with_annotations(thing: KubeObject, changes: Mapping[str, str | None]) -> Assumption:
    """The named annotations are set, or gone (None)."""

    def apply(other: KubeObject) -> KubeObject:
        merged: dict[str, str | None] = {**other.metadata.annotations, **changes}
        kept = {name: value for name, value in merged.items() if value is not None}
        return replace(other, metadata=replace(other.metadata, annotations=kept))

    def is_confirmed(other: KubeObject) -> bool:
        return all(other.metadata.annotations.get(name) == value for name, value in changes.items())

    topic = f"annotations {sorted(changes)}"
    return Assumption(type(thing), thing.key, thing.metadata.uid, topic, apply, is_confirmed)


def _queue(thing: KubeObject) -> AnyQueue:
    assert isinstance(thing, Queue | KaiQueue)
    return thing


def _pod(thing: KubeObject) -> Pod:
    assert isinstance(thing, Pod)
    return thing
