"""Service levels: jobs that have waited too long are admitted, and jobs are ordered by when that happens.

The longest wait is the plugin's argument `sla-waiting-time`, or the job's annotation of the same name. In
Volcano an overdue job also keeps what was promised to it although its gang is not complete; here a gang is
complete or holds nothing, so being overdue changes when a job is admitted and its place in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from muster.api import UserError, parse_duration
from muster.framework.plugin import Arguments, Plugin, Vote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.framework.session import Session

#: Annotations of a PodGroup that state its own longest wait, the first one found counts.
ANNOTATIONS: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


class SlaArgs(Arguments, frozen=True):
    """Arguments of the sla plugin."""

    waiting_time: Annotated[
        str | None,
        msgspec.Meta(
            description="How long a job may wait for admission, such as 1h30m; jobs may say otherwise in the "
            "annotation sla-waiting-time. Absent: as long as it takes."
        ),
    ] = msgspec.field(default=None, name="sla-waiting-time")


class Sla(Plugin):
    """Bound how long jobs wait for admission."""

    name = "sla"
    summary = "Admit jobs that have waited longer than sla-waiting-time, and order jobs by that deadline."
    orders_by = "the time that it may wait"
    Args: ClassVar[type[Arguments]] = SlaArgs

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, SlaArgs)
        self._longest: float | None = None
        if arguments.waiting_time is not None:
            try:
                longest = parse_duration(arguments.waiting_time)
            except ValueError as error:
                raise UserError(f"plugin sla: arguments: sla-waiting-time: {error}") from error
            # Nothing and less is no limit, as in Volcano.
            self._longest = longest if longest > 0 else None

    def open(self, session: Session) -> None:
        super().open(session)
        self._deadlines: dict[int, float | None] = {}

    def job_order(self, job: int) -> tuple[bool, float]:
        """Jobs with a deadline first, the earliest first."""
        deadline = self._deadline(job)
        return (True, 0.0) if deadline is None else (False, deadline)

    def job_enqueueable(self, job: int) -> Vote:
        deadline = self._deadline(job)
        return Vote.PERMIT if deadline is not None and self.session.now >= deadline else Vote.ABSTAIN

    def _deadline(self, job: int) -> float | None:
        if job not in self._deadlines:
            jobs = self.session.snapshot.jobs
            longest = own_waiting_time(jobs.records[job].annotations)
            longest = self._longest if longest is None else longest
            self._deadlines[job] = None if longest is None else float(jobs.created[job]) + longest
        return self._deadlines[job]


def own_waiting_time(annotations: Mapping[str, str]) -> float | None:
    """The longest wait that a job states itself, in seconds; one that cannot be read or is not positive: None."""
    for name in ANNOTATIONS:
        try:
            seconds = parse_duration(annotations[name]) if name in annotations else 0.0
        except ValueError:
            continue
        if seconds > 0:
            return seconds
    return None
