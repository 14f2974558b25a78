"""Tasks as rows: the part of the mirror that pods and PodGroups fill.

Rows are given out when a pod or PodGroup appears and taken back when it is gone, and with the last that uses it go
classes, roles, sub-groups and the numbers of names. Sums and counters are not kept here: they are made for each
snapshot in one pass, which costs milliseconds and cannot drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from muster.api import KaiPodGroup, Pod, PodGroup, ResourceClaim, group_of, pod_index
from muster.snapshot.classes import NOBODY, ClassBook, PodShape, ResourceUses, has_same_shape, shape_of
from muster.snapshot.columns import FINISHED_STATUSES, NO_ROW, Rows, TaskStatus, status_of
from muster.snapshot.devices import PodHolds
from muster.snapshot.growing import Columns, Names, kept, renumber
from muster.snapshot.mirror.jobs import FinishedJob, FinishedJobs, JobBook, check_index, may_be_beyond_index
from muster.snapshot.records import JobRecord, created_seconds, job_from_pod
from muster.snapshot.tables import FOREIGN, GATED, Hold

#: Priority of a pod that states none, as in Volcano.
DEFAULT_TASK_PRIORITY = 1

#: Index, age, uid and name.
_Place = tuple[int, float, str, str]


class TaskBook:
    """Rows of tasks, and the books of jobs and classes that they are entered in."""

    def __init__(self, priority_of: Callable[[JobRecord], int], *, allocates_claims: bool = True) -> None:
        self._pod_holds = PodHolds(allocates_claims=allocates_claims)
        #: Tasks that are held back for another reason than scheduling gates.
        self.holds: dict[int, Hold] = {}
        self.columns = Columns(
            job=np.intp,
            cls=np.intp,
            role=np.intp,
            subgroup=np.intp,
            status=np.int8,
            node=np.intp,
            nominated=np.intp,
            priority=np.intp,
            rank=np.intp,
            flags=np.uint8,
        )
        self.ids: list[str] = []
        self.pods: list[Pod] = []
        self.rows: dict[str, int] = {}
        #: Every resource that a class or job names.
        self.resources = ResourceUses()
        self.classes = ClassBook(self.resources)
        self.jobs = JobBook(priority_of, self.resources)
        self.finished = FinishedJobs()
        self.nodes = Names()
        #: Counts the times that rows have got other numbers.
        self.generation = 0
        #: Jobs whose tasks have to be put in order again.
        self._unranked: set[int] = set()
        #: What tasks are ordered by inside their jobs, as far as it was asked for since they changed.
        self._places: dict[int, _Place] = {}
        self._shapes: dict[int, PodShape] = {}
        #: The last pod of which a shape was derived: pods that come one after the other are often alike.
        self._model: tuple[Pod, PodShape] | None = None

    # -- jobs ----------------------------------------------------------------------------------------------

    def set_job(self, record: JobRecord, *, has_group: bool = True) -> list[Pod]:
        """Take in a new or changed job; returns those of its pods that have to be looked at anew."""
        self._bring_back(record.id)
        if not self.jobs.set(record, has_group=has_group):
            return []
        job = self.jobs.rows[record.id]
        members = sorted(self.jobs.members[job])
        for task in members:
            self.columns.set(task, role=NO_ROW, subgroup=NO_ROW)
            self._enter_groups(task, job, self.pods[task])
        return [self.pods[task] for task in members]

    def group(self, job_id: str) -> PodGroup | KaiPodGroup | None:
        """The PodGroup of a job, of either family; None: it has none."""
        row = self.jobs.rows.get(job_id)
        return self.finished.group(job_id) if row is None else self.jobs.records[row].source

    def drop_group(self, job_id: str) -> None:
        """The PodGroup is gone; its pods, if any, now name one that does not exist."""
        self._bring_back(job_id)
        row = self.jobs.rows.get(job_id)
        if row is None:
            return
        if self.jobs.members[row]:
            self.set_job(_bereft(self.jobs.records[row]), has_group=False)
        else:
            self._remove_job(row)

    def _remove_job(self, row: int) -> None:
        self._unranked.discard(row)
        self.jobs.remove(row)

    def _enter_groups(self, task: int, job: int, pod: Pod) -> None:
        """Count a task in its role and its sub-group, and out of those that it was in."""
        role, subgroup = self.jobs.enter_groups(job, pod)
        self._leave_groups(task)
        self.columns.set(task, role=role, subgroup=subgroup)

    def _leave_groups(self, task: int) -> None:
        job, role, subgroup = self.columns.get(task, "job", "role", "subgroup")
        if role != NO_ROW:
            self.columns.set(task, role=NO_ROW, subgroup=NO_ROW)
            self.jobs.leave_groups(job, role, subgroup)

    # -- tasks ---------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod, *, foreign: bool) -> None:
        """Take in a new or changed pod. Raises for one that cannot be used; nothing has changed then."""
        self._bring_back_with(pod)
        row = self.rows.get(pod.key)
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
        self._places.pop(row, None)
        self.holds.pop(row, None)
        if hold is not None:
            self.holds[row] = hold
        self._set_used(
            row,
            self.classes.take(shape, pod),
            self.nodes.take(pod.spec.node_name),
            self.nodes.take(pod.status.nominated_node_name),
        )
        self.columns.set(
            row,
            status=status_of(pod),
            priority=DEFAULT_TASK_PRIORITY if pod.spec.priority is None else pod.spec.priority,
            flags=shape.flags | (FOREIGN if foreign else 0) | (0 if hold is None else GATED),
        )

    def _shape_of(self, row: int | None, pod: Pod) -> PodShape:
        """The pod's shape; most events change nothing that it depends on, so the old one is kept then."""
        if pod.spec.resource_claims:
            return shape_of(pod, self._pod_holds.devices_of(pod))
        if row is not None and has_same_shape(self.pods[row], pod):
            return self._shapes[row]
        if self._model is None or not has_same_shape(self._model[0], pod):
            self._model = pod, shape_of(pod, {})
        return self._model[1]

    def _check_member(self, pod: Pod) -> JobRecord | None:
        """Look at the pod as a member of its job; returns the job if the pod is one of its own. Raises UserError."""
        group = group_of(pod)
        if group is None:
            return job_from_pod(pod)
        job = self.jobs.rows.get(f"{pod.namespace}/{group}")
        if job is not None and self.jobs.records[job].sub_groups and may_be_beyond_index(pod):
            check_index(pod, self.jobs.records[job].sub_groups)
        return None

    def _add_task(self, pod: Pod) -> int:
        row = self.columns.add(job=NO_ROW, cls=NO_ROW, role=NO_ROW, subgroup=NO_ROW, node=NO_ROW, nominated=NO_ROW)
        if row == len(self.pods):
            self.pods.append(NOBODY)
            self.ids.append("")
        self.ids[row] = key = pod.key
        self.rows[key] = row
        return row

    def _job_of(self, pod: Pod, lone: JobRecord | None) -> int:
        if lone is not None:
            self.set_job(lone)
            return self.jobs.rows[lone.id]
        job_id = f"{pod.namespace}/{group_of(pod)}"
        if job_id not in self.jobs.rows:
            self.set_job(_groupless(job_id), has_group=False)
        return self.jobs.rows[job_id]

    def _move_to_job(self, task: int, job: int) -> None:
        (old,) = self.columns.get(task, "job")
        if old == job:
            return
        self._leave_groups(task)
        if old != NO_ROW:
            members = self.jobs.members[old]
            members.discard(task)
            if not members and self.jobs.records[old].source is None:
                self._remove_job(old)
        if job != NO_ROW:
            self.jobs.members[job].add(task)
            self._unranked.add(job)
        self.columns.set(task, job=job)

    def _set_used(self, row: int, cls: int, node: int, nominated: int) -> None:
        """Set the class and the nodes of a task, and give back those that it had."""
        old_cls, old_node, old_nominated = self.columns.get(row, "cls", "node", "nominated")
        self.columns.set(row, cls=cls, node=node, nominated=nominated)
        if old_cls != NO_ROW:
            self.classes.give_back(old_cls)
        self.nodes.give_back(old_node)
        self.nodes.give_back(old_nominated)

    def set_namespace(self, name: str, *, is_ending: bool) -> list[Pod]:
        """Note whether a namespace is being deleted; returns the pods to which that is news."""
        if not self._pod_holds.set_namespace(name, is_ending=is_ending):
            return []
        return [self.pods[row] for key, row in self.rows.items() if key.partition("/")[0] == name]

    def set_claim(self, key: str, claim: ResourceClaim | None) -> list[Pod]:
        """Take in a new or changed device claim, or None for one that is gone; returns the pods that name it."""
        rows = (self.rows.get(task_id) for task_id in self._pod_holds.set_claim(key, claim))
        return [self.pods[row] for row in rows if row is not None]

    def drop_pod(self, key: str) -> None:
        """Forget a pod; one that is not known is ignored."""
        job = self.finished.job_of(key)
        if job is not None:
            self._bring_back(job)
        row = self.rows.pop(key, None)
        if row is None:
            return
        self._move_to_job(row, NO_ROW)
        self._pod_holds.change(self.pods[row], NOBODY)
        self._shapes.pop(row, None)
        self._places.pop(row, None)
        self.holds.pop(row, None)
        self._set_used(row, NO_ROW, NO_ROW, NO_ROW)
        # A free row is looked at with all others, and must lead nowhere.
        self.columns.set(row, status=TaskStatus.GONE, cls=0, flags=0)
        self.ids[row], self.pods[row] = "", NOBODY
        self.columns.remove(row)
        del self.ids[self.columns.size :], self.pods[self.columns.size :]

    def drop_unplaced(self, key: str) -> None:
        """Forget a pod, unless it takes room on a node."""
        row = self.rows.get(key)
        if row is None or self.columns["node"][row] == NO_ROW:
            self.drop_pod(key)

    def rank_tasks(self) -> Rows:
        """Order of tasks inside their jobs: index, age, uid; only changed jobs are sorted."""
        ranks: Rows = self.columns["rank"]
        for job in self._unranked:
            order = sorted(self.jobs.members[job], key=self._place)
            ranks[order] = np.arange(len(order))
        self._unranked.clear()
        return ranks

    def _place(self, task: int) -> _Place:
        """What a task is ordered by; kept, as a job that thousands of pods join one by one is sorted many times."""
        place = self._places.get(task)
        if place is None:
            pod = self.pods[task]
            place = pod_index(pod), created_seconds(pod.metadata), pod.metadata.uid, pod.metadata.name
            self._places[task] = place
        return place

    # -- what has finished -----------------------------------------------------------------------------------

    def put_away(self, jobs: Iterable[str]) -> None:
        """Keep finished jobs beside the rows; jobs with a pod that has not finished stay."""
        for job_id in jobs:
            row = self.jobs.rows.get(job_id)
            members = sorted(self.jobs.members[row]) if row is not None else []
            if row is None or not members or not self._are_finished(members):
                continue
            pods = tuple(self.pods[task] for task in members)
            job = FinishedJob(self.jobs.records[row], bool(self.jobs.columns["has_group"][row]), pods)
            for pod in job.pods:
                self.drop_pod(pod.key)
            if job_id in self.jobs.rows:
                self._remove_job(self.jobs.rows[job_id])
            self.finished.put(job)

    def _are_finished(self, members: list[int]) -> bool:
        return all(self.columns["status"][task] in FINISHED_STATUSES for task in members)

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
        jobs = self.jobs
        tables = (self.columns, jobs.columns, jobs.roles.columns, jobs.subgroups.columns, self.classes)
        if not any(table.is_scattered() for table in tables):
            return
        self.generation += 1
        self._compact_tasks()
        moved = jobs.compact()
        self._unranked = {int(moved[row]) for row in self._unranked}
        renumber(self.columns["job"], moved)
        renumber(self.columns["role"], jobs.roles.compact())
        renumber(self.columns["subgroup"], jobs.subgroups.compact())
        renumber(self.columns["cls"], self.classes.compact())

    def _compact_tasks(self) -> None:
        moved = self.columns.compact()
        self.pods, self.ids = kept(self.pods, moved), kept(self.ids, moved)
        self.rows = {key: row for row, key in enumerate(self.ids)}
        self._shapes = {int(moved[row]): shape for row, shape in self._shapes.items()}
        self._places.clear()
        self.holds = {int(moved[row]): hold for row, hold in self.holds.items()}
        self.jobs.members = [{int(moved[row]) for row in members} for members in self.jobs.members]


def _groupless(job_id: str) -> JobRecord:
    """Stands for a PodGroup that pods name but that does not exist."""
    namespace, _, name = job_id.partition("/")
    return JobRecord(job_id, namespace, name, queue="", min_member=1, created=0.0)


def _bereft(record: JobRecord) -> JobRecord:
    """Stands for a PodGroup that is gone while pods of it run, which are worth what they were."""
    return replace(
        _groupless(record.id),
        queue=record.queue,
        created=record.created,
        priority_class=record.priority_class,
        priority=record.priority,
        preemptible=record.preemptible,
        preemptible_below=record.preemptible_below,
        started=record.started,
    )
