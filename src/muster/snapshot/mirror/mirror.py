"""The mirror: keeps columns current from a cluster's objects, and takes snapshots of them.

Objects in (`upsert`, `delete`), pictures out (`snapshot`). A snapshot owns everything in it that changes; objects are
shared and never modified. An object is looked at in full before anything changes; `put_aside` is for those that cannot
be used. Callers: `intake`, which takes in what clusters tell, and the conformance runner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import numpy as np

from muster.api import (
    DeviceClass,
    HyperNode,
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    LabelSelector,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceClaim,
    ResourceSlice,
    group_of,
    to_base_all,
)
from muster.api.validate import check_countable
from muster.kernels.placement import BLOCK
from muster.kernels.planes import ALLOCATABLE, N_PLANES
from muster.kernels.totals import add_rows, book_on_nodes, count_tasks, sum_requests
from muster.snapshot.columns import (
    ALLOCATED_STATUSES,
    FINISHED_STATUSES,
    N_COUNTS,
    NO_ROW,
    OCCUPYING_STATUSES,
    Amounts,
    Mask,
    ResourceAxis,
    Rows,
    TaskStatus,
    impossible,
    limit_columns,
    status_of,
)
from muster.snapshot.devices import NOT_LIMITED, PREFIX, offered
from muster.snapshot.kai_records import Priorities, job_from_kai, queue_from_kai
from muster.snapshot.labels import NodeLabels, TaintColumn
from muster.snapshot.mirror.groups import GroupBook
from muster.snapshot.mirror.quarantine import Quarantine
from muster.snapshot.mirror.taskbook import NO_RULE, TaskBook
from muster.snapshot.queues import build_queues
from muster.snapshot.records import QueueRecord, check_family, is_of_other_family, job_from_group, queue_from_volcano
from muster.snapshot.reservations import reserve_nominated
from muster.snapshot.tables import (
    BEST_EFFORT,
    GATED,
    PREEMPTABLE,
    ClassTable,
    GroupTable,
    JobTable,
    NodeTable,
    QueueTable,
    Snapshot,
    TaskTable,
)
from muster.snapshot.topology import TopologyTable, build_topology

T = TypeVar("T")
#: Kinds that say what devices nodes have.
_DEVICE_KINDS = frozenset({"ResourceSlice", "DeviceClass"})
#: Kinds besides nodes that decide where a class may go.
_PLACEMENT_KINDS = frozenset({"PersistentVolume", "PersistentVolumeClaim", "ResourceClaim", "StorageClass", "Topology"})
_COUNTED = np.zeros(N_COUNTS, np.bool_)
_COUNTED[list(ALLOCATED_STATUSES)] = True
_OCCUPYING = np.zeros(N_COUNTS, np.bool_)
_OCCUPYING[list(OCCUPYING_STATUSES)] = True


class Mirror:
    """The state of a cluster as columns.

    `scheduler_names`: pods with another schedulerName take room but are not scheduled; None: all pods are ours.
    `allocates_claims`: whether the cluster gives devices to the pods that are bound; if not, pods wait until their
    device claims are allocated.
    `keeps_finished`: whether pods that have finished are part of the picture although nothing is decided about them; if
    not, those without a gang are left out, and `put_away` is for gangs.
    """

    def __init__(
        self,
        scheduler_names: Iterable[str] | None = None,
        *,
        allocates_claims: bool = True,
        keeps_finished: bool = True,
    ) -> None:
        self._keeps_finished = keeps_finished
        self._names = None if scheduler_names is None else frozenset(scheduler_names)
        self._priorities = Priorities()
        self._allocates_claims = allocates_claims
        self._book = TaskBook(self._priorities.of_job, allocates_claims=allocates_claims)
        #: What cannot be used, and why; filled by `intake`.
        self.quarantine = Quarantine()
        #: How a pod is looked at again when something has changed that it depends on.
        self.again: Callable[[Pod], None] = self.upsert
        self._nodes: dict[str, Node] = {}
        #: What nodes offer, in base units; a node without an entry was put aside.
        self._offers: dict[str, Mapping[str, int]] = {}
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._queues: dict[str, QueueRecord] = {}
        self._objects: dict[str, dict[str, object]] = {}
        self._axis = ResourceAxis()
        self._layout: tuple[NodeTable, TopologyTable] | None = None
        #: Counts changes of what decides where a class may go, free resources aside: nodes and volumes.
        self.placement_revision = 0
        #: Counts changes of HyperNodes, their status included.
        self.hyper_node_revision = 0

    # -- objects in ----------------------------------------------------------------------------------------

    def upsert(self, item: KubeObject) -> None:
        """Take in a new or changed object. Raises UserError for one that cannot be used; nothing changes then."""
        if isinstance(item, Pod):  # counts itself, and most of its events change nothing that is counted
            if self._is_left_out(item):
                self._book.drop_pod(item.key)
            else:
                self._book.set_pod(item, foreign=self.is_foreign(item))
            return
        check_countable(item)
        if isinstance(item, PodGroup | KaiPodGroup):
            check_family(self._book.group(item.key), item)
            record = job_from_group(item) if isinstance(item, PodGroup) else job_from_kai(item)
            self._look_again(self._book.set_job(record))
        elif isinstance(item, Node):
            self._set_node(item.name, item, to_base_all(item.status.allocatable))
        elif isinstance(item, HyperNode):
            self._set_hyper_node(item.name, item)
        elif isinstance(item, Queue | KaiQueue):
            check_family(self._queue(item.name), item)
            self._queues[item.name] = queue_from_volcano(item) if isinstance(item, Queue) else queue_from_kai(item)
        elif isinstance(item, PriorityClass):
            self._priorities.set(item)
            self._book.refresh_priorities()
        else:
            self._objects.setdefault(item.kind, {})[item.key] = item
            self._note_change(item.kind)
            if isinstance(item, ResourceClaim):
                self._look_again(self._book.set_claim(item.key, item))
            elif isinstance(item, Namespace):
                is_ending = item.metadata.deletion_timestamp is not None
                self._look_again(self._book.set_namespace(item.name, is_ending=is_ending))

    def put_aside(self, item: KubeObject) -> None:
        """Do without an object that cannot be used: nothing of what it says is in the columns afterwards.

        A node stays as one that takes no pods, a queue as one that starts no jobs, a budget protects everybody it may
        be about; of a PodGroup its pods are left; a pod that has a node keeps its room there, as far as it is known.
        """
        if isinstance(item, Pod):
            self._book.drop_unplaced(item.key)
        elif isinstance(item, Node):
            self._set_node(item.name, self._nodes.get(item.name, item), None)
        elif isinstance(item, Queue | KaiQueue):
            if not is_of_other_family(self._queue(item.name), item):
                parent = item.spec.parent if isinstance(item, Queue) else item.spec.parent_queue
                self._queues[item.name] = QueueRecord(item.name, parent, source=item)
        elif isinstance(item, PodDisruptionBudget):
            spec = PodDisruptionBudgetSpec(selector=item.spec.selector or LabelSelector(), max_unavailable=0)
            self._objects.setdefault(item.kind, {})[item.key] = msgspec.structs.replace(item, spec=spec, status=None)
        else:
            self.delete(item)

    def put_away(self, jobs: Iterable[str]) -> None:
        """Keep finished jobs out of pictures until something of them changes, unless they are to stay in."""
        if not self._keeps_finished:
            self._book.put_away(jobs)

    def _is_left_out(self, pod: Pod) -> bool:
        """Whether a pod has finished, is in no gang of ours, and nobody wants to know of it."""
        is_over = not self._keeps_finished and status_of(pod) in FINISHED_STATUSES
        return is_over and (self.is_foreign(pod) or group_of(pod) is None)

    def _look_again(self, pods: Iterable[Pod]) -> None:
        """Something that pods depend on has changed."""
        for pod in pods:
            self.again(pod)

    def delete(self, item: KubeObject) -> None:
        """Forget an object; one that is not known is ignored."""
        if isinstance(item, Pod):
            self._book.drop_pod(item.key)
        elif isinstance(item, PodGroup | KaiPodGroup):
            if not is_of_other_family(self._book.group(item.key), item):
                self._book.drop_group(item.key)
        elif isinstance(item, Node):
            self._set_node(item.name, None, None)
        elif isinstance(item, HyperNode):
            self._set_hyper_node(item.name, None)
        elif isinstance(item, Queue | KaiQueue):
            if not is_of_other_family(self._queue(item.name), item):
                self._queues.pop(item.name, None)
        elif isinstance(item, PriorityClass):
            self._priorities.drop(item.name)
            self._book.refresh_priorities()
        else:
            self._objects.get(item.kind, {}).pop(item.key, None)
            self._note_change(item.kind)
            if isinstance(item, ResourceClaim):
                self._look_again(self._book.set_claim(item.key, None))
            elif isinstance(item, Namespace):
                self._look_again(self._book.set_namespace(item.name, is_ending=False))

    @property
    def hyper_nodes(self) -> Mapping[str, HyperNode]:
        """The HyperNodes as they stand, by name."""
        return self._hyper_nodes

    @property
    def finished_groups(self) -> Mapping[str, int]:
        """How many gangs were put away, by queue."""
        return self._book.finished.by_queue

    def group(self, job: str) -> PodGroup | KaiPodGroup | None:
        """The PodGroup of a job; None: it has none, or one that was put aside."""
        return self._book.group(job)

    def _queue(self, name: str) -> Queue | KaiQueue | None:
        known = self._queues.get(name)
        return None if known is None else known.source

    def _note_change(self, kind: str) -> None:
        if kind in _PLACEMENT_KINDS:
            self.placement_revision += 1
        if kind in _DEVICE_KINDS:
            self._layout = None

    def is_foreign(self, pod: Pod) -> bool:
        """Whether the pod is another scheduler's."""
        return self._names is not None and pod.spec.scheduler_name not in self._names

    def _set_node(self, name: str, node: Node | None, offers: Mapping[str, int] | None) -> None:
        old, was_offered = self._nodes.pop(name, None), self._offers.pop(name, None)
        if node is not None:
            self._nodes[name] = node
        if offers is not None:
            self._offers[name] = offers
        is_same = old is not None and node is not None and _same_placement(old, node)
        if not is_same or (offers is None) != (was_offered is None):
            self.placement_revision += 1
        self._layout = None

    def _set_hyper_node(self, name: str, hyper_node: HyperNode | None) -> None:
        self.hyper_node_revision += 1
        old = self._hyper_nodes.pop(name, None)
        if hyper_node is not None:
            self._hyper_nodes[name] = hyper_node
        if old is None or hyper_node is None or old.spec != hyper_node.spec:
            self._layout = None
            # Node rows may move, and verdicts are arrays over rows.
            self.placement_revision += 1

    # -- pictures out --------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Take a picture of the present state."""
        self._book.compact()
        self._follow_axis()
        classes = self._book.classes.table(self._axis)
        nodes, topology = self._build_nodes()
        queues = build_queues(self._queues, self._axis, self._why_queues_wait())
        tasks = self._build_tasks(nodes)
        limit_columns(classes.requests, tasks.cls[tasks.status != TaskStatus.GONE], nodes.state[ALLOCATABLE])
        beyond = impossible(classes.requests, nodes.state[ALLOCATABLE])
        if beyond.any():
            holding = np.flatnonzero(_COUNTED[tasks.status])
            tasks.status[holding[beyond[tasks.cls[holding]]]] = TaskStatus.UNKNOWN
        jobs = self._build_jobs(tasks, classes, queues)
        book_on_nodes(
            nodes.state,
            classes.requests,
            tasks.cls,
            np.where(_OCCUPYING[tasks.status], tasks.node, NO_ROW).astype(np.int32),
            tasks.status == TaskStatus.RELEASING,
        )
        stale = reserve_nominated(nodes, classes, tasks, self._book.tasks["nominated"])
        return Snapshot(
            axis=self._axis,
            nodes=nodes,
            classes=classes,
            tasks=tasks,
            jobs=jobs,
            roles=_group_table(self._book.roles, tasks, tasks.role),
            subgroups=_group_table(self._book.subgroups, tasks, tasks.subgroup),
            queues=queues,
            topology=topology,
            objects={kind: dict(items) for kind, items in self._objects.items()},
            stale_nominations=stale,
            holds=dict(self._book.holds),
            touch_log=np.empty(max(1024, BLOCK), np.int32),
            generation=self._book.generation,
        )

    def _follow_axis(self) -> None:
        """Have a column for every resource that somebody names, and for no other."""
        names = set(self._book.resources.names())
        for queue in self._queues.values():
            names.update(queue.capability, queue.deserved, queue.guarantee, queue.over_quota_weights or ())
        axis = ResourceAxis().extended(names)
        if axis.names != self._axis.names:
            before, self._axis = self._axis, axis
            if self._layout is not None:
                self._layout = self._moved_layout(*self._layout, before)

    def _moved_layout(
        self, table: NodeTable, topology: TopologyTable, before: ResourceAxis
    ) -> tuple[NodeTable, TopologyTable]:
        """The layout of nodes on a new axis; what nodes offer is only looked up for resources that are new."""
        state = np.zeros((N_PLANES, len(table), len(self._axis)), np.int64)
        for name, column in self._axis.index.items():
            if name in before.index:
                state[:, :, column] = table.state[:, :, before.index[name]]
            elif not name.startswith(PREFIX):
                offers = (self._offers.get(node, {}).get(name, 0) for node in table.names)
                state[ALLOCATABLE, :, column] = np.fromiter(offers, np.int64, len(table))
        self._add_devices(state[ALLOCATABLE], table.index)
        return replace(table, state=state), topology

    def _build_nodes(self) -> tuple[NodeTable, TopologyTable]:
        if self._layout is None:
            self._layout = self._lay_out_nodes()
        table, topology = self._layout
        return replace(table, state=table.state.copy()), topology

    def _lay_out_nodes(self) -> tuple[NodeTable, TopologyTable]:
        """The node table without any task, and the topology; kept until a node or HyperNode changes."""
        topology, names = build_topology(self._hyper_nodes, self._nodes)
        objects = [self._nodes[name] for name in names]
        index = {name: row for row, name in enumerate(names)}
        state = np.zeros((N_PLANES, len(names), len(self._axis)), np.int64)
        ready = np.ones(len(names), np.bool_)
        aside = np.zeros(len(names), np.bool_)
        for row, node in enumerate(objects):
            offers = self._offers.get(node.name)
            if offers is None:
                ready[row], aside[row] = False, True
                continue
            state[ALLOCATABLE, row] = self._axis.vector(offers)
            ready[row] = is_ready(node)
        self._add_devices(state[ALLOCATABLE], index)
        labels, taints = NodeLabels(objects), TaintColumn(objects)
        return NodeTable(names, index, objects, state, ready, labels, taints, aside), topology

    def _why_queues_wait(self) -> dict[str, str]:
        """What is wrong with queues that were put aside; one that only lost its name to another has no jobs to keep."""
        asides = (aside for aside in self.quarantine if isinstance(aside.object, Queue | KaiQueue))
        return {held.object.name: str(held) for held in asides if self._queue(held.object.name) is held.object}

    def _add_devices(self, allocatable: Amounts, index: dict[str, int]) -> None:
        """Set what nodes offer of every device class that somebody asks for."""
        columns = {name: column for name, column in self._axis.index.items() if name.startswith(PREFIX)}
        slices = self._of_kind(ResourceSlice)
        # A claim that is allocated has its devices already, however many pods share it.
        if not columns or not slices or not self._allocates_claims:
            allocatable[:, list(columns.values())] = NOT_LIMITED
            return
        classes = {known.name: known for known in self._of_kind(DeviceClass)}
        for node, amounts in offered(slices, classes).items():
            for name, amount in amounts.items():
                if node in index and name in columns:
                    allocatable[index[node], columns[name]] = amount

    def _of_kind(self, kind: type[T]) -> list[T]:
        found = self._objects.get(kind.__name__, {})
        return [item for _, item in sorted(found.items()) if isinstance(item, kind)]

    def _build_tasks(self, nodes: NodeTable) -> TaskTable:
        book, columns = self._book, self._book.tasks
        rows_of_nodes = book.nodes.rows(nodes.index)
        ranks = book.rank_tasks()
        return TaskTable(
            ids=list(book.task_ids),
            pods=list(book.pods),
            job=columns["job"].copy(),
            cls=columns["cls"].copy(),
            role=columns["role"].copy(),
            subgroup=columns["subgroup"].copy(),
            status=columns["status"].copy(),
            node=rows_of_nodes[columns["node"]],
            nominated=rows_of_nodes[columns["nominated"]],
            reserved=np.zeros(columns.size, np.bool_),
            priority=columns["priority"].copy(),
            rank=ranks.copy(),
            flags=columns["flags"].copy(),
        )

    def _build_jobs(self, tasks: TaskTable, classes: ClassTable, queues: QueueTable) -> JobTable:
        book, columns = self._book, self._book.jobs
        count = columns.size
        live = columns["live"].copy()
        queue = book.queues.rows(queues.index)[columns["queue"]]
        allocated: Amounts = np.zeros((count, len(self._axis)), np.int64)
        pending: Amounts = np.zeros_like(allocated)
        holding = _COUNTED[tasks.status]
        sum_requests(classes.requests, tasks.cls, np.where(holding, tasks.job, NO_ROW).astype(np.int32), allocated)
        waiting = tasks.status == TaskStatus.PENDING
        sum_requests(classes.requests, tasks.cls, np.where(waiting, tasks.job, NO_ROW).astype(np.int32), pending)
        queued = live & (queue != NO_ROW)
        add_rows(queues.own_allocated, np.where(live, queue, np.int32(NO_ROW)), allocated)
        for row, path in enumerate(queues.paths):
            queues.tree_allocated[path] += queues.own_allocated[row]
        refuses, preemptible = self._preemptible(tasks)
        firm = queued & ~preemptible & allocated.any(axis=1)
        for job in np.flatnonzero(firm).tolist():
            queues.tree_firm[queues.paths[queue[job]]] += allocated[job]
        return JobTable(
            records=list(book.records),
            index=dict(book.job_rows),
            names=book.job_names(),
            live=live,
            queue=queue,
            min_member=columns["min_member"].copy(),
            min_roles_total=columns["min_roles_total"].copy(),
            priority=columns["priority"].copy(),
            created=columns["created"].copy(),
            phase=columns["phase"].copy(),
            preemptible=preemptible,
            spared=refuses,
            counts=_count(tasks, tasks.job, count),
            allocated=allocated,
            pending=pending,
            has_group=columns["has_group"].copy(),
            roles=list(book.roles.of_jobs),
            subgroups=list(book.subgroups.of_jobs),
            aside={book.job_rows[job]: why for job, why in self.quarantine.jobs().items() if job in book.job_rows},
        )

    def _preemptible(self, tasks: TaskTable) -> tuple[Mask, Mask]:
        """Which jobs are nobody's victims, by their own word or by priority; and of which every pod may go."""
        columns = self._book.jobs
        unwilling = (tasks.job != NO_ROW) & (tasks.status != TaskStatus.GONE) & ((tasks.flags & PREEMPTABLE) == 0)
        willing: Mask = np.bincount(tasks.job[unwilling], minlength=columns.size) == 0
        said = columns["preemptible"]
        by_priority = columns["priority"] < columns["preemptible_below"]
        has_rule = columns["preemptible_below"] != NO_RULE
        refuses: Mask = np.where(said >= 0, said == 0, has_rule & ~by_priority)
        return refuses, ~refuses & (willing | (said > 0) | has_rule)


def is_ready(node: Node) -> bool:
    """A node whose Ready condition is not True takes no tasks; one without the condition is taken as ready."""
    return all(known.status == "True" for known in node.status.conditions if known.type == "Ready")


def _same_placement(old: Node, new: Node) -> bool:
    """Do two versions of a node admit the same classes? Heartbeats and free resources aside."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.spec == new.spec
        and is_ready(old) == is_ready(new)
    )


def _group_table(groups: GroupBook[Any], tasks: TaskTable, group: Rows) -> GroupTable:  # Any: keys are its own business
    columns = groups.columns
    return GroupTable(
        names=list(groups.names),
        job=columns["job"].copy(),
        minimum=columns["minimum"].copy(),
        counts=_count(tasks, group, columns.size),
        policy=columns["policy"].copy(),
        index=columns["index"].copy(),
    )


def _count(tasks: TaskTable, group: Rows, n_groups: int) -> Rows:
    """Count tasks by group and state; the last column is pending best-effort tasks."""
    counts: Rows = np.zeros((n_groups, N_COUNTS), np.int32)
    if n_groups:
        states = np.where(tasks.status == TaskStatus.GONE, np.int8(-1), tasks.status)
        # Those that are held back cannot be counted on, though they ask for nothing.
        free = (tasks.status == TaskStatus.PENDING) & ((tasks.flags & (BEST_EFFORT | GATED)) == BEST_EFFORT)
        count_tasks(counts, group, states, free)
    return counts
