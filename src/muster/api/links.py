"""How a pod names its gang, its role and its place in it.

Called by the mirror for each pod it takes in. Annotations win over labels, as in Volcano.
"""

from __future__ import annotations

from muster.api import names
from muster.api.pod import Pod

#: No gang has more pods than a number of so many digits counts.
_MAX_DIGITS = 18
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def group_of(pod: Pod) -> str | None:
    """Return the name of the pod's PodGroup (of the same namespace), or None for a gang of one."""
    annotations = pod.metadata.annotations
    for key in (names.GROUP_NAME, names.VOLCANO_GROUP_NAME, names.KAI_GROUP_NAME):
        if group := annotations.get(key):
            return group
    return None


def _marked(pod: Pod, key: str) -> str | None:
    value = pod.metadata.annotations.get(key)
    return value if value is not None else pod.metadata.labels.get(key)


def role_of(pod: Pod) -> str:
    """Return the pod's role in its gang, "" when it has none; KAI's pod sets are roles."""
    return _marked(pod, names.TASK_SPEC) or pod.metadata.labels.get(names.KAI_SUBGROUP, "")


def waits_for(pod: Pod, reason: str) -> bool:
    """Whether the pod says that it waits for a reason, given by its code; messages begin with it."""
    return any(
        known.type == names.POD_SCHEDULED and known.status == "False" and known.message.partition(":")[0] == reason
        for known in pod.status.conditions
    )


def is_preemptable(pod: Pod) -> bool:
    """Whether the pod may be evicted for others; true unless it says otherwise.

    A value that is not a truth value counts as "no": evicting by mistake is worse than not evicting.
    """
    value = _marked(pod, names.PREEMPTABLE)
    return value is None or value in _TRUE


def began_at(pod: Pod) -> float | None:
    """When a pod got its node, seconds since the epoch; where nobody has noted that, when it started."""
    for known in pod.status.conditions:
        if known.type == names.POD_SCHEDULED and known.status == "True" and known.last_transition_time is not None:
            return known.last_transition_time.timestamp()
    return None if pod.status.start_time is None else pod.status.start_time.timestamp()


def is_critical(pod: Pod) -> bool:
    """Whether the cluster itself depends on the pod, so that nobody evicts it."""
    return pod.namespace == SYSTEM_NAMESPACE or pod.spec.priority_class_name in CRITICAL_CLASSES


def pod_index(pod: Pod) -> int:
    """Return the pod's rank among its like: `volcano.sh/task-index`, else the number after the last "-" of its name.

    -1: there is neither.
    """
    _, dash, tail = pod.metadata.name.rpartition("-")
    for text in (_marked(pod, names.TASK_INDEX) or "", tail if dash else ""):
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
    return -1
