"""Binding pods: at once where nothing stands in the way, after their claims are bound where these wait for a node.

Either way the pod counts as being on its node from the moment of the decision. `bind` is for new decisions, `settle`
for every poll, after the events of claims and volumes have been taken in. A gang waits for volumes whole: pods that
need none wait for those that do, until enough are ready for the gang to run. So a claim that cannot be bound costs
nobody a start: when too few would be left, all are given back, and the scheduler plans anew. What a gang has beyond its
minimum holds it up neither way.
What waits here is not lost with the process: the claims say which node they were told, and the predicates hold the
next scheduler to it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from muster.api import Pod
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumption, Assumptions, bound
from muster.cluster.kubernetes.sending.events import DecisionEvents, JobAnswers
from muster.cluster.kubernetes.sending.in_flight import GONE, InFlight, Race, bind_pod, write
from muster.cluster.kubernetes.sending.queues import Request
from muster.cluster.kubernetes.verbs.mirror_only import RefusalBackoff, VolumeRefusals
from muster.cluster.kubernetes.verbs.partial_gangs import BindAnswered, PartialGangs
from muster.cluster.kubernetes.verbs.volumes import ClaimFault, ClaimPlan, Volumes
from muster.snapshot.messages import Bind, Event, Failure

_Planned = tuple[Bind, Pod, ClaimPlan]
#: Whether a job, without some of its pods, is complete.
IsWhole = Callable[[str, Collection[str]], bool]


class Bindings:
    """Everything that is to be bound."""

    def __init__(
        self,
        api: ApiThread,
        assumptions: Assumptions,
        in_flight: InFlight,
        partial_gangs: PartialGangs,
        events: DecisionEvents,
        volume_wait_s: float,
    ) -> None:
        self._api = api
        self._assumptions = assumptions
        self._in_flight = in_flight
        self._partial_gangs = partial_gangs
        self._events = events
        self._volumes = Volumes()
        self._refusals = VolumeRefusals()
        #: Also of pods that could not be nominated, or for which nobody could be evicted.
        self.backoff = RefusalBackoff(assumptions)
        self._waiting = VolumeWaits(self._volumes, volume_wait_s, partial_gangs.is_whole)

    def observe(self, event: Event) -> None:
        self._volumes.observe(event)
        self._refusals.observe(event)
        self.backoff.observe(event)

    def waiting(self) -> Mapping[str, Collection[str]]:
        """Keys of the pods that wait for volumes, or for others that do, by job."""
        return {job: self._waiting.pods(job) for job in self._waiting.jobs()}

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        """Bind pods, or let them wait; returns what is impossible."""
        failures: list[Failure] = []
        planned: list[_Planned] = []
        answered = self._partial_gangs.attempt(decisions)
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            error = GONE if pod is None else _unbindable(pod)
            if pod is None or error:
                failures.append(Failure(made, error))
                answered(made, None, error)
            else:
                planned.append((made, pod, self._volumes.plan(pod, made.node)))
        held = self._waiting.jobs() | {made.job for made, _, plan in planned if plan.claims}
        self._bind_now([each for each in planned if each[0].job not in held], answered)
        if held:
            self._hold([each for each in planned if each[0].job in held], answered)
            self.settle()
        return failures

    def _bind_now(self, planned: Sequence[_Planned], answered: BindAnswered) -> None:
        answers = self._events.answers()
        requests: list[Request] = []
        for made, pod, _ in planned:
            tell = partial(_told, answered, self._heard_of(made, pod, answers), made, pod)
            requests.append(self._in_flight.assume(bound(pod, made.node), self._send(made, pod), tell))
        self._api.urgent.submit(requests)

    def _hold(self, planned: Sequence[_Planned], answered: BindAnswered) -> None:
        waiters: list[WaitingPod] = []
        requests: list[Request] = []
        for made, pod, plan in planned:
            tell = partial(_told, answered, lambda _: None, made, pod)
            assumption = bound(pod, made.node)
            self._assumptions.hold(assumption)
            waiter = WaitingPod(made, pod, assumption, plan.claims, time.monotonic(), tell, not plan.calls, plan.fault)
            waiters.append(waiter)
            if plan.calls:
                send = partial(write, self._api.client, *plan.calls)
                requests.append(self._in_flight.request(("claims", assumption), send, partial(_heard, waiter)))
            if plan.claims and plan.fault is None:
                self._events.waits_for_claims(made, pod, plan.claims)
        self._waiting.add(waiters)
        self._api.urgent.submit(requests)

    def drain(self) -> list[Event]:
        """The claims that the scheduler has to see otherwise than before; newer than all other events of a poll."""
        return self._refusals.drain(self._volumes.claim, time.monotonic())

    def settle(self) -> None:
        """Bind those whose claims are bound, give back those whose cannot be."""
        if not self._waiting.jobs():
            return
        moment = time.monotonic()
        released = self._waiting.take(moment, self._is_gone)
        answers = self._events.answers()
        requests = []
        for waiter in released.ready:
            tell = partial(_both, waiter.answered, self._heard_of(waiter.made, waiter.pod, answers))
            requests.append(self._in_flight.carry_out(waiter.assumption, self._send(waiter.made, waiter.pod), tell))
        self._api.urgent.submit(requests)
        for waiter, fault in released.failed:
            self._give_back(waiter, fault, moment)

    def _heard_of(self, made: Bind, pod: Pod, answers: JobAnswers) -> Callable[[str], None]:
        """Returns what to call with the answer to a binding."""
        told = answers.expect(made, pod)

        def heard(error: str) -> None:
            told(error)
            is_refused = error and not isinstance(error, Race)
            if is_refused and self._api.may_act() and self.backoff.note(made.job, pod):
                self._events.was_given_back(made, pod, error)

        return heard

    def _give_back(self, waiter: WaitingPod, fault: ClaimFault, moment: float) -> None:
        self._in_flight.give_back(waiter.assumption, fault.why)
        waiter.answered(fault.why)
        claim = self._volumes.claim(fault.claim)
        if claim is not None:
            self._events.was_given_back(waiter.made, waiter.pod, fault.why)
            if fault.is_refusal and not claim.spec.volume_name:
                self._refusals.note(fault.claim, fault.node, moment - waiter.since, moment)

    def _is_gone(self, waiter: WaitingPod) -> bool:
        """Whether a pod left, or somebody else bound it."""
        pod = self._assumptions.find_assumed(Pod, waiter.pod.key)
        is_here = pod is not None and pod.metadata.deletion_timestamp is None
        return not is_here or not self._assumptions.is_held(waiter.assumption)

    def _send(self, made: Bind, pod: Pod) -> Callable[[], Awaitable[str]]:
        return partial(bind_pod, self._api.client, pod, made.node)


def _unbindable(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp is not None:
        return GONE
    return f"the pod is on node {pod.spec.node_name} already" if pod.spec.node_name else ""


def _told(answered: BindAnswered, tell: Callable[[str], None], made: Bind, pod: Pod, error: str) -> None:
    answered(made, pod, error)
    tell(error)


def _both(first: Callable[[str], None], second: Callable[[str], None], error: str) -> None:
    first(error)
    second(error)


def _heard(waiter: WaitingPod, error: str) -> None:
    """The claims of a waiting pod were told their node, or could not be."""
    waiter.is_told = True
    if error:
        claim, node = waiter.claims[0], waiter.made.node
        waiter.fault = ClaimFault(claim, node, f"claim {claim} could not be told its node: {error}", is_refusal=False)


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pod that waits."""

    made: Bind
    pod: Pod
    #: That the pod is on its node.
    assumption: Assumption
    #: Keys of the claims that it waits for; a pod without any waits for its gang.
    claims: Sequence[str]
    since: float
    #: Called with the final answer: "" or what is wrong.
    answered: Callable[[str], None]
    #: Whether its claims know the node.
    is_told: bool
    fault: ClaimFault | None = None


class Released(NamedTuple):
    """Who need not wait any more."""

    ready: Sequence[WaitingPod]
    failed: Sequence[tuple[WaitingPod, ClaimFault]]


class VolumeWaits:
    """Pods that have a node but not their volumes yet, by job. They are bound when the volumes are."""

    def __init__(self, volumes: Volumes, limit_s: float, is_whole: IsWhole) -> None:
        self._volumes = volumes
        self._limit = limit_s
        self._is_whole = is_whole
        self._waiters: dict[str, list[WaitingPod]] = {}
        #: Jobs that came as complete gangs.
        self._gangs: set[str] = set()

    def add(self, waiters: Iterable[WaitingPod]) -> None:
        """Let pods wait: all that were decided for a job at once, and assumed to be on their nodes."""
        jobs = set()
        for waiter in waiters:
            self._waiters.setdefault(waiter.made.job, []).append(waiter)
            jobs.add(waiter.made.job)
        self._gangs |= {job for job in jobs if self._is_whole(job, ())}

    def pods(self, job: str) -> frozenset[str]:
        """Keys of the pods of a job that wait."""
        return frozenset(waiter.pod.key for waiter in self._waiters.get(job, ()))

    def jobs(self) -> frozenset[str]:
        """Jobs of which pods wait."""
        return frozenset(self._waiters)

    def take(self, moment: float, is_gone: Callable[[WaitingPod], bool]) -> Released:
        """Return those who need not wait any more; they are out."""
        ready: list[WaitingPod] = []
        failed: list[tuple[WaitingPod, ClaimFault]] = []
        for job in sorted(self._waiters):
            released = self._released(job, moment, is_gone)
            ready += released.ready
            failed += released.failed
            self._remove(job, {id(waiter) for waiter in (*released.ready, *(waiter for waiter, _ in released.failed))})
        if ready or failed:
            self._forget_claims([*ready, *(waiter for waiter, _ in failed)])
        return Released(ready, failed)

    def _released(self, job: str, moment: float, is_gone: Callable[[WaitingPod], bool]) -> Released:
        waiters = self._waiters[job]
        ready: list[WaitingPod] = []
        failed: list[tuple[WaitingPod, ClaimFault]] = []
        for waiter in waiters:
            standing = self._standing(waiter, moment, is_gone)
            if isinstance(standing, ClaimFault):
                failed.append((waiter, standing))
            elif standing:
                ready.append(waiter)
        if job not in self._gangs:
            return Released(ready, failed)
        if not self._is_whole(job, {waiter.pod.key for waiter, _ in failed}):
            return Released((), [*failed, *_taken_along(waiters, failed)])
        waiting = {waiter.pod.key for waiter in waiters} - {waiter.pod.key for waiter in ready}
        return Released(ready if self._is_whole(job, waiting) else (), failed)

    def _standing(self, waiter: WaitingPod, moment: float, is_gone: Callable[[WaitingPod], bool]) -> ClaimFault | bool:
        """Whether a waiting pod is ready, or what is wrong."""
        if is_gone(waiter):
            return ClaimFault("", waiter.made.node, "the pod is gone")
        if waiter.fault is not None:
            return waiter.fault
        found = self._volumes.unbound(waiter.claims, waiter.made.node)
        if isinstance(found, ClaimFault):
            return found
        if found and moment - waiter.since >= self._limit:
            late = f"claim {found[0]} was not bound within {self._limit:.0f} s"
            return ClaimFault(found[0], waiter.made.node, late)
        return waiter.is_told and not found

    def _remove(self, job: str, gone: Collection[int]) -> None:
        self._waiters[job] = [waiter for waiter in self._waiters[job] if id(waiter) not in gone]
        if not self._waiters[job]:
            del self._waiters[job]
            self._gangs.discard(job)

    def _forget_claims(self, left: Iterable[WaitingPod]) -> None:
        waited_for = {claim for waiters in self._waiters.values() for waiter in waiters for claim in waiter.claims}
        self._volumes.forget(claim for waiter in left for claim in waiter.claims if claim not in waited_for)


def _taken_along(
    waiters: Iterable[WaitingPod], failed: Sequence[tuple[WaitingPod, ClaimFault]]
) -> list[tuple[WaitingPod, ClaimFault]]:
    """The rest of a gang that has too few left, and why it goes as well."""
    gone = {id(waiter) for waiter, _ in failed}
    why = f"its gang would be incomplete: {failed[0][1].why}" if failed else "its gang is no longer complete"
    return [(waiter, ClaimFault("", waiter.made.node, why)) for waiter in waiters if id(waiter) not in gone]
