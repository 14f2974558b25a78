"""Evictions as errands: what each of them waits for, so that nobody leaves for nothing.

An eviction that makes room waits until the room was promised, and, unless a disruption budget guards the pod itself,
until those that budgets guard have gone through; it is dropped when nobody needs the room any more. Why a pod leaves is
written on it afterwards: it changes nothing, so the next eviction must not wait for it, but it comes too late behind
other reports. Used by the backend in the scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from muster.api import Pod
from muster.cluster.kubernetes import acting, calls
from muster.cluster.kubernetes.assumptions import leaving
from muster.cluster.kubernetes.beneficiaries import Beneficiaries
from muster.cluster.kubernetes.clearances import Clearance, Clearances, Turns
from muster.cluster.kubernetes.departures import Departure, IsNeeded, always
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.guards import DisruptionGuards
from muster.cluster.kubernetes.lanes import Errand, Send
from muster.cluster.kubernetes.pending import Answered, Pending
from muster.cluster.kubernetes.promises import Promise
from muster.snapshot.messages import Evict


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
        self._beneficiaries = Beneficiaries()
        #: Nominations of this cycle, by job.
        self._promises: dict[str, Promise] = {}
        #: What is to be written on pods that leave.
        self._reasons: list[Errand] = []

    def begin_cycle(self) -> None:
        """Promises that were made before stand already."""
        self._promises.clear()

    def look_at_beneficiaries(self, is_waiting: Callable[[str], bool]) -> None:
        """Find out whether those for whom room is being made still wait for it."""
        self._beneficiaries.look(is_waiting)

    def promise(self, job: str) -> Promise:
        """The promise that evictions for a job wait for in this cycle."""
        return self._promises.setdefault(job, Promise())

    def errands(self, wanted: Sequence[tuple[Evict, Pod, Answered]]) -> list[Errand]:
        """The errands of one cycle."""
        jobs = dict.fromkeys(made.beneficiary for made, _, _ in wanted if made.beneficiary)
        clearances = {job: self._clearance_for(job) for job in jobs}
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
        beneficiary = self._beneficiaries.open(job)
        if budgets:
            self._clearances.open(job, clearance)
            send = clearance.guard(pod, budgets)
        else:
            send, promise = clearance.before(self._departure(pod, beneficiary.needs_room)), self._promises.get(job)
            send = send if promise is None else promise.before(send)

        def answered(error: str) -> None:
            self._beneficiaries.close(job)
            if budgets:
                self._clearances.close(job, clearance)
            told(error)

        return self._errand(pod, made.why, send, answered)

    def _alone(self, pod: Pod) -> Send:
        """The leaving of a pod that nobody else's depends on; those under one budget take turns all the same."""
        budgets = self.guards.of(pod)
        if not budgets:
            return self._departure(pod)
        return Clearance(self._room.client, self._turns, self._patience_s).guard(pod, budgets)

    def _departure(self, pod: Pod, is_needed: IsNeeded = always) -> Send:
        return Departure(self._room.client, pod, self._patience_s, is_needed).send

    def _clearance_for(self, job: str) -> Clearance:
        promise, earlier = self._promises.get(job), self._clearances.last(job)
        is_needed = self._beneficiaries.of(job).needs_room
        return Clearance(self._room.client, self._turns, self._patience_s, promise, earlier, is_needed)

    def _errand(self, pod: Pod, why: str, send: Send, told: Answered = lambda _: None) -> Errand:
        now = self._now()

        def answered(error: str) -> None:
            if not error:
                # After the eviction, which writes a condition of its own that says less.
                reason = partial(acting.tell, self._room.client, calls.disrupt(pod, why, now))
                self._reasons.append(self._pending.errand((Pod, pod.key, "reason"), reason, lambda _: None))
            told(error)

        return self._pending.assume(leaving(pod, calls.stamp(now)), send, answered)
