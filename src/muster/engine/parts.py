"""A job's tree of groups (`JobRecord.groups`), with the levels of label topologies that they name resolved.

Callers: nested placement, and the filter that asks whether a scenario could work at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muster.engine.label_domains import Levels, resolve_levels
from muster.framework import Session
from muster.snapshot import GroupConstraint, Rows


@dataclass(frozen=True, slots=True)
class Part:
    """A node of a job's tree of groups, with its levels resolved."""

    name: str = ""
    levels: Levels | None = None
    #: Rows of all roles below; None: the whole job.
    roles: Rows | None = None
    parts: tuple[Part, ...] = ()
    #: Is it a single role?
    is_pod_set: bool = False


def read_parts(session: Session, job: int) -> Part:
    """The tree of a job's groups, resolved. Raises ValueError that says what cannot be told."""
    snapshot = session.snapshot
    rows = {snapshot.roles.names[role]: role for role in snapshot.jobs.roles[job]}

    def roles_below(group: GroupConstraint) -> list[int]:
        own = [rows[role] for role in group.roles if role in rows]
        return own + [role for child in group.groups for role in roles_below(child)]

    def read(group: GroupConstraint) -> Part:
        return Part(
            group.name,
            resolve_levels(session, group),
            np.array(roles_below(group), np.int32),
            tuple(read(child) for child in group.groups),
            is_pod_set=not group.groups and group.roles == (group.name,),
        )

    groups = snapshot.jobs.records[job].groups
    # Tasks of roles that no group names belong to the job all the same.
    return Part() if groups is None else replace(read(groups), roles=None, is_pod_set=False)
