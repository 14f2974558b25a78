"""One internal job model and one internal queue model, whichever API family an object came from.

The mirror turns objects into records as they arrive; plugins read records, never API objects of one family. Amounts are
in base units, by resource name. A stamp that cannot be read counts as none: the gang is then not protected, and not
stale. A minimum runtime that makes no sense counts as zero, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from muster.api import (
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    NetworkTopology,
    ObjectMeta,
    Pod,
    PodGroup,
    Quantity,
    Queue,
    SubGroupPolicy,
    UserError,
    parse_seconds,
    to_base,
)
from muster.api.names import (
    DEFAULT_QUEUE,
    DISRUPTION_MODE,
    KAI_OLD_QUEUE,
    KAI_PREEMPTIBILITY,
    KAI_PREEMPTION_DELAY,
    KAI_PRIORITY_LABEL,
    KAI_QUEUE,
    KAI_SCHEDULER,
    KAI_STALE_GRACE,
    KAI_STALE_STAMP,
    KAI_START_STAMP,
    PREEMPT_MIN_RUNTIME,
    PREEMPTABLE,
    QUEUE_NAME,
    RECLAIM_MIN_RUNTIME,
    STALE_GRACE,
    STALE_STAMP,
    START_STAMP,
    WHOLE_GROUP,
)
from muster.api.objects.pod import began_at, kai_queue_of
from muster.snapshot.columns import UNLIMITED


@dataclass(frozen=True, slots=True)
class GroupConstraint:
    """One node of a job's tree of sub-groups (KAI): what its pods must, or would rather, share.

    A leaf names the roles (pod sets) that belong to it, an inner node its groups; the root stands for the whole job.
    `required` and `preferred` are levels (node label keys) of `topology`, "" if there is none.
    """

    name: str = ""
    topology: str = ""
    required: str = ""
    preferred: str = ""
    roles: tuple[str, ...] = ()
    groups: tuple[GroupConstraint, ...] = ()


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
    #: KAI's nested sub-groups and their topology levels; None: the job has none.
    groups: GroupConstraint | None = None
    #: May the job be a victim? None: not said, see `preemptible_below` and then the pods' own marks.
    preemptible: bool | None = None
    #: Jobs of a lower priority than this may be victims where nothing is said (KAI); None: priority does not decide.
    preemptible_below: int | None = None
    #: Whether its pods are taken away together or not at all, also those beyond the minimum.
    goes_whole: bool = False
    #: When the gang last became complete, in seconds; None: never, or its stamp cannot be read.
    started: float | None = None
    #: Since when the gang is broken, and how long it may be; None: it is not, and what the action's arguments say.
    stale_since: float | None = None
    stale_grace: float | None = None
    #: For how many seconds its pods wait before anybody is evicted for them.
    preemption_delay: float = 0.0
    #: The PodGroup, of either family, or None for a lone pod.
    source: PodGroup | KaiPodGroup | None = None


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """What a Queue, of either family, says.

    A resource that is absent from `capability` has no limit, one that is absent from `deserved` has no quota;
    a quota without end is `UNLIMITED`.
    """

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
    #: Share of what is left over, per resource; None: `weight` for every resource.
    over_quota_weights: Mapping[str, float] | None = None
    #: Seconds for which a gang is left alone; None: not set here, the parent's word counts.
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: Queue | KaiQueue | None = None


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
        preemptible=_said_preemptible(meta),
        goes_whole=goes_whole(meta),
        started=started_at(meta.annotations),
        stale_since=stale_since(meta.annotations),
        stale_grace=stale_grace(meta.annotations),
        preemption_delay=preemption_delay(meta.annotations),
        source=group,
    )


def goes_whole(meta: ObjectMeta) -> bool:
    """Whether a PodGroup says that its pods are taken away together."""
    return meta.annotations.get(DISRUPTION_MODE) == WHOLE_GROUP


def _said_preemptible(meta: ObjectMeta) -> bool | None:
    """What a PodGroup says for all its pods; None: nothing, each pod speaks for itself."""
    return False if refuses_eviction(meta.annotations, meta.labels) else None


def refuses_eviction(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a mark says that pods are not to be evicted; a text that is no truth value says nothing."""
    said = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE, ""))
    return said.lower() in ("false", "f", "0")


_LONE: Final = "pod"
#: KAI: jobs of this priority and above are not preemptible unless they say so.
BUILD_PRIORITY: Final = 100
#: KAI's words for it.
PREEMPTIBILITY: Final[Mapping[str, bool]] = {
    "preemptible": True,
    "non-preemptible": False,
    # Only its surplus may go; as we do not know halves, none of it goes.
    "semi-preemptible": False,
}


def job_from_pod(pod: Pod) -> JobRecord:
    """Treat a pod that names no PodGroup as a gang of one, with all that a gang is entitled to.

    Pods for KAI are read as KAI would group them: preemptible by their word, else by priority, which is that of the
    class in a label before any other, and of `train` where none is named.
    """
    meta = pod.metadata
    is_kai = pod.spec.scheduler_name == KAI_SCHEDULER or bool({KAI_QUEUE, KAI_OLD_QUEUE} & meta.labels.keys())
    said = PREEMPTIBILITY.get(meta.labels.get(KAI_PREEMPTIBILITY, "")) if is_kai else None
    labelled = meta.labels.get(KAI_PRIORITY_LABEL, "") if is_kai else ""
    return JobRecord(
        id=f"{pod.namespace}/{_LONE}/{pod.name}",
        namespace=pod.namespace,
        name=meta.name,
        queue=meta.annotations.get(QUEUE_NAME) or kai_queue_of(meta.labels) or DEFAULT_QUEUE,
        min_member=1,
        created=created_seconds(meta),
        priority_class=labelled or pod.spec.priority_class_name,
        priority=None if labelled else pod.spec.priority,
        annotations=meta.annotations,
        labels=meta.labels,
        preemptible=said,
        preemptible_below=BUILD_PRIORITY if is_kai else None,
        started=began_at(pod) if pod.spec.node_name else None,
        preemption_delay=preemption_delay(meta.annotations),
    )


def pod_of_lone_job(job_id: str) -> str | None:
    """Return the key of the pod that is a job of its own; None for the id of a gang."""
    namespace, _, rest = job_id.partition("/")
    kind, slash, name = rest.partition("/")
    return f"{namespace}/{name}" if slash and kind == _LONE else None


def queue_from_volcano(queue: Queue) -> QueueRecord:
    """Read a Volcano Queue; no state yet means open."""
    meta, spec = queue.metadata, queue.spec
    preempt, reclaim = (_annotated_runtime(meta, key) for key in (PREEMPT_MIN_RUNTIME, RECLAIM_MIN_RUNTIME))
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
        preempt_min_runtime=preempt,
        reclaim_min_runtime=reclaim,
        annotations=meta.annotations,
        source=queue,
    )


def _annotated_runtime(meta: ObjectMeta, key: str) -> float | None:
    return min_runtime(meta.name, f'metadata.annotations["{key}"]', meta.annotations.get(key))


def base_amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """Convert limits of the API to base units; what nothing reaches has no end."""
    return {name: min(to_base(name, quantity), int(UNLIMITED)) for name, quantity in resources.items()}


def created_seconds(meta: ObjectMeta) -> float:
    """Creation time as seconds; objects without one count as the oldest."""
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0


def is_of_other_family(standing: KubeObject | None, item: KubeObject) -> bool:
    """Whether an object of the other family has the name."""
    return standing is not None and type(standing) is not type(item)


def yields_to(item: KubeObject, standing: KubeObject | None) -> bool:
    """Whether an object leaves its name to one of the other family: the older one has it, else Volcano's.

    Whoever is listed first after a restart, the same one has it. What no server has dated takes nothing from others.
    """
    if standing is None or type(standing) is type(item):
        return False
    return _claim(standing) < _claim(item)


def _claim(item: KubeObject) -> tuple[bool, float, bool]:
    made = item.metadata.creation_timestamp
    return made is None, 0.0 if made is None else made.timestamp(), isinstance(item, KaiQueue | KaiPodGroup)


def check_family(standing: KubeObject | None, item: KubeObject) -> None:
    """Raise UserError when an object of the other family has taken the name."""
    if standing is not None and is_of_other_family(standing, item):
        raise UserError(
            f"there is a {standing.kind} of {standing.api_version} with this name already; rename one of them",
            subject=f"{item.kind} {item.key} of {item.api_version}",
        )


_LAST: Final = 253_370_764_799  # in the year 9998: years have four digits
log = logging.getLogger("muster.snapshot")


def stamp_text(seconds: float) -> str:
    """Write a moment as stamps have it: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(min(max(int(seconds), 0), _LAST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_stamp(text: str) -> float | None:
    """Read a stamp, in seconds since the epoch; None: it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None


def started_at(annotations: Mapping[str, str]) -> float | None:
    """When the gang last became complete; Muster's word before KAI's."""
    return _first_stamp(annotations, START_STAMP, KAI_START_STAMP)


def stale_since(annotations: Mapping[str, str]) -> float | None:
    """Since when the gang is broken; Muster's word before KAI's."""
    return _first_stamp(annotations, STALE_STAMP, KAI_STALE_STAMP)


def _first_stamp(annotations: Mapping[str, str], *keys: str) -> float | None:
    for key in keys:
        if key in annotations:
            return read_stamp(annotations[key])
    return None


def stale_grace(annotations: Mapping[str, str], otherwise: str | None = None) -> float | None:
    """How long the gang may be broken, in seconds, negative: for ever; None: it does not say, or not clearly."""
    return _said_seconds(annotations.get(STALE_GRACE, otherwise or annotations.get(KAI_STALE_GRACE)))


def preemption_delay(annotations: Mapping[str, str], said: str | None = None) -> float:
    """For how many seconds pods wait before anybody is evicted for them; 0 where nothing is said, or not clearly."""
    return max(_said_seconds(said or annotations.get(KAI_PREEMPTION_DELAY)) or 0.0, 0.0)


def _said_seconds(text: str | None) -> float | None:
    try:
        return None if text is None else parse_seconds(text)
    except ValueError:
        return None


def min_runtime(queue: str, field: str, given: str | float | None) -> float | None:
    """A minimum runtime of a queue in seconds; None: not set."""
    if given is None:
        return None
    try:
        seconds = parse_seconds(given)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        log.warning("event=bad-value queue=%s field=%s value=%r used=0", queue, field, given)
        return 0.0
    return seconds
