"""What goes wrong while plugins are asked, and who pays for it.

A question about a job that raises costs that job its cycle, and it is put aside (`muster.snapshot.intake`); the others
go on. Who was asked is looked up in the traceback: a plugin that fails on three jobs in a row, or three times on
questions that are about no job, loses its place for a while, and the jobs are not to blame. A protection that cannot be
asked counts as "protected": whatever a plugin's failure does, it evicts nobody.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final

from muster.framework.plugin import Plugin
from muster.framework.reasons import QUARANTINED
from muster.framework.verdicts import JobVerdict
from muster.snapshot.mirror.quarantine import shortened

if TYPE_CHECKING:
    from muster.framework.session import Session

log = logging.getLogger("muster.framework")

#: So often in a row may a plugin fail.
STRIKES: Final = 3
#: For so many seconds a plugin that failed too often is left out.
OUT_SECONDS: Final = 60.0


def blamed(fault: BaseException) -> tuple[str, str]:
    """The innermost plugin on the way to an exception, and what it was asked; both "" if there is none."""
    found = ("", "")
    trace: TracebackType | None = fault.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, Plugin):
            found = (owner.name, trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return found


@dataclass(slots=True)
class Strikes:
    """How often plugins have failed in a row, and which of them are left out until when; outlives sessions."""

    _failed: dict[str, list[object]] = field(default_factory=dict)
    _out: dict[str, float] = field(default_factory=dict)
    #: How often a plugin lost its place so far.
    count: int = 0

    def note(self, plugin: str, subject: object, now: float) -> bool:
        """Take in a failure; True: it was one too many. Failing on the same job again is no news."""
        before = self._failed.setdefault(plugin, [])
        if subject is None or subject not in before:
            before.append(subject)
        if len(before) < STRIKES:
            return False
        del self._failed[plugin]
        self._out[plugin] = now + OUT_SECONDS
        self.count += 1
        return True

    def forgive(self) -> None:
        """A job was dealt with, and nobody failed."""
        if self._failed:
            self._failed.clear()

    def out(self, now: float) -> frozenset[str]:
        """The plugins that are left out at present."""
        self._out = {plugin: until for plugin, until in self._out.items() if until > now}
        return frozenset(self._out)


@dataclass(frozen=True, slots=True)
class Fault:
    """A question about a job that went wrong."""

    job: int
    error: Exception
    #: Who was asked; "": nobody in particular.
    plugin: str
    why: str
    #: What the cycle was doing.
    step: str


class Turn:
    """One job has its turn: whatever is raised inside costs this job, and what it has changed is taken back."""

    __slots__ = ("_session", "job")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.job = -1

    def __enter__(self) -> None:
        self._session.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        session = self._session
        if error is None:
            session.strikes.forgive()
            return False
        if not isinstance(error, Exception):
            return False
        session.take_back()
        _note(session, self.job, error)
        return True


def _note(session: Session, job: int, error: Exception) -> None:
    plugin, asked = blamed(error)
    record = session.snapshot.jobs.records[job]
    who = f"plugin {plugin}.{asked}" if plugin else "the scheduler"
    log.error("event=job-failed job=%s who=%r", record.id, who, exc_info=error)
    why = shortened(f"{who} failed: {type(error).__name__}: {error}")
    session.faults.append(Fault(job, error, plugin, why, session.step))
    session.record(job, JobVerdict(QUARANTINED, why))
    session.snapshot.jobs.aside[job] = why  # nobody asks about it again in this cycle
    session.blame(plugin, record.id)
