"""Sub-groups of a job: which of its tasks belong to which, and which of them it cannot start without."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.framework import Session
from muster.snapshot import NO_ROW, Rows


class Portion(NamedTuple):
    """Tasks of one sub-group; NO_ROW: of a job that has none."""

    subgroup: int
    tasks: Rows


def by_subgroup(session: Session, job: int, tasks: Rows) -> list[Portion]:
    """Sort tasks of a job, already in order, into its sub-groups."""
    if not session.snapshot.jobs.records[job].sub_groups:
        return [Portion(NO_ROW, tasks)]
    owners = session.snapshot.tasks.subgroup[tasks]
    return [Portion(int(owner), tasks[owners == owner]) for owner in np.unique(owners)]


def required_subgroups(session: Session, job: int) -> set[int]:
    """Sub-groups that the job cannot start without: as many of each policy as its minSubGroups still lacks."""
    snapshot = session.snapshot
    policies = snapshot.jobs.records[job].sub_groups
    waiting = []
    have: dict[int, int] = {}
    for subgroup in snapshot.jobs.subgroups[job]:
        if session.subgroup_deficit(subgroup) == 0:
            policy = int(snapshot.subgroups.policy[subgroup])
            have[policy] = have.get(policy, 0) + 1
        else:
            waiting.append(subgroup)
    required: set[int] = set()
    for subgroup in sorted(waiting, key=session.subgroup_key):
        policy = int(snapshot.subgroups.policy[subgroup])
        minimum = (policies[policy].min_sub_groups or 0) if policy != NO_ROW else 0
        if have.get(policy, 0) < minimum:
            required.add(subgroup)
            have[policy] = have.get(policy, 0) + 1
    return required
