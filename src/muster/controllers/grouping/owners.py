"""Owners of pods as documents: what was read of them and when, for whom, and what has to be read first.

Objects that are followed are always as they were told last; one that was asked for is taken as it was for a while.
Whatever nobody depends on any more is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from muster.api import KubeObject, OwnerReference, Pod, encode
from muster.controllers.contract import Json, Target
from muster.controllers.grouping.rules import Owner

#: Seconds for which an owner that was asked for is taken as it was.
_FRESH_SECONDS: Final = 10.0
#: Owners above one another; more are a mistake, or a circle.
_MAX_OWNERS: Final = 12


@dataclass(frozen=True, slots=True)
class _Read:
    """An object as it was when it was read; `why` there is no document."""

    document: Json | None
    why: str
    moment: float

    @property
    def is_followed(self) -> bool:
        return self.moment == math.inf


class LackingError(Exception):
    """Something has to be read first."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.target = target


class Owners:
    """What was read, by object; units are groups of pods that are looked at together."""

    def __init__(self) -> None:
        self._read: dict[Target, _Read] = {}
        #: Who depends on an object, and on what somebody depends.
        self._users: dict[Target, set[str]] = {}
        self._uses: dict[str, set[Target]] = {}

    def follow(self, thing: KubeObject, *, is_gone: bool) -> Collection[str]:
        """Take in an owner that is followed; returns the units that depend on it."""
        target = Target(thing.api_version, thing.kind, thing.key)
        document = None if is_gone else {"metadata": {}, **encode(thing)}
        self._read[target] = _Read(document, "is gone" if is_gone else "", math.inf)
        return tuple(self._users.get(target, ()))

    def answer(self, target: Target, document: Json | None, why: str, now: float) -> None:
        """Take in an object that was asked for."""
        self._read[target] = _Read(document, why, now)

    def write(self, target: Target, document: Json) -> None:
        """An object is about to be as given."""
        self._read[target] = replace(self._read[target], document=document)

    def document(self, unit: str, target: Target, now: float) -> Json | None:
        """An object as it was read, None: there is none. Raises LackingError."""
        self._users.setdefault(target, set()).add(unit)
        self._uses.setdefault(unit, set()).add(target)
        read = self._read.get(target)
        if read is None or read.moment < now - _FRESH_SECONDS:
            raise LackingError(target)
        return read.document

    def of_pod(self, unit: str, pod: Pod, now: float) -> list[Owner]:
        """The owners of a pod, from the one that made it upwards. Raises LackingError."""
        found: list[Owner] = []
        reference = controller_of(pod.metadata.owner_references)
        while reference is not None and len(found) < _MAX_OWNERS:
            target = Target(reference.api_version, reference.kind, f"{pod.namespace}/{reference.name}")
            document = self.document(unit, target, now)
            if document is None or (document["metadata"].get("uid") or reference.uid) != reference.uid:
                found.append(Owner(reference.api_version, reference.kind, reference.name, reference.uid))
                break
            found.append(Owner(reference.api_version, reference.kind, reference.name, reference.uid, document))
            reference = controller_of([_reference(each) for each in document["metadata"].get("ownerReferences") or ()])
        return found

    def unread(self, unit: str) -> list[str]:
        """The objects that a unit depends on and that could not be read, each with why."""
        known = ((target, self._read.get(target)) for target in self._uses.get(unit, ()))
        return sorted(
            f"{to.kind} {to.key} {read.why}" for to, read in known if read is not None and read.document is None
        )

    def doubt(self, unit: str) -> None:
        """Read anew what a unit depends on."""
        for target in self._uses.get(unit, ()):
            self._drop(target)

    def forget(self, unit: str) -> None:
        """A unit is gone, and with it what was read for it alone."""
        for target in self._uses.pop(unit, ()):
            self._users[target].discard(unit)
            if not self._users[target]:
                del self._users[target]
                self._drop(target)

    def _drop(self, target: Target) -> None:
        if target in self._read and not self._read[target].is_followed:
            del self._read[target]


def controller_of(references: Collection[OwnerReference]) -> OwnerReference | None:
    """The owner that made an object; where none says so, the first."""
    known = list(references)
    return next((each for each in known if each.controller), known[0] if known else None)


def _reference(given: Json) -> OwnerReference:
    return OwnerReference(
        api_version=str(given.get("apiVersion") or ""),
        kind=str(given.get("kind") or ""),
        name=str(given.get("name") or ""),
        uid=str(given.get("uid") or ""),
        controller=bool(given.get("controller")),
    )
