"""Clusters of KAI's objects under the profile `kai`, and what the solver made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from muster.api import KaiPodGroup, KubeObject, ObjectMeta, Pod
from muster.api.names import KAI_SUBGROUP, START_STAMP
from muster.api.objects.scheduling import KaiPodGroupSpec, KaiSubGroup
from muster.engine.evictions import pipeline
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.solver.strategy import SolverStrategy
from muster.framework import Eviction, SchedulerConfig, Session, profile
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror, OperationKind, Rows
from muster.snapshot.records import stamp_text
from muster.testing import node, pod, priority_class
from muster.testing.builders import moment
from tests.engine.evictions.eviction_stage import evicted, promised
from tests.plugins.fair_queues import kai_queue

__all__ = ["act", "bound", "evicted", "gang", "kai", "kai_queue", "moved", "nodes", "open_session", "promised"]

REGISTRY = builtin_registry(third_party=False)
NOW = 10_000.0
PRIORITIES = {"low": 10, "mid": 50, "high": 90}
CLASSES = [priority_class(name, value) for name, value in PRIORITIES.items()]


def kai(
    *actions: str, plugins: Mapping[str, Mapping[str, Any]] | None = None, **arguments: Mapping[str, Any]
) -> SchedulerConfig:
    """The profile `kai` with these actions; further arguments of `plugins` and of actions, by name."""
    plain = profile("kai")
    tiers = tuple(
        tuple(
            replace(option, arguments={**option.arguments, **(plugins or {}).get(option.name, {})}) for option in tier
        )
        for tier in plain.tiers
    )
    known = {name: {**plain.arguments_of(name), **arguments.get(name, {})} for name in actions}
    return SchedulerConfig(actions, tiers, known)


def run_solver(session: Session, options: SolverOptions) -> None:
    """Run preempt with these options of the strategy."""
    strategy = SolverStrategy(session, Eviction.PREEMPT, options, "preempt")
    pipeline.run(strategy)


def nodes(count: int, **amounts: Any) -> list[KubeObject]:
    """Nodes n0, n1, …"""
    return [node(f"n{k}", **amounts) for k in range(count)]


def gang(
    name: str,
    queue: str = "q",
    *,
    on: Sequence[str] = (),
    pending: int = 0,
    minimum: int | None = None,
    sets: Mapping[str, tuple[int, Sequence[str], int]] | None = None,
    priority: str = "mid",
    firm: bool = False,
    created: float = 0.0,
    age: float | None = None,
    **options: Any,
) -> list[KubeObject]:
    """A gang with pods NAME-0, … that run `on` nodes, then `pending` ones; all are needed unless `minimum` says less.

    `sets`: pod sets by name, each with its minimum, nodes and number of pending pods. `firm`: it is not preemptible.
    `age`: seconds since the gang started.
    """
    parts = sets or {"": (len(on) + pending if minimum is None else minimum, on, pending)}
    group = KaiPodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            creation_timestamp=moment(created),
            annotations={} if age is None else {START_STAMP: stamp_text(NOW - age)},
        ),
        spec=KaiPodGroupSpec(
            queue=queue,
            priority_class_name=priority,
            preemptibility="non-preemptible" if firm else "",
            min_member=parts[""][0] if "" in parts else 0,
            sub_groups=[KaiSubGroup(name=part, min_member=least) for part, (least, _, _) in parts.items() if part],
        ),
    )
    members: list[KubeObject] = []
    for part, (_, places, waiting) in parts.items():
        stem = f"{name}-{part}" if part else name
        members += [
            _member(f"{stem}-{k}", name, part, place, PRIORITIES[priority], created, options)
            for k, place in enumerate([*places, *[""] * waiting])
        ]
    return [group, *members]


def _member(
    name: str, group: str, part: str, place: str, priority: int, created: float, options: Mapping[str, Any]
) -> Pod:
    labels = {**options.get("labels", {}), **({KAI_SUBGROUP: part} if part else {})}
    return pod(
        name, group=group, node=place, priority=priority, created=created, **{"gpu": 1, **options, "labels": labels}
    )


def open_session(objects: Iterable[KubeObject], config: SchedulerConfig) -> Session:
    mirror = Mirror()
    for item in [*CLASSES, *objects]:
        mirror.upsert(item)
    return Session(mirror.snapshot(), config, REGISTRY, now=NOW)


def run(session: Session) -> Session:
    for name in session.config.actions:
        REGISTRY.make_action(name, session.config.arguments_of(name)).run(session)
    # A turn that breaks off takes no other with it, and would go unseen.
    assert [fault.why for fault in session.faults] == []
    return session


def act(objects: Iterable[KubeObject], config: SchedulerConfig) -> Session:
    """A session in which the configured actions have run."""
    return run(open_session(objects, config))


def job_row(session: Session, name: str) -> int:
    return session.snapshot.jobs.index[f"default/{name}"]


def task_row(session: Session, name: str) -> int:
    return session.snapshot.tasks.ids.index(f"default/{name}")


def task_rows(session: Session, *names: str) -> Rows:
    return np.array([task_row(session, name) for name in names], np.intp)


def task_names(session: Session, tasks: Rows) -> list[str]:
    return [session.snapshot.tasks.ids[task].removeprefix("default/") for task in tasks.tolist()]


def _places(session: Session, kind: OperationKind) -> dict[str, str]:
    tasks, names = session.snapshot.tasks, session.snapshot.nodes.names
    return {
        tasks.ids[task].removeprefix("default/"): names[row]
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is kind
        for task, row in zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True)
    }


def moved(session: Session) -> dict[str, str]:
    """Pod -> node that it moves to."""
    return _places(session, OperationKind.MOVE)


def bound(session: Session) -> dict[str, str]:
    """Pod -> node that it is bound to."""
    return _places(session, OperationKind.ALLOCATE)


def gone(session: Session) -> list[str]:
    """Pods that lose their place: evicted, and not moved."""
    return sorted(set(evicted(session)) - set(moved(session)))


def reason(session: Session, job: str) -> str:
    """Code of the last word on a job."""
    return session.verdicts[job_row(session, job)].reason.code
