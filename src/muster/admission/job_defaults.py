"""What a new Job leaves open: queue, scheduler, retries, names and minimums of tasks, plugins that others need."""

from __future__ import annotations

from typing import Final

from muster.admission.model import Json, Known, Request, Settings
from muster.admission.reading import spec_of
from muster.api.names import DEFAULT_QUEUE

_RETRIES: Final = 3
_TASK_NAME: Final = "default"
#: Pods on the network of their node find services only with this.
_HOST_NETWORK_DNS: Final = "ClusterFirstWithHostNet"
#: Plugins of Jobs that work only beside others.
_BESIDE: Final = {
    "mpi": ("svc", "ssh"),
    "pytorch": ("svc",),
    "ray": ("svc",),
    "tensorflow": ("svc",),
}


def fill_job(document: Json, request: Request, known: Known, settings: Settings) -> None:
    """Fill in what a Job leaves open; what is written stays."""
    del request, known
    spec = spec_of(document)
    spec["queue"] = spec.get("queue") or DEFAULT_QUEUE
    spec["schedulerName"] = spec.get("schedulerName") or settings.scheduler_names[0]
    spec["maxRetry"] = spec.get("maxRetry") or _RETRIES
    tasks = [task for task in spec.get("tasks") or () if isinstance(task, dict)]
    for index, task in enumerate(tasks):
        _fill_task(task, index)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(_count(task.get("minAvailable")) for task in tasks)
    plugins = spec.get("plugins") or {}
    for name in sorted(plugins):
        for needed in _BESIDE.get(name, ()):
            plugins.setdefault(needed, [])


def _fill_task(task: Json, index: int) -> None:
    task["name"] = task.get("name") or f"{_TASK_NAME}{index}"
    task["maxRetry"] = task.get("maxRetry") or _RETRIES
    if task.get("minAvailable") is None:
        task["minAvailable"] = _least(task)
    pod = (task.get("template") or {}).get("spec")
    if isinstance(pod, dict) and pod.get("hostNetwork") is True and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = _HOST_NETWORK_DNS


def _least(task: Json) -> int:
    """All pods of a task start together, or those of as many partitions as must."""
    policy = task.get("partitionPolicy") or {}
    partitions = _count(policy.get("minPartitions"))
    return partitions * _count(policy.get("partitionSize")) if partitions else _count(task.get("replicas"))


def _count(value: object) -> int:
    """A number of a document that nobody has checked yet."""
    return value if isinstance(value, int) else 0
