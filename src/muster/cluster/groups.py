"""PodGroups of both families, and pods that wait, as the verbs of a cluster leave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from muster.api import Condition, KaiPodGroup, ObjectMeta, Pod, PodGroup
from muster.api.names import POD_SCHEDULED
from muster.snapshot.decisions import CONDITIONS, UNSCHEDULABLE, JobUpdate, conditions_of

AnyGroup = PodGroup | KaiPodGroup


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
        return replace(group, metadata=metadata, status=replace(group.status, pending=update.pending, **counts))
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


def _annotated(meta: ObjectMeta, changes: Mapping[str, str | None]) -> ObjectMeta:
    if not changes:
        return meta
    merged = {**meta.annotations, **changes}
    return replace(meta, annotations={key: text for key, text in merged.items() if text is not None})


def waiting_pod(pod: Pod, message: str, now: datetime) -> Pod:
    """Return a pod that says what it waits for."""
    said = Condition(
        type=POD_SCHEDULED, status="False", reason=UNSCHEDULABLE, message=message, last_transition_time=now
    )
    others = [known for known in pod.status.conditions if known.type != POD_SCHEDULED]
    return replace(pod, status=replace(pod.status, conditions=[*others, said]))
