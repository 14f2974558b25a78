"""One internal job model and one internal queue model, whichever API family an object came from.

Callers: the mirror, which turns objects into records as they arrive; plugins read records, never API objects
of one family. Amounts are in base units, by resource name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.api import NetworkTopology, ObjectMeta, Pod, PodGroup, Quantity, Queue, SubGroupPolicy, to_base
from muster.api.names import DEFAULT_QUEUE, QUEUE_NAME


def base_amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """Convert a resource list of the API to base units."""
    return {name: to_base(name, quantity) for name, quantity in resources.items()}


def created_seconds(meta: ObjectMeta) -> float:
    """Creation time as seconds; objects without one count as the oldest."""
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What a PodGroup, of either family, or a lone pod says about its job."""

    id: str
    namespace: str
    name: str
    queue: str
    min_member: int
    created: float
    priority_class: str = ""
    #: Fixed priority of a job that has no priority class of its own (a lone pod).
    priority: int | None = None
    min_roles: Mapping[str, int] = field(default_factory=dict)
    #: None: not given, the job is admitted without a check.
    min_resources: Mapping[str, int] | None = None
    phase: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    topology: NetworkTopology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    #: The PodGroup, or None for a lone pod.
    source: PodGroup | None = None


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """What a Queue says; an absent limit is absent from `capability`."""

    name: str
    parent: str = ""
    weight: int = 1
    priority: int = 0
    capability: Mapping[str, int] = field(default_factory=dict)
    deserved: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    reclaimable: bool = True
    open: bool = True
    created: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: Queue | None = None


def job_from_group(group: PodGroup) -> JobRecord:
    """Read a Volcano PodGroup."""
    meta, spec = group.metadata, group.spec
    return JobRecord(
        id=group.key,
        namespace=group.namespace,
        name=meta.name,
        queue=spec.queue or DEFAULT_QUEUE,
        min_member=spec.min_member,
        created=created_seconds(meta),
        priority_class=spec.priority_class_name,
        min_roles=spec.min_task_member,
        min_resources=base_amounts(spec.min_resources) or None,
        phase=group.status.phase,
        annotations=meta.annotations,
        labels=meta.labels,
        topology=spec.network_topology,
        sub_groups=tuple(spec.sub_group_policy),
        source=group,
    )


def job_from_pod(pod: Pod) -> JobRecord:
    """Treat a pod that names no PodGroup as a gang of one."""
    meta = pod.metadata
    return JobRecord(
        id=f"{pod.namespace}/pod/{pod.name}",
        namespace=pod.namespace,
        name=meta.name,
        queue=meta.annotations.get(QUEUE_NAME, DEFAULT_QUEUE),
        min_member=1,
        created=created_seconds(meta),
        priority_class=pod.spec.priority_class_name,
        priority=pod.spec.priority,
        annotations=meta.annotations,
        labels=meta.labels,
    )


def queue_from_volcano(queue: Queue) -> QueueRecord:
    """Read a Volcano Queue; no state yet means open."""
    meta, spec = queue.metadata, queue.spec
    return QueueRecord(
        name=meta.name,
        parent=spec.parent,
        weight=spec.weight,
        priority=spec.priority,
        capability=base_amounts(spec.capability),
        deserved=base_amounts(spec.deserved),
        guarantee=base_amounts(spec.guarantee.resource),
        reclaimable=spec.reclaimable is not False,
        open=queue.status.state in ("", "Open"),
        created=created_seconds(meta),
        annotations=meta.annotations,
        source=queue,
    )
