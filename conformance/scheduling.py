"""One cycle of the real scheduler over the objects of a case, without a cluster.

The objects go through the mirror, the configuration into a session, the actions run in order in that session:
what a deployment does, minus the watching and the binding. Called for Volcano's cluster cases; plugin questions
(see `questions`) start from the same session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from conformance.cases import Body, Case
from conformance.topology_objects import hyper_node_documents
from muster.api import KubeObject, decode
from muster.framework import PluginOption, Registry, SchedulerConfig, Session, Sharding
from muster.scheduler.job_statuses import job_statuses, unschedulable_jobs
from muster.snapshot import Mirror, OperationKind, TaskStatus

#: The moment of every session: long after objects without a creation time (which count as the oldest) and
#: after the last creation time of the recorded cases.
NOW = 1_800_000_000.0

#: Lists of `objects` in a case; HyperNodes are read by `topology_objects`.
_OBJECT_LISTS = (
    "nodes",
    "priorityClasses",
    "queues",
    "podGroups",
    "resourceQuotas",
    "persistentVolumes",
    "persistentVolumeClaims",
    "storageClasses",
    "resourceSlices",
    "deviceClasses",
    "resourceClaims",
    "pods",
)


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did."""

    session: Session
    #: "namespace/pod" -> node
    binds: Mapping[str, str]
    evicted: tuple[str, ...]
    #: job -> nodes of its pipelined tasks
    pipelined: Mapping[str, tuple[str, ...]]
    #: job -> status name -> tasks
    statuses: Mapping[str, Mapping[str, int]]

    def phases(self) -> dict[str, str]:
        """PodGroup phases after the end-of-cycle update."""
        records = self.session.snapshot.jobs.records
        jobs = np.flatnonzero(self.session.snapshot.jobs.live).tolist()
        found = job_statuses(self.session, jobs, unschedulable_jobs(self.session, jobs))
        return {records[job].id: status.phase.label for job, status in found.items()}


def decode_all(objects: Body) -> Iterator[KubeObject]:
    """Decode the objects of a case."""
    for document in hyper_node_documents(objects):
        yield decode(document)
    for key in _OBJECT_LISTS:
        for document in objects.get(key) or ():
            yield decode(document)


def config_of(case: Case) -> SchedulerConfig:
    """Read a case's configuration: absent flags are off, plugins that are not registered do not exist."""
    config = case.body["config"]
    registered = frozenset(config.get("registeredPlugins") or ())
    tiers = tuple(
        tuple(_option(plugin) for plugin in tier.get("plugins") or () if plugin["name"] in registered)
        for tier in config.get("tiers") or ()
    )
    configurations = {entry["name"]: entry.get("arguments") or {} for entry in config.get("configurations") or ()}
    actions = tuple(config.get("actions") or ())
    if "allocate" in actions:
        # Volcano lets a constrained gang wait for room for all of it; Muster starts it with its minimum unless told so.
        configurations["allocate"] = {"startsWhole": True, **configurations.get("allocate", {})}
    for action in actions:
        if action in ("gangpreempt", "gangreclaim"):
            # In Volcano a gang that has its minimum takes nothing from others.
            configurations[action] = {"growByEviction": False, **configurations.get(action, {})}
        if action in ("preempt", "reclaim", "gangpreempt", "gangreclaim"):
            # Volcano makes room for the job whose turn it is, whoever will take it.
            configurations[action] = {"looksAhead": False, **configurations.get(action, {})}
    return SchedulerConfig(actions, tiers, configurations, _sharding(config))


def _option(plugin: Body) -> PluginOption:
    flags = {key: value for key, value in plugin.items() if key not in ("name", "arguments")}
    # Volcano shares out nodes that no pod may use.
    own = {"countsTaintedNodes": True} if plugin["name"] == "proportion" else {}
    return PluginOption(plugin["name"], flags, {**own, **(plugin.get("arguments") or {})}, absent=False)


def _sharding(config: Body) -> Sharding | None:
    sharding = config.get("sharding")
    if not sharding:
        return None
    nodes = config.get("sessionNodesInShard") or sharding.get("nodesInShard") or ()
    return Sharding(sharding["mode"], frozenset(nodes))


def open_session(case: Case, registry: Registry, objects: Iterable[KubeObject] | None = None) -> Session:
    """Open a session on the objects of a case, or on others."""
    mirror = Mirror()
    for item in decode_all(case.body["objects"]) if objects is None else objects:
        mirror.upsert(item)
    return Session(mirror.snapshot(), config_of(case), registry, now=NOW)


def run_cycle(case: Case, registry: Registry) -> Cycle:
    """Run the case's actions in one session."""
    session = open_session(case, registry)
    for name in session.config.actions:
        registry.make_action(name, session.config.arguments_of(name)).run(session)
    return read_cycle(session)


def read_cycle(session: Session) -> Cycle:
    """Read off what the actions did: binds and evictions are what was committed."""
    snapshot = session.snapshot
    tasks, nodes = snapshot.tasks, snapshot.nodes
    binds: dict[str, str] = {}
    evicted: list[str] = []
    for committed in session.committed:
        for operation in committed.operations:
            for task, node in zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True):
                if operation.kind is OperationKind.ALLOCATE:
                    binds[tasks.ids[task]] = nodes.names[node]
                elif operation.kind is OperationKind.EVICT:
                    evicted.append(tasks.ids[task])
    pipelined: dict[str, tuple[str, ...]] = {}
    statuses: dict[str, Counter[str]] = {}
    for row, task_id in enumerate(tasks.ids):
        status = TaskStatus(int(tasks.status[row]))
        if status == TaskStatus.GONE:
            continue
        # A committed allocation is on its way to the node, one that waits for the rest of its gang is not.
        if status == TaskStatus.ALLOCATED and task_id in binds:
            status = TaskStatus.BINDING
        job = snapshot.jobs.records[int(tasks.job[row])].id
        statuses.setdefault(job, Counter())[status.label] += 1
        if status == TaskStatus.PIPELINED:
            pipelined[job] = (*pipelined.get(job, ()), nodes.names[int(tasks.node[row])])
    return Cycle(session, binds, tuple(sorted(evicted)), pipelined, statuses)
