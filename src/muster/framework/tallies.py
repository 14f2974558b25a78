"""What looking for victims came to in one cycle, counted per action; for metrics, and never read by a decision."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

#: The outcome of an attempt that made room.
MADE_ROOM: Final = "made-room"


@dataclass(slots=True)
class ActionTally:
    """What one action of a cycle did; an action that evicts nobody has its time only."""

    #: By the wall clock.
    seconds: float = 0.0
    #: Turns in which a job looked for victims, by outcome: `MADE_ROOM`, or the code of the reason why not.
    attempts: Counter[str] = field(default_factory=Counter)
    #: Scenarios that were tried: victims gone, the beneficiary placed.
    dry_runs: int = 0
    #: Searches that a bound on dry runs or domains ended before all had been tried.
    cut_short: int = 0
