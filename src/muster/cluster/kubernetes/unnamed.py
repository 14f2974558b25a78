"""Pods that a controller is about to name a gang for: where Volcano's controllers are installed, they are waited for.

Its PodGroup controller gives every pod without a PodGroup one, that of a ReplicaSet or of another owner where there is
one, with the minimum that the owner asks for. Placed before that, a pod would be a gang of one. So it has a scheduling
gate for a moment that only our mirror sees, until it names a gang, or nobody has come. Used by the backend in the
scheduler's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from msgspec.structs import replace

from muster.api import KubeObject, Pod, group_of
from muster.api.objects.pod import PodSchedulingGate
from muster.cluster.kubernetes.assumptions import Assumption, Assumptions
from muster.snapshot.messages import Event
from muster.snapshot.records import job_from_pod

PATIENCE_SECONDS: Final = 2.0
_GATE: Final = PodSchedulingGate(name="muster/unnamed")


class Unnamed:
    """Who waits for a name, and since when."""

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

    def observe(self, event: Event) -> None:
        """Take in a change of a pod, after the assumptions have."""
        pod = event.object
        if not isinstance(pod, Pod) or event.kind == "UNREADABLE":
            return
        uid = pod.metadata.uid
        if event.kind == "DELETED" or pod.spec.node_name or group_of(pod) is not None:
            self._waiting.pop(uid, None)
            self._given_up.discard(uid)
        elif pod.spec.scheduler_name in self._names and uid not in self._waiting and uid not in self._given_up:
            gate = _gated(pod)
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


def _gated(pod: Pod) -> Assumption:
    def apply(thing: KubeObject) -> KubeObject:
        assert isinstance(thing, Pod)
        return replace(thing, spec=replace(thing.spec, scheduling_gates=[*thing.spec.scheduling_gates, _GATE]))

    def is_over(thing: KubeObject) -> bool:
        return isinstance(thing, Pod) and (thing.spec.node_name != "" or group_of(thing) is not None)

    return Assumption(Pod, pod.key, pod.metadata.uid, "name", apply, is_over)
