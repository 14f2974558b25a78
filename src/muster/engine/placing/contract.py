"""The words of the door: what is asked for, where, on which room, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from muster.engine.gangs import NOBODY
from muster.framework import Arguments, JobVerdict
from muster.kernels.placement import FREE_NOW, FUTURE, IDLE
from muster.snapshot import Mask, Operation, OperationKind, Rows
from muster.snapshot.columns import quick_to_name

#: Kinds of room to try, in order.
Modes: TypeAlias = tuple[int, ...]

#: On what is free now, else on what will be free.
NOW_OR_LATER: Modes = (IDLE, FUTURE)
#: On what will be free, promises only; what is free already is preferred all the same.
PROMISES: Modes = (FREE_NOW, FUTURE)


class Options(Arguments, frozen=True, kw_only=True):
    """How places are looked for; these are arguments of allocate."""

    rank_order: Annotated[
        bool,
        Meta(
            description="Give equal tasks of a gang with a topology constraint nodes in topology order, by their index."
        ),
    ] = msgspec.field(default=True, name="rankOrder")
    search_steps_per_job: Annotated[
        int,
        Meta(
            ge=0,
            description="Steps of the exact search for one gang that found no places in order; 0 turns it off.",
        ),
    ] = msgspec.field(default=200_000, name="searchStepsPerJob")
    search_steps_per_cycle: Annotated[
        int, Meta(ge=0, description="Steps of the exact search for all gangs of a cycle together.")
    ] = msgspec.field(default=4_000_000, name="searchStepsPerCycle")
    starts_whole: Annotated[
        bool,
        Meta(
            description="Let a gang with a topology constraint, also a soft one, wait for a domain that had as much "
            "free, when the action began, as all its pods ask for, as Volcano does, also where its minimum has room."
        ),
    ] = msgspec.field(default=False, name="startsWhole")
    groups_start_small: Annotated[
        bool,
        Meta(
            description="Let a gang with KAI's nested groups start in the first domains that hold its minimum, as KAI "
            "does, also where others have room for all its pods."
        ),
    ] = msgspec.field(default=False, name="groupsStartSmall")


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


def together(needed: int, of: str = "") -> str:
    """How many tasks have to find one domain, in words."""
    tasks = f"{needed} task{'' if needed == 1 else 's'}{f' of {of}' if of else ''}"
    return f"{tasks} is needed" if needed == 1 else f"{tasks} are needed together"
