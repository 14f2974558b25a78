"""What is sent for each decision and each report: method, path, body. Nothing here waits or answers.

Names of pods, nodes and namespaces are safe in paths. Every call carries the uid of its object, so that one made anew
under the same name is not touched by what was decided about the old one; of the statuses of custom resources the server
does not check that (who writes them does).
Stamps are whole seconds, as the server keeps them, so that what comes back over the watch equals what was sent.
Zero counts are written too: a patch without them would leave the old ones standing. Conditions are one list that others
write as well, so it is left alone while what is wanted stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.api import (
    Condition,
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Quantity,
    Queue,
    encode_hook,
)
from muster.api.names import BOUND_BY_CONTROLLER, POD_SCHEDULED, QUEUE_GATE
from muster.api.objects.scheduling import KaiQueueStatus, QueueStatus
from muster.cluster.kubernetes.client.kinds import Resource
from muster.cluster.kubernetes.client.requests import JSON, MERGE_PATCH, STRATEGIC_PATCH
from muster.cluster.written_objects import AnyGroup, AnyQueue

Json = dict[str, Any]  # Any: a document

DISRUPTION_TARGET = "DisruptionTarget"
_MAX_MESSAGE = 1024
#: A PodGroup as it was last seen, and as it is assumed to be.
Standing = Sequence[AnyGroup | None]

_encode = msgspec.json.Encoder(enc_hook=encode_hook).encode


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON


def pod_path(pod: Pod) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def read(pod: Pod) -> Call:
    """Look at a pod."""
    return Call("GET", pod_path(pod))


def bind(pod: Pod, node: str) -> Call:
    """Put a pod on a node."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Call("POST", f"{pod_path(pod)}/binding", _encode(body))


def evict(pod: Pod, *, dry_run: bool = False) -> Call:
    """Ask a pod to leave, as far as disruption budgets allow; or only whether they would."""
    options: Json = {"preconditions": {"uid": pod.metadata.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }
    return Call("POST", f"{pod_path(pod)}/eviction", _encode(body))


def nominate(pod: Pod, node: str, says: str, now: float) -> Call:
    """Note the node that a pod waits for ("" takes the note away), and what it says of that, if anything."""
    conditions = {"conditions": [_waits(says, now)]} if says else {}
    return _pod_status(pod, {"nominatedNodeName": node or None, **conditions})


def ungate(pod: Pod) -> Call:
    """Take the gate that waits for the queue off a pod; gates that others set stay."""
    gone = {"name": QUEUE_GATE, "$patch": "delete"}
    body = {"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": [gone]}}
    return Call("PATCH", pod_path(pod), _encode(body), STRATEGIC_PATCH)


def disrupt(pod: Pod, message: str, now: float) -> Call:
    """Say on a pod that leaves why it does."""
    return _pod_status(
        pod, {"conditions": [_condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", message, now)]}
    )


def unschedulable(pod: Pod, message: str, now: float) -> Call:
    """Say on a pod that waits what it waits for; the reason is the one word that autoscalers look for."""
    return _pod_status(pod, {"conditions": [_waits(message, now)]})


def say_usable(node: Node, condition: Condition) -> Call:
    """Say on a node whether it can be used."""
    body = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": [condition]}}
    return Call("PATCH", f"/api/v1/nodes/{node.name}/status", _encode(body), STRATEGIC_PATCH)


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
        counts["schedulingConditions"] = group.status.scheduling_conditions
    path = resource.status_path_of(group.key)
    return _write_status(path, group.metadata.uid, counts, _changed(status.conditions, standing))


def write_condition(
    path: str, thing: KubeObject, condition: Condition, fields: Mapping[str, object], standing: Json
) -> Call:
    """Write fields of a status and a condition of ours, beside those of others in the version that was read."""
    known = (standing.get("status") or {}).get("conditions") or []
    others = [each for each in known if each.get("type") != condition.type]
    body = {
        "metadata": {"uid": thing.metadata.uid, "resourceVersion": standing["metadata"]["resourceVersion"]},
        "status": {**fields, "conditions": [*others, condition]},
    }
    return Call("PATCH", path, _encode(body), MERGE_PATCH)


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
    return patch_status(resource.status_path_of(queue.key), queue.metadata.uid, wanted)


def _changed(wanted: Sequence[Condition], standing: Standing) -> Sequence[Condition] | None:
    """The conditions to write: None where every standing version has them."""
    is_same = all(each is not None and each.status.conditions == wanted for each in standing)
    return None if is_same else wanted


def _amounts(wanted: Mapping[str, Quantity], before: Mapping[str, Quantity]) -> dict[str, Quantity | None]:
    return {**dict.fromkeys(before), **wanted}


def _write_status(path: str, uid: str, status: Mapping[str, object], conditions: Sequence[Condition] | None) -> Call:
    """Write fields of an object's status, at the path of the status; conditions as a whole, None: not at all."""
    return patch_status(path, uid, status if conditions is None else {**status, "conditions": conditions})


def patch_status(path: str, uid: str, status: Mapping[str, object]) -> Call:
    """Write an object's status as far as given, at the path of the status."""
    return Call("PATCH", path, _encode({"metadata": {"uid": uid}, "status": status}), MERGE_PATCH)


def make_queue(resource: Resource, name: str, reclaimable: bool) -> Call:  # noqa: FBT001  # a field of the queue
    """Make a queue of Volcano."""
    queue = {
        "apiVersion": Queue.api_version,
        "kind": Queue.kind,
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": reclaimable},
    }
    return Call("POST", resource.path, _encode(queue))


def claim_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Call:
    """Reserve a volume for a claim; only the version that was seen to be free."""
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.metadata.uid,
    }
    metadata: Json = {"resourceVersion": volume.metadata.resource_version}
    if volume.spec.claim_ref is None:
        # Else the cluster would take it that a person chose, and keep the volume from others for good.
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    body = {"metadata": metadata, "spec": {"claimRef": reference}}
    return Call("PATCH", f"/api/v1/persistentvolumes/{volume.name}", _encode(body), MERGE_PATCH)


def annotate(path: str, uid: str, annotations: Mapping[str, str | None]) -> Call:
    """Set annotations; None removes one."""
    return Call("PATCH", path, _encode({"metadata": {"uid": uid, "annotations": annotations}}), MERGE_PATCH)


def _pod_status(pod: Pod, status: Json) -> Call:
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    return Call("PATCH", f"{pod_path(pod)}/status", _encode(body), STRATEGIC_PATCH)


def _waits(message: str, now: float) -> Json:
    return _condition(POD_SCHEDULED, "False", "Unschedulable", message, now)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "lastTransitionTime": stamp(now),
    }


def stamp(now: float) -> datetime:
    """A moment as Kubernetes keeps it: whole seconds."""
    return datetime.fromtimestamp(int(now), UTC)
