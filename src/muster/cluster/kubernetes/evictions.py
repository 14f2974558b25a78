"""Evictions as errands: what each of them waits for, so that nobody leaves for nothing.

An eviction that makes room waits until the room was promised, and, unless a disruption budget guards the pod itself,
until those that budgets guard have gone through. Used by the backend in the scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from muster.api import Pod
from muster.cluster.kubernetes import acting, calls
from muster.cluster.kubernetes.assumptions import leaving
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.guards import DisruptionGuards
from muster.cluster.kubernetes.lanes import Errand
from muster.cluster.kubernetes.pending import Answered, Pending
from muster.cluster.kubernetes.promises import Clearance, Clearances, Promise, Send
from muster.snapshot.decisions import Evict


class Evictions:
    """Makes errands of decisions."""

    def __init__(self, room: EngineRoom, pending: Pending, now: Callable[[], float], patience_s: float) -> None:
        self._room = room
        self._pending = pending
        self._now = now
        self._patience_s = patience_s
        self.guards = DisruptionGuards()
        self._clearances = Clearances()
        #: Nominations of this cycle, by job.
        self._promises: dict[str, Promise] = {}

    def begin_cycle(self) -> None:
        """Promises that were made before stand already."""
        self._promises.clear()

    def promise(self, job: str) -> Promise:
        """The promise that evictions for a job wait for in this cycle."""
        return self._promises.setdefault(job, Promise())

    def errands(self, wanted: Sequence[tuple[Evict, Pod, Answered]]) -> list[Errand]:
        """The errands of one cycle, in the order in which they must be submitted."""
        clearances = {made.beneficiary: self._clearances.next_for(made.beneficiary) for made, _, _ in wanted}
        guarded_first = sorted(wanted, key=lambda each: not self.guards.has(each[1]))
        return [self._make_room(made, pod, clearances[made.beneficiary], told) for made, pod, told in guarded_first]

    def leave(
        self,
        pod: Pod,
        why: str,
        in_turn: Callable[[Send], Send] = lambda send: send,
        answered: Answered | None = None,
    ) -> Errand:
        """Ask a pod to leave, when its turn has come."""
        now = self._now()
        send = partial(acting.evict, self._room.client, pod, why, now, self._patience_s)
        return self._pending.assume(leaving(pod, calls.stamp(now)), in_turn(send), answered)

    def _make_room(self, made: Evict, pod: Pod, clearance: Clearance, told: Answered) -> Errand:
        job, promise = made.beneficiary, self._promises.get(made.beneficiary)
        is_guarded = bool(job) and self.guards.has(pod)

        def in_turn(send: Send) -> Send:
            if job:
                send = clearance.with_one_more(send) if is_guarded else clearance.before(send)
            return send if promise is None else promise.before(send)

        def answered(error: str) -> None:
            if is_guarded:
                self._clearances.close(job, clearance)
            told(error)

        if is_guarded:
            self._clearances.open(job, clearance)
        return self.leave(pod, made.why, in_turn, answered)
