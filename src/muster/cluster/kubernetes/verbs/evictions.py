"""Evictions as requests: what each of them waits for, so that nobody leaves for nothing.

An eviction that makes room waits until the room was promised, and, unless a disruption budget guards the pod itself,
until those that budgets guard have gone through; it is dropped when its beneficiary was deleted meanwhile, or has found
room elsewhere. Why a pod leaves is written on it afterwards: it changes nothing, so the next eviction must not wait for
it, but it comes too late behind other reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from muster.api import Pod, PodDisruptionBudget
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import leaving
from muster.cluster.kubernetes.sending.in_flight import Answered, InFlight, write_once
from muster.cluster.kubernetes.sending.queues import Later, Request, Send
from muster.cluster.kubernetes.verbs.eviction_requests import (
    BudgetLocks,
    EvictionRequest,
    GuardedEvictions,
    IsNeeded,
    always,
)
from muster.snapshot.messages import Event, Evict


class Evictions:
    """Makes requests of decisions."""

    def __init__(self, api: ApiThread, in_flight: InFlight, now: Callable[[], float], patience_s: float) -> None:
        self._api = api
        self._in_flight = in_flight
        self._now = now
        self._patience_s = patience_s
        self.budgets = DisruptionBudgets()
        self._locks = BudgetLocks()
        self._beneficiaries = Beneficiaries()
        #: Of this cycle, by job.
        self._nominations: dict[str, Nominations] = {}
        #: What is to be written on pods that leave.
        self._reasons: list[Request] = []

    def begin_cycle(self) -> None:
        """Nominations that were made before stand already."""
        self._nominations.clear()

    def look_at_beneficiaries(self, is_waiting: Callable[[str], bool]) -> None:
        """Find out whether those for whom room is being made still wait for it."""
        self._beneficiaries.look(is_waiting)

    def nominations_of(self, job: str) -> Nominations:
        """What evictions for a job wait for in this cycle."""
        return self._nominations.setdefault(job, Nominations())

    def requests(self, wanted: Sequence[tuple[Evict, Pod, Answered]]) -> list[Request]:
        """The requests of one cycle."""
        jobs = dict.fromkeys(made.beneficiary for made, _, _ in wanted if made.beneficiary)
        guarded = {job: self._guarded_for(job) for job in jobs}
        return [self._make_room(made, pod, guarded.get(made.beneficiary), told) for made, pod, told in wanted]

    def leave(self, pod: Pod, why: str) -> Request:
        """Ask a pod to leave, for nobody's sake."""
        return self._request(pod, why, self._alone(pod))

    def tell_reasons(self) -> None:
        """Write on the pods that were evicted why they were."""
        reasons, self._reasons = self._reasons, []
        self._api.reasons.submit(reasons)

    def _guarded_for(self, job: str) -> GuardedEvictions:
        beneficiary = self._beneficiaries.of(job)
        nominations = self._nominations.get(job)
        return GuardedEvictions(
            self._api.client,
            self._locks,
            self._patience_s,
            promised=None if nominations is None else nominations.error,
            earlier=beneficiary.guarded[-1] if beneficiary.guarded else None,
            is_needed=beneficiary.needs_room,
        )

    def _make_room(self, made: Evict, pod: Pod, guarded: GuardedEvictions | None, told: Answered) -> Request:
        if guarded is None:
            return self._request(pod, made.why, self._alone(pod), told)
        budgets, job = self.budgets.of(pod), made.beneficiary
        beneficiary = self._beneficiaries.open(job, guarded if budgets else None)
        if budgets:
            send = guarded.guard(pod, budgets)
        else:
            send, nominations = guarded.before(self._send(pod, beneficiary.needs_room)), self._nominations.get(job)
            send = send if nominations is None else nominations.before(send)

        def answered(error: str) -> None:
            self._beneficiaries.close(job, guarded if budgets else None)
            told(error)

        return self._request(pod, made.why, send, answered)

    def _alone(self, pod: Pod) -> Send:
        """The leaving of a pod that nobody else's depends on; those under one budget take turns all the same."""
        budgets = self.budgets.of(pod)
        if not budgets:
            return self._send(pod)
        return GuardedEvictions(self._api.client, self._locks, self._patience_s).guard(pod, budgets)

    def _send(self, pod: Pod, is_needed: IsNeeded = always) -> Send:
        return EvictionRequest(self._api.client, pod, self._patience_s, is_needed).send

    def _request(self, pod: Pod, why: str, send: Send, told: Answered = lambda _: None) -> Request:
        now = self._now()

        def answered(error: str) -> None:
            if not error:
                # After the eviction, which writes a condition of its own that says less.
                reason = partial(write_once, self._api.client, calls.disrupt(pod, why, now))
                self._reasons.append(self._in_flight.request((Pod, pod.key, "reason"), reason, lambda _: None))
            told(error)

        return self._in_flight.assume(leaving(pod, calls.stamp(now)), send, answered)


class Nominations:
    """The nominations of one job in one cycle: room is promised before it is made.

    A scheduler that dies between the two must leave a nomination without an eviction, which the next one takes back,
    rather than an eviction without a beneficiary. So all of them stand before the first eviction for the job is sent;
    and when one of them is refused, nobody leaves: the gang is not what the plan was made for. Made in the scheduler's
    thread, settled in the API thread.
    """

    def __init__(self) -> None:
        self._n_open = 0
        self._n_refused = 0
        self._settled = asyncio.Event()

    def with_one_more(self, nominate: Callable[[], Awaitable[str]]) -> Send:
        """Count a nomination in; returns the sending that tells the evictions how it went."""
        self._n_open += 1

        async def counted() -> str:
            error = "it broke off"
            try:
                error = await nominate()
            finally:
                self._n_open -= 1
                self._n_refused += bool(error)
                if not self._n_open:
                    self._settled.set()
            return error

        return counted

    def before(self, send: Send) -> Send:
        """Return the sending that waits for them, and is dropped when one of them could not be made."""

        async def evict() -> str | Later:
            if self._n_open:
                return Later(self._settled.wait)
            return await self.error() or await send()

        return evict

    async def error(self) -> str:
        """What is wrong with them, "" if nothing, when all are answered."""
        if self._n_open:
            await self._settled.wait()
        return "not all of those it would make room for could be nominated" if self._n_refused else ""


class Beneficiary:
    """A job for which evictions are under way."""

    def __init__(self) -> None:
        self.n_open = 0
        #: Those of its evictions that budgets have a say in, for each that is not answered yet.
        self.guarded: list[GuardedEvictions] = []
        #: Written by the scheduler's thread, read by the API thread.
        self.is_waiting = True

    def needs_room(self) -> bool:
        """Whether anybody would have to leave for it; asked in the API thread, before every attempt."""
        return self.is_waiting


class Beneficiaries:
    """All of them, by job."""

    def __init__(self) -> None:
        self._known: dict[str, Beneficiary] = {}

    def of(self, job: str) -> Beneficiary:
        """The job, for which evictions are about to be asked for; so it waits."""
        known = self._known.setdefault(job, Beneficiary())
        known.is_waiting = True
        return known

    def open(self, job: str, guarded: GuardedEvictions | None = None) -> Beneficiary:
        """One more eviction for a job is asked for, maybe one that budgets guard."""
        known = self.of(job)
        known.n_open += 1
        known.guarded += [] if guarded is None else [guarded]
        return known

    def close(self, job: str, guarded: GuardedEvictions | None = None) -> None:
        """One of them was answered, and the scheduler will hear of it."""
        known = self._known[job]
        known.n_open -= 1
        if guarded is not None:
            known.guarded.remove(guarded)
        if not known.n_open:
            del self._known[job]

    def look(self, is_waiting: Callable[[str], bool]) -> None:
        """Find out which of them still wait."""
        for job, known in self._known.items():
            known.is_waiting = is_waiting(job)


class DisruptionBudgets:
    """The budgets that there are, by namespace.

    The scheduler has asked them before it decided; what the server says when it is asked in earnest may be otherwise,
    as counts are always a little old. Here only matters which there are.
    """

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}

    def observe(self, event: Event) -> None:
        budget = event.object
        if not isinstance(budget, PodDisruptionBudget):
            return
        if event.kind == "DELETED":
            standing = self._budgets.get(budget.namespace, {})
            standing.pop(budget.name, None)
            if not standing:
                self._budgets.pop(budget.namespace, None)
        else:
            self._budgets.setdefault(budget.namespace, {})[budget.name] = budget

    def of(self, pod: Pod) -> list[str]:
        """The keys of the budgets that cover the pod."""
        budgets = self._budgets.get(pod.namespace)
        if not budgets:
            return []
        return sorted(budget.key for budget in budgets.values() if _covers(budget, pod))


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and selector.matches(pod.metadata.labels)
