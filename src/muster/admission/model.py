"""What admission rules are made of: a request, what the cluster has, settings, and what a rule finds.

Every rule is a function of these and nothing else, so that the server, the tests and recorded cases ask the same code.
A `Problem` refuses the object; a `Caution` lets it pass and tells the user what will not work yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from muster.api import HyperNode, KaiPodGroup, KaiQueue, Namespace, PodGroup, Problem, Queue

Json = dict[str, Any]  # Any: a document

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"


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

    def queues(self) -> Mapping[str, Queue]:
        """Volcano's queues by name."""

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
    #: Whether a queue that holds pods may not be deleted.
    guard_busy_queues: bool = True
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
