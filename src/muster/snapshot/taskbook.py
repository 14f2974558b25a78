"""Tasks, jobs, roles and sub-groups as growing columns: the part of the mirror that pods and PodGroups fill.

Rows are given out when a pod or PodGroup appears and taken back when it is gone. A job exists while its
PodGroup does or while some pod names it. Sums and counters are not kept here: they are made for each
snapshot in one pass, which costs milliseconds and cannot drift.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api import KaiPodGroup, Pod, PodGroup, ResourceClaim, group_of, pod_index, role_of
from muster.snapshot.classes import PodShape, shape_of
from muster.snapshot.devices import Hold, claim_keys, claimed, hold_of
from muster.snapshot.grow import Columns, Names
from muster.snapshot.job_names import JobNames
from muster.snapshot.records import JobRecord, created_seconds, job_from_pod
from muster.snapshot.rows import NO_ROW
from muster.snapshot.status import TaskStatus, phase_of, status_of
from muster.snapshot.subgroups import check_index, first_match, match_index, minimum_of, subgroup_id
from muster.snapshot.tables import FOREIGN, GATED

#: Priority of a pod that states none, as in Volcano.
DEFAULT_TASK_PRIORITY = 1
#: Column value of jobs whose priority does not decide whether they may be victims.
NO_RULE = -(2**31)


class TaskBook:
    """Rows of tasks, jobs, roles, sub-groups and classes."""

    def __init__(self, priority_of: Callable[[JobRecord], int], *, allocates_claims: bool = True) -> None:
        self._priority_of = priority_of
        self._allocates_claims = allocates_claims
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
        self.roles = Columns(job=np.int32, minimum=np.int32, policy=np.int32, index=np.int32)
        self.subgroups = Columns(job=np.int32, minimum=np.int32, policy=np.int32, index=np.int32)
        self.task_ids: list[str] = []
        self.pods: list[Pod] = []
        self.task_rows: dict[str, int] = {}
        self.records: list[JobRecord] = []
        self.job_rows: dict[str, int] = {}
        self.job_tasks: list[set[int]] = []
        self.job_roles: list[dict[str, int]] = []
        self.job_subgroups: list[dict[tuple[int, tuple[str, ...]], int]] = []
        #: The same as tuples of rows, for snapshots to share.
        self.role_rows: list[tuple[int, ...]] = []
        self.subgroup_rows: list[tuple[int, ...]] = []
        self.role_names: list[str] = []
        self.subgroup_names: list[str] = []
        self.class_rows: dict[bytes, int] = {}
        self.class_shapes: list[PodShape] = []
        #: Every resource that a class or job has named so far.
        self.resources: set[str] = set()
        self.class_pods: list[Pod] = []
        self.nodes = Names()
        self.queues = Names()
        self._names: JobNames | None = None
        self._unranked: set[int] = set()
        self._shapes: dict[int, PodShape] = {}
        self._claims: dict[str, ResourceClaim] = {}
        #: Namespaces that are being deleted.
        self._ending: set[str] = set()
        #: Pods by the claim that they name.
        self._claimants: dict[str, set[str]] = {}

    # -- jobs ----------------------------------------------------------------------------------------------

    def set_job(self, record: JobRecord, *, has_group: bool = True) -> list[Pod]:
        """Take in a new or changed job; returns those of its pods that have to be looked at anew."""
        row = self.job_rows.get(record.id)
        again: list[Pod] = []
        if row is None:
            row = self._add_job(record)
        elif self.records[row].sub_groups != record.sub_groups or self.records[row].min_roles != record.min_roles:
            self._reset_groups(row, record)
            again = [self.pods[task] for task in sorted(self.job_tasks[row])]
        self.records[row] = record
        self.resources.update(record.min_resources or ())
        self.jobs.set(
            row,
            live=True,
            queue=self.queues.number(record.queue),
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
        row = self.job_rows.get(job_id)
        return None if row is None else self.records[row].source

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
            self.records.append(record)
            self.job_tasks.append(set())
            self.job_roles.append({})
            self.job_subgroups.append({})
            self.role_rows.append(())
            self.subgroup_rows.append(())
        self.job_rows[record.id] = row
        self._names = None
        self.records[row] = record
        for role in record.min_roles:
            self._role_row(row, role)
        return row

    def _remove_job(self, row: int) -> None:
        del self.job_rows[self.records[row].id]
        self._names = None
        self._free_groups(row)
        self.jobs.set(row, live=False)
        self.jobs.remove(row)

    def _free_groups(self, row: int) -> None:
        for table, rows in ((self.roles, self.role_rows), (self.subgroups, self.subgroup_rows)):
            for group in rows[row]:
                table.set(group, job=NO_ROW)
                table.remove(group)
            rows[row] = ()
        self.job_roles[row].clear()
        self.job_subgroups[row].clear()

    def _reset_groups(self, row: int, record: JobRecord) -> None:
        """Role minimums or sub-group policies changed: sort the job's tasks in anew."""
        self._free_groups(row)
        self.records[row] = record
        for role in record.min_roles:
            self._role_row(row, role)
        for task in sorted(self.job_tasks[row]):
            pod = self.pods[task]
            self.tasks.set(task, role=self._role_row(row, role_of(pod)), subgroup=self._subgroup_row(row, pod))

    def _role_row(self, job: int, role: str) -> int:
        rows = self.job_roles[job]
        if role not in rows:
            minimum = self.records[job].min_roles.get(role, 0)
            rows[role] = _add_named(self.roles, self.role_names, role, job, minimum, NO_ROW)
            self.role_rows[job] = tuple(rows.values())
        return rows[role]

    def _subgroup_row(self, job: int, pod: Pod) -> int:
        record = self.records[job]
        policy, values = first_match(record.sub_groups, pod.metadata.labels)
        rows = self.job_subgroups[job]
        if (policy, values) not in rows:
            matched = record.sub_groups[policy] if policy != NO_ROW else None
            name = record.id if matched is None else subgroup_id(record.id, matched.name, values)
            row = _add_named(self.subgroups, self.subgroup_names, name, job, minimum_of(matched), policy)
            self.subgroups.set(row, index=match_index(values))
            rows[policy, values] = row
            self.subgroup_rows[job] = tuple(rows.values())
        return rows[policy, values]

    # -- tasks ---------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod, *, foreign: bool) -> None:
        """Take in a new or changed pod. Raises for one that cannot be used; nothing has changed then."""
        row = self.task_rows.get(pod.key)
        shape = self._shape_of(row, pod)
        lone = None if foreign else self._check_member(pod)
        hold = self._hold_of(pod, foreign=foreign)
        # From here on nothing can go wrong.
        if row is None:
            row = self._add_task(pod)
        job = NO_ROW if foreign else self._job_of(pod, lone)
        self._move_to_job(row, job)
        self._shapes[row] = shape
        self.pods[row] = pod
        self.holds.pop(row, None)
        if hold is not None:
            self.holds[row] = hold
        for key in claim_keys(pod):
            self._claimants.setdefault(key, set()).add(pod.key)
        node = pod.spec.node_name
        nominated = pod.status.nominated_node_name
        self.tasks.set(
            row,
            cls=self._class_row(shape, pod),
            role=NO_ROW if foreign else self._role_row(job, role_of(pod)),
            subgroup=NO_ROW if foreign else self._subgroup_row(job, pod),
            status=status_of(pod),
            node=self.nodes.number(node) if node else NO_ROW,
            nominated=self.nodes.number(nominated) if nominated else NO_ROW,
            priority=DEFAULT_TASK_PRIORITY if pod.spec.priority is None else pod.spec.priority,
            flags=shape.flags | (FOREIGN if foreign else 0) | (0 if hold is None else GATED),
        )

    def _shape_of(self, row: int | None, pod: Pod) -> PodShape:
        """The pod's shape; most events change nothing that it depends on, so the old one is kept then."""
        if row is not None and not pod.spec.resource_claims and _same_shape(self.pods[row], pod):
            return self._shapes[row]
        return shape_of(pod, self._devices_of(pod))

    def _hold_of(self, pod: Pod, *, foreign: bool) -> Hold | None:
        """Whether and why a pod is held back."""
        if foreign or pod.spec.node_name:
            return None
        if pod.namespace in self._ending:  # the server refuses every binding there
            return Hold("namespace", pod.namespace)
        return hold_of(pod, None if self._allocates_claims else self._claims)

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
        if is_ending == (name in self._ending):
            return []
        (self._ending.add if is_ending else self._ending.discard)(name)
        return [self.pods[row] for key, row in self.task_rows.items() if key.partition("/")[0] == name]

    def set_claim(self, key: str, claim: ResourceClaim | None) -> list[Pod]:
        """Take in a new or changed device claim, or None for one that is gone; returns the pods that name it."""
        if claim is None:
            self._claims.pop(key, None)
        else:
            self._claims[key] = claim
        rows = (self.task_rows.get(task_id) for task_id in sorted(self._claimants.get(key, ())))
        return [self.pods[row] for row in rows if row is not None]

    def _devices_of(self, pod: Pod) -> dict[str, int]:
        if not pod.spec.resource_claims:
            return {}
        return claimed(self._claims[key] for key in claim_keys(pod) if key in self._claims)

    def drop_pod(self, key: str) -> None:
        row = self.task_rows.pop(key, None)
        if row is not None:
            self._move_to_job(row, NO_ROW)
            for claim in claim_keys(self.pods[row]):
                claimants = self._claimants.get(claim, set())
                claimants.discard(key)
                if not claimants:
                    self._claimants.pop(claim, None)
            self._shapes.pop(row, None)
            self.holds.pop(row, None)
            self.tasks.set(row, status=TaskStatus.GONE)
            self.tasks.remove(row)

    def drop_unplaced(self, key: str) -> None:
        """Forget a pod, unless it takes room on a node."""
        row = self.task_rows.get(key)
        if row is None or self.tasks["node"][row] == NO_ROW:
            self.drop_pod(key)

    def _add_task(self, pod: Pod) -> int:
        row = self.tasks.add()
        if row == len(self.pods):
            self.pods.append(pod)
            self.task_ids.append(pod.key)
        self.task_ids[row] = pod.key
        self.task_rows[pod.key] = row
        self.tasks.set(row, job=NO_ROW, rank=0)
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

    def _class_row(self, shape: PodShape, pod: Pod) -> int:
        row = self.class_rows.get(shape.key)
        if row is None:
            row = self.class_rows[shape.key] = len(self.class_shapes)
            self.class_shapes.append(shape)
            self.resources.update(shape.request)
            self.class_pods.append(pod)
        return row

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


def _add_named(table: Columns, names: list[str], name: str, job: int, minimum: int, policy: int) -> int:
    row = table.add()
    if row == len(names):
        names.append(name)
    names[row] = name
    table.set(row, job=job, minimum=minimum, policy=policy, index=0)
    return row
