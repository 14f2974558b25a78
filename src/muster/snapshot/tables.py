"""The picture of one cycle as columns: nodes, tasks, classes, jobs, roles, sub-groups and queues.

A row number is an identity within one snapshot; names decide ties, never row numbers. Mutable columns
(node state, task status and node, counters and totals) change through a `Statement` only.
Rows of tasks and jobs may be free (status GONE, empty id); `live` selects the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.api import Node, Pod
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, USED
from muster.kernels.totals import future_total, sum_requests
from muster.snapshot.columns import (
    ALLOCATED_STATUSES,
    BEST_EFFORT_PENDING,
    NO_ROW,
    OCCUPYING_STATUSES,
    READY_STATUSES,
    Amounts,
    Mask,
    ResourceAxis,
    Rows,
    TaskStatus,
)
from muster.snapshot.labels import NodeLabels, TaintColumn
from muster.snapshot.records import JobRecord, QueueRecord
from muster.snapshot.topology import TopologyTable

#: Task flags.
NEEDS_LIVE_CHECK: Final = 1  # host ports, pod affinity or topology spread: other pods decide where it may go
BEST_EFFORT: Final = 2  # asks for nothing
GATED: Final = 4  # is held back: by scheduling gates, or because it asks for what is not served (`Snapshot.holds`)
PREEMPTABLE: Final = 8
FOREIGN: Final = 16  # another scheduler's pod: takes room, is never touched
CRITICAL: Final = 32  # the cluster itself depends on it


#: Members of an enum are slow to look up, and this one is asked for in every action.
_PENDING: Final = int(TaskStatus.PENDING)


@dataclass(slots=True)
class NodeTable:
    """Nodes in row order; see `muster.kernels.planes` for the planes of `state`."""

    names: list[str]
    index: dict[str, int]
    objects: list[Node]
    #: int64[N_PLANES, nodes, resources]
    state: Amounts
    #: False: not ready; such a node takes no new task and its capacity does not count.
    ready: Mask
    labels: NodeLabels
    taints: TaintColumn
    #: Nodes that were put aside: not ready, and without anything to offer.
    aside: Mask

    def __len__(self) -> int:
        return len(self.names)

    def allocatable(self) -> Amounts:
        plane: Amounts = self.state[ALLOCATABLE]
        return plane

    def used(self) -> Amounts:
        used: Amounts = self.state[USED]
        return used

    def idle(self) -> Amounts:
        """What is free now, per node and resource."""
        free: Amounts = self.state[ALLOCATABLE] - self.state[USED]
        return free

    def future_idle(self, rows: Rows | slice = np.s_[:]) -> Amounts:
        """What will be free, on all or some nodes, once terminating pods are gone and promised places are taken."""
        has, used, leaving, promised = (self.state[plane, rows] for plane in (ALLOCATABLE, USED, RELEASING, PIPELINED))
        free: Amounts = has - used + leaving - promised
        return free

    def future_idle_of(self, row: int) -> list[int]:
        """As `future_idle`, for one node, as plain numbers."""
        planes = self.state[:, row].tolist()
        of_resource = zip(planes[ALLOCATABLE], planes[USED], planes[RELEASING], planes[PIPELINED], strict=True)
        return [has - used + leaving - promised for has, used, leaving, promised in of_resource]

    def future_total(self) -> Amounts:
        """The sum of `future_idle` over the ready nodes; none of them counts as less than full."""
        total = np.zeros(self.state.shape[2], np.int64)
        future_total(self.state, self.ready, total)
        return total


@dataclass(slots=True)
class ClassTable:
    """Task classes: tasks with the same requests and the same constraints on nodes."""

    #: int64[classes, 2, resources]: the request, and the request as scores count it.
    requests: Amounts
    #: A pod of the class; its node constraints stand for all of them.
    pods: Sequence[Pod]
    #: Names a class the same way in every snapshot of a mirror.
    keys: list[bytes]

    def __len__(self) -> int:
        return len(self.pods)


@dataclass(slots=True)
class TaskTable:
    """Tasks; one row per pod."""

    #: "namespace/name"
    ids: list[str]
    pods: list[Pod]
    job: Rows
    cls: Rows
    role: Rows
    subgroup: Rows
    #: int8: TaskStatus
    status: NDArray[np.int8]
    #: Node row, NO_ROW if none.
    node: Rows
    #: Node row of status.nominatedNodeName, NO_ROW if none.
    nominated: Rows
    #: Pending tasks for which room is set aside on the nominated node (it counts as pipelined there).
    reserved: Mask
    priority: Rows
    #: Order inside the job where no plugin has an opinion: index (see `pod_index`), age, uid.
    rank: Rows
    #: uint8: flags above
    flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class GroupTable:
    """Roles or sub-groups of jobs: a minimum and counters each."""

    names: list[str]
    job: Rows
    minimum: Rows
    counts: Rows
    #: Sub-groups: index of the policy in the PodGroup, NO_ROW for the tasks that match none. Roles: unused.
    policy: Rows
    #: Sub-groups: position among those of the policy, from the first label value. Roles: unused.
    index: Rows

    def __len__(self) -> int:
        return len(self.names)


class JobNames:
    """Places of jobs by name."""

    def __init__(self, index: Mapping[str, int]) -> None:
        """`index`: the row of every job, by its name; must not change afterwards."""
        self._index = index
        self._places: NDArray[np.int64] | None = None

    def places(self, jobs: Rows, records: Sequence[JobRecord]) -> NDArray[np.int64]:
        """Numbers that order the jobs by name, which `records` know; few are sorted for themselves."""
        if self._places is None and 4 * len(jobs) < len(self._index):
            names = [records[job].id for job in jobs.tolist()]
            return _ranks(sorted(range(len(names)), key=names.__getitem__))
        if self._places is None:
            self._places = _ranks([self._index[name] for name in sorted(self._index)])
        return self._places[jobs]


def _ranks(order: list[int]) -> NDArray[np.int64]:
    """Where each row stands in an order of rows; rows that are not in it: first."""
    ranks = np.zeros(max(order, default=-1) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


class Hold(NamedTuple):
    """Why a pod is held back although it has no scheduling gates."""

    kind: Literal["gpu-part", "device-claim", "namespace"]
    detail: str


@dataclass(slots=True)
class JobTable:
    """Jobs; one row per PodGroup or lone pod. `counts` columns are task states (see `status`)."""

    records: list[JobRecord]
    index: dict[str, int]
    names: JobNames
    live: Mask
    #: Queue row, NO_ROW if the queue does not exist.
    queue: Rows
    min_member: Rows
    #: Sum of the roles' minimums; role minimums hold only while it is at most `min_member`.
    min_roles_total: Rows
    priority: Rows
    created: NDArray[np.float64]
    phase: NDArray[np.int8]
    #: May every task of the job be taken away for others, as far as job and pods are concerned?
    preemptible: Mask
    #: Is the job nobody's victim, by its own word or, with KAI, by its priority?
    spared: Mask
    #: Are its tasks taken away together or not at all, also those beyond the minimum?
    goes_whole: Mask
    #: Has it a minimum of its own alone: no roles with minimums, sub-groups or nested groups?
    is_plain: Mask
    #: Has it, or one of its sub-groups, a constraint on the network?
    has_network: Mask
    #: Does its PodGroup say since when it is broken?
    is_stamped_stale: Mask
    counts: Rows
    #: int64[jobs, resources]: held by allocated, bound and running tasks, and promised to pipelined ones.
    allocated: Amounts
    #: int64[jobs, resources]: requests of tasks that were pending when the snapshot was taken.
    pending: Amounts
    #: False: pods name a PodGroup that does not exist.
    has_group: Mask
    #: Whether the job is a PodGroup's, and not a pod's of its own or of those that name one which does not exist.
    has_source: Mask
    #: Rows of the job's roles and sub-groups.
    roles: list[tuple[int, ...]]
    subgroups: list[tuple[int, ...]]
    #: Jobs that were put aside, with the object that cannot be used and what is wrong with it.
    aside: dict[int, str]

    def __len__(self) -> int:
        return len(self.records)

    def has_pod_sets(self, job: int) -> bool:
        """Whether minimums of roles hold for the job, and not its own alone: only while that covers their sum.

        Volcano's controller gives every task of a Job a minimum, by default all its pods, also where the Job as a whole
        may start with fewer.
        """
        return bool(self.records[job].min_roles) and bool(self.min_roles_total[job] <= self.min_member[job])

    def ready_count(self, job: int) -> int:
        """Tasks that count towards the minimum; pending best-effort tasks are not among them."""
        row = self.counts[job].tolist()
        return sum([row[status] for status in READY_STATUSES])

    def allocated_count(self, job: int) -> int:
        row = self.counts[job].tolist()
        return sum([row[status] for status in ALLOCATED_STATUSES])

    def task_count(self, job: int) -> int:
        return sum(self.counts[job, :BEST_EFFORT_PENDING].tolist())


@dataclass(slots=True)
class QueueTable:
    """Queues, sorted by name. `own` totals count a queue's own jobs, `tree` totals those of all below it too."""

    records: list[QueueRecord]
    index: dict[str, int]
    parent: Rows
    #: Rows from the queue itself up to the top.
    paths: list[Rows]
    #: The same with the parent of each row, NO_ROW at the top; plain numbers, for whoever walks up often.
    steps: list[list[tuple[int, int]]]
    #: int64[queues, depth]: the paths as one table, NO_ROW beyond their ends; for kernels.
    upward: Rows
    own_allocated: Amounts
    tree_allocated: Amounts
    #: The part of `tree_allocated` that jobs hold which are not preemptible.
    tree_firm: Amounts
    #: Queues that are somebody's parent.
    parents: frozenset[int]
    #: Queues whose chain of parents ends in a cycle or at a queue that does not exist, with the reason.
    broken: dict[int, str]
    #: Those of them that were put aside, or that stand below one, with what is wrong.
    aside: dict[int, str]
    #: What others have derived from the queues and the resources alone: the same one while neither changes.
    derived: dict[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.records)

    def leaves(self) -> Mask:
        """Which queues are nobody's parent."""
        mask: Mask = np.ones(len(self.records), np.bool_)
        mask[self.parent[self.parent >= 0]] = False
        return mask


@dataclass(slots=True)
class Snapshot:
    """All that one cycle sees."""

    axis: ResourceAxis
    nodes: NodeTable
    classes: ClassTable
    tasks: TaskTable
    jobs: JobTable
    roles: GroupTable
    subgroups: GroupTable
    queues: QueueTable
    topology: TopologyTable
    #: Other objects that plugins may need, by kind and "namespace/name".
    objects: dict[str, dict[str, object]]
    #: Pending tasks whose nominated node is gone or will not have room for them; nothing is reserved.
    stale_nominations: Rows
    #: Rows changed so far, for the boards; grows with the statement.
    touch_log: Rows
    #: Pending tasks that are held back for another reason than scheduling gates.
    holds: Mapping[int, Hold] = field(default_factory=dict)
    touched: int = 0
    #: Rows of two snapshots of a mirror mean the same only while this is the same.
    generation: int = 0
    #: Task rows ordered by job, and where each job's begin; made on first use.
    _by_job: tuple[Rows, Rows] | None = None
    #: The last answer of `pending_tasks`, and what had been touched by then.
    _pending: tuple[int, Rows] | None = None

    def total(self) -> Amounts:
        """Capacity of the ready nodes."""
        total: Amounts = self.nodes.state[ALLOCATABLE][self.nodes.ready].sum(axis=0)
        return total

    def held_by_others(self) -> Amounts:
        """What pods of other schedulers hold on the ready nodes; of no node more than it has."""
        if not (self.tasks.flags & FOREIGN).any():  # the usual case
            return np.zeros(len(self.axis), np.int64)
        held: Amounts = self._held_by_others().sum(axis=0)
        return held

    def _held_by_others(self) -> Amounts:
        """int64[nodes, resources]; of nodes that are not ready, nothing."""
        tasks = self.tasks
        held: Amounts = np.zeros_like(self.nodes.allocatable())
        foreign = (tasks.flags & FOREIGN).nonzero()[0]
        foreign = foreign[(tasks.node[foreign] != NO_ROW) & np.isin(tasks.status[foreign], OCCUPYING_STATUSES)]
        foreign = foreign[self.nodes.ready[tasks.node[foreign]]]
        sum_requests(self.classes.requests, tasks.cls[foreign], tasks.node[foreign], held)
        return np.minimum(held, self.nodes.allocatable(), out=held)

    def behind_taints(self) -> Amounts:
        """What ready nodes have that no pod of this scheduler may use for their taints, less what others hold there.

        A node on which one of its pods is, is in use.
        """
        tasks, taints = self.tasks, self.nodes.taints
        behind: Amounts = np.zeros(len(self.axis), np.int64)
        if len(taints.sets) == 1:
            return behind
        own = (tasks.flags & FOREIGN) == 0
        classes = np.flatnonzero(np.bincount(tasks.cls[own], minlength=len(self.classes)))
        closed = self.nodes.ready & taints.closed_to(self.classes.pods[cls] for cls in classes.tolist())
        closed[tasks.node[own & (tasks.node != NO_ROW)]] = False
        if not closed.any():
            return behind
        return (self.nodes.allocatable() - self._held_by_others())[closed].sum(axis=0, out=behind)

    def pending_tasks(self) -> Rows:
        """Rows of pending tasks of this scheduler, gated and best-effort ones included; to be read only."""
        # Whatever changes the state of a task touches a node.
        if self._pending is None or self._pending[0] != self.touched:
            rows = (self.tasks.status == _PENDING).nonzero()[0]
            self._pending = self.touched, rows[(self.tasks.flags[rows] & FOREIGN) == 0]
        return self._pending[1]

    def serve_best_effort(self, *, of_all: bool) -> None:
        """Let tasks that ask for nothing be like others, which count only once they have a place.

        `of_all`: those of every job, else of jobs with groups, sub-groups or a network alone.
        """
        tasks = (self.tasks.flags & BEST_EFFORT).nonzero()[0]
        if len(tasks) == 0:
            return
        tasks = tasks[self.tasks.job[tasks] != NO_ROW]
        if not of_all:
            owners = [(job, self.jobs.records[job]) for job in np.unique(self.tasks.job[tasks]).tolist()]
            chosen = [job for job, record in owners if record.groups or record.sub_groups or record.topology]
            tasks = tasks[np.isin(self.tasks.job[tasks], chosen)]
        if len(tasks):
            self.tasks.flags[tasks] &= ~np.uint8(BEST_EFFORT)
            self.jobs.counts[self.tasks.job[tasks], BEST_EFFORT_PENDING] = 0
            self.roles.counts[self.tasks.role[tasks], BEST_EFFORT_PENDING] = 0
            self.subgroups.counts[self.tasks.subgroup[tasks], BEST_EFFORT_PENDING] = 0

    def tasks_of(self, job: int) -> Rows:
        """All tasks of a job, in no particular order."""
        if self._by_job is None:
            order = np.argsort(self.tasks.job, kind="stable").astype(np.intp)
            starts = np.searchsorted(self.tasks.job[order], np.arange(len(self.jobs) + 1)).astype(np.intp)
            self._by_job = order, starts
        order, starts = self._by_job
        return order[starts[job] : starts[job + 1]]

    def request(self, task: int) -> Amounts:
        row: Amounts = self.classes.requests[self.tasks.cls[task], 0]
        return row
