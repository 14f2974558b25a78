"""The calls that write how PodGroups, queues and HyperNodes are.

Stamps are whole seconds, as the server keeps them, so that what comes back over the watch equals what was sent.
Zero counts are written too: a patch without them would leave the old ones standing. Conditions are one list that others
write as well, so it is left alone while what is wanted stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.api import Condition, HyperNode, KaiPodGroup, KaiQueue, Quantity
from muster.api.objects.scheduling import KaiQueueStatus, QueueStatus
from muster.cluster.groups import AnyGroup, AnyQueue
from muster.cluster.kubernetes import calls
from muster.cluster.kubernetes.calls import Call
from muster.cluster.kubernetes.resources import Resource

#: An object as it was last seen, and as it is assumed to be.
Standing = Sequence[AnyGroup | HyperNode | None]


def write_group(resource: Resource, group: AnyGroup, standing: Standing) -> Call:
    """Write a PodGroup's status: the fields that Muster keeps."""
    status = group.status
    counts: dict[str, object] = {
        "phase": status.phase,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if isinstance(group, KaiPodGroup):
        counts["pending"] = group.status.pending
    path = resource.status_path_of(group.key)
    return calls.write_status(path, group.metadata.uid, counts, _changed(status.conditions, standing))


def write_hypernode(resource: Resource, hyper_node: HyperNode, standing: Standing) -> Call:
    """Write a HyperNode's status."""
    status = hyper_node.status
    path = resource.status_path_of(hyper_node.key)
    counts = {"nodeCount": status.node_count}
    return calls.write_status(path, hyper_node.metadata.uid, counts, _changed(status.conditions, standing))


def write_queue(resource: Resource, queue: AnyQueue, seen: AnyQueue | None) -> Call:
    """Write what a queue holds: the fields that Muster keeps. Resources that it holds no more are taken away."""
    status = queue.status
    wanted: dict[str, object]
    if isinstance(status, QueueStatus):
        names = ("pending", "inqueue", "running", "unknown", "completed")
        wanted = {name: getattr(status, name) for name in names}
    else:
        before = seen.status if isinstance(seen, KaiQueue) else KaiQueueStatus()
        wanted = {
            "allocatedNonPreemptible": _amounts(status.allocated_non_preemptible, before.allocated_non_preemptible),
            "requested": _amounts(status.requested, before.requested),
            "childQueues": status.child_queues,
        }
    wanted["allocated"] = _amounts(status.allocated, {} if seen is None else seen.status.allocated)
    return calls.patch_status(resource.status_path_of(queue.key), queue.metadata.uid, wanted)


def _amounts(wanted: Mapping[str, Quantity], before: Mapping[str, Quantity]) -> dict[str, Quantity | None]:
    return {**dict.fromkeys(before), **wanted}


def _changed(wanted: Sequence[Condition], standing: Standing) -> Sequence[Condition] | None:
    """The conditions to write: None where every standing version has them."""
    is_same = all(each is not None and each.status.conditions == wanted for each in standing)
    return None if is_same else wanted
