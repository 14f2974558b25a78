"""Small sessions for function cases: one job whose tasks are in given states, or a few given objects.

States that no pod can show (allocated, pipelined, binding) are written into the columns and counters, as a
statement would have left them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from conformance.cases import Body
from conformance.scheduling import NOW
from muster.api import KubeObject, Node, Pod, PodGroup, decode, names
from muster.framework import PluginOption, SchedulerConfig, Session
from muster.kernels.placement import FUTURE
from muster.plugins.jobs.gang import Gang
from muster.plugins.jobs.priority import Priority
from muster.scheduler import builtin_registry
from muster.snapshot import BEST_EFFORT, BEST_EFFORT_PENDING, NO_ROW, Mirror, Rows, Snapshot, TaskStatus

_ROOM = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
_PIPELINED = "podsPipelinedToNode1BeforeThePick"
_STATUS = {status.label: status for status in TaskStatus}


_Kind = TypeVar("_Kind", bound=KubeObject)


def document(kind: type[KubeObject], name: str, spec: Body, namespace: str = "default") -> Body:
    """The document of an object."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def decode_as(kind: type[_Kind], given: Body) -> _Kind:
    """Decode a document that is known to be of a kind."""
    decoded = decode(given)
    assert isinstance(decoded, kind)
    return decoded


def status_columns(tasks: list[Body]) -> tuple[NDArray[np.int8], Rows]:
    """The status and node columns of tasks; which node it is does not matter."""
    status = np.array([_STATUS[task["status"]] for task in tasks], np.int8)
    node = np.array([0 if task.get("node") else NO_ROW for task in tasks], np.intp)
    return status, node


def job_session(minimum: int, tasks: list[Body], policy: Body | None = None) -> Session:
    """Open a session with the gang plugin on one job; tasks say status, and bestEffort if they are."""
    mirror = Mirror()
    spec = {"minMember": minimum, "subGroupPolicy": [policy] if policy else []}
    mirror.upsert(decode(document(PodGroup, "job", spec)))
    for number, task in enumerate(tasks):
        mirror.upsert(decode(_pod(f"pod-{number}", best_effort=bool(task.get("bestEffort")))))
    snapshot = mirror.snapshot()
    for number, task in enumerate(tasks):
        _move(snapshot, snapshot.tasks.ids.index(f"default/pod-{number}"), _STATUS[task["status"]])
    return _open(snapshot, Gang.name)


def objects_session(given: Body, *plugins: str) -> Session:
    """Open a session with plugins, priority and gang if none are named, on lists of objects.

    Pods may be pipelined beforehand.
    """
    mirror = Mirror()
    mirror.upsert(decode({**document(Node, "node1", {}), "status": {"allocatable": _ROOM}}))
    for key in ("priorityClasses", "queues", "podGroups", "pods", "pendingPods", _PIPELINED):
        for item in given.get(key) or ():
            mirror.upsert(decode(item))
    session = _open(mirror.snapshot(), *(plugins or (Priority.name, Gang.name)))
    statement = session.statement()
    for item in given.get(_PIPELINED) or ():
        statement.place(session.snapshot.tasks.ids.index(decode(item).key), 0, FUTURE)
    statement.commit()
    return session


def _open(snapshot: Snapshot, *plugins: str) -> Session:
    config = SchedulerConfig((), (tuple(PluginOption(name) for name in plugins),))
    return Session(snapshot, config, builtin_registry(third_party=False), now=NOW)


def _pod(name: str, *, best_effort: bool) -> Body:
    container = {"name": "main", "resources": {"requests": {} if best_effort else {"cpu": "1"}}}
    pod = document(Pod, name, {"containers": [container]})
    pod["metadata"]["annotations"] = {names.GROUP_NAME: "job"}
    return pod


def _move(snapshot: Snapshot, task: int, status: TaskStatus) -> None:
    """Let a pending task be in another state."""
    tasks = snapshot.tasks
    tasks.status[task] = status
    for row in (
        snapshot.jobs.counts[tasks.job[task]],
        snapshot.roles.counts[tasks.role[task]],
        snapshot.subgroups.counts[tasks.subgroup[task]],
    ):
        row[TaskStatus.PENDING] -= 1
        row[status] += 1
        if tasks.flags[task] & BEST_EFFORT and status != TaskStatus.PENDING:
            row[BEST_EFFORT_PENDING] -= 1
