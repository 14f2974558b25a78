"""What the cycle has to say about a job that stays behind: one dominant reason and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
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

    #: Verdicts about classes that are gone and may come back: not worth forgetting while they are so few.
    SPARE = 64

    def __init__(self) -> None:
        self._revision: object = None
        self._verdicts: dict[bytes, Verdicts] = {}

    def at(self, revision: object) -> dict[bytes, Verdicts]:
        """The verdicts that hold at `revision` of nodes and volumes; the session adds to them."""
        if revision != self._revision:
            self._revision = revision
            self._verdicts = {}
        return self._verdicts

    def forget_others(self, classes: Sequence[bytes]) -> None:
        """Forget verdicts about classes that are gone, once they outnumber those that there are."""
        if len(self._verdicts) > 2 * len(classes) + self.SPARE:
            present = set(classes)
            for key in [key for key in self._verdicts if key not in present]:
                del self._verdicts[key]
