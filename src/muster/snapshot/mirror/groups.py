"""Roles and sub-groups of jobs as rows: one comes with the first task in it and goes with the last.

Which sub-group a pod is in follows from the first policy of its PodGroup that matches its labels.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from muster.api import Pod, SubGroupPolicy, UserError
from muster.snapshot.columns import NO_ROW, Rows
from muster.snapshot.growing import Columns, kept, renumber

#: What tells the groups of one job apart.
K = TypeVar("K", bound=Hashable)


class GroupBook(Generic[K]):
    """Groups by job and key."""

    def __init__(self) -> None:
        self.columns = Columns(job=np.int32, minimum=np.int32, policy=np.int32, index=np.int32, uses=np.int32)
        self.names: list[str] = []
        #: Rows of every job, for snapshots to share.
        self.of_jobs: list[tuple[int, ...]] = []
        self._rows: list[dict[K, int]] = []
        self._keys: list[K | None] = []

    def add_job(self, job: int) -> None:
        """Make place for the groups of a job, which has none."""
        if job == len(self._rows):
            self._rows.append({})
            self.of_jobs.append(())

    def find(self, job: int, key: K) -> int | None:
        return self._rows[job].get(key)

    def add(self, job: int, key: K, name: str, *, minimum: int, policy: int = NO_ROW, index: int = 0) -> int:
        """Make a group that a job does not have yet."""
        row = self.columns.add()
        if row == len(self.names):
            self.names.append("")
            self._keys.append(None)
        self.names[row], self._keys[row] = name, key
        self.columns.set(row, job=job, minimum=minimum, policy=policy, index=index)
        self._rows[job][key] = row
        self.of_jobs[job] = tuple(self._rows[job].values())
        return row

    def enter(self, row: int) -> None:
        """Count a task in."""
        self.columns["uses"][row] += 1

    def leave(self, row: int, keep: Container[K] = ()) -> None:
        """Count a task out; with the last the group goes, unless its key is among those to keep."""
        self.columns["uses"][row] -= 1
        key = self._keys[row]
        if self.columns["uses"][row] or key is None or key in keep:
            return
        job = int(self.columns["job"][row])
        del self._rows[job][key]
        self.of_jobs[job] = tuple(self._rows[job].values())
        self._free(row)

    def drop(self, job: int) -> None:
        """Let all groups of a job go."""
        for row in self.of_jobs[job]:
            self._free(row)
        self.of_jobs[job] = ()
        self._rows[job].clear()

    def trim(self, n_jobs: int) -> None:
        """Forget jobs from a row on; they have no groups any more."""
        del self._rows[n_jobs:], self.of_jobs[n_jobs:]

    def _free(self, row: int) -> None:
        self.names[row], self._keys[row] = "", None
        self.columns.set(row, job=NO_ROW)
        self.columns.remove(row)
        del self.names[self.columns.size :], self._keys[self.columns.size :]

    # -- rows that move --------------------------------------------------------------------------------------

    def move_jobs(self, moved: Rows) -> None:
        """Follow jobs to their new rows."""
        self._rows, self.of_jobs = kept(self._rows, moved), kept(self.of_jobs, moved)
        renumber(self.columns["job"], moved)

    def compact(self) -> Rows:
        """Move the groups together; returns the new row of each."""
        moved = self.columns.compact()
        self.names, self._keys = kept(self.names, moved), kept(self._keys, moved)
        self._rows = [{key: int(moved[row]) for key, row in known.items()} for known in self._rows]
        self.of_jobs = [tuple(known.values()) for known in self._rows]
        return moved


#: A sub-group without a size of its own is held together by one pod.
DEFAULT_SIZE = 1
#: What the columns hold; a label says more only by mistake.
MAX_INDEX = 2**31 - 1


def match_values(policy: SubGroupPolicy, labels: Mapping[str, str]) -> tuple[str, ...] | None:
    """The pod's values for the policy's `matchLabelKeys`; None: the policy does not match the pod.

    A label that is missing or empty does not match, nor does a selector that is not valid.
    """
    selector = policy.label_selector
    if selector is not None and not selector.matches(labels):
        return None
    values = tuple(labels.get(key, "") for key in policy.match_label_keys)
    return None if "" in values else values


def first_match(policies: Sequence[SubGroupPolicy], labels: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Index of the first policy that matches a pod, and the pod's values; -1 and no values if none does."""
    for number, policy in enumerate(policies):
        values = match_values(policy, labels)
        if values is not None:
            return number, values
    return -1, ()


def subgroup_id(job: str, policy: str, values: Sequence[str]) -> str:
    """Name of a sub-group, unique in the cluster."""
    return f"{job}/{'-'.join((policy, *values))}"


def minimum_of(policy: SubGroupPolicy | None) -> int:
    """How many pods of a sub-group must run together."""
    if policy is None or policy.sub_group_size is None:
        return DEFAULT_SIZE
    return policy.sub_group_size


def match_index(values: Sequence[str]) -> int:
    """Position of a sub-group among those of its policy: its first label value, if that is a number."""
    text = values[0] if values else ""
    return min(int(text), MAX_INDEX) if text.isascii() and text.isdigit() else 0


def check_index(pod: Pod, policies: Sequence[SubGroupPolicy]) -> None:
    """Raise UserError for a pod whose label is a number beyond all positions."""
    number, values = first_match(policies, pod.metadata.labels)
    if values and match_index(values) == MAX_INDEX:
        key = policies[number].match_label_keys[0]
        raise UserError(
            f'expected a number below {MAX_INDEX}, or no number, for the position of a sub-group, got "{values[0]}"',
            subject=f"Pod {pod.key}",
            field=f'metadata.labels["{key}"]',
        )
