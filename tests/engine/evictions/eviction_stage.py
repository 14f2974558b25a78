"""Clusters where somebody has to give way, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from muster.api import KubeObject, Pod, PodGroup
from muster.framework import SchedulerConfig, Session, parse_config
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror, OperationKind, TaskStatus
from muster.testing import pod, pod_group, priority_class, queue
from muster.testing.builders import moment

REGISTRY = builtin_registry(third_party=False)
PRIORITIES: list[KubeObject] = [priority_class("low", 10), priority_class("high", 1000)]
_TIERS = """
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: {gang}
    enableReclaimable: {gang}
  - name: conformance
- plugins: [{{name: predicates}}, {{name: {share}}}, {{name: binpack}}]
"""


def configured(actions: str, arguments: str = "", *, gang: bool = False, share: str = "proportion") -> SchedulerConfig:
    """The usual plugins; `arguments` are those of the last action, `gang`: gangs keep their minimum."""
    text = f'actions: "{actions}"' + _TIERS.format(gang=str(gang).lower(), share=share)
    if arguments:
        text += f"configurations: [{{name: {actions.rsplit(',', maxsplit=1)[-1].strip()}, arguments: {{{arguments}}}}}]"
    return parse_config(text, "test")


def group(name: str, minimum: int, **options: Any) -> PodGroup:
    """An admitted PodGroup."""
    return pod_group(name, minimum=minimum, phase="Inqueue", **options)


def running(
    name: str, nodes: Sequence[str], *, minimum: int | None = None, priority: str = "low", **options: Any
) -> list[KubeObject]:
    """A job whose pods run, one on each of the nodes named, which may be named several times."""
    queue_name = options.pop("queue", "default")
    made: list[KubeObject] = [
        group(name, len(nodes) if minimum is None else minimum, priority_class=priority, queue=queue_name)
    ]
    value = {"low": 10, "high": 1000, "": 0}[priority]
    made += [pod(f"{name}-{k}", group=name, node=place, priority=value, **options) for k, place in enumerate(nodes)]
    return made


def waiting(
    name: str, pods: int, *, minimum: int | None = None, priority: str = "high", **options: Any
) -> list[KubeObject]:
    """A job whose pods wait."""
    queue_name = options.pop("queue", "default")
    made: list[KubeObject] = [
        group(name, pods if minimum is None else minimum, priority_class=priority, queue=queue_name)
    ]
    value = {"low": 10, "high": 1000, "": 0}[priority]
    made += [pod(f"{name}-{k}", group=name, priority=value, **options) for k in range(pods)]
    return made


def never_preempting(made: Pod) -> Pod:
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, preemption_policy="Never"))


def started(made: Pod, seconds: float) -> Pod:
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, start_time=moment(seconds)))


def open_session(objects: Iterable[KubeObject], config: SchedulerConfig, *, seed: int = 0) -> Session:
    mirror = Mirror()
    for item in [queue("default"), *PRIORITIES, *objects]:
        mirror.upsert(item)
    return Session(mirror.snapshot(), config, REGISTRY, seed=seed)


def act(objects: Iterable[KubeObject], config: SchedulerConfig, *, seed: int = 0) -> Session:
    """A session in which the configured actions have run."""
    session = open_session(objects, config, seed=seed)
    for name in session.config.actions:
        REGISTRY.make_action(name, session.config.arguments_of(name)).run(session)
    return session


def _committed(session: Session, kind: OperationKind) -> dict[str, str]:
    tasks, nodes = session.snapshot.tasks, session.snapshot.nodes.names
    return {
        tasks.ids[task].removeprefix("default/"): nodes[node]
        for committed in session.committed
        for operation in committed.operations
        if operation.kind is kind
        for task, node in zip(operation.tasks.tolist(), operation.nodes.tolist(), strict=True)
    }


def evicted(session: Session) -> list[str]:
    """Pods that were evicted."""
    return sorted(_committed(session, OperationKind.EVICT))


def promised(session: Session) -> dict[str, str]:
    """Pod -> node where it will have room."""
    return _committed(session, OperationKind.PIPELINE)


def statuses(session: Session, status: TaskStatus) -> list[str]:
    tasks = session.snapshot.tasks
    return sorted(tasks.ids[row].removeprefix("default/") for row in range(len(tasks)) if tasks.status[row] == status)
