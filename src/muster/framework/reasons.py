"""Reasons why a task cannot go to a node or a job does not run: codes that are counted, text made at the edge.

A plugin declares its reasons as module constants. Node verdicts are int16 arrays of reason numbers, 0 = fits;
numbers are given out once per process by `reason()`, in the order of import, and never leave the process:
everything a user sees carries the code (`node-selector`) and the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from muster.snapshot.mirror.quarantine import CODE

#: int16 per node: the number of the first reason against it, FITS if none.
Verdicts = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was rejected."""

    number: int
    #: Stable name, in JSON and in docs.
    code: str
    #: Completes "3 nodes ..." or "the job waits: ...".
    text: str
    #: True: evicting pods could make the rejection go away.
    eviction_helps: bool = False
    #: What a user can do about it.
    remedy: str = ""


_reasons: list[Reason] = [Reason(0, "fits", "fits")]
_by_code: dict[str, Reason] = {"fits": _reasons[0]}

FITS: Final = 0


def reason(code: str, text: str, *, eviction_helps: bool = False, remedy: str = "") -> Reason:
    """Declare a reason; declaring the same one twice returns the first."""
    known = _by_code.get(code)
    if known is None:
        known = Reason(len(_reasons), code, text, eviction_helps, remedy)
        _reasons.append(known)
        _by_code[code] = known
    return known


def reason_number(number: int) -> Reason:
    """The reason behind a number of a verdict array."""
    return _reasons[number]


def reason_of(code: str) -> Reason:
    """The reason that has a code; a code that nobody declared is a bug."""
    return _by_code[code]


def all_reasons() -> list[Reason]:
    """Every declared reason, by code; the reference page of the docs is made from it."""
    return sorted(_reasons[1:], key=lambda known: known.code)


def eviction_helps(verdicts: Verdicts) -> NDArray[np.bool_]:
    """Nodes that fit or could be made to fit by evicting pods."""
    helps = np.array([known.eviction_helps or known.number == FITS for known in _reasons])
    mask: NDArray[np.bool_] = helps[verdicts]
    return mask


NO_CLASS = -1


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """Why a job waits. Node counts are made from `cls` only when somebody asks (see `muster.explain`)."""

    reason: Reason
    detail: str = ""
    #: Class of the task that found no node; NO_CLASS when nodes were not the trouble.
    cls: int = NO_CLASS
    #: The task that found no node, for reasons that other pods give.
    task: int = -1
    #: Tasks that did find a place before the attempt was given up.
    placed: int = 0


class VerdictCache:
    """Node verdicts by class key, kept across cycles for as long as nothing changes that they depend on.

    One cache belongs to one configuration: other plugins give other verdicts.
    """

    #: Verdicts about classes that are gone and may come back: not worth forgetting while they are so few.
    SPARE = 64

    def __init__(self) -> None:
        self._revision: object = None
        self._verdicts: dict[bytes, Verdicts] = {}
        self._seen: tuple[object, ...] = ()
        self._scores: dict[tuple[str, bytes], Any] = {}  # Any: NodeScores, which stands above this module

    def at(self, revision: object) -> dict[bytes, Verdicts]:
        """The verdicts that hold at `revision` of nodes and volumes; the session adds to them."""
        if revision != self._revision:
            self._revision = revision
            self._verdicts = {}
        return self._verdicts

    def scores_at(self, revision: object, *seen: object) -> dict[tuple[str, bytes], Any]:
        """Steady scores by plugin and class key, while what is `seen` is the same; the session adds to them."""
        now = revision, *map(id, seen)
        if not self._seen or now != self._seen[0]:
            self._seen = now, seen  # kept, so that no other thing can take their place in memory
            self._scores = {}
        return self._scores

    def forget_others(self, classes: Sequence[bytes]) -> None:
        """Forget verdicts about classes that are gone, once they outnumber those that there are."""
        if len(self._scores) > self.SPARE * (len(classes) + self.SPARE):
            self._scores.clear()
        if len(self._verdicts) > 2 * len(classes) + self.SPARE:
            present = set(classes)
            for key in [key for key in self._verdicts if key not in present]:
                del self._verdicts[key]


# Reasons that belong to no plugin.
NODE_NOT_READY = reason("node-not-ready", "are not ready", remedy="repair the node or wait for it")
QUARANTINED = reason(
    CODE,
    "something that it depends on cannot be used",
    remedy="correct the object that is named; it is tried again at once when it changes",
)
NODE_QUARANTINED = reason(
    "node-quarantined",
    "cannot be used as they are described",
    remedy="correct what the node offers; `/debug/quarantine` says what is wrong",
)
INSUFFICIENT = reason(
    "insufficient-resources",
    "lack free resources",
    eviction_helps=True,
    remedy="wait for pods to finish, add nodes, or ask for less",
)
HELD_BACK = reason(
    "held-back",
    "it would delay a job before it, for which room is reserved",
    remedy="wait, say a shorter run time that is true, or give it a higher priority",
)
OUTSIDE_SHARD = reason("outside-shard", "belong to another shard")
QUEUE_MISSING = reason("queue-missing", "its queue does not exist", remedy="create the queue or name another one")
QUEUE_CLOSED = reason("queue-closed", "its queue is not open", remedy="open the queue")
QUEUE_BROKEN = reason(
    "queue-tree-broken",
    "the parents of its queue do not lead to the top",
    remedy="name an existing parent; break the cycle",
)
GROUP_MISSING = reason(
    "podgroup-missing", "its PodGroup does not exist", remedy="create the PodGroup that the pods name"
)
NOT_ADMITTED = reason(
    "not-admitted",
    "the queue has not admitted it yet",
    remedy="wait, raise the queue's limit, or lower minResources",
)
QUEUE_OVERUSED = reason(
    "queue-overused", "its queue already has its share", remedy="wait for the queue's own jobs to finish"
)
QUEUE_FULL = reason(
    "queue-limit", "its queue may not hold more", remedy="raise the queue's capability or deserved share"
)
QUEUE_NOT_A_LEAF = reason("queue-not-a-leaf", "its queue has queues below it", remedy="name one of the queues below it")
OVER_QUOTA = reason(
    "over-quota",
    "it is not preemptible, and such jobs may not hold more than their queue's quota",
    remedy="raise the queue's quota, or make the job preemptible",
)
OVER_FAIR_SHARE = reason(
    "over-fair-share", "its queue would have more than its fair share", remedy="wait for the queue's own jobs to finish"
)
NOBODY_RECLAIMS = reason(
    "no-fair-share", "no plugin says what queues may take back", remedy="configure the plugin fairshare"
)
SEARCH_ENDED = reason(
    "search-ended",
    "the search for victims was ended before it was through",
    eviction_helps=True,
    remedy="raise maxTrialsPerJob or maxTrialsPerCycle of the action",
)
PLACES_SEARCH_ENDED = reason(
    "places-search-ended",
    "the search for places was ended before it was through",
    eviction_helps=True,
    remedy="raise searchStepsPerJob or searchStepsPerCycle of allocate, or make the gang's pods more alike",
)
NO_ROOM_BY_EVICTION = reason("no-room-by-eviction", "evicting those who may go would not make room for it")
NO_ROOM_BY_MOVING = reason("no-room-by-moving", "moving others would not make room for it")
NO_VICTIMS = reason("no-victims", "nobody may be evicted for it")
NEVER_PREEMPTS = reason(
    "never-preempts",
    "its pods say that they take nobody's place",
    remedy="set their preemptionPolicy to PreemptLowerPriority",
)
STILL_DELAYED = reason(
    "preemption-delay",
    "nobody is evicted for it before its preemption delay is over",
    remedy="wait, or give it a shorter one",
)
OVER_DISRUPTION = reason(
    "disruption-limit", "more would have to be evicted than the limit allows", remedy="raise maxDisruptionRatio"
)
VICTIMS_REFUSED = reason("victims-refused", "fairness or a minimum runtime keeps those who would have to go")
NOT_STEADY = reason("not-steady", "those who would have to go could take the place back in the next cycle")
GANG_INCOMPLETE = reason("gang-incomplete", "only part of the gang fits")
PROMISED = reason(
    "promised", "its nodes are promised to it, and pods have yet to leave them", remedy="wait for the pods to leave"
)
GATED = reason("gated", "its pods have scheduling gates", remedy="remove the gates")
GPU_PART = reason(
    "gpu-part",
    "a pod asks for part of a GPU, and only whole GPUs are given out here",
    remedy="ask for whole GPUs as a resource, or leave the pod to a scheduler that shares them",
)
NAMESPACE_ENDING = reason("namespace-ending", "its namespace is being deleted", remedy="use another namespace")
DEVICE_CLAIM = reason(
    "device-claim",
    "a device claim of its pods is not allocated, and device claims are not allocated here",
    remedy="have the claim allocated by others, or ask for devices as a resource",
)
NOT_TRIED = reason("not-tried", "its turn has not come")
TOPOLOGY = reason(
    "topology",
    "no network domain within its constraint has room for it",
    eviction_helps=True,
    remedy="wait for room in one domain, or allow a higher tier",
)
TOPOLOGY_BROKEN = reason(
    "topology-broken", "the network topology is not valid", remedy="correct the HyperNode; see `muster topology check`"
)
TOPOLOGY_TIER = reason(
    "topology-tier", "its topology constraint names no tier", remedy="set highestTierAllowed or an existing tier name"
)
TOPOLOGY_LEVEL = reason(
    "topology-level",
    "its topology constraint cannot be told",
    remedy="name an existing Topology, and levels of it of which the preferred one is not the wider",
)
TOPOLOGY_SPANNED = reason(
    "topology-spanned",
    "its running pods are spread wider than its constraint allows",
    remedy="let them finish, restart the job, or allow a higher tier",
)
