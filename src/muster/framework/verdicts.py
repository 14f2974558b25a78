"""What the cycle has to say about a job that stays behind: one dominant reason and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass

from muster.framework.reasons import Reason, Verdicts

NO_CLASS = -1


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """Why a job waits. Node counts are made from `cls` only when somebody asks (see `muster.explain`)."""

    reason: Reason
    detail: str = ""
    #: Class of the task that found no node; NO_CLASS when nodes were not the trouble.
    cls: int = NO_CLASS
    #: The task that found no node, for reasons that other pods give.
    task: int = -1
    #: Tasks that did find a place before the attempt was given up.
    placed: int = 0


class VerdictCache:
    """Node verdicts by class key, kept across cycles for as long as nothing changes that they depend on.

    One cache belongs to one configuration: other plugins give other verdicts.
    """

    #: Classes of jobs that are long gone are forgotten by starting anew at this size.
    LIMIT = 10_000

    def __init__(self) -> None:
        self._revision: object = None
        self._verdicts: dict[bytes, Verdicts] = {}

    def at(self, revision: object) -> dict[bytes, Verdicts]:
        """The verdicts that hold at `revision` of nodes and volumes; the session adds to them."""
        if revision != self._revision or len(self._verdicts) > self.LIMIT:
            self._revision = revision
            self._verdicts = {}
        return self._verdicts
