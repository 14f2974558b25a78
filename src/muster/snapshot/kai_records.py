"""KAI's queues and PodGroups as records, and the priorities of jobs.

KAI's units (GPUs, milli-CPUs, megabytes of 10^6 bytes) become base units here, and its flat list of sub-groups a tree.
Pod sets, the sub-groups without children, are the job's roles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from muster.api import (
    KaiPodGroup,
    KaiQueue,
    KaiQueueResource,
    KaiQueueResources,
    KaiSubGroup,
    KaiTopologyConstraint,
    PriorityClass,
    UserError,
)
from muster.api.names import DEFAULT_QUEUE, KAI_PRIORITY_CLASSES
from muster.api.objects.pod import kai_queue_of
from muster.api.resources import CPU, GPU, MEMORY
from muster.snapshot.columns import UNLIMITED
from muster.snapshot.records import (
    BUILD_PRIORITY,
    PREEMPTIBILITY,
    GroupConstraint,
    JobRecord,
    QueueRecord,
    created_seconds,
    goes_whole,
    min_runtime,
    preemption_delay,
    refuses_eviction,
    stale_grace,
    stale_since,
    started_at,
)

DEFAULT_QUEUE_PRIORITY: Final = 100
#: Priority of a PodGroup whose class says nothing and where no class is the default.
DEFAULT_PRIORITY: Final = 50
#: Base units per unit of KAI.
_UNITS: Final = {GPU: 1000, CPU: 1, MEMORY: 10**6}
_MAX_DEPTH: Final = 50


def queue_from_kai(queue: KaiQueue) -> QueueRecord:
    """Read a queue of KAI; one without resources is entitled to nothing and may have nothing."""
    meta, spec = queue.metadata, queue.spec
    shares = _by_name(spec.resources or KaiQueueResources())
    limits = {name: _amount(name, share.limit) for name, share in shares.items()}
    return QueueRecord(
        name=meta.name,
        parent=spec.parent_queue,
        priority=DEFAULT_QUEUE_PRIORITY if spec.priority is None else spec.priority,
        capability={name: limit for name, limit in limits.items() if limit < UNLIMITED},
        deserved={name: _amount(name, share.quota) for name, share in shares.items()},
        over_quota_weights={name: share.over_quota_weight for name, share in shares.items()},
        created=created_seconds(meta),
        preempt_min_runtime=min_runtime(meta.name, "spec.preemptMinRuntime", spec.preempt_min_runtime),
        reclaim_min_runtime=min_runtime(meta.name, "spec.reclaimMinRuntime", spec.reclaim_min_runtime),
        annotations=meta.annotations,
        source=queue,
    )


def _by_name(resources: KaiQueueResources) -> dict[str, KaiQueueResource]:
    return {CPU: resources.cpu, MEMORY: resources.memory, GPU: resources.gpu}


def _amount(name: str, value: float) -> int:
    """Convert to base units, exactly as written and rounded up; anything below zero has no end."""
    if not 0 <= value < math.inf:
        return int(UNLIMITED)
    return min(math.ceil(Fraction(str(value)) * _UNITS[name]), int(UNLIMITED))


def job_from_kai(group: KaiPodGroup) -> JobRecord:
    """Read a PodGroup of KAI. Raises UserError when its sub-groups are no tree."""
    meta, spec = group.metadata, group.spec
    children = _children(group)
    roles = {leaf.name: 1 if leaf.min_member is None else max(leaf.min_member, 0) for leaf in _leaves(children)}
    return JobRecord(
        id=group.key,
        namespace=group.namespace,
        name=meta.name,
        queue=spec.queue or kai_queue_of(meta.labels) or DEFAULT_QUEUE,
        min_member=sum(roles.values()) if roles else max(spec.min_member, 1),
        created=created_seconds(meta),
        priority_class=spec.priority_class_name,
        min_roles=roles,
        phase=group.status.phase,
        annotations=meta.annotations,
        labels=meta.labels,
        groups=_constraints(spec.topology_constraint, children),
        preemptible=False
        if refuses_eviction(meta.annotations, meta.labels)
        else PREEMPTIBILITY.get(spec.preemptibility),
        preemptible_below=BUILD_PRIORITY,
        goes_whole=goes_whole(meta),
        started=started_at(meta.annotations),
        stale_since=stale_since(meta.annotations),
        stale_grace=stale_grace(meta.annotations, spec.staleness_grace_period),
        preemption_delay=preemption_delay(meta.annotations, spec.preemption_delay),
        source=group,
    )


_Children = Mapping[str, Sequence[KaiSubGroup]]


def _children(group: KaiPodGroup) -> _Children:
    """Sub-groups by the name of their parent, "" for those at the top. Raises UserError when they are no tree."""
    children: dict[str, list[KaiSubGroup]] = {}
    for sub_group in group.spec.sub_groups:
        # As KAI has it: names are in lower case, however a parent is spelled.
        children.setdefault((sub_group.parent or "").lower(), []).append(sub_group)
    names = {sub_group.name for sub_group in group.spec.sub_groups} - {""}
    # Cycles, and what hangs on a parent that is none, cannot be reached from the top.
    if len(names) != len(group.spec.sub_groups) or sum(1 for _ in _walk(children)) != len(names):
        raise UserError(
            f"expected a tree of sub-groups, at most {_MAX_DEPTH} deep, each with a name of its own",
            subject=f"PodGroup {group.key}",
            field="spec.subGroups",
        )
    return children


def _walk(children: _Children, parent: str = "", depth: int = 1) -> Iterator[KaiSubGroup]:
    """All sub-groups below a parent, as deep as they may be nested."""
    for sub_group in children.get(parent, ()) if depth <= _MAX_DEPTH else ():
        yield sub_group
        yield from _walk(children, sub_group.name, depth + 1)


def _leaves(children: _Children) -> Iterator[KaiSubGroup]:
    return (sub_group for sub_group in _walk(children) if sub_group.name not in children)


def _constraints(root: KaiTopologyConstraint | None, children: _Children) -> GroupConstraint | None:
    """The tree of sub-groups with their topology levels; None: nobody asks for a level, and none is nested."""
    asked = [root, *(sub_group.topology_constraint for sub_group in _walk(children))]
    # Groups inside groups have an order of their own: what is nested is placed first.
    is_nested = any(parent for parent in children)
    if not is_nested and not any(map(_asks, asked)):
        return None
    return _constraint("", root, tuple(_node(child, children) for child in children.get("", ())))


def _asks(constraint: KaiTopologyConstraint | None) -> bool:
    if constraint is None:
        return False
    return bool(constraint.topology or constraint.required_topology_level or constraint.preferred_topology_level)


def _node(sub_group: KaiSubGroup, children: _Children) -> GroupConstraint:
    below = tuple(_node(child, children) for child in children.get(sub_group.name, ()))
    roles = () if below else (sub_group.name,)
    return _constraint(sub_group.name, sub_group.topology_constraint, below, roles)


def _constraint(
    name: str,
    given: KaiTopologyConstraint | None,
    groups: tuple[GroupConstraint, ...],
    roles: tuple[str, ...] = (),
) -> GroupConstraint:
    if given is None or not _asks(given):
        return GroupConstraint(name=name, roles=roles, groups=groups)
    return GroupConstraint(
        name=name,
        topology=given.topology,
        required=given.required_topology_level,
        preferred=given.preferred_topology_level,
        roles=roles,
        groups=groups,
    )


class Priorities:
    """The priority classes by name."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}

    def set(self, item: PriorityClass) -> None:
        """Take in a new or changed class."""
        self._classes[item.name] = item

    def drop(self, name: str) -> None:
        """Forget a class."""
        self._classes.pop(name, None)

    def of_job(self, record: JobRecord) -> int:
        """Return the job's own priority, that of its class, or the default.

        Jobs of KAI have KAI's classes even where the cluster does not.
        """
        if record.priority is not None:
            return record.priority
        known = self._classes.get(record.priority_class)
        if known is not None:
            return known.value
        is_kai = record.preemptible_below is not None  # a PodGroup of KAI's, or a lone pod for KAI
        if is_kai and record.priority_class in KAI_PRIORITY_CLASSES:
            return KAI_PRIORITY_CLASSES[record.priority_class]
        # Of several defaults an API server takes the lowest for pods.
        defaults = [other.value for other in self._classes.values() if other.global_default]
        return min(defaults, default=DEFAULT_PRIORITY if is_kai else 0)
