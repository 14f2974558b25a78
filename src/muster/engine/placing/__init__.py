"""The door to places: the one way in which tasks get nodes. What stands behind it is imported by nobody else.

Enters: a job, its tasks, a statement, where they may go and what is wanted. Leaves: places booked in the statement,
what is left without one, and why; a refusal within the steps of the search is a proof.
"""

from muster.engine.placing.contract import (
    DEFAULTS,
    EVERYWHERE,
    NOW_OR_LATER,
    PROMISES,
    Found,
    Goal,
    Options,
    Outcome,
    Scope,
    promise,
)
from muster.engine.placing.door import Door, door_of

__all__ = [
    "DEFAULTS",
    "EVERYWHERE",
    "NOW_OR_LATER",
    "PROMISES",
    "Door",
    "Found",
    "Goal",
    "Options",
    "Outcome",
    "Scope",
    "door_of",
    "promise",
]
