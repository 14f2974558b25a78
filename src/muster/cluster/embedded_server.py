"""The API server of the embedded cluster: what it fills in before anybody sees an object, what it keeps, what it tells.

`admit` does what an API server, its admission plugins and a kubelet do to a new object. Objects are copied, never
changed: callers keep theirs as loaded. Creation stamps that are missing follow the order of the documents, a
millisecond apart, so that "first come" means "first in the file".
`Store` keeps objects, the events of every change, and what pods take on each node. Whoever changes an object puts a
copy. The life of pods and the verbs of the protocol are in `memory`.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec.structs import replace

from muster.api import (
    KINDS,
    WORKLOADS,
    KaiQueue,
    KaiQueueResource,
    KaiQueueResources,
    KaiQueueSpec,
    KubeObject,
    Node,
    Pod,
    PodGroup,
    PriorityClass,
    Quantity,
    Queue,
    UserError,
    pod_request,
    to_base_all,
)
from muster.api.names import (
    DEFAULT_QUEUE,
    EXIT,
    EXIT_CODE,
    KAI_DEFAULT_QUEUE,
    KAI_OLD_QUEUE,
    KAI_PARENT_QUEUE,
    KAI_QUEUE,
    ROOT_QUEUE,
    RUN_SECONDS,
)
from muster.api.objects.pod import ContainerState, ContainerStatus, ContainerTerminated, kai_queue_of
from muster.api.objects.workloads import ForeignWorkload
from muster.cluster.clock import stamp_of, within_calendar
from muster.snapshot.messages import Event, EventKind

#: Pods that a kubelet takes unless told otherwise.
DEFAULT_PODS: Final = Quantity("110")
DEFAULT_GRACE_SECONDS: Final = 30
#: Where the clock starts when no object says when it was made: 2026-01-01T00:00:00Z.
DEFAULT_START: Final = 1767225600.0

_STEP: Final = timedelta(milliseconds=1)
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_EXITS: Final = ("succeeded", "failed")
_NAMING: Final = frozenset(WORKLOADS.values())
_ENDED = ("Succeeded", "Failed")

_Kind = TypeVar("_Kind", bound=KubeObject)


def admit(
    objects: Sequence[KubeObject], now: float, classes: Mapping[str, PriorityClass], *, as_is: bool = False
) -> list[KubeObject]:
    """Return copies of the objects with everything filled in, in the same order.

    `as_is`: they are taken from a cluster, where nobody has checked what only this one reads.
    """
    if as_is:
        objects = [_without_nonsense(thing) for thing in objects]
    known = {**classes, **{thing.name: thing for thing in objects if isinstance(thing, PriorityClass)}}
    first = stamp_of(now) - len(objects) * _STEP
    return [_admit(thing, first + place * _STEP, known) for place, thing in enumerate(objects)]


def _admit(thing: KubeObject, created: datetime, classes: Mapping[str, PriorityClass]) -> KubeObject:
    stamped = _stamp(thing, created)
    if isinstance(stamped, Pod):
        run_seconds(stamped)
        exit_code(stamped)
        return _with_priority(_with_phase(stamped), classes)
    if isinstance(stamped, Node):
        return _with_pods(stamped)
    return stamped


def _without_nonsense(thing: KubeObject) -> KubeObject:
    """The object without words on its life that make no sense."""
    if not isinstance(thing, Pod):
        return thing
    for read, key in ((run_seconds, RUN_SECONDS), (exit_phase, EXIT), (exit_code, EXIT_CODE)):
        try:
            read(thing)
        except UserError:
            kept = {name: text for name, text in thing.metadata.annotations.items() if name != key}
            thing = replace(thing, metadata=replace(thing.metadata, annotations=kept))
    return thing


def _stamp(thing: _Kind, created: datetime) -> _Kind:
    meta = thing.metadata
    return replace(
        thing,
        metadata=replace(
            meta,
            namespace=thing.namespace,
            uid=meta.uid or uid_of(thing),
            creation_timestamp=meta.creation_timestamp or created,
        ),
    )


def uid_of(thing: KubeObject) -> str:
    """What tells an object from others; short for those whose uid becomes a part of other objects' names."""
    if isinstance(thing, ForeignWorkload):
        return f"{zlib.crc32(f'{thing.api_version}/{thing.kind}/{thing.key}'.encode()):08x}"
    if type(thing) in _NAMING:
        return f"{zlib.crc32(thing.key.encode()):08x}"
    return f"{thing.kind.lower()}/{thing.key}"


def _with_phase(pod: Pod) -> Pod:
    return pod if pod.status.phase else replace(pod, status=replace(pod.status, phase="Pending"))


def _with_pods(node: Node) -> Node:
    status = node.status
    if "pods" in status.allocatable:
        return node
    return replace(node, status=replace(status, allocatable={**status.allocatable, "pods": DEFAULT_PODS}))


def _with_priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    """Set the priority that the pod's class stands for, or that of the default class."""
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    if name in _SYSTEM_PRIORITIES:
        return replace(pod, spec=replace(pod.spec, priority=_SYSTEM_PRIORITIES[name]))
    chosen = classes.get(name) if name else _default_class(classes)
    if chosen is None:
        return pod
    policy = pod.spec.preemption_policy or chosen.preemption_policy
    spec = replace(pod.spec, priority=chosen.value, priority_class_name=chosen.name, preemption_policy=policy)
    return replace(pod, spec=spec)


def _default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Of several, which only a race makes, an API server takes the lowest."""
    defaults = [known for known in classes.values() if known.global_default]
    return min(defaults, key=lambda known: (known.value, known.name), default=None)


def run_seconds(pod: Pod) -> float | None:
    """Return how long the pod runs; None: for ever. Raises UserError for what is no number of seconds."""
    text = pod.metadata.annotations.get(RUN_SECONDS)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 <= seconds < math.inf):
        raise UserError(
            f'expected a number of seconds such as "600", got "{text}"',
            subject=f"Pod {pod.key}",
            field=f'metadata.annotations["{RUN_SECONDS}"]',
        )
    return seconds


def exit_phase(pod: Pod) -> str:
    """Return the phase in which the pod ends. Raises UserError for a word that is none."""
    text = pod.metadata.annotations.get(EXIT, _EXITS[0])
    if text not in _EXITS:
        raise UserError(
            f'expected "{_EXITS[0]}" or "{_EXITS[1]}", got "{text}"',
            subject=f"Pod {pod.key}",
            field=f'metadata.annotations["{EXIT}"]',
        )
    return text.capitalize()


def ended_containers(pod: Pod, now: datetime) -> list[ContainerStatus]:
    """How the containers of a pod ended. Raises UserError for an exit code that is none."""
    code = exit_code(pod)
    end = ContainerState(terminated=ContainerTerminated(exit_code=code, finished_at=now))
    return [ContainerStatus(name=container.name, state=end) for container in pod.spec.containers]


def exit_code(pod: Pod) -> int:
    """With what the pod ends: 0 unless it fails, else 1 or what is written. Raises UserError for what is no code."""
    if exit_phase(pod) != "Failed":
        return 0
    text = pod.metadata.annotations.get(EXIT_CODE, "1")
    if not text.isdecimal() or not 0 < int(text) < 256:
        raise UserError(
            f'expected an exit code such as "137", got "{text}"',
            subject=f"Pod {pod.key}",
            field=f'metadata.annotations["{EXIT_CODE}"]',
        )
    return int(text)


def grace_seconds(pod: Pod) -> float:
    """Return how long the pod may take to leave."""
    given = pod.spec.termination_grace_period_seconds
    return float(DEFAULT_GRACE_SECONDS if given is None else max(given, 0))


def start_of(objects: Iterable[KubeObject]) -> float:
    """Return a moment at which every given object exists already: whole seconds since the epoch."""
    stamps = [made.timestamp() for thing in objects if (made := thing.metadata.creation_timestamp)]
    return float(math.ceil(within_calendar(max(stamps)))) if stamps else DEFAULT_START


def standard_queues(present: Iterable[KubeObject]) -> list[Queue | KaiQueue]:
    """Return the queues that installations make and `present` does not have: Volcano's, and KAI's where it is named.

    A cluster whose queues are all KAI's is one without Volcano: it gets none.
    """
    given = list(present)
    named = {thing.name for thing in given if isinstance(thing, Queue | KaiQueue)}
    if KAI_DEFAULT_QUEUE in named or not any(map(_names_kais_queue, given)):
        return _volcanos_queues(given)
    return [*_volcanos_queues(given), *(queue for queue in _kais_queues() if queue.name not in named)]


def _names_kais_queue(thing: KubeObject) -> bool:
    """Whether a pod or workload names the queue that KAI's installation makes."""
    if not isinstance(thing, Pod | ForeignWorkload):
        return False
    if kai_queue_of(thing.metadata.labels) == KAI_DEFAULT_QUEUE:
        return True
    return isinstance(thing, ForeignWorkload) and any(
        f"'{key}': '{KAI_DEFAULT_QUEUE}'" in str(thing.spec) for key in (KAI_QUEUE, KAI_OLD_QUEUE)
    )


def _kais_queues() -> list[Queue | KaiQueue]:
    every = KaiQueueResource(quota=-1.0, limit=-1.0, over_quota_weight=1.0)
    made: list[Queue | KaiQueue] = []
    for name, parent in ((KAI_PARENT_QUEUE, ""), (KAI_DEFAULT_QUEUE, KAI_PARENT_QUEUE)):
        resources = KaiQueueResources(gpu=every, cpu=every, memory=every)
        made.append(KaiQueue(spec=KaiQueueSpec(parent_queue=parent, resources=resources)))
        made[-1].metadata.name = name
    return made


def _volcanos_queues(given: Sequence[KubeObject]) -> list[Queue | KaiQueue]:
    names = {thing.name for thing in given if isinstance(thing, Queue | KaiQueue)}
    if names and not any(isinstance(thing, Queue | PodGroup) for thing in given):
        return []
    queues = [Queue(), Queue()]
    for queue, name in zip(queues, (ROOT_QUEUE, DEFAULT_QUEUE), strict=True):
        queue.metadata.name = name
    return [queue for queue in queues if queue.name not in names]


class Store:
    """Objects by type and key."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[str, KubeObject]] = defaultdict(dict)
        self._events: list[Event] = []
        self._notes: list[Event] = []
        #: The same for controllers, who also hear of what scheduling does not read; None: nobody listens.
        self._feed: list[Event] | None = None
        self._used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._pods_on: dict[str, dict[str, None]] = defaultdict(dict)

    # -- reading -------------------------------------------------------------------------------------------

    def get(self, kind: type[_Kind], key: str) -> _Kind | None:
        found = self._objects[kind].get(key)
        return found if isinstance(found, kind) else None

    def all(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """Objects of one type, in the order they were made."""
        for thing in list(self._objects[kind].values()):
            if isinstance(thing, kind):
                yield thing

    def find(self, kind: str, key: str) -> KubeObject | None:
        """Return an object by the name of its kind, in any case and of any API family."""
        for known in (*KINDS.values(), *WORKLOADS.values()):
            if known.kind.lower() == kind.lower() and (found := self._objects[known].get(key)) is not None:
                return found
        return None

    def find_same(self, thing: KubeObject) -> KubeObject | None:
        """The object of this type and name, as it is now."""
        return self._objects[type(thing)].get(thing.key)

    def owned_by(self, owner: KubeObject) -> list[KubeObject]:
        """What goes with an object that is deleted."""
        uid = owner.metadata.uid
        everything = [thing for shelf in self._objects.values() for thing in shelf.values()]
        return [thing for thing in everything if any(each.uid == uid for each in thing.metadata.owner_references)]

    def pods_on(self, node: str) -> list[Pod]:
        """Pods that take room on a node, in the order they came."""
        pods = (self.get(Pod, key) for key in self._pods_on[node])
        return [pod for pod in pods if pod is not None]

    def used(self, node: str) -> dict[str, int]:
        """What pods take on a node, in base units."""
        return {name: amount for name, amount in self._used[node].items() if amount}

    def missing_room(self, node: Node, pod: Pod) -> dict[str, int]:
        """Return what the node lacks to take the pod, in base units; empty when it fits."""
        missing = {}
        offers = _counted(lambda: to_base_all(node.status.allocatable))
        for name, amount in pod_request(pod).items():
            free = offers.get(name, 0) - self._used[node.name][name]
            if amount > free:
                missing[name] = amount - free
        return missing

    # -- changing ------------------------------------------------------------------------------------------

    def put(self, thing: KubeObject) -> None:
        """Add or replace an object."""
        before = self._objects[type(thing)].get(thing.key)
        self._objects[type(thing)][thing.key] = thing
        self._rebook(before, thing)
        self._tell("ADDED" if before is None else "MODIFIED", thing)

    def note(self, thing: KubeObject) -> None:
        """Replace an object by one that differs only in what nobody decides by: it is told, and is no news."""
        self._objects[type(thing)][thing.key] = thing
        self._notes.append(Event("MODIFIED", thing))

    def put_unreadable(self, thing: KubeObject, fault: str) -> None:
        """Hold what is left of an object that nobody can read."""
        self._objects[type(thing)][thing.key] = thing
        self._events.append(Event("UNREADABLE", thing, fault))

    def remove(self, thing: KubeObject) -> None:
        """Take an object away."""
        gone = self._objects[type(thing)].pop(thing.key)
        self._rebook(gone, None)
        self._tell("DELETED", gone)

    def drain_events(self) -> list[Event]:
        """Return what happened since the last call."""
        events, self._events, self._notes = [*self._notes, *self._events], [], []
        return events

    def feed(self) -> list[Event]:
        """Return what controllers have not heard yet; the first time, that everything is there."""
        if self._feed is None:
            self._feed = [Event("ADDED", thing) for shelf in self._objects.values() for thing in shelf.values()]
        events, self._feed = self._feed, []
        return events

    @property
    def has_events(self) -> bool:
        """Whether something happened that may change a decision."""
        return bool(self._events or self._feed)

    def _tell(self, kind: EventKind, thing: KubeObject) -> None:
        if type(thing) not in _NAMING:
            self._events.append(Event(kind, thing))
        if self._feed is not None:
            self._feed.append(Event(kind, thing))

    def _rebook(self, before: KubeObject | None, after: KubeObject | None) -> None:
        was = isinstance(before, Pod) and is_on_node(before)
        is_now = isinstance(after, Pod) and is_on_node(after)
        if isinstance(before, Pod) and was and not is_now:
            self._pods_on[before.spec.node_name].pop(before.key, None)
            self._book(before, -1)
        elif isinstance(after, Pod) and is_now and not was:
            self._pods_on[after.spec.node_name][after.key] = None
            self._book(after, +1)

    def _book(self, pod: Pod, sign: int) -> None:
        used = self._used[pod.spec.node_name]
        for name, amount in _counted(lambda: pod_request(pod)).items():
            used[name] += sign * amount


def is_on_node(pod: Pod) -> bool:
    """Does the pod take room on its node?"""
    return bool(pod.spec.node_name) and pod.status.phase not in _ENDED


def _counted(amounts: Callable[[], dict[str, int]]) -> dict[str, int]:
    """Amounts of an object; none where they cannot be counted: no kubelet would run such a pod, or be such a node."""
    try:
        return amounts()
    except UserError:
        return {}
