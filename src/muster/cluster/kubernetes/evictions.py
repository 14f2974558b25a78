"""Evictions as errands: what each of them waits for, so that nobody leaves for nothing.

An eviction that makes room waits until the room was promised, and, unless a disruption budget guards the pod itself,
until those that budgets guard have gone through. Why a pod leaves is written on it afterwards: it changes nothing, so
the next eviction must not wait for it, but it comes too late behind other reports. Used by the backend in the
scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from muster.api import Pod
from muster.cluster.kubernetes import acting, calls
from muster.cluster.kubernetes.assumptions import leaving
from muster.cluster.kubernetes.clearances import Clearance, Clearances, Turns
from muster.cluster.kubernetes.departures import Departure
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.guards import DisruptionGuards
from muster.cluster.kubernetes.lanes import Errand, Send
from muster.cluster.kubernetes.pending import Answered, Pending
from muster.cluster.kubernetes.promises import Promise
from muster.snapshot.decisions import Evict


class Evictions:
    """Makes errands of decisions."""

    def __init__(self, room: EngineRoom, pending: Pending, now: Callable[[], float], patience_s: float) -> None:
        self._room = room
        self._pending = pending
        self._now = now
        self._patience_s = patience_s
        self.guards = DisruptionGuards()
        self._turns = Turns()
        self._clearances = Clearances()
        #: Nominations of this cycle, by job.
        self._promises: dict[str, Promise] = {}
        #: What is to be written on pods that leave.
        self._reasons: list[Errand] = []

    def begin_cycle(self) -> None:
        """Promises that were made before stand already."""
        self._promises.clear()

    def promise(self, job: str) -> Promise:
        """The promise that evictions for a job wait for in this cycle."""
        return self._promises.setdefault(job, Promise())

    def errands(self, wanted: Sequence[tuple[Evict, Pod, Answered]]) -> list[Errand]:
        """The errands of one cycle."""
        jobs = dict.fromkeys(made.beneficiary for made, _, _ in wanted if made.beneficiary)
        clearances = {job: self._clearance(self._promises.get(job), self._clearances.last(job)) for job in jobs}
        return [self._make_room(made, pod, clearances.get(made.beneficiary), told) for made, pod, told in wanted]

    def leave(self, pod: Pod, why: str) -> Errand:
        """Ask a pod to leave, for nobody's sake."""
        return self._errand(pod, why, self._alone(pod))

    def tell_reasons(self) -> None:
        """Write on the pods that were evicted why they were."""
        reasons, self._reasons = self._reasons, []
        self._room.reasons.submit(reasons)

    def _make_room(self, made: Evict, pod: Pod, clearance: Clearance | None, told: Answered) -> Errand:
        if clearance is None:
            return self._errand(pod, made.why, self._alone(pod), told)
        budgets, job = self.guards.of(pod), made.beneficiary
        if not budgets:
            send, promise = clearance.before(self._departure(pod)), self._promises.get(job)
            return self._errand(pod, made.why, send if promise is None else promise.before(send), told)

        def answered(error: str) -> None:
            self._clearances.close(job, clearance)
            told(error)

        self._clearances.open(job, clearance)
        return self._errand(pod, made.why, clearance.guard(pod, budgets), answered)

    def _alone(self, pod: Pod) -> Send:
        """The leaving of a pod that nobody else's depends on; those under one budget take turns all the same."""
        budgets = self.guards.of(pod)
        return self._clearance().guard(pod, budgets) if budgets else self._departure(pod)

    def _departure(self, pod: Pod) -> Send:
        return Departure(self._room.client, pod, self._patience_s).send

    def _clearance(self, promise: Promise | None = None, earlier: Clearance | None = None) -> Clearance:
        return Clearance(self._room.client, self._turns, self._patience_s, promise, earlier)

    def _errand(self, pod: Pod, why: str, send: Send, told: Answered = lambda _: None) -> Errand:
        now = self._now()

        def answered(error: str) -> None:
            if not error:
                # After the eviction, which writes a condition of its own that says less.
                reason = partial(acting.tell, self._room.client, calls.disrupt(pod, why, now))
                self._reasons.append(self._pending.errand((Pod, pod.key, "reason"), reason, lambda _: None))
            told(error)

        return self._pending.assume(leaving(pod, calls.stamp(now)), send, answered)
