"""The objects of the embedded cluster, the events of every change, and what pods take on each node.

The life of pods and the verbs of the protocol are in `memory`; here is only what an API server's storage and
a kubelet's bookkeeping know. Whoever changes an object puts a copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from muster.api import KINDS, KubeObject, Node, Pod, UserError, pod_request, to_base_all
from muster.snapshot.messages import Event, EventKind

_Kind = TypeVar("_Kind", bound=KubeObject)
_ENDED = ("Succeeded", "Failed")


def is_on_node(pod: Pod) -> bool:
    """Does the pod take room on its node?"""
    return bool(pod.spec.node_name) and pod.status.phase not in _ENDED


class Store:
    """Objects by type and key."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[str, KubeObject]] = defaultdict(dict)
        self._events: list[Event] = []
        self._notes: list[Event] = []
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
        for known in KINDS.values():
            if known.kind.lower() == kind.lower() and (found := self._objects[known].get(key)) is not None:
                return found
        return None

    def find_same(self, thing: KubeObject) -> KubeObject | None:
        """The object of this type and name, as it is now."""
        return self._objects[type(thing)].get(thing.key)

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

    @property
    def has_events(self) -> bool:
        """Whether something happened that may change a decision."""
        return bool(self._events)

    def _tell(self, kind: EventKind, thing: KubeObject) -> None:
        self._events.append(Event(kind, thing))

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


def _counted(amounts: Callable[[], dict[str, int]]) -> dict[str, int]:
    """Amounts of an object; none where they cannot be counted: no kubelet would run such a pod, or be such a node."""
    try:
        return amounts()
    except UserError:
        return {}
