"""Binding pods: at once where nothing stands in the way, after their claims are bound where these wait for a node.

Either way the pod counts as being on its node from the moment of the decision. Used by the backend in the scheduler's
thread: `bind` for new decisions, `settle` with every poll, after the events of claims and volumes have been taken in.
What waits here is not lost with the process: the claims say which node they were told, and the predicates hold the
next scheduler to it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from muster.api import Pod
from muster.cluster.kubernetes import acting
from muster.cluster.kubernetes.assumptions import Assumptions, bound
from muster.cluster.kubernetes.custody import Custody
from muster.cluster.kubernetes.engine_room import EngineRoom
from muster.cluster.kubernetes.gangs import Answered
from muster.cluster.kubernetes.lanes import Errand
from muster.cluster.kubernetes.news import Newsroom, Round
from muster.cluster.kubernetes.pending import Pending
from muster.cluster.kubernetes.refusals import Refusals
from muster.cluster.kubernetes.rests import Rests
from muster.cluster.kubernetes.volumes import Fault, Plan, Volumes
from muster.cluster.kubernetes.waiting_room import Guest, WaitingRoom
from muster.snapshot.messages import Bind, Event, Failure

_Planned = tuple[Bind, Pod, Plan]


class Bindings:
    """Everything that is to be bound."""

    def __init__(
        self,
        room: EngineRoom,
        assumptions: Assumptions,
        pending: Pending,
        custody: Custody,
        news: Newsroom,
        volume_wait_s: float,
    ) -> None:
        self._room = room
        self._assumptions = assumptions
        self._pending = pending
        self._custody = custody
        self._news = news
        self._volumes = Volumes()
        self._refusals = Refusals()
        #: Also of pods that could not be nominated, or for which nobody could be evicted.
        self.rests = Rests(assumptions)
        self._waiting = WaitingRoom(self._volumes, volume_wait_s, custody.is_whole)

    def observe(self, event: Event) -> None:
        self._volumes.observe(event)
        self._refusals.observe(event)
        self.rests.observe(event)

    def waiting(self) -> Mapping[str, Collection[str]]:
        """Keys of the pods that wait for volumes, or for others that do, by job."""
        return {job: self._waiting.pods(job) for job in self._waiting.jobs()}

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        """Bind pods, or let them wait; returns what is impossible."""
        failures: list[Failure] = []
        planned: list[_Planned] = []
        answered = self._custody.attempt(decisions)
        for made in decisions:
            pod = self._assumptions.find_assumed(Pod, made.pod)
            error = acting.GONE if pod is None else _unbindable(pod)
            if pod is None or error:
                failures.append(Failure(made, error))
                answered(made, None, error, time.monotonic())
            else:
                planned.append((made, pod, self._volumes.plan(pod, made.node)))
        held = self._waiting.jobs() | {made.job for made, _, plan in planned if plan.claims}
        self._bind_now([each for each in planned if each[0].job not in held], answered)
        if held:
            self._hold([each for each in planned if each[0].job in held], answered)
            self.settle()
        return failures

    def _bind_now(self, planned: Sequence[_Planned], answered: Answered) -> None:
        news = self._news.round()
        errands: list[Errand] = []
        for made, pod, _ in planned:
            tell = partial(_told, answered, self._heard_of(made, pod, news), made, pod)
            errands.append(self._pending.assume(bound(pod, made.node), self._send(made, pod), tell))
        self._room.urgent.submit(errands)

    def _hold(self, planned: Sequence[_Planned], answered: Answered) -> None:
        guests: list[Guest] = []
        errands: list[Errand] = []
        for made, pod, plan in planned:
            tell = partial(_told, answered, lambda _: None, made, pod)
            assumption = bound(pod, made.node)
            self._assumptions.hold(assumption)
            guest = Guest(made, pod, assumption, plan.claims, time.monotonic(), tell, not plan.calls, plan.fault)
            guests.append(guest)
            if plan.calls:
                send = partial(acting.write, self._room.client, *plan.calls)
                errands.append(self._pending.errand(("claims", assumption), send, partial(_heard, guest)))
            if plan.claims and plan.fault is None:
                self._news.waits_for_claims(made, pod, plan.claims)
        self._waiting.admit(guests)
        self._room.urgent.submit(errands)

    def drain(self) -> list[Event]:
        """The claims that the scheduler has to see otherwise than before; newer than all other events of a poll."""
        return self._refusals.drain(self._volumes.claim, time.monotonic())

    def settle(self) -> None:
        """Bind those whose claims are bound, give back those whose cannot be."""
        if not self._waiting.jobs():
            return
        moment = time.monotonic()
        leaving = self._waiting.take(moment, self._is_gone)
        news = self._news.round()
        errands = []
        for guest in leaving.ready:
            tell = partial(_both, guest.answered, self._heard_of(guest.made, guest.pod, news))
            errands.append(self._pending.carry_out(guest.assumption, self._send(guest.made, guest.pod), tell))
        self._room.urgent.submit(errands)
        for guest, fault in leaving.failed:
            self._give_back(guest, fault, moment)

    def _heard_of(self, made: Bind, pod: Pod, news: Round) -> Callable[[str], None]:
        """Returns what to call with the answer to a binding."""
        bound = news.expect(made, pod)

        def heard(error: str) -> None:
            bound(error)
            is_refused = error and not isinstance(error, acting.Race)
            if is_refused and self._room.may_act() and self.rests.note(made.job, pod):
                self._news.was_given_back(made, pod, error)

        return heard

    def _give_back(self, guest: Guest, fault: Fault, moment: float) -> None:
        self._pending.give_back(guest.assumption, fault.why)
        guest.answered(fault.why)
        claim = self._volumes.claim(fault.claim)
        if claim is not None:
            self._news.was_given_back(guest.made, guest.pod, fault.why)
            if fault.is_refusal and not claim.spec.volume_name:
                self._refusals.note(fault.claim, fault.node, moment - guest.since, moment)

    def _is_gone(self, guest: Guest) -> bool:
        """Whether a pod left, or somebody else bound it."""
        pod = self._assumptions.find_assumed(Pod, guest.pod.key)
        is_here = pod is not None and pod.metadata.deletion_timestamp is None
        return not is_here or not self._assumptions.is_held(guest.assumption)

    def _send(self, made: Bind, pod: Pod) -> Callable[[], Awaitable[str]]:
        return partial(acting.bind, self._room.client, pod, made.node)


def _unbindable(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp is not None:
        return acting.GONE
    return f"the pod is on node {pod.spec.node_name} already" if pod.spec.node_name else ""


def _told(answered: Answered, tell: Callable[[str], None], made: Bind, pod: Pod, error: str) -> None:
    answered(made, pod, error, time.monotonic())
    tell(error)


def _both(first: Callable[[str], None], second: Callable[[str], None], error: str) -> None:
    first(error)
    second(error)


def _heard(guest: Guest, error: str) -> None:
    """The claims of a guest were told their node, or could not be."""
    guest.is_told = True
    if error:
        claim, node = guest.claims[0], guest.made.node
        guest.fault = Fault(claim, node, f"claim {claim} could not be told its node: {error}", is_refusal=False)
