"""What controllers ask of an API server, and how runners talk with controllers.

A controller is a pure function from what is there to what should be asked for next: no request, no clock, no memory
that a restart would miss. It looks at levels, never at edges, so a plan that was half carried out when the process
died is simply made again. Requests of one plan are carried out in their order; when one fails the rest is left out,
and the controller is asked anew a little later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol, TypeVar

from muster.api import KubeObject

Json = dict[str, Any]  # Any: documents as an API server takes them
EventKind = Literal["ADDED", "MODIFIED", "DELETED", "UNREADABLE"]
#: Seconds until a plan that failed is made anew, at first and at most.
_FIRST_WAIT: Final = 0.5
_LAST_WAIT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """One object; with a uid, that very one and no other of its name."""

    api_version: str
    kind: str
    key: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object; one of that name that stands already is fine if it has the same owner."""

    document: Json


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object, or bring the one that stands up to date. Runners leave out what they have applied before."""

    document: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge fields into an object, or into its status."""

    target: Target
    merge: Json
    of_status: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; one that is gone already is fine."""

    target: Target
    #: Whether it is first marked as out of sync, so that its end is no event, also to a controller that comes later.
    mark: bool = False


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Put a status in the place of the present one, unless the object has changed since `version`."""

    target: Target
    status: Json
    version: str


@dataclass(frozen=True, slots=True)
class Tell:
    """An event on an object, for people."""

    target: Target
    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """A question by HTTP to somebody outside of the cluster; the answer goes to the controller's `answered`."""

    source: str
    url: str
    #: namespace/name of a Secret with `username` and `password`, or `token`, and maybe `ca.crt`; "": no word on us.
    secret: str = ""
    #: Whether the certificate of whoever answers is looked at.
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read one object, of whatever kind, for a controller that does not follow the kind.

    `answer` gets the document, or None and why there is none.
    """

    target: Target
    answer: Callable[[Json | None, str], None]


Action = Create | Apply | Patch | Delete | WriteStatus | Tell | Ask | Fetch


@dataclass(frozen=True, slots=True)
class Plan:
    """What to ask for now, in this order, and when to look again though nothing has happened."""

    actions: tuple[Action, ...] = ()
    due: float | None = None
    #: Uids of objects that are gone and must not be forgotten yet.
    remember: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """A plan for one object of one controller."""

    controller: str
    key: str
    plan: Plan


class Controller(Protocol):
    """Keeps what it needs of the cluster, and says what should be asked for."""

    name: str

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        """Take in what became of an object."""

    def steps(self, now: float) -> Iterable[Step]:
        """Plans for all that may have something to do, none of them under way already."""

    def settle(self, key: str, now: float, fault: str = "") -> None:
        """A plan was carried out, or failed."""

    def due(self) -> float | None:
        """When there may be something to do though nothing happens."""

    def answered(self, ask: Ask, answer: bytes, now: float) -> str:
        """Take in the answer to a question; say what is wrong with it, "" if nothing is."""


def target_of(thing: KubeObject) -> Target:
    """The object as requests name it."""
    return Target(thing.api_version, thing.kind, thing.key, thing.metadata.uid)


def stamp(now: float) -> datetime:
    """A moment as objects carry it."""
    return datetime.fromtimestamp(now, UTC)


def owner_reference(thing: KubeObject) -> Json:
    """What makes an object go with the one that it was made for."""
    return {
        "apiVersion": thing.api_version,
        "kind": thing.kind,
        "name": thing.name,
        "uid": thing.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_of(thing: KubeObject, kind: type[KubeObject]) -> str:
    """The key of the object of this kind that made the thing, "" if none did."""
    for owner in thing.metadata.owner_references:
        if owner.controller and (owner.api_version, owner.kind) == (kind.api_version, kind.kind):
            return f"{thing.namespace}/{owner.name}"
    return ""


@dataclass(slots=True)
class Agenda:
    """Who has to be looked at: at once, at a moment, or when what is under way is over. In the order of the news."""

    _dirty: dict[str, None] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)
    _due: dict[str, float] = field(default_factory=dict)
    _waits: dict[str, float] = field(default_factory=dict)

    def add(self, key: str) -> None:
        """There is news of it."""
        self._dirty[key] = None

    def drop(self, key: str) -> None:
        """It is gone."""
        for book in (self._dirty, self._due, self._waits):
            book.pop(key, None)

    def ready(self, now: float) -> list[str]:
        """Those to look at now; each is busy until it is settled."""
        for key in [key for key, moment in self._due.items() if moment <= now]:
            del self._due[key]
            self._dirty[key] = None
        found = [key for key in self._dirty if key not in self._busy]
        for key in found:
            del self._dirty[key]
        self._busy.update(found)
        return found

    def remind(self, key: str, moment: float | None) -> None:
        """Look at it again then; None: only when there is news."""
        if moment is None:
            self._due.pop(key, None)
        else:
            self._due[key] = moment

    def settle(self, key: str, now: float, *, failed: bool = False) -> None:
        """What was under way is over; what failed is tried again, less and less often."""
        self._busy.discard(key)
        if not failed:
            self._waits.pop(key, None)
            return
        wait = self._waits[key] = min(self._waits.get(key, _FIRST_WAIT / 2) * 2, _LAST_WAIT)
        self._due[key] = min(self._due.get(key, now + wait), now + wait)

    def next_due(self) -> float | None:
        """When the next one is due by itself."""
        return min(self._due.values(), default=None)


_Kind = TypeVar("_Kind", bound=KubeObject)


class Keeper:
    """What controllers have in common: objects by their keys, and whom to look at."""

    def __init__(self) -> None:
        self.agenda = Agenda()

    def settle(self, key: str, now: float, fault: str = "") -> None:
        """A plan was carried out, or failed."""
        self.agenda.settle(key, now, failed=bool(fault))

    def due(self) -> float | None:
        """When there may be something to do though nothing happens."""
        return self.agenda.next_due()

    def answered(self, ask: Ask, answer: bytes, now: float) -> str:
        """Nobody asks here."""
        del answer, now
        return f"nobody waits for an answer of {ask.url}"

    @staticmethod
    def keep(shelf: dict[str, _Kind], thing: _Kind, *, is_gone: bool) -> None:
        """Put an object on a shelf, or take it off; a version that came late changes nothing."""
        if is_gone:
            shelf.pop(thing.key, None)
        elif (known := shelf.get(thing.key)) is None or not is_older(thing, known):
            shelf[thing.key] = thing


def is_older(new: KubeObject, known: KubeObject) -> bool:
    """Whether we know a later version of an object already, from the answer to a request of ours."""
    versions = [each.metadata.resource_version for each in (new, known)]
    if new.metadata.uid != known.metadata.uid or not all(text.isdecimal() for text in versions):
        return False
    return int(versions[0]) < int(versions[1])


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:  # Any: documents
    """The document with a JSON merge patch applied."""
    result = dict(base)
    for name, value in patch.items():
        before = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result
