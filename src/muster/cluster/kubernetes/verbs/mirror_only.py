"""What only our mirror sees for a while, so that the scheduler does not decide the same again at once.

It decides alike from the same picture; where the cluster refused, or is about to change something itself, the picture
has to be another: a pod carries a scheduling gate, a claim carries the nodes that it cannot be bound on. None of it is
written to the cluster, and all of it passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from muster.api import KubeObject, PersistentVolumeClaim, Pod, group_of
from muster.api.names import KAI_SCHEDULER, VOLUME_REFUSED_ON
from muster.api.objects.pod import PodSchedulingGate
from muster.cluster.kubernetes.sending.assumptions import Assumption, Assumptions
from muster.snapshot.messages import Event
from muster.snapshot.records import job_from_pod

#: Seconds that a pod rests which was refused something again, at first and at the longest.
FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 10.0
#: Refusals that come together are answers to one decision.
_TOGETHER_SECONDS: Final = 0.1
#: Seconds that a pod without a PodGroup waits for a controller to make one.
PATIENCE_SECONDS: Final = 2.0
#: Seconds that a node rests on which a claim could not be bound.
REST_SECONDS: Final = 60.0

_Find = Callable[[str], PersistentVolumeClaim | None]


@dataclass(slots=True)
class _Record:
    """A pod that was refused something."""

    uid: str
    job: str
    noted: float
    #: How long it rests when it is refused once more.
    next_s: float = FIRST_SECONDS
    until: float = 0.0
    gated: Assumption | None = None


class RefusalBackoff:
    """Pods for which the server refuses what was decided: they rest, so that it is not asked for again and again.

    The first refusal costs nothing; whoever is refused again rests, twice as long each time, and its room is free for
    others meanwhile. It is forgotten when it has a node or is gone. Races that somebody else has won do not count:
    after those the picture is another.
    """

    def __init__(self, assumptions: Assumptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._assumptions = assumptions
        self._clock = clock
        self._records: dict[str, _Record] = {}

    def note(self, job: str, pod: Pod) -> bool:
        """Something was refused that would have helped a pod of a job; False when the pod has gone meanwhile."""
        standing = self._assumptions.find(Pod, pod.key)
        if standing is None or standing.metadata.uid != pod.metadata.uid:
            return False
        moment = self._clock()
        record = self._records.get(pod.key)
        if record is None:
            self._records[pod.key] = _Record(pod.metadata.uid, job, moment)
        elif record.gated is None and moment - record.noted >= _TOGETHER_SECONDS:
            record.noted, record.until = moment, moment + record.next_s
            record.next_s = min(record.next_s * 2, LONGEST_SECONDS)
            record.gated = _gated(pod, "refused", lambda pod: pod.spec.node_name != "")
            self._assumptions.hold(record.gated)
        return True

    def observe(self, event: Event) -> None:
        pod = event.object
        if not isinstance(pod, Pod) or pod.key not in self._records:
            return
        is_another = pod.metadata.uid != self._records[pod.key].uid
        if event.kind == "DELETED" or pod.spec.node_name or is_another:
            del self._records[pod.key]

    def end(self) -> None:
        """Let those go on who have rested long enough."""
        moment = self._clock()
        for record in self._records.values():
            if record.gated is not None and record.until <= moment:
                self._assumptions.release(record.gated)
                record.gated = None

    def jobs(self) -> frozenset[str]:
        """Jobs of which pods rest: what a cycle says of them is about the gate, and nobody else's business."""
        return frozenset(record.job for record in self._records.values() if record.gated is not None)


class AwaitedPodGroups:
    """Pods that controllers, Muster's or Volcano's where they are installed, are about to make a PodGroup for.

    They give every pod without a PodGroup one, that of a ReplicaSet or of another owner where there is one, with the
    minimum that the owner asks for. Placed before that, a pod would be a gang of one. So it is gated for a moment,
    until it names a gang, or nobody has come. Of Muster's own only pods with an owner wait, as others are alone anyway,
    and those for KAI, whose users and tools look for the PodGroup of every pod.
    """

    def __init__(
        self,
        assumptions: Assumptions,
        scheduler_names: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._assumptions = assumptions
        self._names = frozenset(scheduler_names)
        self._clock = clock
        #: By the uid of pods: until when, and what is assumed of them meanwhile.
        self._waiting: dict[str, tuple[float, Assumption, str]] = {}
        #: Pods that nobody came for; waiting once is enough.
        self._given_up: set[str] = set()

    def observe(self, event: Event, *, owned_only: bool = False) -> None:
        """Take in a change of a pod, after the assumptions have. `owned_only`: no lone pod waits but those for KAI."""
        pod = event.object
        if not isinstance(pod, Pod) or event.kind == "UNREADABLE" or (owned_only and not _is_of_something(pod)):
            return
        uid = pod.metadata.uid
        if event.kind == "DELETED" or pod.spec.node_name or group_of(pod) is not None:
            waited = self._waiting.pop(uid, None)
            if waited is not None:  # news of both may come together, and then nothing has confirmed the gate
                self._assumptions.release(waited[1])
            self._given_up.discard(uid)
        elif pod.spec.scheduler_name in self._names and uid not in self._waiting and uid not in self._given_up:
            gate = _gated(pod, "ungrouped", lambda pod: pod.spec.node_name != "" or group_of(pod) is not None)
            self._waiting[uid] = self._clock() + PATIENCE_SECONDS, gate, job_from_pod(pod).id
            self._assumptions.hold(gate)

    def end(self) -> None:
        """Let those go on for whom nobody came."""
        moment = self._clock()
        for uid in [uid for uid, (until, _, _) in self._waiting.items() if until <= moment]:
            _, gate, _ = self._waiting.pop(uid)
            self._assumptions.release(gate)
            self._given_up.add(uid)

    def jobs(self) -> frozenset[str]:
        """The pods as jobs of their own: what a cycle says of them is about the gate."""
        return frozenset(job for _, _, job in self._waiting.values())


def _is_of_something(pod: Pod) -> bool:
    spec = pod.spec
    if spec.scheduler_name == KAI_SCHEDULER:
        return True
    return bool(pod.metadata.owner_references) or spec.scheduling_group is not None or spec.workload_ref is not None


class VolumeRefusals:
    """Nodes on which a claim could not be bound: left alone for a while, so that another node, or job, has its turn.

    The predicates pass over them. They rest for a minute, or for as long as was waited in vain if that was longer; then
    what is broken holds room for half of the time at most.
    """

    def __init__(self, rest_s: float = REST_SECONDS) -> None:
        self._rest = rest_s
        self._until: dict[str, dict[str, float]] = {}
        #: Claims that the mirror has to be told anew.
        self._changed: set[str] = set()

    def note(self, claim: str, node: str, waited_s: float, moment: float) -> None:
        """Waiting for a claim on a node was in vain."""
        self._until.setdefault(claim, {})[node] = moment + max(self._rest, waited_s)
        self._changed.add(claim)

    def observe(self, event: Event) -> None:
        claim = event.object
        if not isinstance(claim, PersistentVolumeClaim) or claim.key not in self._until:
            return
        if event.kind == "DELETED" or claim.spec.volume_name:
            del self._until[claim.key]
            self._changed.discard(claim.key)
        else:
            self._changed.add(claim.key)

    def drain(self, find: _Find, moment: float) -> list[Event]:
        """The claims that look different to the mirror from what the cluster reports, or no longer do."""
        self._expire(moment)
        found = [claim for key in sorted(self._changed) if (claim := find(key)) is not None]
        self._changed.clear()
        return [Event("MODIFIED", self._overlaid(claim)) for claim in found]

    def _expire(self, moment: float) -> None:
        for claim, nodes in list(self._until.items()):
            rested = [node for node, until in nodes.items() if until <= moment]
            for node in rested:
                del nodes[node]
                self._changed.add(claim)
            if not nodes:
                del self._until[claim]

    def _overlaid(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        nodes = self._until.get(claim.key)
        if not nodes:
            return claim
        annotations = {**claim.metadata.annotations, VOLUME_REFUSED_ON: ",".join(sorted(nodes))}
        return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _gated(pod: Pod, why: str, is_over: Callable[[Pod], bool]) -> Assumption:
    """A scheduling gate that the cluster never sees."""
    gate = PodSchedulingGate(name=f"muster/{why}")

    def apply(thing: KubeObject) -> KubeObject:
        assert isinstance(thing, Pod)
        return replace(thing, spec=replace(thing.spec, scheduling_gates=[*thing.spec.scheduling_gates, gate]))

    return Assumption(
        Pod, pod.key, pod.metadata.uid, why, apply, lambda thing: isinstance(thing, Pod) and is_over(thing)
    )
