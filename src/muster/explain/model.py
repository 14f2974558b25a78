"""What an explanation consists of: plain data, amounts in base units, no text but names and reasons.

Everything is sorted: two explanations of the same session are equal, field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from muster.api import format_amount
from muster.explain.remedies import Remedy

Named = Mapping[str, int]
#: JSON as `json.dumps` takes it.
Json = dict[str, Any]  # Any: the values of a document are of many types, and only ever written out


class JobState(StrEnum):
    """Where a job stands, in one word."""

    RUNNING = "running"
    #: It has its minimum, and more tasks of it wait.
    GROWING = "growing"
    WAITING = "waiting"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Need:
    """One resource: what the gang still needs, what is free where it may run, what is missing in total."""

    resource: str
    needed: int
    free: int
    #: Whether jobs of other queues wait for it too.
    contested: bool = False

    @property
    def missing(self) -> int:
        return max(0, self.needed - self.free)

    def to_json(self) -> Json:
        shown = {"needed": self.needed, "free": self.free, "missing": self.missing}
        return {"resource": self.resource} | {
            key: format_amount(self.resource, amount) for key, amount in shown.items()
        }


@dataclass(frozen=True, slots=True)
class QueuePicture:
    """A queue on the way from the job's own up to the top; amounts that are not set are left out."""

    name: str
    allocated: Named
    #: The quota where shares are divided anew in every cycle, else what the queue may have.
    deserved: Named
    limit: Named
    guarantee: Named
    weight: int = 1
    #: What the queue could have now; empty where no plugin divides beyond what is deserved.
    fair_share: Named = field(default_factory=dict)

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "weight": self.weight,
            "allocated": amounts_json(self.allocated),
            "deserved": amounts_json(self.deserved),
            "fairShare": amounts_json(self.fair_share),
            "limit": amounts_json(self.limit),
            "guarantee": amounts_json(self.guarantee),
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with equal allocatable amounts and the same reason against them."""

    code: str
    text: str
    nodes: int
    allocatable: Named
    #: The first few, by name.
    examples: tuple[str, ...]

    def to_json(self) -> Json:
        return {
            "reason": self.code,
            "text": self.text,
            "nodes": self.nodes,
            "allocatable": amounts_json(self.allocatable),
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True)
class ClosestNode:
    """The node that lacks least for one more task, of those where only room is missing."""

    name: str
    free: Named
    lacks: Named

    def to_json(self) -> Json:
        return {"name": self.name, "free": amounts_json(self.free), "lacks": amounts_json(self.lacks)}


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what this one lacks, on nodes where this one may run."""

    job: str
    resource: str
    amount: int

    def to_json(self) -> Json:
        return {
            "job": self.job,
            "resource": self.resource,
            "amount": format_amount(self.resource, self.amount),
        }


@dataclass(frozen=True, slots=True)
class Placement:
    """A task that has a node."""

    pod: str
    node: str
    status: str
    #: Seconds since the pod started; None when it has not, or when nobody said.
    running_s: float | None = None

    def to_json(self) -> Json:
        return {"pod": self.pod, "node": self.node, "status": self.status, "runningSeconds": self.running_s}


@dataclass(frozen=True, slots=True)
class RoleCount:
    """A role with a minimum of its own, and how many of its tasks count towards it."""

    name: str
    minimum: int
    ready: int

    def to_json(self) -> Json:
        return {"name": self.name, "minimum": self.minimum, "ready": self.ready}


@dataclass(frozen=True, slots=True)
class Shield:
    """For how long a gang still keeps its minimum, and against whom: jobs of its own queue, or of other queues."""

    own_queue: bool
    #: Other queues, each with all that are below it.
    queues: tuple[str, ...]
    seconds: float

    def to_json(self) -> Json:
        return {"ownQueue": self.own_queue, "queues": list(self.queues), "secondsLeft": self.seconds}


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a job that waits is expected to start, by running the clock forward."""

    #: Seconds from now; None: not known.
    seconds: float | None
    #: What that rests on, or why it is not known.
    text: str
    #: Jobs that have to end before, by the source of their run times, and how wrong the least sure of them may be.
    rests_on: Mapping[str, int] = field(default_factory=dict)
    factor: float = 1.0

    def to_json(self) -> Json:
        return {
            "inSeconds": None if self.seconds is None else round(self.seconds, 3),
            "text": self.text,
            "restsOn": dict(self.rests_on),
            "factor": self.factor,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """All there is to say about one job after one cycle."""

    job: str
    queue: str
    state: JobState
    phase: str
    minimum: int
    #: Tasks by state, those that are not zero.
    tasks: Named
    roles: tuple[RoleCount, ...] = ()
    #: The dominant reason; empty when nothing waits.
    code: str = ""
    text: str = ""
    detail: str = ""
    remedy: str = ""
    #: Tasks that must be placed before the gang starts, and those that found a place in the last attempt.
    still_needed: int = 0
    placed: int = 0
    #: A task that found no node, and what it asks for.
    task: str = ""
    request: Named = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    queues: tuple[QueuePicture, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    closest: ClosestNode | None = None
    #: Nodes by the code of what is against them; most frequent first.
    node_counts: Named = field(default_factory=dict)
    #: On how many of the nodes that lack room each resource is short; most first.
    short_of: Named = field(default_factory=dict)
    #: Resources that it asks for and no node has.
    nowhere: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    #: What pods of other schedulers hold of what it lacks; queues do not share that.
    held_by_others: Named = field(default_factory=dict)
    #: Why pods of other queues are not evicted for it; "" where that is not the trouble, or cannot be told in a word.
    no_evictions: str = ""
    placements: tuple[Placement, ...] = ()
    #: By minimum runtimes; empty when the gang may be evicted.
    shields: tuple[Shield, ...] = ()
    #: What could let it start, most helpful first.
    remedies: tuple[Remedy, ...] = ()
    #: What is advised: all of these, or, where they were tried, those that work.
    advised: tuple[Remedy, ...] = ()
    #: What could help and was not tried, with why not; None: nobody tried anything.
    untried: tuple[str, ...] | None = None
    #: When it is expected to start; None: nobody looked.
    forecast: Forecast | None = None

    #: Whether any node may be used, room aside.
    has_eligible_nodes: bool = False

    @property
    def advice(self) -> tuple[str, ...]:
        """What is advised, in words."""
        return tuple(remedy.text for remedy in self.advised)

    @property
    def asks_for_one(self) -> bool:
        """Whether one more pod is what it asks for next; a gang that waits asks for all it needs."""
        return self.state is JobState.GROWING or self.still_needed == 1

    @property
    def wanted(self) -> Named:
        """What it asks for next."""
        return self.request if self.asks_for_one else {need.resource: need.needed for need in self.needs}

    @property
    def lacking(self) -> frozenset[str]:
        """Resources that are short: in all, or on the node that lacks least."""
        short = {need.resource for need in self.needs if need.missing}
        return frozenset(short | set(self.closest.lacks if self.closest else ()))

    @property
    def n_nodes(self) -> int:
        return sum(self.node_counts.values())

    def to_json(self) -> Json:
        """Return the documented JSON form."""
        return {
            "job": self.job,
            "queue": self.queue,
            "state": self.state.value,
            "phase": self.phase,
            "minimum": self.minimum,
            "tasks": dict(self.tasks),
            "roles": [role.to_json() for role in self.roles],
            "reason": {
                "code": self.code,
                "text": self.text,
                "detail": self.detail,
                "remedy": self.remedy,
            },
            "stillNeeded": self.still_needed,
            "placed": self.placed,
            "task": self.task,
            "request": amounts_json(self.request),
            "nodeSelector": dict(sorted(self.selector.items())),
            "needs": [need.to_json() for need in self.needs],
            "queues": [queue.to_json() for queue in self.queues],
            "nodes": {
                "total": self.n_nodes,
                "byReason": dict(self.node_counts),
                "shortOf": dict(self.short_of),
                "groups": [group.to_json() for group in self.groups],
                "closest": None if self.closest is None else self.closest.to_json(),
            },
            "holders": [holder.to_json() for holder in self.holders],
            "heldByOthers": amounts_json(self.held_by_others),
            "noEvictions": self.no_evictions,
            "placements": [placement.to_json() for placement in self.placements],
            "protected": [shield.to_json() for shield in self.shields],
            "advice": list(self.advice),
            **({} if self.untried is None else {"untried": list(self.untried)}),
            **({} if self.forecast is None else {"expectedStart": self.forecast.to_json()}),
        }


def amounts_json(amounts: Named) -> dict[str, str]:
    """Return amounts as people write them."""
    return {name: format_amount(name, amount) for name, amount in amounts.items()}
