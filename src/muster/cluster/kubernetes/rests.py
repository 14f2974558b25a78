"""Pods for which the server refuses what was decided: they rest, so that the same is not asked for again and again.

The scheduler decides alike from the same picture, and would ask again at once. The first refusal costs nothing; whoever
is refused again rests, twice as long each time. Meanwhile the pod has a scheduling gate that only our mirror sees, so
that its room is free for others. It is forgotten when it has a node or is gone. Races that somebody else has won do not
count: after those the picture is another. Used by the backend in the scheduler's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from muster.api import KubeObject, Pod
from muster.api.objects.pod import PodSchedulingGate
from muster.cluster.kubernetes.assumptions import Assumption, Assumptions
from muster.snapshot.messages import Event

FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 10.0
#: Refusals that come together are answers to one decision.
_TOGETHER_SECONDS: Final = 0.1
_GATE: Final = PodSchedulingGate(name="muster/refused")


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


class Rests:
    """Who rests, and for how long."""

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
            record.gated = _gated(pod)
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


def _gated(pod: Pod) -> Assumption:
    def apply(thing: KubeObject) -> KubeObject:
        assert isinstance(thing, Pod)
        return replace(thing, spec=replace(thing.spec, scheduling_gates=[*thing.spec.scheduling_gates, _GATE]))

    def is_over(thing: KubeObject) -> bool:
        return isinstance(thing, Pod) and thing.spec.node_name != ""

    return Assumption(Pod, pod.key, pod.metadata.uid, "rest", apply, is_over)
