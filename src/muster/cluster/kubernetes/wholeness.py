"""Whether the pods of a gang are enough for it, by what its PodGroup says; and what a dead scheduler left of one.

A gang that lost pods is broken, but not ours to undo: stale-gang eviction and its grace period are for that. A gang
that was never whole is: some of its pods were bound, and others that existed at that moment were not. Times are those
of the API server on both sides, so no clock of ours matters but for how long ago it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from muster.api import KaiPodGroup, Pod, role_of
from muster.api.names import POD_SCHEDULED
from muster.cluster.groups import AnyGroup

#: A gang that has been half bound for longer than this is somebody's business other than ours.
RECENT_SECONDS: Final = 600.0


def is_whole(group: AnyGroup | None, members: Iterable[Pod]) -> bool:
    """Whether enough members are on nodes, or have done their work."""
    return _is_enough(group, [pod for pod in members if _holds_place(pod)])


def left_behind(group: AnyGroup, members: Collection[Pod], now: float) -> dict[str, str]:
    """The pods on nodes, with their uids, of a gang that somebody stopped binding half-way; empty: there is none."""
    bound = [pod for pod in members if _holds_place(pod)]
    moments = [moment for pod in bound if (moment := _bound_at(pod)) is not None]
    if not bound or len(moments) < len(bound) or _is_enough(group, bound):
        return {}
    last = max(moments)
    if now - last.timestamp() > RECENT_SECONDS:
        return {}
    if not _is_enough(group, [*bound, *_passed_over(members, last)]):
        return {}
    return {pod.key: pod.metadata.uid for pod in bound}


def _passed_over(members: Iterable[Pod], moment: datetime) -> Iterator[Pod]:
    """Members that were there when others were bound, and were not."""
    for pod in members:
        created = pod.metadata.creation_timestamp
        waits = not pod.spec.node_name and pod.metadata.deletion_timestamp is None
        if waits and created is not None and created <= moment:
            yield pod


def _holds_place(pod: Pod) -> bool:
    has_done = pod.status.phase == "Succeeded"
    return has_done or (
        bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed"
    )


def _bound_at(pod: Pod) -> datetime | None:
    conditions = (known for known in pod.status.conditions if known.type == POD_SCHEDULED and known.status == "True")
    return next((known.last_transition_time for known in conditions), None)


def _is_enough(group: AnyGroup | None, pods: Collection[Pod]) -> bool:
    """Pods without a PodGroup need no others."""
    if group is None:
        return bool(pods)
    roles = Counter(map(role_of, pods))
    return len(pods) >= group.spec.min_member and all(
        roles[name] >= least for name, least in _role_minimums(group).items()
    )


def _role_minimums(group: AnyGroup) -> Mapping[str, int]:
    if not isinstance(group, KaiPodGroup):
        return group.spec.min_task_member
    parents = {part.parent for part in group.spec.sub_groups}
    return {part.name: part.min_member or 0 for part in group.spec.sub_groups if part.name not in parents}
