"""PodGroups and queues, HyperNodes, pods that wait, and what cannot be used, as a cluster's verbs leave them.

Both clusters write the same; conditions that others wrote stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from muster.api import (
    Condition,
    HyperNode,
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    Quantity,
    Queue,
)
from muster.api.names import KAI_NODE_POOL, POD_SCHEDULED
from muster.api.objects.scheduling import KaiExplanation, KaiSchedulingCondition
from muster.snapshot.messages import (
    CONDITIONS,
    UNSCHEDULABLE,
    HyperNodeUpdate,
    JobUpdate,
    QuarantineUpdate,
    QueueUpdate,
    conditions_of,
    kai_reason,
)
from muster.snapshot.mirror.quarantine import CODE, USABLE

#: The condition of a HyperNode: whether it can be used, and all of its members were found.
VALID = "Valid"
#: The condition of KAI's PodGroups that says why they wait, and the pool of those that name none.
KAI_UNSCHEDULABLE = "UnschedulableOnNodePool"
KAI_DEFAULT_POOL = "default"

AnyGroup = PodGroup | KaiPodGroup
AnyQueue = Queue | KaiQueue


def updated_group(group: AnyGroup, update: JobUpdate, now: datetime) -> AnyGroup:
    """Return the PodGroup with what an update says: status, conditions and annotations."""
    counts = {
        "phase": update.phase,
        "running": update.running,
        "succeeded": update.succeeded,
        "failed": update.failed,
        "conditions": _conditions(group.status.conditions, update, now),
    }
    metadata = _annotated(group.metadata, update.annotations)
    if isinstance(group, KaiPodGroup):
        waits = _scheduling_conditions(group, update, now)
        status = replace(group.status, pending=update.pending, scheduling_conditions=waits, **counts)
        return replace(group, metadata=metadata, status=status)
    return replace(group, metadata=metadata, status=replace(group.status, **counts))


def _conditions(standing: Sequence[Condition], update: JobUpdate, now: datetime) -> list[Condition]:
    others = [known for known in standing if known.type not in CONDITIONS]
    wanted = [
        Condition(type=kind, status="True", reason=reason, message=message, last_transition_time=now)
        for kind, (reason, message) in conditions_of(update).items()
    ]
    # One that stands as it is wanted keeps the time of its last change.
    known = {(each.type, each.status, each.reason, each.message): each for each in standing}
    return [*others, *(known.get((each.type, each.status, each.reason, each.message), each) for each in wanted)]


def _scheduling_conditions(group: KaiPodGroup, update: JobUpdate, now: datetime) -> list[KaiSchedulingCondition]:
    """Why a gang waits, where KAI's tools look for it; what other pools of nodes say stays."""
    pool = group.metadata.labels.get(KAI_NODE_POOL, KAI_DEFAULT_POOL)
    standing = group.status.scheduling_conditions
    others = [known for known in standing if (known.type, known.node_pool) != (KAI_UNSCHEDULABLE, pool)]
    if update.unschedulable is None:
        return others
    wanted = KaiSchedulingCondition(
        type=KAI_UNSCHEDULABLE,
        node_pool=pool,
        status="True",
        reason=UNSCHEDULABLE,
        message=update.message,
        reasons=[KaiExplanation(reason=kai_reason(update.unschedulable), message=update.message)],
        last_transition_time=now,
    )
    same = (each for each in standing if replace(each, last_transition_time=now) == wanted)
    return [*others, next(same, wanted)]


def _annotated(meta: ObjectMeta, changes: Mapping[str, str | None]) -> ObjectMeta:
    if not changes:
        return meta
    merged = {**meta.annotations, **changes}
    return replace(meta, annotations={key: text for key, text in merged.items() if text is not None})


def updated_queue(queue: AnyQueue, update: QueueUpdate) -> AnyQueue:
    """Return the queue with what an update says."""
    allocated = _quantities(update.allocated)
    if isinstance(queue, Queue):
        return replace(queue, status=replace(queue.status, allocated=allocated, **update.phases))
    status = replace(
        queue.status,
        allocated=allocated,
        allocated_non_preemptible=_quantities(update.firm),
        requested=_quantities(update.requested),
        child_queues=list(update.children) or (),
    )
    return replace(queue, status=status)


def updated_hypernode(hyper_node: HyperNode, update: HyperNodeUpdate, now: datetime) -> HyperNode:
    """Return the HyperNode with what an update says."""
    conditions = _with(hyper_node.status.conditions, valid(hyper_node, update, now))
    return replace(hyper_node, status=replace(hyper_node.status, node_count=update.node_count, conditions=conditions))


def says(hyper_node: HyperNode, update: HyperNodeUpdate) -> bool:
    """Whether a HyperNode says already what an update would write."""
    status = hyper_node.status
    return status.node_count == update.node_count and valid(hyper_node, update, None) in status.conditions


def valid(hyper_node: HyperNode, update: HyperNodeUpdate, now: datetime | None) -> Condition:
    """Whether a HyperNode can be used, as its condition says it, with the time of the last change of status."""
    status = "False" if update.fault else "True"
    known = hyper_node.status.conditions
    before = next((each for each in known if each.type == VALID and each.status == status), None)
    return Condition(
        type=VALID,
        status=status,
        reason=update.reason,
        message=update.message,
        last_transition_time=(before and before.last_transition_time) or now,
    )


def _quantities(texts: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: Quantity(text) for name, text in texts.items()}


def waiting_pod(pod: Pod, message: str, now: datetime) -> Pod:
    """Return a pod that says what it waits for."""
    said = Condition(
        type=POD_SCHEDULED, status="False", reason=UNSCHEDULABLE, message=message, last_transition_time=now
    )
    others = [known for known in pod.status.conditions if known.type != POD_SCHEDULED]
    return replace(pod, status=replace(pod.status, conditions=[*others, said]))


def noted(thing: KubeObject, update: QuarantineUpdate, now: datetime) -> KubeObject | None:
    """Return an object that says that it cannot be used, or can again; None: it says nothing, or something else will.

    What has been corrected says so by what becomes of it; only nodes and queues would go on saying that they cannot be
    used. Volcano's queues have no conditions.
    """
    if isinstance(thing, HyperNode) and update.reason:
        return updated_hypernode(thing, quarantined_hypernode(update), now)
    if isinstance(thing, Node | KaiQueue):
        conditions = _with(thing.status.conditions, usable(update, now))
        return replace(thing, status=replace(thing.status, conditions=conditions))
    if isinstance(thing, Pod) and update.reason and update.job and not thing.spec.node_name:
        return waiting_pod(thing, quarantine_text(update), now)
    if isinstance(thing, PodGroup | KaiPodGroup) and update.reason and update.job:
        return updated_group(thing, quarantined_job(thing, update), now)
    return None


def quarantine_text(update: QuarantineUpdate) -> str:
    """What an object says of itself that cannot be used."""
    return f"{CODE}: {update.reason}"


def quarantined_job(group: AnyGroup, update: QuarantineUpdate) -> JobUpdate:
    """How a PodGroup is that cannot be used: as it was, with the reason why it waits."""
    status = group.status
    return JobUpdate(
        job=group.key,
        phase=status.phase or "Pending",
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        unschedulable=CODE,
        message=quarantine_text(update),
        pending=group.status.pending if isinstance(group, KaiPodGroup) else 0,
    )


def quarantined_hypernode(update: QuarantineUpdate) -> HyperNodeUpdate:
    """How a HyperNode is that cannot be used: as if it did not exist."""
    return HyperNodeUpdate(update.object.name, 0, update.reason, is_aside=True)


def usable(update: QuarantineUpdate, now: datetime) -> Condition:
    """Whether a node or a queue can be used, as its condition says it."""
    return Condition(
        type=USABLE,
        status="False" if update.reason else "True",
        reason="Quarantined" if update.reason else "Usable",
        message=update.reason or "can be used",  # an empty one would not be sent, and the old one stay
        last_transition_time=now,
    )


def _with(standing: Sequence[Condition], condition: Condition) -> list[Condition]:
    return [*(known for known in standing if known.type != condition.type), condition]
