"""Which role of a gang is served next: the one that is below its minimum, then the one that has least beyond it.

Callers: whoever chooses the next tasks of a job to place; victims are taken from the last role first. Roles below
their minimum are equals: how much they lack does not matter, the name decides.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from muster.framework import Session
from muster.snapshot import ACTIVE_STATUSES, Rows

#: Whether the minimum is there, tasks per task of the minimum (0 where it is not), name.
RoleKey: TypeAlias = tuple[bool, float, str]

#: They follow each other.
_ACTIVE = slice(min(ACTIVE_STATUSES), max(ACTIVE_STATUSES) + 1)


def role_key(session: Session, role: int) -> RoleKey:
    """Order of a role among those of its job; smaller goes first."""
    roles = session.snapshot.roles
    return turn_key(active_count(roles.counts[role]), int(roles.minimum[role]), roles.names[role])


def turn_key(active: int, minimum: int, name: str = "") -> RoleKey:
    """As `role_key`, for a role of which so many tasks have a place."""
    if active < minimum or active == 0:
        return active >= minimum, 0.0, name
    return True, active / minimum if minimum else math.inf, name


def active_count(counts: Rows) -> int:
    """Of the counters of a job or role: tasks that have a place or are promised one."""
    return sum(counts[_ACTIVE].tolist())
