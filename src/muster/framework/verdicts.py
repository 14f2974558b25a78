"""What the cycle has to say about a job that stays behind: one dominant reason and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass

from muster.framework.reasons import Reason

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
