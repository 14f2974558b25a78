"""Pods that have a node but not their volumes yet. They wait here, not in a lane, and are bound when the volumes are.

A gang goes in whole: pods that need no volumes wait for those that do, until enough are ready for the gang to run. So
a claim that cannot be bound costs nobody a start: when too few would be left, all are given back, and the scheduler
plans anew. What a gang needs beyond its minimum holds it up neither way. Used by `bindings`, in the scheduler's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.api import Pod
from muster.cluster.kubernetes.assumptions import Assumption
from muster.cluster.kubernetes.volumes import Fault, Volumes
from muster.snapshot.messages import Bind

#: Whether a job, without some of its pods, is complete.
IsWhole = Callable[[str, Collection[str]], bool]


@dataclass(slots=True, eq=False)
class Guest:
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
    fault: Fault | None = None


class Leaving(NamedTuple):
    """Who need not wait any more."""

    ready: Sequence[Guest]
    failed: Sequence[tuple[Guest, Fault]]


class WaitingRoom:
    """The guests, by job."""

    def __init__(self, volumes: Volumes, limit_s: float, is_whole: IsWhole) -> None:
        self._volumes = volumes
        self._limit = limit_s
        self._is_whole = is_whole
        self._guests: dict[str, list[Guest]] = {}
        #: Jobs that came as complete gangs.
        self._gangs: set[str] = set()

    def admit(self, guests: Iterable[Guest]) -> None:
        """Let pods in; all that were decided for a job at once, and assumed to be on their nodes."""
        jobs = set()
        for guest in guests:
            self._guests.setdefault(guest.made.job, []).append(guest)
            jobs.add(guest.made.job)
        self._gangs |= {job for job in jobs if self._is_whole(job, ())}

    def pods(self, job: str) -> frozenset[str]:
        """Keys of the pods of a job that wait."""
        return frozenset(guest.pod.key for guest in self._guests.get(job, ()))

    def jobs(self) -> frozenset[str]:
        """Jobs of which pods wait."""
        return frozenset(self._guests)

    def take(self, moment: float, is_gone: Callable[[Guest], bool]) -> Leaving:
        """Return those who need not wait any more; they are out."""
        ready: list[Guest] = []
        failed: list[tuple[Guest, Fault]] = []
        for job in sorted(self._guests):
            leaving = self._leaving(job, moment, is_gone)
            ready += leaving.ready
            failed += leaving.failed
            self._let_out(job, {id(guest) for guest in (*leaving.ready, *(guest for guest, _ in leaving.failed))})
        if ready or failed:
            self._forget_claims([*ready, *(guest for guest, _ in failed)])
        return Leaving(ready, failed)

    def _leaving(self, job: str, moment: float, is_gone: Callable[[Guest], bool]) -> Leaving:
        guests = self._guests[job]
        ready: list[Guest] = []
        failed: list[tuple[Guest, Fault]] = []
        for guest in guests:
            standing = self._standing(guest, moment, is_gone)
            if isinstance(standing, Fault):
                failed.append((guest, standing))
            elif standing:
                ready.append(guest)
        if job not in self._gangs:
            return Leaving(ready, failed)
        if not self._is_whole(job, {guest.pod.key for guest, _ in failed}):
            return Leaving((), [*failed, *_taken_along(guests, failed)])
        waiting = {guest.pod.key for guest in guests} - {guest.pod.key for guest in ready}
        return Leaving(ready if self._is_whole(job, waiting) else (), failed)

    def _standing(self, guest: Guest, moment: float, is_gone: Callable[[Guest], bool]) -> Fault | bool:
        """Whether a guest is ready, or what is wrong."""
        if is_gone(guest):
            return Fault("", guest.made.node, "the pod is gone")
        if guest.fault is not None:
            return guest.fault
        found = self._volumes.unbound(guest.claims, guest.made.node)
        if isinstance(found, Fault):
            return found
        if found and moment - guest.since >= self._limit:
            late = f"claim {found[0]} was not bound within {self._limit:.0f} s"
            return Fault(found[0], guest.made.node, late)
        return guest.is_told and not found

    def _let_out(self, job: str, leaving: Collection[int]) -> None:
        self._guests[job] = [guest for guest in self._guests[job] if id(guest) not in leaving]
        if not self._guests[job]:
            del self._guests[job]
            self._gangs.discard(job)

    def _forget_claims(self, left: Iterable[Guest]) -> None:
        waited_for = {claim for guests in self._guests.values() for guest in guests for claim in guest.claims}
        self._volumes.forget(claim for guest in left for claim in guest.claims if claim not in waited_for)


def _taken_along(guests: Iterable[Guest], failed: Sequence[tuple[Guest, Fault]]) -> list[tuple[Guest, Fault]]:
    """The rest of a gang that has too few left, and why it goes as well."""
    gone = {id(guest) for guest, _ in failed}
    why = f"its gang would be incomplete: {failed[0][1].why}" if failed else "its gang is no longer complete"
    return [(guest, Fault("", guest.made.node, why)) for guest in guests if id(guest) not in gone]
