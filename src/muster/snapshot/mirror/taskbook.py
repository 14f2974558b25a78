"""Tasks, jobs, roles and sub-groups as growing columns: the part of the mirror that pods and PodGroups fill.

Rows are given out when a pod or PodGroup appears and taken back when it is gone, and with the last that uses it go
classes, roles, sub-groups and the numbers of names. A job exists while its PodGroup does or while some pod names it;
one that has finished may be put away (`finished`), and comes back when something of it changes. Sums and counters are
not kept here: they are made for each snapshot in one pass, which costs milliseconds and cannot drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api import KaiPodGroup, Pod, PodGroup, ResourceClaim, group_of, pod_index, role_of
from muster.snapshot.classes import NOBODY, ClassBook, PodShape, ResourceUses, shape_of
from muster.snapshot.columns import FINISHED_STATUSES, NO_ROW, TaskStatus, phase_of, status_of
from muster.snapshot.devices import PodHolds
from muster.snapshot.finished import FinishedJob, FinishedJobs
from muster.snapshot.growing import Columns, Names, kept, renumber
from muster.snapshot.mirror.groups import GroupBook, check_index, first_match, match_index, minimum_of, subgroup_id
from muster.snapshot.records import JobRecord, created_seconds, job_from_pod
from muster.snapshot.tables import FOREIGN, GATED, Hold, JobNames

#: Priority of a pod that states none, as in Volcano.
DEFAULT_TASK_PRIORITY = 1
#: Column value of jobs whose priority does not decide whether they may be victims.
NO_RULE = -(2**31)
#: Stands in rows that no job lives in.
_NO_JOB = JobRecord("", "", "", "", min_member=0, created=0.0)


class TaskBook:
    """Rows of tasks, jobs, roles, sub-groups and classes."""

    def __init__(self, priority_of: Callable[[JobRecord], int], *, allocates_claims: bool = True) -> None:
        self._priority_of = priority_of
        self._pod_holds = PodHolds(allocates_claims=allocates_claims)
        #: Tasks that are held back for another reason than scheduling gates.
        self.holds: dict[int, Hold] = {}
        self.tasks = Columns(
            job=np.int32,
            cls=np.int32,
            role=np.int32,
            subgroup=np.int32,
            status=np.int8,
            node=np.int32,
            nominated=np.int32,
            priority=np.int32,
            rank=np.int32,
            flags=np.uint8,
        )
        self.jobs = Columns(
            live=np.bool_,
            queue=np.int32,
            min_member=np.int32,
            min_roles_total=np.int32,
            created=np.float64,
            priority=np.int32,
            phase=np.int8,
            has_group=np.bool_,
            preemptible=np.int8,
            preemptible_below=np.int32,
        )
        self.roles: GroupBook[str] = GroupBook()
        #: By the policy that they follow, and the label values that their pods share.
        self.subgroups: GroupBook[tuple[int, tuple[str, ...]]] = GroupBook()
        self.task_ids: list[str] = []
        self.pods: list[Pod] = []
        self.task_rows: dict[str, int] = {}
        self.records: list[JobRecord] = []
        self.job_rows: dict[str, int] = {}
        self.job_tasks: list[set[int]] = []
        #: Every resource that a class or job names.
        self.resources = ResourceUses()
        self.classes = ClassBook(self.resources)
        self.nodes = Names()
        self.queues = Names()
        #: Jobs that nothing has to be decided about any more.
        self.finished = FinishedJobs()
        #: Counts the times that rows have got other numbers.
        self.generation = 0
        self._names: JobNames | None = None
        self._unranked: set[int] = set()
        self._shapes: dict[int, PodShape] = {}

    # -- jobs ----------------------------------------------------------------------------------------------

    def set_job(self, record: JobRecord, *, has_group: bool = True) -> list[Pod]:
        """Take in a new or changed job; returns those of its pods that have to be looked at anew."""
        self._bring_back(record.id)
        row = self.job_rows.get(record.id)
        again: list[Pod] = []
        self.resources.add(record.min_resources or ())
        if row is None:
            row = self._add_job(record)
        else:
            before, self.records[row] = self.records[row], record
            self.resources.remove(before.min_resources or ())
            if before.sub_groups != record.sub_groups or before.min_roles != record.min_roles:
                self._reset_groups(row)
                again = [self.pods[task] for task in sorted(self.job_tasks[row])]
        queue = self.queues.take(record.queue)
        self.queues.give_back(int(self.jobs["queue"][row]))
        self.jobs.set(
            row,
            live=True,
            queue=queue,
            min_member=record.min_member,
            min_roles_total=sum(record.min_roles.values()),
            created=record.created,
            priority=self._priority_of(record),
            phase=phase_of(record.phase),
            has_group=has_group,
            preemptible=-1 if record.preemptible is None else int(record.preemptible),
            preemptible_below=NO_RULE if record.preemptible_below is None else record.preemptible_below,
        )
        return again

    def group(self, job_id: str) -> PodGroup | KaiPodGroup | None:
        """The PodGroup of a job, of either family; None: it has none."""
        row, finished = self.job_rows.get(job_id), self.finished.find(job_id)
        if row is None:
            return None if finished is None else finished.record.source
        return self.records[row].source

    def job_names(self) -> JobNames:
        """The order of the jobs by name; the same one until a job comes or goes."""
        if self._names is None:
            self._names = JobNames(dict(self.job_rows))
        return self._names

    def refresh_priorities(self) -> None:
        """Priority classes changed: look every job's priority up again."""
        for row in self.job_rows.values():
            self.jobs.set(row, priority=self._priority_of(self.records[row]))

    def drop_group(self, job_id: str) -> None:
        """The PodGroup is gone; its pods, if any, now name one that does not exist."""
        self._bring_back(job_id)
        row = self.job_rows.get(job_id)
        if row is None:
            return
        if self.job_tasks[row]:
            self.set_job(_groupless(job_id, self.records[row].queue), has_group=False)
        else:
            self._remove_job(row)

    def _add_job(self, record: JobRecord) -> int:
        row = self.jobs.add()
        if row == len(self.records):
            self.records.append(_NO_JOB)
            self.job_tasks.append(set())
        self.roles.add_job(row)
        self.subgroups.add_job(row)
        self.job_rows[record.id] = row
        self._names = None
        self.records[row] = record
        self.jobs.set(row, queue=NO_ROW)
        for role in record.min_roles:
            self._role_row(row, role)
        return row

    def _remove_job(self, row: int) -> None:
        record = self.records[row]
        del self.job_rows[record.id]
        self._names = None
        self.roles.drop(row)
        self.subgroups.drop(row)
        self.resources.remove(record.min_resources or ())
        self.queues.give_back(int(self.jobs["queue"][row]))
        self.records[row] = _NO_JOB
        self._unranked.discard(row)
        self.jobs.set(row, live=False, queue=NO_ROW)
        self.jobs.remove(row)
        size = self.jobs.size
        del self.records[size:], self.job_tasks[size:]
        self.roles.trim(size)
        self.subgroups.trim(size)

    def _reset_groups(self, row: int) -> None:
        """Role minimums or sub-group policies changed: sort the job's tasks in anew."""
        self.roles.drop(row)
        self.subgroups.drop(row)
        for role in self.records[row].min_roles:
            self._role_row(row, role)
        for task in sorted(self.job_tasks[row]):
            self.tasks.set(task, role=NO_ROW, subgroup=NO_ROW)
            self._enter_groups(task, row, self.pods[task])

    def _enter_groups(self, task: int, job: int, pod: Pod) -> None:
        """Count a task in its role and its sub-group, and out of those that it was in."""
        role, subgroup = self._role_row(job, role_of(pod)), self._subgroup_row(job, pod)
        self.roles.enter(role)
        self.subgroups.enter(subgroup)
        self._leave_groups(task)
        self.tasks.set(task, role=role, subgroup=subgroup)

    def _leave_groups(self, task: int) -> None:
        """Count a task out of its role and its sub-group; a role that the job itself names stays."""
        role, subgroup = int(self.tasks["role"][task]), int(self.tasks["subgroup"][task])
        if role != NO_ROW:
            job = int(self.tasks["job"][task])
            self.tasks.set(task, role=NO_ROW, subgroup=NO_ROW)
            self.roles.leave(role, keep=self.records[job].min_roles)
            self.subgroups.leave(subgroup)

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
            row = self.subgroups.add(
                job,
                (policy, values),
                name,
                minimum=minimum_of(matched),
                policy=policy,
                index=match_index(values),
            )
        return row

    # -- tasks ---------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod, *, foreign: bool) -> None:
        """Take in a new or changed pod. Raises for one that cannot be used; nothing has changed then."""
        self._bring_back_with(pod)
        row = self.task_rows.get(pod.key)
        shape = self._shape_of(row, pod)
        lone = None if foreign else self._check_member(pod)
        hold = self._pod_holds.hold_of(pod, foreign=foreign)
        # From here on nothing can go wrong.
        if row is None:
            row = self._add_task(pod)
        job = NO_ROW if foreign else self._job_of(pod, lone)
        self._move_to_job(row, job)
        if job != NO_ROW:
            self._enter_groups(row, job, pod)
        self._shapes[row] = shape
        self._pod_holds.change(self.pods[row], pod)
        self.pods[row] = pod
        self.holds.pop(row, None)
        if hold is not None:
            self.holds[row] = hold
        self._set_used(
            row,
            self.classes.take(shape, pod),
            self.nodes.take(pod.spec.node_name),
            self.nodes.take(pod.status.nominated_node_name),
        )
        self.tasks.set(
            row,
            status=status_of(pod),
            priority=DEFAULT_TASK_PRIORITY if pod.spec.priority is None else pod.spec.priority,
            flags=shape.flags | (FOREIGN if foreign else 0) | (0 if hold is None else GATED),
        )

    def _set_used(self, row: int, cls: int, node: int, nominated: int) -> None:
        """Set the class and the nodes of a task, and give back those that it had."""
        had = (int(self.tasks[name][row]) for name in ("cls", "node", "nominated"))
        old_cls, old_node, old_nominated = had
        self.tasks.set(row, cls=cls, node=node, nominated=nominated)
        if old_cls != NO_ROW:
            self.classes.give_back(old_cls)
        self.nodes.give_back(old_node)
        self.nodes.give_back(old_nominated)

    def _shape_of(self, row: int | None, pod: Pod) -> PodShape:
        """The pod's shape; most events change nothing that it depends on, so the old one is kept then."""
        if row is not None and not pod.spec.resource_claims and _same_shape(self.pods[row], pod):
            return self._shapes[row]
        return shape_of(pod, self._pod_holds.devices_of(pod))

    def _check_member(self, pod: Pod) -> JobRecord | None:
        """Look at the pod as a member of its job; returns the job if the pod is one of its own. Raises UserError.

        A pod that has a node is not refused as a member: it takes its room whatever its labels say.
        """
        group = group_of(pod)
        if group is None:
            return job_from_pod(pod)
        job = self.job_rows.get(f"{pod.namespace}/{group}")
        if job is not None and self.records[job].sub_groups and not pod.spec.node_name:
            check_index(pod, self.records[job].sub_groups)
        return None

    def set_namespace(self, name: str, *, is_ending: bool) -> list[Pod]:
        """Note whether a namespace is being deleted; returns the pods to which that is news."""
        if not self._pod_holds.set_namespace(name, is_ending=is_ending):
            return []
        return [self.pods[row] for key, row in self.task_rows.items() if key.partition("/")[0] == name]

    def set_claim(self, key: str, claim: ResourceClaim | None) -> list[Pod]:
        """Take in a new or changed device claim, or None for one that is gone; returns the pods that name it."""
        rows = (self.task_rows.get(task_id) for task_id in self._pod_holds.set_claim(key, claim))
        return [self.pods[row] for row in rows if row is not None]

    def drop_pod(self, key: str) -> None:
        """Forget a pod; one that is not known is ignored."""
        job = self.finished.job_of(key)
        if job is not None:
            self._bring_back(job)
        row = self.task_rows.pop(key, None)
        if row is None:
            return
        self._move_to_job(row, NO_ROW)
        self._pod_holds.change(self.pods[row], NOBODY)
        self._shapes.pop(row, None)
        self.holds.pop(row, None)
        self._set_used(row, NO_ROW, NO_ROW, NO_ROW)
        # A free row is looked at with all others, and must lead nowhere.
        self.tasks.set(row, status=TaskStatus.GONE, cls=0, flags=0)
        self.task_ids[row], self.pods[row] = "", NOBODY
        self.tasks.remove(row)
        del self.task_ids[self.tasks.size :], self.pods[self.tasks.size :]

    def drop_unplaced(self, key: str) -> None:
        """Forget a pod, unless it takes room on a node."""
        row = self.task_rows.get(key)
        if row is None or self.tasks["node"][row] == NO_ROW:
            self.drop_pod(key)

    def _add_task(self, pod: Pod) -> int:
        row = self.tasks.add()
        if row == len(self.pods):
            self.pods.append(NOBODY)
            self.task_ids.append("")
        self.task_ids[row] = pod.key
        self.task_rows[pod.key] = row
        self.tasks.set(row, **dict.fromkeys(("job", "cls", "role", "subgroup", "node", "nominated"), NO_ROW))
        return row

    def _job_of(self, pod: Pod, lone: JobRecord | None) -> int:
        if lone is not None:
            self.set_job(lone)
            return self.job_rows[lone.id]
        job_id = f"{pod.namespace}/{group_of(pod)}"
        if job_id not in self.job_rows:
            self.set_job(_groupless(job_id), has_group=False)
        return self.job_rows[job_id]

    def _move_to_job(self, task: int, job: int) -> None:
        old = int(self.tasks["job"][task])
        if old == job:
            return
        self._leave_groups(task)
        if old != NO_ROW:
            members = self.job_tasks[old]
            members.discard(task)
            record = self.records[old]
            if not members and (record.source is None):
                self._remove_job(old)
        if job != NO_ROW:
            self.job_tasks[job].add(task)
            self._unranked.add(job)
        self.tasks.set(task, job=job)

    def rank_tasks(self) -> NDArray[np.int32]:
        """Order of tasks inside their jobs: index, age, uid; only changed jobs are sorted."""
        ranks = self.tasks["rank"]
        for job in self._unranked:
            for rank, task in enumerate(sorted(self.job_tasks[job], key=self._place)):
                ranks[task] = rank
        self._unranked.clear()
        return ranks

    def _place(self, task: int) -> tuple[int, float, str, str]:
        pod = self.pods[task]
        return pod_index(pod), created_seconds(pod.metadata), pod.metadata.uid, pod.metadata.name

    # -- what has finished -----------------------------------------------------------------------------------

    def put_away(self, jobs: Iterable[str]) -> None:
        """Keep finished jobs beside the columns; jobs with a pod that has not finished stay."""
        for job_id in jobs:
            row = self.job_rows.get(job_id)
            members = sorted(self.job_tasks[row]) if row is not None else []
            if row is None or not members or not self._are_finished(members):
                continue
            job = FinishedJob(
                self.records[row], bool(self.jobs["has_group"][row]), tuple(self.pods[task] for task in members)
            )
            for pod in job.pods:
                self.drop_pod(pod.key)
            if job_id in self.job_rows:
                self._remove_job(self.job_rows[job_id])
            self.finished.put(job)

    def _are_finished(self, members: list[int]) -> bool:
        return all(self.tasks["status"][task] in FINISHED_STATUSES for task in members)

    def _bring_back(self, job_id: str) -> None:
        job = self.finished.take(job_id)
        if job is not None:
            self.set_job(job.record, has_group=job.has_group)
            for pod in job.pods:
                self.set_pod(pod, foreign=False)

    def _bring_back_with(self, pod: Pod) -> None:
        """Bring back the job that a pod was put away with, and the one that it belongs to now."""
        if len(self.finished):
            group = group_of(pod)
            for job_id in (self.finished.job_of(pod.key), None if group is None else f"{pod.namespace}/{group}"):
                if job_id is not None:
                    self._bring_back(job_id)

    # -- rows that lie scattered -------------------------------------------------------------------------------

    def compact(self) -> None:
        """Move rows together where most are free, so that a peak is not paid for ever."""
        tables = (self.tasks, self.jobs, self.roles.columns, self.subgroups.columns, self.classes)
        if not any(table.is_scattered() for table in tables):
            return
        self.generation += 1
        self._compact_tasks()
        self._compact_jobs()
        renumber(self.tasks["role"], self.roles.compact())
        renumber(self.tasks["subgroup"], self.subgroups.compact())
        renumber(self.tasks["cls"], self.classes.compact())

    def _compact_tasks(self) -> None:
        moved = self.tasks.compact()
        self.pods, self.task_ids = kept(self.pods, moved), kept(self.task_ids, moved)
        self.task_rows = {key: row for row, key in enumerate(self.task_ids)}
        self._shapes = {int(moved[row]): shape for row, shape in self._shapes.items()}
        self.holds = {int(moved[row]): hold for row, hold in self.holds.items()}
        self.job_tasks = [{int(moved[row]) for row in members} for members in self.job_tasks]

    def _compact_jobs(self) -> None:
        moved = self.jobs.compact()
        self.records = kept(self.records, moved)
        self.job_tasks = kept(self.job_tasks, moved)
        self.roles.move_jobs(moved)
        self.subgroups.move_jobs(moved)
        self.job_rows = {record.id: row for row, record in enumerate(self.records)}
        self._unranked = {int(moved[row]) for row in self._unranked}
        self._names = None
        renumber(self.tasks["job"], moved)


def _same_shape(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod ask for the same; which node it is on does not matter."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and msgspec.structs.replace(new.spec, node_name=old.spec.node_name) == old.spec
    )


def _groupless(job_id: str, queue: str = "") -> JobRecord:
    """Stands for a PodGroup that pods name but that does not exist."""
    namespace, _, name = job_id.partition("/")
    return JobRecord(job_id, namespace, name, queue, min_member=1, created=0.0)
