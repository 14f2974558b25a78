"""Jobs as rows, with their members, their roles and sub-groups; and the jobs that have finished, beside the rows.

A job exists while its PodGroup does or while some pod names it. Finished pods stay in a cluster until somebody cleans
up; a cycle has nothing to decide about them, and must not become slower with each. So they are put away, job by job,
and come back as they were when something of the job changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from muster.api import KaiPodGroup, Pod, PodGroup, SubGroupPolicy, UserError, role_of
from muster.snapshot.classes import ResourceUses
from muster.snapshot.columns import NO_ROW, Rows, phase_of
from muster.snapshot.growing import Columns, GroupBook, Names, kept
from muster.snapshot.records import JobRecord
from muster.snapshot.tables import JobNames

#: Column value of jobs whose priority does not decide whether they may be victims.
NO_RULE = -(2**31)
#: Stands in rows that no job lives in.
_NO_JOB = JobRecord("", "", "", "", min_member=0, created=0.0)

#: A sub-group without a size of its own is held together by one pod.
DEFAULT_SIZE = 1
#: What the columns hold; a label says more only by mistake.
MAX_INDEX = 2**31 - 1


class JobBook:
    """Rows of jobs, roles and sub-groups. `resources` counts what jobs state as their minimum."""

    def __init__(self, priority_of: Callable[[JobRecord], int], resources: ResourceUses) -> None:
        self._priority_of = priority_of
        self._resources = resources
        self.columns = Columns(
            live=np.bool_,
            queue=np.intp,
            min_member=np.intp,
            min_roles_total=np.intp,
            created=np.float64,
            priority=np.intp,
            phase=np.int8,
            has_group=np.bool_,
            has_source=np.bool_,
            preemptible=np.int8,
            preemptible_below=np.intp,
            goes_whole=np.bool_,
            is_plain=np.bool_,
            has_network=np.bool_,
            is_stamped_stale=np.bool_,
        )
        self.records: list[JobRecord] = []
        #: Row of each job by its id.
        self.rows: dict[str, int] = {}
        #: Task rows of each job.
        self.members: list[set[int]] = []
        self.roles: GroupBook[str] = GroupBook()
        #: By the policy that they follow, and the label values that their pods share.
        self.subgroups: GroupBook[tuple[int, tuple[str, ...]]] = GroupBook()
        self.queues = Names()
        self._names: JobNames | None = None

    def set(self, record: JobRecord, *, has_group: bool) -> bool:
        """Take in a new or changed job; returns whether its members have to enter their groups anew."""
        row = self.rows.get(record.id)
        regrouped = False
        self._resources.add(_resources_of(record))
        if row is None:
            row = self._add(record)
        else:
            before, self.records[row] = self.records[row], record
            self._resources.remove(_resources_of(before))
            regrouped = before.sub_groups != record.sub_groups or before.min_roles != record.min_roles
            if regrouped:
                self._drop_groups(row)
                self._name_roles(row)
        queue = self.queues.take(record.queue)
        self.queues.give_back(int(self.columns["queue"][row]))
        self.columns.set(
            row,
            live=True,
            queue=queue,
            min_member=record.min_member,
            min_roles_total=sum(record.min_roles.values()),
            created=record.created,
            priority=self._priority_of(record),
            phase=phase_of(record.phase),
            has_group=has_group,
            has_source=record.source is not None,
            preemptible=-1 if record.preemptible is None else int(record.preemptible),
            preemptible_below=NO_RULE if record.preemptible_below is None else record.preemptible_below,
            goes_whole=record.goes_whole,
            has_network=_has_network(record),
            is_stamped_stale=record.stale_since is not None,
            is_plain=not (record.sub_groups or record.min_roles or record.groups is not None),
        )
        return regrouped

    def _add(self, record: JobRecord) -> int:
        row = self.columns.add()
        if row == len(self.records):
            self.records.append(_NO_JOB)
            self.members.append(set())
        self.roles.add_job(row)
        self.subgroups.add_job(row)
        self.rows[record.id] = row
        self._names = None
        self.records[row] = record
        self.columns.set(row, queue=NO_ROW)
        self._name_roles(row)
        return row

    def remove(self, row: int) -> None:
        """Take back the row of a job without members."""
        record = self.records[row]
        del self.rows[record.id]
        self._names = None
        self._drop_groups(row)
        self._resources.remove(_resources_of(record))
        self.queues.give_back(int(self.columns["queue"][row]))
        self.records[row] = _NO_JOB
        self.columns.set(row, live=False, queue=NO_ROW)
        self.columns.remove(row)
        size = self.columns.size
        del self.records[size:], self.members[size:]
        self.roles.trim(size)
        self.subgroups.trim(size)

    def refresh_priorities(self) -> None:
        """Priority classes changed: look every job's priority up again."""
        for row in self.rows.values():
            self.columns.set(row, priority=self._priority_of(self.records[row]))

    def names(self) -> JobNames:
        """The order of the jobs by name; the same one until a job comes or goes."""
        if self._names is None:
            self._names = JobNames(dict(self.rows))
        return self._names

    # -- roles and sub-groups ------------------------------------------------------------------------------

    def enter_groups(self, job: int, pod: Pod) -> tuple[int, int]:
        """Count a pod in its role and its sub-group; returns the rows of both."""
        role, subgroup = self._role_row(job, role_of(pod)), self._subgroup_row(job, pod)
        self.roles.enter(role)
        self.subgroups.enter(subgroup)
        return role, subgroup

    def leave_groups(self, job: int, role: int, subgroup: int) -> None:
        """Count a pod out of its role and its sub-group; a role that the job itself names stays."""
        self.roles.leave(role, keep=self.records[job].min_roles)
        self.subgroups.leave(subgroup)

    def _drop_groups(self, row: int) -> None:
        self.roles.drop(row)
        self.subgroups.drop(row)

    def _name_roles(self, row: int) -> None:
        for role in self.records[row].min_roles:
            self._role_row(row, role)

    def _role_row(self, job: int, role: str) -> int:
        row = self.roles.find(job, role)
        if row is None:
            row = self.roles.add(job, role, role, minimum=self.records[job].min_roles.get(role, 0))
        return row

    def _subgroup_row(self, job: int, pod: Pod) -> int:
        record = self.records[job]
        policy, values = first_match(record.sub_groups, pod.metadata.labels)
        row = self.subgroups.find(job, (policy, values))
        if row is None:
            matched = record.sub_groups[policy] if policy != NO_ROW else None
            name = record.id if matched is None else subgroup_id(record.id, matched.name, values)
            minimum, index = minimum_of(matched), match_index(values)
            row = self.subgroups.add(job, (policy, values), name, minimum=minimum, policy=policy, index=index)
        return row

    # -- rows that move --------------------------------------------------------------------------------------

    def compact(self) -> Rows:
        """Move the jobs together; returns the new row of each. Roles and sub-groups are moved for themselves."""
        moved = self.columns.compact()
        self.records = kept(self.records, moved)
        self.members = kept(self.members, moved)
        self.roles.move_jobs(moved)
        self.subgroups.move_jobs(moved)
        self.rows = {record.id: row for row, record in enumerate(self.records)}
        self._names = None
        return moved


def _has_network(record: JobRecord) -> bool:
    return record.topology is not None or any(policy.network_topology is not None for policy in record.sub_groups)


def _resources_of(record: JobRecord) -> list[str]:
    """The resources of a job's minimum that pods request; names of quotas (count/pods, requests.cpu) are no columns."""
    return [name for name in record.min_resources or () if not name.startswith(("count/", "requests.", "limits."))]


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


def may_be_beyond_index(pod: Pod) -> bool:
    """Whether some label of a pod without a node is a number beyond all positions of sub-groups.

    A pod that has a node is not refused as a member: it takes its room whatever its labels say.
    """
    labels = pod.metadata.labels.values()
    return not pod.spec.node_name and any(match_index((value,)) == MAX_INDEX for value in labels)


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


class FinishedJob(NamedTuple):
    """All that is known of a job."""

    record: JobRecord
    has_group: bool
    pods: tuple[Pod, ...]


class FinishedJobs:
    """Jobs that nothing has to be decided about any more, by id."""

    def __init__(self) -> None:
        self._jobs: dict[str, FinishedJob] = {}
        #: The job of each pod.
        self._job_of: dict[str, str] = {}
        #: How many of them have a PodGroup, by queue.
        self.by_queue: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._jobs))

    def put(self, job: FinishedJob) -> None:
        self.take(job.record.id)
        self._jobs[job.record.id] = job
        self.by_queue[job.record.queue] += job.record.source is not None
        self._job_of.update((pod.key, job.record.id) for pod in job.pods)

    def group(self, job: str) -> PodGroup | KaiPodGroup | None:
        """The PodGroup of a job; None: it has none, or is not here."""
        found = self._jobs.get(job)
        return None if found is None else found.record.source

    def job_of(self, pod: str) -> str | None:
        """The job that a pod was put away with."""
        return self._job_of.get(pod)

    def take(self, job: str) -> FinishedJob | None:
        """Give a job back; None: it is not here."""
        found = self._jobs.pop(job, None)
        if found is not None and found.record.source is not None:
            self.by_queue[found.record.queue] -= 1
        for pod in () if found is None else found.pods:
            del self._job_of[pod.key]
        return found
