"""What clusters and the scheduler tell each other: events in, decisions out.

An event says that an object came, changed or went, or cannot be read. Decisions are made from committed operations,
carried out by a cluster and kept in reports: bind, evict, nominate, and write how jobs, queues, HyperNodes and odd
objects are. Pods and jobs are ids ("namespace/name"), so a decision means the same after the snapshot it came from is
gone. A cluster that cannot carry a decision out says so with a `Failure`; it does not raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from muster.api.objects.meta import KubeObject

EventKind = Literal["ADDED", "MODIFIED", "DELETED", "UNREADABLE"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object."""

    kind: EventKind
    object: KubeObject
    #: What is wrong with an object that is UNREADABLE.
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Bind:
    """Start a pod on a node."""

    pod: str
    node: str
    job: str
    why: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask a pod to leave its node, for the good of another job ("" if for none)."""

    pod: str
    node: str
    job: str
    beneficiary: str
    why: str
    #: Why this pod and no other, as JSON; None where nobody keeps a record.
    record: Mapping[str, object] | None = field(default=None, compare=False)
    #: The same in a word, of few.
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Nominate:
    """Promise a node to a pod that waits for others to leave it; an empty node takes the promise back."""

    pod: str
    node: str
    job: str
    why: str
    beneficiary: str = ""
    #: What the pod says it waits for from now on: code and text of a reason; "": what it said before.
    says: str = ""


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """How a job is at the end of a cycle; written to its PodGroup, and to its pods why they wait."""

    job: str
    phase: str
    running: int
    succeeded: int
    failed: int
    #: Code of the reason why the gang is not complete; None when it is.
    unschedulable: str | None = None
    message: str = ""
    #: Whether the gang is complete, and its pods are on nodes or have ended.
    is_scheduled: bool = False
    #: Tasks without a node; KAI's PodGroups show them.
    pending: int = 0
    #: Whether there is a PodGroup to write to. If not, only pods are told: there is none, or it is complete, and what
    #: waits are pods beyond its minimum.
    has_group: bool = True
    #: Annotations to set on the PodGroup; None removes one.
    annotations: Mapping[str, str | None] = field(default_factory=dict, hash=False)


UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"
#: Types of the conditions that a job's PodGroup may have from us; at most one of them stands.
CONDITIONS: Final = (UNSCHEDULABLE, SCHEDULED)
#: Codes of reasons that say that room is lacking, of nodes or of queues. Volcano has one word for all of them, which
#: tools look for; the code stands at the beginning of the message.
_LACKS_ROOM: Final = frozenset(
    (
        "insufficient-resources",
        "gang-incomplete",
        "no-nodes",
        "no-such-resource",
        "node-too-small",
        "topology",
        "not-admitted",
        "queue-limit",
        "queue-overused",
        "over-quota",
        "over-fair-share",
    )
)


def conditions_of(update: JobUpdate) -> dict[str, tuple[str, str]]:
    """The condition that an update calls for, if any: reason and message by type, in Volcano's words."""
    if update.unschedulable is not None:
        reason = "NotEnoughResources" if update.unschedulable in _LACKS_ROOM else update.unschedulable
        return {UNSCHEDULABLE: (reason, update.message)}
    return {SCHEDULED: ("tasks in gang are ready to be scheduled", "")} if update.is_scheduled else {}


#: KAI's words for reasons; all others are its word for pods that found no place.
_KAI_REASONS: Final = {
    "over-quota": "NonPreemptibleOverQuota",
    "queue-limit": "OverLimit",
    "queue-missing": "QueueDoesNotExist",
}


def kai_reason(code: str) -> str:
    """What KAI calls the reason for which a gang waits."""
    return _KAI_REASONS.get(code, "PodSchedulingErrors")


@dataclass(frozen=True, slots=True)
class HyperNodeUpdate:
    """How many nodes a HyperNode holds, and what is wrong with it ("" if nothing is); written to its status."""

    name: str
    node_count: int
    fault: str = ""
    #: True: it cannot be used at all, and holds no nodes while that is so.
    is_aside: bool = False

    @property
    def reason(self) -> str:
        """What the condition says in a word; Volcano's definition wants one in any case."""
        if self.is_aside:
            return "Quarantined"
        return "WrongMembers" if self.fault else "MembersFound"

    @property
    def message(self) -> str:
        """What the condition says; Volcano's definition wants something there in any case."""
        return self.fault or "all of its members were found"


@dataclass(frozen=True, slots=True)
class Ungate:
    """Take the scheduling gate off a pod that waits for its queue: the queue has room for it."""

    pod: str
    job: str


@dataclass(frozen=True, slots=True)
class QueueUpdate:
    """What a queue and those below it hold, amounts as quantities by resource; written to its status."""

    name: str
    allocated: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: PodGroups by phase; only queues of Volcano have it.
    phases: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: What jobs hold that are not preemptible, what is held and waited for, and the queues below: of KAI's queues.
    firm: Mapping[str, str] = field(default_factory=dict, hash=False)
    requested: Mapping[str, str] = field(default_factory=dict, hash=False)
    children: tuple[str, ...] = ()


Decision = Bind | Evict | Nominate
#: What a cluster may refuse.
Message = Decision | Ungate | JobUpdate | HyperNodeUpdate | QueueUpdate


@dataclass(frozen=True, slots=True)
class Failure:
    """A decision that the cluster did not carry out, and why."""

    decision: Message
    error: str


@dataclass(frozen=True, slots=True, eq=False)
class QuarantineUpdate:
    """An object cannot be used, or can again; told as an event and, where objects have them, as a condition."""

    object: KubeObject
    #: What is wrong; "": nothing any more.
    reason: str
    #: The job that waits because of it, "" if none does.
    job: str = ""
    #: True: the object is fine in itself, and what it waits for is written as for any job.
    is_asked: bool = False
