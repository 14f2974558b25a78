"""Objects of a KAI cluster case: nodes, queues, PodGroups and pods as KAI's users have them, decoded.

Called by `kai_cluster` once per round: what a round changes (where each task is, and in which state) comes
in as `states`, everything else is read from the case. Times are relative to `NOW`, so every round finds jobs of
the age that the case says. Amounts stay in KAI's units; the product converts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from conformance.cases import Body
from conformance.pictures import document
from conformance.scheduling import NOW
from muster.api import (
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Node,
    Pod,
    PriorityClass,
    Topology,
    decode,
    names,
)

GPU = "nvidia.com/gpu"
#: The label that names a node; KAI's tests select nodes by it.
_NODE_TYPE = "kai.scheduler/type"
#: KAI counts a job as started while one of its tasks is in one of these states.
_STARTED = frozenset({"Allocated", "Bound", "Binding", "Running"})
#: Age of whatever runs, when a round begins.
_STARTED_AGO = 60


@dataclass(frozen=True, slots=True)
class Place:
    """The state of a task in KAI's words, and its node ("": none)."""

    state: str
    node: str = ""

    def __str__(self) -> str:
        return f"{self.state}@{self.node}" if self.node else self.state


#: Task -> where it is; names of tasks are unique in a case.
States = Mapping[str, Place]


def first_states(body: Body) -> dict[str, Place]:
    """The states that a case begins with."""
    return {task["name"]: Place(task["state"], task.get("node", "")) for job in body["jobs"] for task in job["tasks"]}


def objects_of(body: Body, states: States, *, again: bool = False) -> Iterator[KubeObject]:
    """Decode the objects of a case whose tasks are in the given states; `again`: after the first round."""
    for item in _documents(body, states, again=again):
        yield decode(item)


def _documents(body: Body, states: States, *, again: bool) -> Iterator[Body]:
    yield from map(_node, body["nodes"])
    yield from map(_queue, body["queues"])
    yield from map(_topology, body.get("topologies") or ())
    for priority in sorted({job["priority"] for job in body["jobs"]}):
        yield {**document(PriorityClass, _class_name(priority), {}), "value": priority}
    for job in body["jobs"]:
        yield _pod_group(job, _started_ago(job, states, again=again))
        for task in job["tasks"]:
            yield _pod(job, task, states[task["name"]])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


# -- nodes, queues, topologies -------------------------------------------------------------------------------


def _node(given: Body) -> Body:
    item = document(Node, given["name"], {})
    item["metadata"]["labels"] = {_NODE_TYPE: given["name"], **(given.get("labels") or {})}
    amounts = {"cpu": given["cpu"], "memory": given["memory"], "pods": given["pods"], GPU: given["gpus"]}
    return {**item, "status": {"allocatable": {name: str(amount) for name, amount in amounts.items()}}}


def _queue(given: Body) -> Body:
    resources = {
        resource: {
            "quota": given[resource]["deserved"],
            "limit": given[resource]["limit"],
            "overQuotaWeight": given[resource]["overQuotaWeight"],
        }
        for resource in ("gpu", "cpu", "memory")
    }
    spec: Body = {"parentQueue": given.get("parent", ""), "priority": given["priority"], "resources": resources}
    for field in ("preemptMinRuntime", "reclaimMinRuntime"):
        if f"{field}Seconds" in given:
            spec[field] = f"{given[f'{field}Seconds']}s"
    item = document(KaiQueue, given["name"], spec)
    item["metadata"]["creationTimestamp"] = _time(NOW + 60 * given["createdOrder"])
    return item


def _topology(given: Body) -> Body:
    return document(Topology, given["name"], {"levels": [{"nodeLabel": level} for level in given["levels"]]})


# -- jobs ----------------------------------------------------------------------------------------------------


def _class_name(priority: int) -> str:
    return f"priority-{priority}"


def _namespace(job: Body) -> str:
    return str(job.get("namespace") or "default")


def _started_ago(job: Body, states: States, *, again: bool) -> int | None:
    """For how many seconds the job has run; after the first round by what its tasks are doing."""
    if not again:
        return job.get("lastStartSecondsAgo")
    return _STARTED_AGO if any(states[task["name"]].state in _STARTED for task in job["tasks"]) else None


def _pod_group(job: Body, started_ago: int | None) -> Body:
    spec: Body = {
        "minMember": job.get("minAvailable", 1),
        "queue": job["queue"],
        "priorityClassName": _class_name(job["priority"]),
        "preemptibility": job.get("preemptibilityExplicit", ""),
        "subGroups": list(_sub_groups(job.get("subGroups") or {}, None)),
        **_constraint(job),
    }
    item = document(KaiPodGroup, job["name"], spec, _namespace(job))
    item["metadata"]["creationTimestamp"] = _time(NOW - 60 * job["ageMinutes"])
    stamps = {names.KAI_START_STAMP: started_ago, names.KAI_STALE_STAMP: job.get("staleSeconds")}
    item["metadata"]["annotations"] = {key: _time(NOW - ago) for key, ago in stamps.items() if ago is not None}
    return item


def _sub_groups(tree: Body, parent: str | None) -> Iterator[Body]:
    """The tree of sub-groups as a flat list: pod sets have a minimum, groups are named as parents."""
    above = {} if parent is None else {"parent": parent}
    for pod_set in tree.get("podSets") or ():
        yield {"name": pod_set["name"], "minMember": pod_set["minAvailable"], **above, **_constraint(pod_set)}
    for group in tree.get("groups") or ():
        yield {"name": group["name"], **above, **_constraint(group)}
        yield from _sub_groups(group, group["name"])


def _constraint(given: Body) -> Body:
    wanted = given.get("topologyConstraint")
    if not wanted:
        return {}
    levels = {
        "requiredTopologyLevel": wanted.get("required", ""),
        "preferredTopologyLevel": wanted.get("preferred", ""),
    }
    return {"topologyConstraint": {"topology": wanted["topology"], **levels}}


# -- pods ----------------------------------------------------------------------------------------------------


def _pod(job: Body, task: Body, place: Place) -> Body:
    item = document(Pod, task["name"], _pod_spec(task), _namespace(job))
    labels = dict(task.get("podLabels") or {})
    if task.get("subGroup"):
        labels[names.KAI_SUBGROUP] = task["subGroup"]
    if "taskOrderPriority" in task:
        labels[names.KAI_TASK_PRIORITY] = str(task["taskOrderPriority"])
    item["metadata"]["labels"] = labels
    item["metadata"]["annotations"] = {names.KAI_GROUP_NAME: job["name"]}
    item["metadata"]["creationTimestamp"] = _time(NOW - 60 * job["ageMinutes"])
    _put(item, place)
    return item


def _put(item: Body, place: Place) -> None:
    """Let a pod show the state that KAI's task is in."""
    phase = place.state if place.state in ("Running", "Succeeded", "Failed") else "Pending"
    if place.state == "Releasing":
        phase = "Running" if place.node else "Pending"
        item["metadata"]["deletionTimestamp"] = _time(NOW)
    if place.state == "Gated":
        item["spec"]["schedulingGates"] = [{"name": "gate"}]
    item["status"] = {"phase": phase}
    if place.state == "Pipelined":
        item["status"]["nominatedNodeName"] = place.node
    elif place.state not in ("Pending", "Gated"):
        item["spec"]["nodeName"] = place.node


def _pod_spec(task: Body) -> Body:
    wanted = task["resources"]
    amounts = {"cpu": wanted.get("cpu"), "memory": wanted.get("memory"), GPU: wanted.get("gpu")}
    requests = {name: str(amount) for name, amount in amounts.items() if amount}
    return {"containers": [{"name": "main", "resources": {"requests": requests}}], "affinity": _affinity(task)}


def _affinity(task: Body) -> Body:
    found: Body = {}
    if task.get("nodeAffinity"):
        rule = {"key": _NODE_TYPE, "operator": "In", "values": task["nodeAffinity"]}
        found["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    for field, key in (("podAffinity", "podAffinityKey"), ("podAntiAffinity", "podAntiAffinityKey")):
        if task.get(key):
            term = {"labelSelector": {"matchLabels": task.get("podLabels") or {}}, "topologyKey": task[key]}
            found[field] = {_REQUIRED: [term]}
    return found


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
