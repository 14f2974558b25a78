"""What admission rules are made of: a request, what the cluster has, settings, what a rule finds; and documents.

Every rule is a function of these and nothing else, so that the server, the tests and recorded cases ask the same
code. A `Problem` refuses the object; a `Caution` lets it pass and tells the user what will not work yet.

Where two versions of a document differ, lists are compared element by element only if they are equally long;
otherwise they differ as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from muster.api import (
    HyperNode,
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Namespace,
    PodGroup,
    Problem,
    Quantity,
    Queue,
    UserError,
)
from muster.api.errors import Problems
from muster.api.kinds import decode_as
from muster.snapshot.records import yields_to

Json = dict[str, Any]  # Any: a document

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
_Kind = TypeVar("_Kind", bound=KubeObject)
_Asked = ParamSpec("_Asked")

#: What the server puts behind a prefix when it makes up a name.
_MADE_UP = "xxxxx"
Path = tuple[str | int, ...]


class Caution(NamedTuple):
    """A field, and what it will lead to; the object is admitted."""

    field: str
    text: str


Findings = Iterator[Problem | Caution]


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants to do to one object."""

    operation: str
    #: The object as it will be; empty when it is to be deleted.
    document: Json
    #: The object as it is; empty when there is none yet.
    old: Json
    name: str = ""
    namespace: str = ""


class Known(Protocol):
    """What the cluster has."""

    def queue(self, name: str) -> Queue | KaiQueue | None:
        """One queue, whichever family it is of."""

    def pods_held(self, name: str) -> int:
        """Pods that one of Volcano's queues holds, as its status counts them."""

    def queues(self) -> Mapping[str, Queue]:
        """Volcano's queues by name."""

    def children(self, name: str) -> list[str]:
        """Names of Volcano's queues directly below one, sorted."""

    def children_now(self, name: str) -> list[str]:
        """The same, those included that were made a moment ago; may take a request."""

    def hyper_nodes(self) -> Mapping[str, HyperNode]:
        """All HyperNodes by name."""

    def namespace(self, name: str) -> Namespace | None:
        """One namespace."""

    def kai_queue(self, name: str) -> KaiQueue | None:
        """One of KAI's queues."""

    def pod_group(self, key: str) -> PodGroup | None:
        """One of Volcano's PodGroups, by namespace/name."""

    def kai_pod_group(self, key: str) -> KaiPodGroup | None:
        """One of KAI's PodGroups, by namespace/name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an installation may want otherwise."""

    #: Pods that name one of these are ours; Jobs that name none get the first.
    scheduler_names: tuple[str, ...] = ("volcano",)
    #: Levels of queues below the root.
    max_queue_depth: int = 5
    #: Whether a queue that holds pods may not be deleted; off unless asked for, as with Volcano: scripts take a queue
    #: and its namespace away together.
    guard_busy_queues: bool = False
    #: Whether pods may ask for resources as a whole, as the cluster's feature gate says.
    pod_level_resources: bool = True
    #: Plugins of Jobs that the Job controller has.
    job_plugins: tuple[str, ...] = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")

    def with_job_plugins(self, more: Iterable[str]) -> Settings:
        """The same, for a controller that has more plugins."""
        return replace(self, job_plugins=tuple(sorted({*self.job_plugins, *more})))


#: Finds what is wrong with a request.
Rule = Callable[[Request, Known, Settings], Findings]
#: Fills in what a new object leaves open, in a document of its own.
Filler = Callable[[Json, Request, Known, Settings], None]


@dataclass(slots=True)
class Facts:
    """A `Known` that knows what it was told."""

    volcano_queues: dict[str, Queue] = field(default_factory=dict)
    kai_queues: dict[str, KaiQueue] = field(default_factory=dict)
    domains: dict[str, HyperNode] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    pod_groups: dict[str, PodGroup] = field(default_factory=dict)
    kai_pod_groups: dict[str, KaiPodGroup] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[KubeObject]) -> Facts:
        facts = cls()
        for thing in objects:
            facts.add(thing)
        return facts

    def add(self, thing: KubeObject) -> None:
        """Note an object, in place of an older version of it."""
        shelf = self._shelf(thing)
        if shelf is not None:
            shelf[thing.key] = thing

    def remove(self, thing: KubeObject) -> None:
        """Forget an object."""
        shelf = self._shelf(thing)
        if shelf is not None:
            shelf.pop(thing.key, None)

    def _shelf(self, thing: KubeObject) -> dict[str, KubeObject] | None:
        shelves: dict[type[KubeObject], dict[str, KubeObject]] = {
            Queue: self.volcano_queues,  # type: ignore[dict-item]  # each shelf holds its own kind
            KaiQueue: self.kai_queues,  # type: ignore[dict-item]
            HyperNode: self.domains,  # type: ignore[dict-item]
            Namespace: self.namespaces,  # type: ignore[dict-item]
            PodGroup: self.pod_groups,  # type: ignore[dict-item]
            KaiPodGroup: self.kai_pod_groups,  # type: ignore[dict-item]
        }
        return shelves.get(type(thing))

    def queue(self, name: str) -> Queue | KaiQueue | None:
        volcano, kai = self.volcano_queues.get(name), self.kai_queues.get(name)
        return kai if volcano is None or yields_to(volcano, kai) else volcano

    def pods_held(self, name: str) -> int:
        queue = self.volcano_queues.get(name)
        return 0 if queue is None else queue.status.allocated.get("pods", Quantity("0")).units()

    def queues(self) -> Mapping[str, Queue]:
        return self.volcano_queues

    def children(self, name: str) -> list[str]:
        return sorted(queue.name for queue in self.volcano_queues.values() if queue.spec.parent == name)

    def children_now(self, name: str) -> list[str]:
        return self.children(name)

    def hyper_nodes(self) -> Mapping[str, HyperNode]:
        return self.domains

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(name)

    def kai_queue(self, name: str) -> KaiQueue | None:
        return self.kai_queues.get(name)

    def pod_group(self, key: str) -> PodGroup | None:
        return self.pod_groups.get(key)

    def kai_pod_group(self, key: str) -> KaiPodGroup | None:
        return self.kai_pod_groups.get(key)


# -- documents -------------------------------------------------------------------------------------------------


def read(document: Json, kind: type[_Kind]) -> _Kind:
    """Decode the object of a request. Raises UserError.

    An object that leaves its name to the server has none yet; one of the right length stands in for it.
    """
    thing = decode_as(document, kind)
    prefix = (document.get("metadata") or {}).get("generateName")
    if not thing.metadata.name and isinstance(prefix, str) and prefix:
        thing.metadata.name = prefix + _MADE_UP
    return thing


def spec_of(document: Json) -> Json:
    """Return the spec of a document, for changing; one that is not there is made."""
    spec: Json = document.get("spec") or {}
    document["spec"] = spec
    return spec


def checked(check: Callable[_Asked, None], *args: _Asked.args, **kwargs: _Asked.kwargs) -> Problems:
    """Ask a rule of the scheduler that raises UserError for what it would put aside."""
    try:
        check(*args, **kwargs)
    except UserError as fault:
        yield Problem(fault.field, fault.text)


# -- where two versions differ ---------------------------------------------------------------------------------


class Absent:
    """What a document does not have."""


ABSENT: Final = Absent()


class Difference(NamedTuple):
    """One place at which two versions differ; `ABSENT` where one has nothing there."""

    path: Path
    old: object
    new: object


def differences(old: object, new: object, path: Path = ()) -> Iterator[Difference]:
    """Yield the places at which two versions differ, as deep inside as possible."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, (*path, index))
    elif old != new:
        yield Difference(path, old, new)


def field_of(path: Path) -> str:
    """Write a path as users do: spec.tasks[0].name."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def json_patch(old: Json, new: Json) -> list[Json]:
    """Return the operations of RFC 6902 that turn one document into the other."""
    return [_operation(found) for found in differences(old, new)]


def _operation(found: Difference) -> Json:
    pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in found.path)
    if found.new is ABSENT:
        return {"op": "remove", "path": pointer}
    return {"op": "add" if found.old is ABSENT else "replace", "path": pointer, "value": found.new}
