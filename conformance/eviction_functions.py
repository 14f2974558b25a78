"""Volcano's function cases about evicting gangs: bundles, their order, the choice in a domain, the nomination plan.

Inputs are jobs and bundles without a cluster, so adapters build the smallest cluster that has them: every task is a
pod, every bundle (where only bundles are given) a job of its own. Jobs that Volcano orders by a function of the test
get ages that say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from conformance.cases import Body
from conformance.pictures import document
from conformance.scheduling import NOW
from muster.api import HyperNode, KubeObject, Node, Pod, PodGroup, PriorityClass, Queue, decode, names
from muster.engine.constraints import UNCONSTRAINED
from muster.engine.domains import ROOT, gradients
from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.candidates import Pool
from muster.engine.evictions.gang.bundles import BundleKind, Bundles, buckets, bundle_order, efficiency, make_bundles
from muster.engine.evictions.gang.choice import Chooser
from muster.engine.evictions.gang.need import gang_need, needed_tasks
from muster.engine.evictions.options import GangOptions
from muster.engine.evictions.simulation import Simulation, shortest_prefix
from muster.engine.placing import Scope
from muster.framework import Eviction, PluginOption, SchedulerConfig, Session
from muster.scheduler import builtin_registry
from muster.snapshot import NO_ROW, Amounts, Mirror, Rows

_DOMAIN = "the-domain"
_GROUP, _PART = "group", "part"
_PLUGINS = ("gang", "predicates")
_OPERATIONS = "operationsNum (evictions plus pipelined placements)"


# -- a cluster from what a case gives ---------------------------------------------------------------------------


def _session(items: Iterable[Body]) -> Session:
    """A session on the documents; the gang plugin permits every candidate, as the cases' own plugin does."""
    mirror = Mirror()
    for item in items:
        mirror.upsert(decode(item))
    config = SchedulerConfig((), (tuple(PluginOption(name) for name in _PLUGINS),))
    return Session(mirror.snapshot(), config, builtin_registry(third_party=False), now=NOW)


def _cluster_wide(kind: type[KubeObject], name: str, body: Body) -> Body:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **body}


def _cpu(amounts: Body | None) -> int:
    return int((amounts or {}).get("milliCPU", 0))


def _node(name: str, milli_cpu: int) -> Body:
    status = {"allocatable": {"cpu": f"{milli_cpu}m", "memory": "1Ti", "pods": "110"}}
    return _cluster_wide(Node, name, {"status": {**status, "conditions": [{"type": "Ready", "status": "True"}]}})


def _pod(name: str, job: str, task: Body, node: str) -> Body:
    """A pod of a job; labels say the sub-group."""
    request = {"cpu": f"{_cpu(task.get('request'))}m"}
    spec: Body = {"containers": [{"name": "main", "resources": {"requests": request}}], "nodeName": node}
    pod = document(Pod, name, {**spec, "priority": int(task.get("priority", 0))})
    pod["metadata"]["annotations"] = {names.GROUP_NAME: job, names.TASK_SPEC: task.get("role", "")}
    pod["metadata"]["labels"] = {_GROUP: task.get(_GROUP, ""), _PART: task.get("subJob", "")}
    pod["status"] = {"phase": task["status"], "nominatedNodeName": task.get("nominatedNode", "")}
    return pod


def _job(job: Body, name: str, minimum: int | None = None, created: int = 0) -> Iterator[Body]:
    """The PodGroup of a job, its priority class, and its pods where they are."""
    wanted = job.get("minSubJobs") or {}
    parts = {part: body for part, body in (job.get("subJobs") or {}).items() if body["group"] in wanted}
    sizes = {body["group"]: body["minAvailable"] for body in parts.values()}
    policies = [
        {
            "name": group,
            "labelSelector": {"matchLabels": {_GROUP: group}},
            "matchLabelKeys": [_PART],
            "subGroupSize": sizes.get(group, 1),
            "minSubGroups": count,
        }
        for group, count in wanted.items()
    ]
    priority = int(job.get("priority", 0))
    spec = {
        "minMember": job.get("minAvailable", 0) if minimum is None else minimum,
        "minTaskMember": job.get("taskMinAvailable") or {},
        "queue": job.get("queue") or "default",
        "priorityClassName": f"p{priority}",
        "subGroupPolicy": policies,
    }
    group = document(PodGroup, name, spec)
    group["metadata"]["annotations"] = job.get("podGroupAnnotations") or {}
    group["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{created:02d}Z"
    yield _cluster_wide(PriorityClass, f"p{priority}", {"value": priority})
    yield {**group, "status": {"phase": "Inqueue"}}
    for task in job.get("tasks") or ():
        owner = parts.get(task.get("subJob", ""), {}).get("group", "")
        node = "" if task["status"] == "Pending" else task.get("node") or "n1"
        yield _pod(task["uid"], name, {**task, _GROUP: owner}, node)


def _queue(name: str, spec: Body | None = None) -> Body:
    return _cluster_wide(Queue, name or "default", {"spec": spec or {}})


def _rows(session: Session, uids: Sequence[str]) -> Rows:
    return np.array([session.snapshot.tasks.ids.index(f"default/{uid}") for uid in uids], np.intp)


def _uids(session: Session, tasks: Rows) -> list[str]:
    return [session.snapshot.tasks.ids[task].rpartition("/")[2] for task in tasks.tolist()]


def _need(session: Session, amounts: Body) -> Amounts:
    return session.snapshot.axis.vector({"cpu": _cpu(amounts)})


def _shown(session: Session, bundles: Bundles, jobs: dict[int, Body]) -> list[Body]:
    """Bundles in the words of the cases, where what a gang can spare is one; `jobs` are those of the case by row."""
    column = session.snapshot.axis.index["cpu"]
    shown: dict[tuple[int, int], Body] = {}
    for number, key in enumerate(zip(bundles.job.tolist(), bundles.kind.tolist(), strict=True)):
        job, cost, frees = jobs[key[0]], int(bundles.cost[number, column]), int(bundles.local[number, column])
        if key in shown:
            shown[key]["localResource"]["milliCPU"] += frees
            shown[key]["tasks"] += _uids(session, bundles.tasks_of(number))
            continue
        shown[key] = {
            "globalResource": {"milliCPU": cost} if cost else {},
            "job": {"priority": job.get("priority", 0), "queue": job.get("queue", ""), "uid": job.get("uid", "")},
            "localResource": {"milliCPU": frees},
            "tasks": _uids(session, bundles.tasks_of(number)),
            "type": BundleKind(key[1]).name.capitalize(),
        }
    return list(shown.values())


# -- bundles ----------------------------------------------------------------------------------------------------


def _create(given: Body) -> Body:
    job = given["job"]
    session = _session([_queue(job["queue"]), _node("n1", 10**6), *_job(job, "job")])
    tasks = _rows(session, given["localTasks"])
    bundles = make_bundles(session.snapshot, tasks, _need(session, {"milliCPU": 1000}))
    return {"bundles": _shown(session, bundles, {session.snapshot.jobs.index["default/job"]: job})}


def _given_bundles(
    given: list[Body], ages: Sequence[int] | None = None, *, apart: bool = False
) -> tuple[Session, Bundles]:
    """Bundles as a case lists them: each is the work of a job of its own, whose tasks share what it frees.

    With `apart`, every pod that can be spared is a bundle of its own.
    """
    items: list[Body] = [_node("n1", 10**6)]
    for number, bundle in enumerate(given):
        each = _cpu(bundle["localResource"]) // len(bundle["tasks"])
        tasks = [{"uid": uid, "status": "Running", "request": {"milliCPU": each}} for uid in bundle["tasks"]]
        items += [_queue(bundle["job"]["queue"])]
        items += _job({**bundle["job"], "tasks": tasks}, f"job-{number}", 1, ages[number] if ages else 0)
    session = _session(items)
    axis = session.snapshot.axis
    parts = [
        (number, uids)
        for number, bundle in enumerate(given)
        for uids in ([[uid] for uid in bundle["tasks"]] if apart and bundle["type"] == "Safe" else [bundle["tasks"]])
    ]
    rows = [_rows(session, uids) for _, uids in parts]
    freed = [_cpu(given[k]["localResource"]) * len(uids) // len(given[k]["tasks"]) for k, uids in parts]
    bundles = Bundles(
        np.array([BundleKind[given[k]["type"].upper()] for k, _ in parts], np.int8),
        np.array([session.snapshot.jobs.index[f"default/job-{k}"] for k, _ in parts], np.intp),
        np.concatenate(rows),
        np.concatenate(([0], np.cumsum([len(own) for own in rows]))),
        np.array([axis.vector({"cpu": amount}) for amount in freed]),
        np.array([axis.vector({"cpu": _cpu(given[k].get("globalResource"))}) for k, _ in parts]),
        np.zeros(len(parts), np.int64),
        np.zeros(len(parts)),
    )
    return session, bundles


def _as_given(session: Session, bundles: Bundles, given: list[Body]) -> Body:
    """Bundles in the words of the case; what a bundle costs is shown as it was given."""
    index = session.snapshot.jobs.index
    jobs = {index[f"default/job-{number}"]: number for number in range(len(given))}
    shown = _shown(session, bundles, {row: given[number]["job"] for row, number in jobs.items()})
    for body, row in zip(shown, bundles.job.tolist(), strict=True):
        body["globalResource"] = given[jobs[row]].get("globalResource")
    return {"bundles": shown}


def _apply_allowed(given: Body) -> Body:
    session, bundles = _given_bundles(given["bundles"], apart=True)
    allowed = np.array([uid in given["allowedTasks"] for uid in _uids(session, bundles.tasks)], np.bool_)
    return _as_given(session, bundles.within(allowed), given["bundles"])


def _select(given: Body) -> Body:
    session, bundles = _given_bundles(given["bundles"])
    if not given["allowWhole"]:
        bundles = bundles.taken(np.flatnonzero(bundles.kind == BundleKind.SAFE))
    need = _need(session, given["need"])
    count = shortest_prefix(len(bundles), lambda k: bool((bundles.local[:k].sum(axis=0) >= need).all()))
    chosen = bundles.taken(np.arange(len(bundles) if count is None else count))
    return _as_given(session, chosen, given["bundles"])


def _sort_for_preempt(given: Body) -> Body:
    """Who goes first among jobs of one priority is a matter of age: the younger."""
    pairs = given["victimJobLessPairs"]
    ages = [sum(first == number for first, _ in pairs) for number in range(len(given["bundles"]))]
    session, bundles = _given_bundles(given["bundles"], ages)
    priorities = np.unique(session.snapshot.jobs.priority[bundles.job], return_inverse=True)[1]
    return _as_given(session, _sorted(session, bundles, given["need"], priorities), given["bundles"])


def _sorted(session: Session, bundles: Bundles, needed: Body, policy: NDArray[np.int64]) -> Bundles:
    """Bundles in order: state, then the policy, then efficiency, youth and name."""
    need = _need(session, needed)
    levels = bundles.kind.astype(np.int64) * (int(policy.max(initial=0)) + 1) + policy
    worth = buckets(efficiency(bundles.local, bundles.cost, need), 0.05)
    return bundles.taken(bundle_order(session.snapshot, replace(bundles, level=levels), worth, need))


def _sort_for_reclaim(given: Body) -> Body:
    """Equal bundles go by the name of their job; the adapter's jobs are numbered, so they are numbered by name."""
    listed = sorted(given["bundles"], key=lambda bundle: str(bundle["job"]["uid"]))
    session, bundles = _given_bundles(listed)
    pairs = given["queueLessPairs"]
    queues = [bundle["job"]["queue"] for bundle in listed]
    policy = np.array([sum(second == queue for _, second in pairs) for queue in queues], np.int64)
    return _as_given(session, _sorted(session, bundles, given["need"], policy), listed)


# -- domains ----------------------------------------------------------------------------------------------------


def _pick_domains(given: Body) -> Body:
    """Domains of all gradients in turn; a job without a constraint has the whole cluster."""
    known: list[str] = list(dict.fromkeys(name for step in given["gradients"] for name in step))
    domains = list(range(len(known)))[: given["maxDomains"]]
    if domains or not given["fallback"]:
        return {"domains": [known[domain] for domain in domains]}
    topology = _session([_node("n1", 1000)]).snapshot.topology
    root = np.concatenate(gradients(topology, UNCONSTRAINED, ROOT, NO_ROW)).tolist()[: given["maxDomains"]]
    return {"domains": [given["fallback"] for _ in root]}


def _domain_documents(nodes: Sequence[str]) -> Body:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in nodes]
    return _cluster_wide(HyperNode, _DOMAIN, {"spec": {"tier": 1, "members": members}})


def _chooser(session: Session, kind: Eviction, job: int, options: GangOptions) -> Chooser | None:
    tasks = needed_tasks(session, job, session.sort_tasks(_pending_of(session, job)))
    if len(tasks) == 0:
        return None
    need = gang_need(session, job, tasks)
    simulation = Simulation(session, job, session.statement())
    budgets = Budgets(session, options.ignore_pdb)
    return Chooser(session, kind, options, budgets, need, Pool(session, kind).of(job), simulation)


def _pending_of(session: Session, job: int) -> Rows:
    tasks = session.snapshot.pending_tasks()
    pending: Rows = tasks[session.snapshot.tasks.job[tasks] == job]
    return pending


def _select_in_domain(kind: Eviction, evictor: str) -> Callable[[Body], Body]:
    def adapter(given: Body) -> Body:
        used = {node["name"]: sum(_cpu(task["request"]) for task in node["tasks"]) for node in given["domainNodes"]}
        queues = given.get("queues") or {job["queue"]: {} for job in given["jobs"]}
        items = [_node(name, amount) for name, amount in used.items()]
        items += [_queue(name, {"reclaimable": body.get("reclaimable")}) for name, body in queues.items()]
        for number, job in enumerate(given["jobs"]):
            minimum = len(job["tasks"]) if job["uid"] == given[evictor] else None
            items += _job(job, f"job-{number}", minimum)
        session = _session(items)
        rows = {session.snapshot.jobs.index[f"default/job-{number}"]: job for number, job in enumerate(given["jobs"])}
        row = next(row for row, job in rows.items() if job["uid"] == given[evictor])
        chooser = _chooser(session, kind, row, GangOptions(allow_whole=given["allowWholeBundle"]))
        proposal = chooser.propose(ROOT) if chooser else None
        if chooser is None or proposal is None:
            return {"bundles": [], "victims": []}
        bundles = chooser.permitted(proposal)
        return {"bundles": _shown(session, bundles, rows), "victims": _uids(session, bundles.tasks)}

    return adapter


def _nomination_plan(given: Body) -> Body:
    """The dry run of a job in a domain, with the given victims."""
    items: list[Body] = [_queue(""), _domain_documents(given["domainNodes"])]
    for node in given["nodes"]:
        used = [task for task in node["tasks"] if task["status"] == "Running"]
        leaving = _cpu(node["releasing"])
        items.append(_node(node["name"], _cpu(node["idle"]) + leaving + sum(_cpu(task["request"]) for task in used)))
        items += [_pod(task["uid"], "", task, node["name"]) for task in used]
        if leaving:
            pod = _pod(f"leaving-{node['name']}", "", {"status": "Running", "request": node["releasing"]}, node["name"])
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            items.append(pod)
    items += _job(given["job"], "job", len(given["job"]["tasks"]))
    session = _session(items)
    job = session.snapshot.jobs.index["default/job"]
    need = gang_need(session, job, needed_tasks(session, job, session.sort_tasks(_pending_of(session, job))))
    simulation = Simulation(session, job, session.statement())
    where = Scope(session.snapshot.topology.index[_DOMAIN])
    placements = simulation.placements(need.tasks, _rows(session, given["victims"]), where)
    placed = sum(len(operation.tasks) for operation in placements or ())
    return {"ok": placements is not None, _OPERATIONS: placed + len(given["victims"]) if placements else 0}


EVICTION_ADAPTERS: dict[str, Callable[[Body], Body]] = {
    "createJobBundles": _create,
    "applyAllowedTasks": _apply_allowed,
    "selectBundles": _select,
    "sortBundlesForPreempt": _sort_for_preempt,
    "sortBundlesForReclaim": _sort_for_reclaim,
    "pickDomainsFromGradients": _pick_domains,
    "gangpreempt.selectDomainBundles": _select_in_domain(Eviction.PREEMPT, "preemptorJob"),
    "gangreclaim.selectDomainBundles": _select_in_domain(Eviction.RECLAIM, "reclaimerJob"),
    "buildNominationPlanInDomain": _nomination_plan,
}
