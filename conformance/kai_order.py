"""KAI's cases of order: of jobs down the tree of queues, of jobs by their minimum, of pod sets and of tasks.

Each adapter builds what the case describes and asks the code that the actions ask. Queues are KAI queues, jobs KAI
PodGroups whose pods wait or run on one large node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from conformance.cases import Body
from conformance.pictures import document
from conformance.results import Value
from conformance.scheduling import NOW
from muster.api import KaiPodGroup, KaiQueue, Node, Pod, PriorityClass, decode, names
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.solver.pool import VictimPool
from muster.engine.gangs import PodSet
from muster.engine.lines import Line
from muster.engine.waiting import schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Eviction, PluginOption, SchedulerConfig, Session
from muster.framework.plugin import OrderKey
from muster.plugins.jobs.elastic import stage
from muster.plugins.jobs.taskorder import label_rank
from muster.scheduler import builtin_registry
from muster.snapshot import NO_ROW, Mirror

_NODE = "room"
_ROOM = {"cpu": "1000", "memory": "1000Gi", "pods": "1000", "nvidia.com/gpu": "1000"}
_NO_END = -1


# -- one against the other -----------------------------------------------------------------------------------


def _compared(left: OrderKey, right: OrderKey) -> int:
    """-1: left first, 1: right first, 0: equal."""
    return int(left > right) - int(left < right)


def _elastic_order(given: Body) -> int:
    return _compared(*(stage(_held(sets)) for sets in (given["left"], given["right"])))


def _held(pod_sets: Iterable[Body]) -> list[tuple[int, int]]:
    return [(one["allocatedTasks"], one["minAvailable"]) for one in pod_sets]


def _role_order(given: Body) -> int:
    # Without the names: what they decide, KAI calls equal here.
    return _compared(
        *(PodSet(NO_ROW, one["minAvailable"]).turn(one["allocatedTasks"]) for one in (given["left"], given["right"]))
    )


def _task_order(given: Body) -> int:
    sides = (given.get("leftLabels") or {}, given.get("rightLabels") or {})
    return _compared(*(label_rank(labels.get(names.KAI_TASK_PRIORITY)) for labels in sides))


# -- jobs in line --------------------------------------------------------------------------------------------


def _job_order(given: Body) -> list[str]:
    """Names of the jobs in the order in which they are taken; "": nobody was left."""
    session = _session(given)
    options = given.get("options") or {}
    if options.get("victimQueue"):
        victims = VictimPool(session, Eviction.CONSOLIDATE, SolverOptions()).line(NO_ROW)
        units = (victims.pop() for _ in _pops(given))
        return [_name(session, None if unit is None else unit.job) for unit in units]
    waiting = {job["name"] for job in given.get("jobs") or ()}
    standing = [job for job in _schedulable(session) if _name(session, job) in waiting]
    line = Line(session, standing, is_tree=True)
    taken = []
    for step in given["steps"]:
        if step["op"] == "push":
            line.push(session.snapshot.jobs.index[f"default/{step['job']['name']}"])
        elif step["op"] == "pop":
            taken.append(_name(session, line.pop()))
    return taken


def _pops(given: Body) -> list[Body]:
    return [step for step in given["steps"] if step["op"] == "pop"]


def _schedulable(session: Session) -> list[int]:
    """Jobs as allocate puts them in line."""
    by_job = tasks_by_job(session, schedulable_tasks(session))
    return [job for job, _ in by_job if why_not_schedulable(session, job) is None]


def _name(session: Session, job: int | None) -> str:
    return "" if job is None else session.snapshot.jobs.records[job].name


def _session(given: Body) -> Session:
    mirror = Mirror()
    for item in _documents(given):
        mirror.upsert(decode(item))
    plugins = ["fairshare"] if (given.get("options") or {}).get("proportion") else []
    options = tuple(PluginOption(name) for name in (*plugins, "priority", "elastic"))
    return Session(
        mirror.snapshot(), SchedulerConfig(("allocate",), (options,)), builtin_registry(third_party=False), now=NOW
    )


def _documents(given: Body) -> Iterator[Body]:
    yield {**document(Node, _NODE, {}), "status": {"allocatable": _ROOM}}
    yield from map(_queue, given["queues"])
    jobs = {job["name"]: job for job in given.get("jobs") or ()}
    jobs.update((step["job"]["name"], step["job"]) for step in given["steps"] if step["op"] == "push")
    for priority in sorted({job["priority"] for job in jobs.values()}):
        yield {**document(PriorityClass, f"priority-{priority}", {}), "value": priority}
    for job in jobs.values():
        yield from _job(job)


def _queue(given: Body) -> Body:
    spec: Body = {"parentQueue": given.get("parent", "")}
    # Memory is in bytes here and in megabytes on the object.
    units = {"gpu": 1, "cpu": 1, "memory": 1_000_000}
    if "gpu" in given:
        spec["resources"] = {name: _share(given[name], unit) for name, unit in units.items()}
    item = document(KaiQueue, given["name"], spec)
    created = datetime.fromtimestamp(NOW + 60 * given.get("createdOrder", 0), UTC)
    item["metadata"]["creationTimestamp"] = created.isoformat()
    return item


def _share(given: Body, unit: int) -> Body:
    deserved, limit = (value if value == _NO_END else value / unit for value in (given["deserved"], given["limit"]))
    return {"quota": deserved, "limit": limit, "overQuotaWeight": given["overQuotaWeight"]}


def _job(given: Body) -> Iterator[Body]:
    spec = {
        "queue": given["queue"],
        "minMember": given.get("minAvailable", 1),
        "priorityClassName": f"priority-{given['priority']}",
        "preemptibility": "preemptible",
    }
    yield document(KaiPodGroup, given["name"], spec)
    states = [state for state, count in given["podsByStatus"].items() for _ in range(count)]
    for number, state in enumerate(states):
        yield _pod(f"{given['name']}-{number}", given, placed=state != "Pending", of=len(states))


def _pod(name: str, job: Body, *, placed: bool, of: int) -> Body:
    held = job.get("allocated") or {"milliCpu": 1000 * of}
    requests = {
        "cpu": f"{held['milliCpu'] // of}m",
        "memory": str(held.get("memory", 0) // of),
        "nvidia.com/gpu": str(held.get("gpu", 0) // of),
    }
    item = document(Pod, name, {"containers": [{"name": "main", "resources": {"requests": requests}}]})
    item["metadata"]["annotations"] = {names.KAI_GROUP_NAME: job["name"]}
    if placed:
        item["spec"]["nodeName"] = _NODE
    item["status"] = {"phase": "Running" if placed else "Pending"}
    return item


ADAPTERS: dict[str, Callable[[Body], Value]] = {
    "jobOrderByQueues": _job_order,
    "elasticJobOrder": _elastic_order,
    "subGroupOrder": _role_order,
    "taskOrder": _task_order,
}
