"""The door to places: the one way in which tasks get nodes. What stands behind it is imported by nobody else.

Enters: a job, its tasks, a statement, where they may go and what is wanted. Leaves: places booked in the statement,
what is left without one, and why; a refusal within the steps of the search is a proof.
"""

from muster.engine.placing.contract import (
    EVERYWHERE,
    NOW_OR_LATER,
    PROMISES,
    STEPS_PER_CYCLE,
    STEPS_PER_JOB,
    Found,
    Goal,
    Outcome,
    Scope,
    promise,
)
from muster.engine.placing.door import Door, door_of

__all__ = [
    "EVERYWHERE",
    "NOW_OR_LATER",
    "PROMISES",
    "STEPS_PER_CYCLE",
    "STEPS_PER_JOB",
    "Door",
    "Found",
    "Goal",
    "Outcome",
    "Scope",
    "door_of",
    "promise",
]
