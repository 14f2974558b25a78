"""Task classes: what must be equal for two pods to be interchangeable on nodes, and the rows of the classes there are.

Two tasks are of one class when they request the same and when everything on their pods that restricts or ranks
nodes by the nodes' own objects is the same. What depends on other pods (ports, pod affinity, spreading) is not
part of the class: such tasks carry a flag and are checked one by one. A class comes with its first task and goes with
its last; with them the resources that tasks ask for are counted. Requests are laid out once per class and moved when
the axis changes, so that a picture costs a copy.

Tasks that ask for the same may still differ in where they may go, by queue, mark or hour. Before any plugin of a
session is opened, plugins say which tasks they tell apart, and each part of a class becomes a class of its own. All
that works class by class (verdicts, boards, packing, evictions) then holds without knowing why. Part 0 keeps the class
as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api import (
    PluginError,
    Pod,
    is_best_effort,
    is_critical,
    is_preemptable,
    names,
    pod_request,
    pod_scoring_request,
)
from muster.api.objects.pod import mounts_of
from muster.snapshot.columns import Amounts, Mask, ResourceAxis, Rows, TaskStatus
from muster.snapshot.devices import claim_keys
from muster.snapshot.growing import FreeRows
from muster.snapshot.tables import BEST_EFFORT, CRITICAL, GATED, NEEDS_LIVE_CHECK, PREEMPTABLE, ClassTable, Snapshot

_encode = msgspec.json.Encoder(order="deterministic").encode
#: Annotations that say which nodes are better for a pod.
_RANKING: Final = (names.STRATEGY_TYPE, names.STRATEGY_WEIGHT)


class PodShape(msgspec.Struct, frozen=True):
    """What the mirror keeps of a pod besides the pod itself."""

    request: dict[str, int]
    scoring: dict[str, int]
    key: bytes
    flags: int


def shape_of(pod: Pod, devices: Mapping[str, int]) -> PodShape:
    """Derive requests, class key and flags of a pod; `devices` is what its claims ask for."""
    request = {**pod_request(pod), **devices}
    scoring = pod_scoring_request(pod)
    flags = PREEMPTABLE if is_preemptable(pod) else 0
    if is_critical(pod):
        flags |= CRITICAL
    if is_best_effort(request):
        flags |= BEST_EFFORT
    if pod.spec.scheduling_gates:
        flags |= GATED
    if needs_live_check(pod):
        flags |= NEEDS_LIVE_CHECK
    return PodShape(request, scoring, _encode((request, scoring, _constraints(pod))), flags)


def has_same_shape(one: Pod, other: Pod) -> bool:
    """Whether two pods, or versions of one, have the same shape for certain: cheaper to ask than to derive it twice.

    Not asked of pods with device claims, whose shape depends on those. The node does not matter.
    """
    volumes = one.spec.volumes  # most are tokens and settings, whose names differ from pod to pod
    if mounts_of(one) or mounts_of(other):
        if one.metadata.uid != other.metadata.uid:
            return False
        volumes = other.spec.volumes
    changed = msgspec.structs.replace(other.spec, node_name=one.spec.node_name, volumes=volumes)
    return changed == one.spec and _marks(one) == _marks(other)


def _marks(pod: Pod) -> tuple[object, ...]:
    """What a shape depends on beside the spec."""
    metadata = pod.metadata
    preemptable = metadata.annotations.get(names.PREEMPTABLE), metadata.labels.get(names.PREEMPTABLE)
    return (*preemptable, *map(metadata.annotations.get, _RANKING), is_critical(pod))


def needs_live_check(pod: Pod) -> bool:
    """Do other pods decide where this pod may go, or how good a node is for it?"""
    spec = pod.spec
    affinity = spec.affinity
    if spec.topology_spread_constraints:
        return True
    if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
        return True
    containers = (*spec.containers, *spec.init_containers)
    return any(port.host_port for container in containers for port in container.ports)


def _constraints(pod: Pod) -> object:
    spec = pod.spec
    # A claim that was made for one pod is no other's, whatever their names.
    claims = [(mount.claim, pod.metadata.uid if mount.is_ephemeral else "") for mount in mounts_of(pod)]
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    wishes = [pod.metadata.annotations.get(name) for name in _RANKING]
    has_wishes = any(wish is not None for wish in wishes)
    if not (spec.node_selector or node_affinity or spec.tolerations or claims or spec.resource_claims or has_wishes):
        return None
    namespace = pod.namespace if claims or spec.resource_claims else ""
    devices = (spec.resource_claims, claim_keys(pod)) if spec.resource_claims else ()
    constraints = (spec.node_selector, node_affinity, spec.tolerations, claims, devices, namespace)
    return (constraints, wishes) if has_wishes else constraints


#: Stands in rows that no object lives in.
NOBODY: Final = Pod()


class ResourceUses:
    """How often each resource is named."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def add(self, names: Iterable[str]) -> None:
        for name in names:  # not `update`, which would add the amounts of a mapping
            self._uses[name] += 1

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._uses[name] -= 1
            if not self._uses[name]:
                del self._uses[name]

    def names(self) -> Iterable[str]:
        """Those that somebody names."""
        return self._uses.keys()


class ClassBook:
    """Rows of classes."""

    def __init__(self, resources: ResourceUses) -> None:
        self._resources = resources
        self._rows = FreeRows()
        self._row_of: dict[bytes, int] = {}
        self._shapes: list[PodShape | None] = []
        self._pods: list[Pod] = []
        self._keys: list[bytes] = []
        self._uses: list[int] = []
        self._axis = ResourceAxis()
        self._requests: Amounts = np.zeros((0, 2, len(self._axis)), np.int64)
        #: Rows whose requests are not laid out yet.
        self._new: set[int] = set()

    def __len__(self) -> int:
        """Classes that there are."""
        return len(self._row_of)

    def take(self, shape: PodShape, pod: Pod) -> int:
        """The row of a class that has one more task."""
        row = self._row_of.get(shape.key)
        if row is None:
            row = self._row_of[shape.key] = self._rows.take()
            if row == len(self._shapes):
                self._shapes.append(None)
                self._pods.append(NOBODY)
                self._keys.append(b"")
                self._uses.append(0)
            self._shapes[row], self._pods[row], self._keys[row] = shape, pod, shape.key
            self._resources.add(shape.request)
            self._new.add(row)
        self._uses[row] += 1
        return row

    def give_back(self, row: int) -> None:
        """A class has one task less."""
        self._uses[row] -= 1
        shape = self._shapes[row]
        if self._uses[row] or shape is None:
            return
        del self._row_of[shape.key]
        self._resources.remove(shape.request)
        self._shapes[row], self._pods[row], self._keys[row] = None, NOBODY, b""
        self._new.add(row)
        self._rows.give_back(row)
        self._trim()

    def is_scattered(self) -> bool:
        return self._rows.is_scattered()

    def compact(self) -> NDArray[np.intp]:
        """Move the classes together; returns the new row of each, -1 for free ones."""
        moved = self._rows.compact()
        kept = np.flatnonzero(moved >= 0).tolist()
        self._shapes = [self._shapes[row] for row in kept]
        self._pods = [self._pods[row] for row in kept]
        self._keys = [self._keys[row] for row in kept]
        self._uses = [self._uses[row] for row in kept]
        self._row_of = {key: row for row, key in enumerate(self._keys)}
        self._requests = self._requests[:0]
        self._new = set(range(len(kept)))
        return moved

    def table(self, axis: ResourceAxis) -> ClassTable:
        """The classes, for a picture to own; the axis has every resource that they ask for."""
        self._lay_out(axis)
        return ClassTable(self._requests[: self._rows.size].copy(), list(self._pods), list(self._keys))

    def _trim(self) -> None:
        size = self._rows.size
        del self._shapes[size:], self._pods[size:], self._keys[size:], self._uses[size:]

    def _lay_out(self, axis: ResourceAxis) -> None:
        size = self._rows.size
        if axis.names != self._axis.names or not size <= len(self._requests) <= 4 * max(size, 64):
            # What is laid out names nothing but what the axis had before.
            both = [name for name in axis.names if name in self._axis.index]
            requests = np.zeros((2 * size, 2, len(axis)), np.int64)
            n = min(size, len(self._requests))
            known = self._requests[:n, :, [self._axis.index[name] for name in both]]
            requests[:n, :, [axis.index[name] for name in both]] = known
            self._requests, self._axis = requests, axis
        for row in self._new:
            if row < size:
                shape = self._shapes[row]
                self._requests[row, 0] = 0 if shape is None else axis.vector(shape.request)
                self._requests[row, 1] = 0 if shape is None else axis.vector(shape.scoring)
        self._new.clear()


@dataclass(frozen=True, slots=True)
class Division:
    """How a plugin tells tasks apart."""

    #: int64 per task: its part; 0 for those whose class says it all.
    parts: Rows
    #: By part, "" for part 0. Verdicts are kept across cycles under these names: a part whose nodes may change for
    #: another reason than a change of the nodes has to be named after that reason.
    names: tuple[str, ...]
    #: Tasks whose places depend on the other pods of the moment, so that they are placed one by one; None: none.
    live: Mask | None = None


def divide_classes(snapshot: Snapshot, divisions: Mapping[str, Division]) -> dict[str, Rows]:
    """Divide the classes of a snapshot; return the part of every class, by the plugin that asked."""
    for owner, division in divisions.items():
        _split(snapshot, owner, division)
        if division.live is not None:
            snapshot.tasks.flags[division.live] |= np.uint8(NEEDS_LIVE_CHECK)
    return {owner: _part_of_class(snapshot, division) for owner, division in divisions.items()}


def _split(snapshot: Snapshot, owner: str, division: Division) -> None:
    """Give the tasks of every part but the first classes of their own."""
    tasks, classes, n_parts = snapshot.tasks, snapshot.classes, len(division.names)
    special = np.flatnonzero((division.parts > 0) & (tasks.status != TaskStatus.GONE))
    if len(special) == 0:
        return
    pairs = tasks.cls[special].astype(np.int64) * n_parts + division.parts[special]
    found, firsts, places = np.unique(pairs, return_index=True, return_inverse=True)
    origins = found // n_parts
    marks = [f"|{owner}:{division.names[part]}".encode() for part in (found % n_parts).tolist()]
    snapshot.classes = ClassTable(
        requests=np.concatenate([classes.requests, classes.requests[origins]]),
        pods=[*classes.pods, *(tasks.pods[task] for task in special[firsts].tolist())],
        keys=[*classes.keys, *(classes.keys[cls] + mark for cls, mark in zip(origins.tolist(), marks, strict=True))],
    )
    tasks.cls[special] = len(classes) + places


def _part_of_class(snapshot: Snapshot, division: Division) -> Rows:
    """The part that the tasks of each class have in common."""
    parts: Rows = np.zeros(len(snapshot.classes), np.intp)
    here = snapshot.tasks.status != TaskStatus.GONE
    parts[snapshot.tasks.cls[here]] = division.parts[here]
    return parts


def divide_by_marks(snapshot: Snapshot, labels: Sequence[str], annotations: Sequence[str]) -> Division | None:
    """Tell tasks apart by what their pods have under these keys; None: no pod has any of them."""
    parts: Rows = np.zeros(len(snapshot.tasks), np.intp)
    found: dict[tuple[str | None, ...], int] = {}
    for task, pod in enumerate(snapshot.tasks.pods):
        marks = (*map(pod.metadata.labels.get, labels), *map(pod.metadata.annotations.get, annotations))
        if any(mark is not None for mark in marks):
            parts[task] = found.setdefault(marks, len(found) + 1)
    return Division(parts, ("", *map(repr, found))) if found else None


class ClassPods(Sequence[Pod]):
    """A pod of each class; of its labels and annotations, only those that all pods of the class have in common."""

    def __init__(self, snapshot: Snapshot, labels: Collection[str], annotations: Collection[str]) -> None:
        self._pods = snapshot.classes.pods
        self._tasks = snapshot.tasks
        self._labels = frozenset(labels)
        self._annotations = frozenset((*annotations, *_RANKING))
        self._shown: dict[int, Pod] = {}

    @cached_property
    def _members(self) -> Rows:
        """A task of every class: the pod that a class began with may have become a class of its own."""
        members: Rows = np.full(len(self._pods), -1, np.intp)
        here = np.flatnonzero(self._tasks.status != TaskStatus.GONE)
        members[self._tasks.cls[here]] = here
        return members

    def __len__(self) -> int:
        return len(self._pods)

    def __getitem__(self, cls: Any) -> Any:  # noqa: ANN401  # a number is all that anybody asks with
        pod = self._shown.get(cls)
        if pod is None:
            member = int(self._members[cls])
            own = self._pods[cls] if member < 0 else self._tasks.pods[member]
            metadata = msgspec.structs.replace(
                own.metadata,
                labels=_Marks("label", own.metadata.labels, self._labels),
                annotations=_Marks("annotation", own.metadata.annotations, self._annotations),
            )
            pod = self._shown[cls] = msgspec.structs.replace(own, metadata=metadata)
        return pod


class _Marks(dict[str, str]):
    """Labels or annotations of a class of pods; asking for what may differ from pod to pod is refused."""

    def __init__(self, kind: str, given: dict[str, str], common: frozenset[str]) -> None:
        super().__init__({key: value for key, value in dict.items(given) if key in common})
        self._kind = kind
        self._common = common

    def _refuse(self, key: str) -> NoReturn:
        raise PluginError(
            f"the {self._kind} {key} may differ between the pods of a class, which share this answer; "
            f'name it in the plugin: pod_{self._kind}s = ("{key}",)'
        )

    def __getitem__(self, key: str) -> str:
        return super().__getitem__(key) if key in self._common else self._refuse(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) if key in self._common else self._refuse(str(key))

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401  # as dict has it
        return super().get(key, default) if key in self._common else self._refuse(key)

    def __iter__(self) -> NoReturn:
        self._refuse("KEY")

    items = keys = values = __iter__  # what is in common is asked for by name
