"""What pods and jobs take of a ResourceQuota, under the names that quotas have for it.

Pure arithmetic for the plugin `resourcequota`. For Kubernetes `cpu` and `requests.cpu` are one thing, and so are `pods`
and `count/pods`; `limits.cpu` is the sum of limits. Other names (`count/jobs.batch`, `services`) are nothing that a pod
takes. Amounts are in base units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from muster.api import Pod
from muster.api.resources import to_base_all
from muster.snapshot import ALLOCATED_STATUSES, Rows, Snapshot, TaskStatus

_LIMITS: Final = "limits."


def plain_name(name: str) -> str:
    """The resource behind the name of a quota, limits aside."""
    return "pods" if name == "count/pods" else name.removeprefix("requests.")


def amount_under(name: str, amounts: Mapping[str, int]) -> int:
    """What a list of amounts says about the name of a quota, by that name or another that means the same."""
    plain = plain_name(name)
    same = (name, plain, "count/pods" if plain == "pods" else f"requests.{plain}")
    return next((amounts[known] for known in same if known in amounts), 0)


def usage_of(snapshot: Snapshot, tasks: Rows, names: Iterable[str]) -> dict[str, int]:
    """What tasks take together, under each of the names."""
    requests: list[int] = np.sum(snapshot.classes.requests[snapshot.tasks.cls[tasks], 0], axis=0).tolist()
    found: dict[str, int] = {}
    for name in names:
        column = snapshot.axis.index.get(plain_name(name))
        if name.startswith(_LIMITS):
            found[name] = _limited(snapshot, tasks, name)
        else:
            found[name] = 0 if column is None else requests[column]
    return found


def held_by(snapshot: Snapshot, job: int, name: str, *, unplaced: bool) -> int:
    """What a job's own pods take under a name; `unplaced`: also those that have no node.

    Read from the sums that the snapshot has, as it is asked for every job that waits. Pods that leave do not count.
    """
    if name.startswith(_LIMITS):
        tasks = snapshot.tasks_of(job)
        statuses = (*ALLOCATED_STATUSES, TaskStatus.PENDING) if unplaced else ALLOCATED_STATUSES
        return _limited(snapshot, tasks[np.isin(snapshot.tasks.status[tasks], statuses)], name)
    column = snapshot.axis.index.get(plain_name(name))
    if column is None:
        return 0
    held = int(snapshot.jobs.allocated[job, column])
    return held + int(snapshot.jobs.pending[job, column]) if unplaced else held


def _limited(snapshot: Snapshot, tasks: Rows, name: str) -> int:
    resource = name.removeprefix(_LIMITS)
    return sum(_limits(snapshot.tasks.pods[task]).get(resource, 0) for task in tasks.tolist())


def _limits(pod: Pod) -> dict[str, int]:
    """The limits of a pod: its containers' together, or those of an init container where that has more."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, amount in to_base_all(container.resources.limits).items():
            total[name] = total.get(name, 0) + amount
    for container in pod.spec.init_containers:
        for name, amount in to_base_all(container.resources.limits).items():
            total[name] = max(total.get(name, 0), amount)
    return total
