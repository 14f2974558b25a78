"""The quarantine: objects that cannot be used, and why.

Whatever goes wrong while an object becomes columns, or while a plugin is asked about its job, puts that object aside
(`intake` decides when). It stays aside until it changes or a pause is over, and is then tried again. The book belongs
to the mirror; the scheduler, `muster explain`, `/debug/quarantine`, metrics, events and conditions read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from muster.api import KaiQueue, KubeObject, Node, UserError
from muster.api.validate import uncountable
from muster.snapshot.messages import QuarantineUpdate

#: What reports call the reason why a job waits for something that is aside.
CODE: Final = "quarantined"
#: The condition by which nodes and KAI's queues say whether they can be used.
USABLE: Final = "muster.sh/Usable"
#: Seconds until an object that was put aside is tried again although it has not changed.
PAUSE_SECONDS: Final = 60.0
#: Reasons are for people; an object must not fill a log with its own text.
_MAX_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Aside:
    """One object that was put aside."""

    object: KubeObject
    reason: str
    #: Seconds since the epoch: when it was put aside, and when it was last tried.
    since: float
    tried: float
    #: The job that waits because of it, "" if none does.
    job: str = ""
    #: True: the object itself can be read and counted; what failed is a question about its job.
    is_asked: bool = False

    @property
    def kind(self) -> str:
        return self.object.kind

    def to_json(self) -> dict[str, str]:
        """As `muster simulate` and `/debug/quarantine` list it."""
        thing = self.object
        return {"kind": thing.kind, "namespace": thing.namespace, "name": thing.name, "reason": self.reason}

    def __str__(self) -> str:
        return f"{self.object.kind} {self.object.key}: {self.reason}"


class Quarantine:
    """Objects by type and key."""

    def __init__(self) -> None:
        self._held: dict[tuple[type[KubeObject], str], Aside] = {}
        #: What has not been told yet, by type and key; "": it can be used again.
        self._untold: dict[tuple[type[KubeObject], str], QuarantineUpdate] = {}
        #: How often something was put aside so far, by kind.
        self.counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Aside]:
        """Everything that is aside, by kind, namespace and name."""
        return iter(sorted(list(self._held.values()), key=_place))  # noqa: C414  # another thread may be adding

    def put(self, thing: KubeObject, reason: str, now: float, *, job: str = "", is_asked: bool = False) -> bool:
        """Put an object aside, or note that it was tried again in vain; True if that is news."""
        before = self.find(thing)
        aside = Aside(thing, reason, now, now, job, is_asked)
        is_news = before is None or before.reason != reason
        if before is not None and not is_news:
            aside = replace(aside, since=before.since)
        self._held[type(thing), thing.key] = aside
        if is_news:
            self.counts[thing.kind] = self.counts.get(thing.kind, 0) + 1
            self._untold[type(thing), thing.key] = QuarantineUpdate(thing, reason, job, is_asked=is_asked)
        return is_news

    def release(self, thing: KubeObject) -> Aside | None:
        """Note that an object can be used, whether or not it was in; returns what was noted about it, if it was."""
        held = self._held.pop((type(thing), thing.key), None)
        job, is_asked = ("", False) if held is None else (held.job, held.is_asked)
        self._untold[type(thing), thing.key] = QuarantineUpdate(thing, "", job, is_asked=is_asked)
        return held

    def forget(self, thing: KubeObject) -> None:
        """Take an object out that is gone."""
        for book in (self._held, self._untold):
            book.pop((type(thing), thing.key), None)

    def tell(self) -> list[QuarantineUpdate]:
        """What has changed since somebody last asked, by kind, namespace and name."""
        updates, self._untold = self._untold, {}
        return sorted(updates.values(), key=lambda update: (update.object.kind, update.object.key))

    def tell_again(self) -> None:
        """Count everything that is aside as not told: somebody else may have told it, or nobody."""
        for key, held in self._held.items():
            self._untold.setdefault(key, QuarantineUpdate(held.object, held.reason, held.job, is_asked=held.is_asked))

    def find(self, thing: KubeObject) -> Aside | None:
        return self._held.get((type(thing), thing.key))

    def due(self, now: float) -> list[Aside]:
        """What has not been tried for a while."""
        return [aside for aside in self if aside.tried + PAUSE_SECONDS <= now] if self._held else []

    def of_job(self, job: str) -> list[Aside]:
        """What a job waits for."""
        return [aside for aside in self if aside.job == job] if self._held else []

    def jobs(self) -> dict[str, str]:
        """Jobs that wait because of something that is aside, with the first reason by name."""
        reasons: dict[str, str] = {}
        for aside in self if self._held else ():
            if aside.job:
                reasons.setdefault(aside.job, str(aside))
        return reasons


def said_to_be_unusable(thing: KubeObject) -> bool:
    """Whether an object carries the condition that it cannot be used."""
    if not isinstance(thing, Node | KaiQueue):
        return False
    return any(known.type == USABLE and known.status == "False" for known in thing.status.conditions)


def _place(aside: Aside) -> tuple[str, str, str, str]:
    return aside.kind, aside.object.namespace, aside.object.name, aside.object.api_version


def reason_for(thing: KubeObject, fault: Exception) -> str:
    """Say what is wrong with an object, in the words of files and webhooks where they know it."""
    return _first_problem(thing) or fault_text(fault)


def fault_text(fault: Exception) -> str:
    """What an exception says, without the object that it is about."""
    if isinstance(fault, UserError):
        text = f"{fault.field}: {fault.text}" if fault.field else fault.text
    else:
        text = f"cannot be used ({type(fault).__name__}: {fault})"
    return shortened(text)


def shortened(text: str) -> str:
    """A reason, cut off where it becomes too long for a condition."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 3]}..."


def _first_problem(thing: KubeObject) -> str:
    try:
        problem = next(uncountable(thing), None)
    except Exception:  # noqa: BLE001  # what broke the door may break this too
        return ""
    return "" if problem is None else f"{problem.field}: {problem.text}"
