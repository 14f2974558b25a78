"""Overcommit: admit waiting jobs while their minimum fits into the cluster's free room, stretched by a factor.

Jobs that were admitted keep their minimum reserved, less what their pods have taken already: Volcano counts
that twice until the job runs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from muster.api import UserError
from muster.framework.plugin import Arguments, Plugin, Rejection, Vote
from muster.plugins.queues.queue_books import QueueBooks

if TYPE_CHECKING:
    from muster.framework.session import Session

DEFAULT_FACTOR: Final = 1.2


class OvercommitArgs(Arguments, frozen=True):
    """Arguments of the overcommit plugin."""

    factor: Annotated[
        float,
        msgspec.Meta(
            description="How much of the cluster's capacity jobs may be admitted for, 1.2 being 120 %; "
            "a factor below 1 counts as the default, as in Volcano."
        ),
    ] = msgspec.field(default=DEFAULT_FACTOR, name="overcommit-factor")


class Overcommit(Plugin):
    """Bound what is admitted by the size of the cluster."""

    name = "overcommit"
    summary = "Admit jobs while their minResources fit into free capacity times a factor."
    Args: ClassVar[type[Arguments]] = OvercommitArgs

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        assert isinstance(arguments, OvercommitArgs)
        factor = arguments.factor
        if not factor < float("inf"):
            raise UserError(
                f"plugin overcommit: arguments: overcommit-factor: expected a number such as 1.2, got {factor}"
            )
        # By way of its text, so that 1.2 means twelve tenths and not the nearest binary fraction.
        self._factor = Fraction(str(factor if factor >= 1 else DEFAULT_FACTOR))

    def open(self, session: Session) -> None:
        super().open(session)
        nodes = session.snapshot.nodes
        idle: list[int] = nodes.idle()[nodes.ready].sum(axis=0).tolist()
        self._books = QueueBooks(session)
        self._idle = [
            int(total * self._factor) - (total - free) for total, free in zip(session.total.tolist(), idle, strict=True)
        ]
        self._reserved: list[int] | None = None

    def job_enqueueable(self, job: int) -> Vote | Rejection:
        whose = "resource in cluster is overused"
        refusal = self._books.refusal(whose, self._books.minimum(job), self._promised(), self._idle)
        return Vote.PERMIT if refusal is None else refusal

    def job_enqueued(self, job: int) -> None:
        reserved = self._promised()
        for column, amount in enumerate(self._books.ungated_minimum(job)):
            reserved[column] += amount

    def _promised(self) -> list[int]:
        """What admitted jobs have yet to take."""
        if self._reserved is None:
            table = self._books.reserved()
            self._reserved = table[self._books.counted].sum(axis=0).tolist()
        return self._reserved
