"""What goes wrong while plugins are asked, and who pays for it.

A question about a job that raises costs that job its cycle, and it is put aside (`muster.snapshot.intake`); the others
go on. Who was asked is looked up in the traceback: a plugin that fails on three jobs in a row, or three times within a
minute on questions that are about no job, loses its place for a while, and the jobs are not to blame. A protection that
cannot be asked counts as "protected": whatever a plugin's failure does, it evicts nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from muster.api import PluginError
from muster.framework.plugin import Plugin
from muster.framework.points import POINTS, Point
from muster.framework.reasons import QUARANTINED, JobVerdict
from muster.snapshot import Snapshot
from muster.snapshot.mirror.quarantine import shortened

if TYPE_CHECKING:
    from muster.framework.session import Session

log = logging.getLogger("muster.framework")

#: Where the plugins are that come with Muster.
_OURS: Final = "muster."
#: So often in a row may a plugin fail.
STRIKES: Final = 3
#: For so many seconds a plugin that failed too often is left out.
OUT_SECONDS: Final = 60.0


class _Checked:
    """Stands for a method of a plugin that is not ours, and looks at its answers before anybody counts on them."""

    __slots__ = ("__self__", "_method", "_point", "_snapshot")

    def __init__(self, plugin: Plugin, point: Point[..., Any, Any], snapshot: Snapshot) -> None:
        self.__self__ = plugin
        self._method = getattr(plugin, point.name)
        self._point = point
        self._snapshot = snapshot

    def __call__(self, *about: object) -> object:
        try:
            answer = self._method(*about)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise PluginError(f"cannot be asked: {error}") from None  # the call itself failed: other parameters
        if problem := self._point.answer.problem(answer, about, self._snapshot):
            raise PluginError(problem)
        return answer


def answering(plugin: Plugin, point: Point[..., Any, Any], snapshot: Snapshot) -> Callable[..., Any]:
    """The method that answers an extension point; what plugins from elsewhere answer is checked on the way."""
    if type(plugin).__module__.startswith(_OURS):
        method: Callable[..., Any] = getattr(plugin, point.name)
        return method
    return _Checked(plugin, point, snapshot)


def _asked_last(fault: BaseException) -> tuple[Plugin | None, str]:
    """The innermost plugin on the way to an exception, and what it was asked."""
    names = {point.name for point in POINTS}
    found: tuple[Plugin | None, str] = None, ""
    trace: TracebackType | None = fault.__traceback__
    while trace is not None:
        owner, asked = trace.tb_frame.f_locals.get("self"), trace.tb_frame.f_code.co_name
        if isinstance(owner, _Checked):
            found = owner.__self__, owner._point.name  # noqa: SLF001  # a class of this module
        # Of the plugin's own methods on the way, the one that was asked and not those that it used.
        elif isinstance(owner, Plugin) and (owner is not found[0] or asked in names):
            found = owner, asked
        trace = trace.tb_next
    return found


def blamed(fault: BaseException) -> tuple[str, str]:
    """The name of the innermost plugin on the way to an exception, and what it was asked; both "" if there is none."""
    plugin, asked = _asked_last(fault)
    return ("", "") if plugin is None else (plugin.name, asked)


def is_of_others(fault: BaseException) -> bool:
    """Whether a plugin failed that does not come with Muster."""
    plugin, _ = _asked_last(fault)
    return plugin is not None and not type(plugin).__module__.startswith(_OURS)


def told(fault: Exception) -> str:
    """A failure in words: who failed, at what, and what is expected there."""
    plugin, asked = blamed(fault)
    if not plugin:
        return f"the scheduler failed: {type(fault).__name__}: {fault}"
    contract = next((f"; the contract is {point.contract}" for point in POINTS if point.name == asked), "")
    if isinstance(fault, PluginError):
        return f"plugin {plugin}: {asked}: {fault}{contract}"
    return f"plugin {plugin}.{asked} failed: {type(fault).__name__}: {fault}{contract}"


@dataclass(slots=True)
class Strikes:
    """How often plugins have failed in a row, and which of them are left out until when; outlives sessions."""

    #: By plugin: the jobs on which it failed, None: no job, and when.
    _failed: dict[str, list[tuple[object, float]]] = field(default_factory=dict)
    _out: dict[str, float] = field(default_factory=dict)
    #: How often a plugin lost its place so far.
    count: int = 0

    def note(self, plugin: str, subject: object, now: float) -> bool:
        """Take in a failure; True: it was one too many. Failing on the same job again is no news."""
        before = self._failed.setdefault(plugin, [])
        before[:] = [(about, at) for about, at in before if about is not None or at > now - OUT_SECONDS]
        if subject is None or all(about != subject for about, _ in before):
            before.append((subject, now))
        if len(before) < STRIKES:
            return False
        del self._failed[plugin]
        self._out[plugin] = now + OUT_SECONDS
        self.count += 1
        return True

    def forgive(self) -> None:
        """A job was dealt with, and nobody failed; failures about no job stand for a while, whatever jobs do."""
        if self._failed:
            for before in self._failed.values():
                before[:] = [(about, at) for about, at in before if about is None]

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
    log.error("event=job-failed job=%s plugin=%s asked=%s", record.id, plugin, asked, exc_info=error)
    why = shortened(told(error))
    session.faults.append(Fault(job, error, plugin, why, session.step))
    session.record(job, JobVerdict(QUARANTINED, why))
    session.snapshot.jobs.aside[job] = why  # nobody asks about it again in this cycle
    session.blame(plugin, record.id)
