"""The words of the door: what is asked for, where, on which room, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.engine.gangs import NOBODY
from muster.framework import JobVerdict
from muster.kernels.placement import FREE_NOW, FUTURE, IDLE
from muster.snapshot import Mask, Operation, OperationKind, Rows
from muster.snapshot.columns import quick_to_name

#: Kinds of room to try, in order.
Modes: TypeAlias = tuple[int, ...]

#: On what is free now, else on what will be free.
NOW_OR_LATER: Modes = (IDLE, FUTURE)
#: On what will be free, promises only; what is free already is preferred all the same.
PROMISES: Modes = (FREE_NOW, FUTURE)


@dataclass(frozen=True, slots=True)
class Options:
    """How places are looked for."""

    #: Equal tasks that are packed get nodes in topology order, by their index.
    rank_order: bool = True
    #: What the exact search may take at most.
    search_steps_per_job: int = 200_000
    search_steps_per_cycle: int = 4_000_000
    #: A hard gang starts afresh only where totals have room for all of it, as in Volcano.
    hard_starts_whole: bool = False
    #: A gang with nested groups starts by its minimum alone, as in KAI.
    groups_start_small: bool = False


DEFAULTS = Options()


@quick_to_name
class Goal(Enum):
    """How many of the tasks."""

    #: As many as the job lacks to start, by the start rule; one more step of a job that has started.
    START = 0
    #: All of them or none.
    ALL = 1
    #: In order, until one does not fit; whatever gang and queue say.
    FIRST = 2


@quick_to_name
class Found(IntEnum):
    """What came of it, for the job as a whole."""

    NOTHING = 0
    #: Ready once what it waits for has left.
    PROMISED = 1
    #: Ready on what is free now.
    READY = 2


@dataclass(frozen=True, slots=True)
class Scope:
    """Where tasks may go, beside what their job's constraints say."""

    #: The domain that is taken as the job's own; None: whichever its constraint allows.
    domain: int | None = None
    #: Only these nodes, for jobs without constraints; None: all.
    mask: Mask | None = None
    #: The caller has seen to the job's constraints.
    is_final: bool = False
    # What follows is for those behind the door.
    #: Into as few smaller domains as possible.
    packed: bool = False
    #: Nodes of the mask with larger numbers are filled first.
    preference: NDArray[np.int8] | None = None
    #: A node for each task, by task row.
    places: Rows | None = None


EVERYWHERE = Scope()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of the door. Where nothing was found, the statement is as it was."""

    found: Found
    #: How many tasks have a place by this call.
    placed: int = 0
    #: Tasks that are worth another turn in this cycle, in order.
    left: Rows = field(default_factory=lambda: NOBODY)
    #: The last trouble, also where enough was found.
    verdict: JobVerdict | None = None

    def __bool__(self) -> bool:
        return self.found is not Found.NOTHING


def promise(placements: Sequence[Operation]) -> list[Operation]:
    """The placements as promises: a gang that waits for some of its places is not bound to the others either."""
    return [
        replace(placed, kind=OperationKind.PIPELINE) if placed.kind is OperationKind.ALLOCATE else placed
        for placed in placements
    ]
