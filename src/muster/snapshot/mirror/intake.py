"""The door: what a cluster tells goes into the mirror here, and one bad object costs one object.

Whatever an object makes the mirror raise, the object is put aside with the reason, and the next one is looked at. If
no picture can be taken although every object was let in, those that came since the last picture are let in again by
halves until it is known who it was. The scheduler also
puts jobs aside here that plugins fail on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from muster.api import KaiPodGroup, KaiQueue, KubeObject, Pod, PodGroup, Queue, UserError, group_of
from muster.snapshot.messages import Event
from muster.snapshot.mirror.mirror import Mirror
from muster.snapshot.mirror.quarantine import Aside, fault_text, reason_for, said_to_be_unusable
from muster.snapshot.records import check_family, job_from_pod
from muster.snapshot.tables import Snapshot

log = logging.getLogger("muster.snapshot")
_GROUPS: Final = (PodGroup, KaiPodGroup)
#: Kinds of which an object of another family may have taken the name.
_FAMILIES: Final = (PodGroup, KaiPodGroup, Queue, KaiQueue)
_ENDED: Final = ("Succeeded", "Failed")


class Intake:
    """Takes events in, and pictures out, of one mirror."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._book = mirror.quarantine
        mirror.again = self._look_again
        self._now = 0.0
        #: What came since the last picture, by type and key.
        self._fresh: dict[tuple[type[KubeObject], str], KubeObject] = {}

    # -- objects in ----------------------------------------------------------------------------------------

    def take(self, events: Iterable[Event], now: float) -> None:
        """Take in what happened, and try again what has been aside for a while."""
        self._now = now
        for event in events:
            self._take(event)
        for held in self._book.due(now):
            self._try(held)

    def put_job_aside(self, job: str, thing: KubeObject, why: str, now: float) -> None:
        """A question about a job went wrong: it waits until its object changes, or a pause is over."""
        self._now = now
        self._put(thing, why, job, is_asked=True)

    def _take(self, event: Event) -> None:
        thing = event.object
        if event.kind == "DELETED":
            self._forget(thing)
        elif event.kind == "UNREADABLE":
            namesake = self._mirror.namesake(thing)
            self._put(thing, event.fault, self._job_of(thing))
            self._do_without(thing)
            self._displace(namesake)
        else:
            self._let_in(thing)
        if isinstance(thing, _FAMILIES):
            self._try_those_beside(thing)

    def _let_in(self, thing: KubeObject) -> None:
        held = self._book.find(thing)
        if held is not None and held.is_asked and _is_unchanged(held.object, thing):
            held = None  # stays aside, and is not news to the columns
        namesake = self._mirror.namesake(thing)
        try:
            self._mirror.upsert(thing)
        except Exception as fault:  # noqa: BLE001  # whatever it is, it is this object's fault
            self._refuse(thing, fault)
            return
        finally:
            self._displace(namesake)
        self._fresh[type(thing), thing.key] = thing
        if held is not None:
            self._release(held, thing)
        elif said_to_be_unusable(thing):
            self._book.release(thing)  # somebody corrected it while nobody looked

    def _refuse(self, thing: KubeObject, fault: Exception) -> None:
        self._put(thing, reason_for(thing, fault), self._job_of(thing))
        self._do_without(thing)

    def _displace(self, namesake: KubeObject | None) -> None:
        """Put an object aside that had to leave its name to an older one of the other family."""
        taker = None if namesake is None else self._mirror.namesake(namesake)
        if namesake is None or taker is None:
            return
        self._fresh.pop((type(namesake), namesake.key), None)
        try:
            check_family(taker, namesake)
        except UserError as fault:
            self._put(namesake, reason_for(namesake, fault), "")

    def _put(self, thing: KubeObject, reason: str, job: str, *, is_asked: bool = False) -> None:
        if self._book.put(thing, reason, self._now, job=job, is_asked=is_asked):
            log.warning("event=quarantined kind=%s name=%s reason=%r", thing.kind, thing.key, reason)

    def _release(self, held: Aside, thing: KubeObject) -> None:
        self._book.release(thing)
        log.info("event=quarantine-left kind=%s name=%s", held.kind, held.object.key)

    def _do_without(self, thing: KubeObject) -> None:
        """Leave the mirror without the object, whatever state it is in."""
        for leave in (self._mirror.put_aside, self._mirror.delete):
            try:
                leave(thing)
            except Exception:  # the next way takes more away
                log.exception("event=quarantine-failed kind=%s name=%s", thing.kind, thing.key)
            else:
                return

    def _forget(self, thing: KubeObject) -> None:
        self._fresh.pop((type(thing), thing.key), None)
        self._book.forget(thing)
        try:
            self._mirror.delete(thing)
        except Exception:
            log.exception("event=delete-failed kind=%s name=%s", thing.kind, thing.key)

    def _try(self, held: Aside) -> None:
        if held.is_asked:
            self._release(held, held.object)  # the next cycle asks again
        else:
            self._let_in(held.object)

    def _try_those_beside(self, thing: KubeObject) -> None:
        """What may have been refused because of how this object was: its name's other owner, its pods."""
        for held in list(self._book) if len(self._book) else ():
            other = held.object
            is_namesake = type(other) is not type(thing) and (other.kind, other.key) == (thing.kind, thing.key)
            is_member = isinstance(thing, _GROUPS) and isinstance(other, Pod) and held.job == thing.key
            if is_namesake or is_member:
                self._try(held)

    def _look_again(self, pod: Pod) -> None:
        self._let_in(pod)

    def _job_of(self, thing: KubeObject) -> str:
        """The job that has to wait for an object."""
        if isinstance(thing, _GROUPS):
            standing = self._mirror.group(thing.key)
            return "" if standing is not None and type(standing) is not type(thing) else thing.key
        if not isinstance(thing, Pod) or self._mirror.is_foreign(thing) or thing.status.phase in _ENDED:
            return ""
        group = group_of(thing)
        return job_from_pod(thing).id if group is None else f"{thing.namespace}/{group}"

    # -- pictures out --------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Take a picture. Raises what goes wrong with objects of which pictures were taken before."""
        try:
            picture = self._mirror.snapshot()
        except Exception as fault:
            if not self._fresh:
                raise
            log.warning("event=no-picture suspects=%d error=%r", len(self._fresh), fault_text(fault))
            picture = self._without_culprits(list(self._fresh.values()))
        self._fresh.clear()
        return picture

    def _without_culprits(self, suspects: Sequence[KubeObject]) -> Snapshot:
        for thing in suspects:
            self._mirror.delete(thing)
        self._readmit(suspects)
        return self._mirror.snapshot()

    def _readmit(self, things: Sequence[KubeObject]) -> None:
        """Let objects in again, by halves where that goes wrong; who is alone then is put aside."""
        for thing in things:
            self._let_in(thing)
        try:
            self._mirror.snapshot()
        except Exception as fault:  # noqa: BLE001  # as at the door
            for thing in things:
                self._mirror.delete(thing)
            if len(things) == 1:
                self._put(things[0], reason_for(things[0], fault), self._job_of(things[0]))
                return
            middle = len(things) // 2
            self._readmit(things[:middle])
            self._readmit(things[middle:])


def _is_unchanged(old: KubeObject, new: KubeObject) -> bool:
    """Whether two versions of an object differ in nothing that its owner writes."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and getattr(old, "spec", None) == getattr(new, "spec", None)
    )
