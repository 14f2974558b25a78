"""The mirror: keeps columns current from a cluster's objects, and takes snapshots of them.

Objects in (`upsert`, `delete`), pictures out (`snapshot`). A snapshot owns everything in it that changes; objects are
shared and never modified. An object is looked at in full before anything changes; `put_aside` is for those that cannot
be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec

from muster.api import (
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
    group_of,
    to_base_all,
)
from muster.api.validate import check_countable
from muster.snapshot.columns import FINISHED_STATUSES, ResourceAxis, status_of
from muster.snapshot.kai_records import Priorities, job_from_kai, queue_from_kai
from muster.snapshot.mirror.nodes import NodeBook
from muster.snapshot.mirror.pictures import build_queues, take_picture, with_empty_totals
from muster.snapshot.mirror.quarantine import Quarantine
from muster.snapshot.mirror.tasks import TaskBook
from muster.snapshot.records import (
    QueueRecord,
    check_family,
    is_of_other_family,
    job_from_group,
    queue_from_volcano,
    yields_to,
)
from muster.snapshot.tables import QueueTable, Snapshot

#: Kinds that say what devices nodes have.
_DEVICE_KINDS = frozenset({"ResourceSlice", "DeviceClass"})
#: Kinds besides nodes that decide where a class may go.
_PLACEMENT_KINDS = frozenset({"PersistentVolume", "PersistentVolumeClaim", "ResourceClaim", "StorageClass", "Topology"})


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
        self._book = TaskBook(self._priorities.of_job, allocates_claims=allocates_claims)
        #: What cannot be used, and why; filled by `intake`.
        self.quarantine = Quarantine()
        #: How a pod is looked at again when something has changed that it depends on.
        self.again: Callable[[Pod], None] = self.upsert
        self._queues: dict[str, QueueRecord] = {}
        #: The queues laid out on an axis, without any totals; None: they have to be laid out anew.
        self._queue_layout: QueueTable | None = None
        self._axis = ResourceAxis()
        #: The resources that the axis was made for.
        self._resources: set[str] = set()
        self._objects: dict[str, dict[str, object]] = {}
        self._nodes = NodeBook(self._objects, allocates_claims=allocates_claims)
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
            self._check_name(item)
            record = job_from_group(item) if isinstance(item, PodGroup) else job_from_kai(item)
            self._look_again(self._book.set_job(record))
        elif isinstance(item, Node):
            self.placement_revision += self._nodes.set(item, to_base_all(item.status.allocatable))
        elif isinstance(item, HyperNode):
            self._set_hyper_node(item.name, item)
        elif isinstance(item, Queue | KaiQueue):
            self._check_name(item)
            self._set_queue(queue_from_volcano(item) if isinstance(item, Queue) else queue_from_kai(item))
        elif isinstance(item, PriorityClass):
            self._priorities.set(item)
            self._book.jobs.refresh_priorities()
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
            self.placement_revision += self._nodes.put_aside(item)
        elif isinstance(item, Queue | KaiQueue):
            if not yields_to(item, self._queue(item.name)):
                parent = item.spec.parent if isinstance(item, Queue) else item.spec.parent_queue
                self._set_queue(QueueRecord(item.name, parent, source=item))
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
            self.placement_revision += self._nodes.drop(item.name)
        elif isinstance(item, HyperNode):
            self._set_hyper_node(item.name, None)
        elif isinstance(item, Queue | KaiQueue):
            if not is_of_other_family(self._queue(item.name), item):
                self._queues.pop(item.name, None)
                self._queue_layout = None
        elif isinstance(item, PriorityClass):
            self._priorities.drop(item.name)
            self._book.jobs.refresh_priorities()
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
        return self._nodes.hyper_nodes

    @property
    def finished_groups(self) -> Mapping[str, int]:
        """How many gangs were put away, by queue."""
        return self._book.finished.by_queue

    def group(self, job: str) -> PodGroup | KaiPodGroup | None:
        """The PodGroup of a job; None: it has none, or one that was put aside."""
        return self._book.group(job)

    def namesake(self, item: KubeObject) -> Queue | KaiQueue | PodGroup | KaiPodGroup | None:
        """The queue or PodGroup of the other family that has the item's name."""
        if isinstance(item, PodGroup | KaiPodGroup):
            standing: Queue | KaiQueue | PodGroup | KaiPodGroup | None = self._book.group(item.key)
        elif isinstance(item, Queue | KaiQueue):
            standing = self._queue(item.name)
        else:
            return None
        return standing if is_of_other_family(standing, item) else None

    def _check_name(self, item: KubeObject) -> None:
        """Raise UserError when the name belongs to an object of the other family."""
        namesake = self.namesake(item)
        if yields_to(item, namesake):
            check_family(namesake, item)

    def _set_queue(self, record: QueueRecord) -> None:
        """Take in a queue; one whose status alone has changed is laid out as it was."""
        old, self._queues[record.name] = self._queues.get(record.name), record
        if old is None or replace(old, source=record.source) != record:
            self._queue_layout = None

    def _queue(self, name: str) -> Queue | KaiQueue | None:
        known = self._queues.get(name)
        return None if known is None else known.source

    def _note_change(self, kind: str) -> None:
        if kind in _PLACEMENT_KINDS:
            self.placement_revision += 1
        if kind in _DEVICE_KINDS:
            self._nodes.forget_devices()

    def _set_hyper_node(self, name: str, hyper_node: HyperNode | None) -> None:
        self.hyper_node_revision += 1
        # Node rows may move, and verdicts are arrays over rows.
        self.placement_revision += self._nodes.set_hyper_node(name, hyper_node)

    def is_foreign(self, pod: Pod) -> bool:
        """Whether the pod is another scheduler's."""
        return self._names is not None and pod.spec.scheduler_name not in self._names

    # -- pictures out --------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Take a picture of the present state."""
        self._book.compact()
        axis = self._resource_axis()
        tables = self._nodes.tables(axis)
        return take_picture(self._book, axis, tables, self._queue_table(axis), self.quarantine.jobs(), self._objects)

    def _queue_table(self, axis: ResourceAxis) -> QueueTable:
        why = self._why_queues_wait()
        if self._queue_layout is not None and not why:
            records = [self._queues[known.name] for known in self._queue_layout.records]
            return with_empty_totals(self._queue_layout, records, axis)
        table = build_queues(self._queues, axis, why)
        if not why and all(self._queues[known.name] is known for known in table.records):
            self._queue_layout = table
            return with_empty_totals(table, table.records, axis)
        self._queue_layout = None
        return table

    def _resource_axis(self) -> ResourceAxis:
        """A column for every resource that somebody names, and for no other; the same one while names are."""
        names = set(self._book.resources.names())
        for queue in self._queues.values():
            names.update(queue.capability, queue.deserved, queue.guarantee, queue.over_quota_weights or ())
        if names == self._resources:
            return self._axis
        self._resources, axis = names, ResourceAxis().extended(names)
        if axis.names != self._axis.names:
            self._axis = axis
            self._queue_layout = None
        return self._axis

    def _why_queues_wait(self) -> dict[str, str]:
        """What is wrong with queues that were put aside; one that only lost its name to another has no jobs to keep."""
        if not len(self.quarantine):
            return {}
        asides = (aside for aside in self.quarantine if isinstance(aside.object, Queue | KaiQueue))
        return {held.object.name: str(held) for held in asides if self._queue(held.object.name) is held.object}
