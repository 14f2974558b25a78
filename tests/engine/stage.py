"""Sessions over a few objects, and the questions that tests of engine and actions ask of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from muster.api import KubeObject, Queue
from muster.framework import PluginOption, SchedulerConfig, Session
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror, OperationKind, TaskStatus
from muster.testing import queue

REGISTRY = builtin_registry(third_party=False)
#: What most tests need: gangs, node rules, and the order of a plain cluster.
PLUGINS = ("priority", "gang", "predicates", "network-topology-aware")
ACTIONS = ("enqueue", "allocate", "backfill")


def configured(
    *plugins: str | PluginOption, actions: tuple[str, ...] = ACTIONS, **arguments: Mapping[str, Any]
) -> SchedulerConfig:
    """One tier of plugins; `arguments` are those of actions."""
    options = tuple(one if isinstance(one, PluginOption) else PluginOption(one) for one in plugins or PLUGINS)
    return SchedulerConfig(actions, (options,), arguments)


def open_session(objects: Iterable[KubeObject], config: SchedulerConfig | None = None) -> Session:
    """A session on the objects; the queue `default` is there unless the objects have it."""
    listed = list(objects)
    mirror = Mirror()
    for item in listed:
        mirror.upsert(item)
    if not any(isinstance(item, Queue) and item.name == "default" for item in listed):
        mirror.upsert(queue("default"))
    return Session(mirror.snapshot(), config or configured(), REGISTRY)


def run(objects: Iterable[KubeObject], config: SchedulerConfig | None = None) -> Session:
    """A session in which the configured actions have run."""
    session = open_session(objects, config)
    for name in session.config.actions:
        REGISTRY.make_action(name, session.config.arguments_of(name)).run(session)
    return session


def job_row(session: Session, name: str) -> int:
    return session.snapshot.jobs.index[f"default/{name}"]


def domain_row(session: Session, name: str) -> int:
    return session.snapshot.topology.index[name]


def domain_names(session: Session, rows: Iterable[int]) -> list[str]:
    return [session.snapshot.topology.names[int(row)] for row in rows]


def binds(session: Session) -> dict[str, str]:
    """Pod -> node of everything that was committed to be bound."""
    snapshot = session.snapshot
    return {
        snapshot.tasks.ids[task].removeprefix("default/"): snapshot.nodes.names[node]
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is OperationKind.ALLOCATE
        for task, node in zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True)
    }


def bound_jobs(session: Session) -> Counter[str]:
    """Job -> pods bound in this session."""
    tasks, records = session.snapshot.tasks, session.snapshot.jobs.records
    rows = {name.removeprefix("default/"): row for row, name in enumerate(tasks.ids)}
    return Counter(records[tasks.job[rows[name]]].name for name in binds(session))


def having(session: Session, status: TaskStatus) -> dict[str, str]:
    """Pod -> node of the tasks with a status."""
    tasks, names = session.snapshot.tasks, session.snapshot.nodes.names
    return {
        tasks.ids[row].removeprefix("default/"): names[tasks.node[row]] if tasks.node[row] >= 0 else ""
        for row in range(len(tasks))
        if tasks.status[row] == status
    }


def waits(session: Session) -> dict[str, str]:
    """Job -> code of the reason, of jobs that are not complete."""
    return {
        session.snapshot.jobs.records[job].name: verdict.reason.code
        for job, verdict in session.verdicts.items()
        if session.job_deficit(job) > 0
    }


def racks_of(nodes: Iterable[str]) -> Counter[str]:
    """How often each rack occurs in names such as s0-r1-n2."""
    return Counter(name.rsplit("-", 1)[0] for name in nodes)


def spines_of(nodes: Iterable[str]) -> Counter[str]:
    return Counter(name.split("-")[0] for name in nodes)
