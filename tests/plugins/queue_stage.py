"""A session over a handful of objects with one plugin of jobs or queues, and rows by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from muster.api import KubeObject, Pod, PodGroup, Queue, SubGroupPolicy
from muster.framework import Eviction, Evictor, PluginOption, Registry, Rejection, SchedulerConfig, Session, Vote
from muster.framework.plugin import Plugin
from muster.plugins import BUILTIN
from muster.snapshot import Amounts, Mirror, Rows
from muster.testing import builders

REGISTRY = Registry.of(BUILTIN, [])
GPU = "nvidia.com/gpu"

_Annotated = TypeVar("_Annotated", PodGroup, Queue)


class Stage:
    """One plugin, opened on some objects."""

    def __init__(
        self,
        plugin: str,
        objects: Iterable[KubeObject],
        *,
        arguments: Mapping[str, Any] | None = None,
        tree: bool = False,
        now: float = 0.0,
    ) -> None:
        mirror = Mirror()
        for item in objects:
            mirror.upsert(item)
        option = PluginOption(plugin, {"enableHierarchy": tree}, arguments or {})
        self.session = Session(mirror.snapshot(), SchedulerConfig((), ((option,),)), REGISTRY, now=now)
        self.snapshot = self.session.snapshot
        # Any: tests ask plugins for what only they have.
        self.plugin: Any = self.session.plugins[plugin]
        assert isinstance(self.plugin, Plugin)

    def job(self, name: str) -> int:
        return self.snapshot.jobs.index[f"default/{name}"]

    def vote(self, job: str) -> Vote:
        """What the plugin says of admitting a job; a rejection has to say why."""
        answer = self.plugin.job_enqueueable(self.job(job))
        if isinstance(answer, Rejection):
            assert answer.detail
            return Vote.REJECT
        assert answer is not Vote.REJECT
        return Vote(answer)

    def queue(self, name: str) -> int:
        return self.snapshot.queues.index[name]

    def task(self, name: str) -> int:
        return self.snapshot.tasks.ids.index(name if "/" in name else f"default/{name}")

    def tasks(self, *names: str) -> Rows:
        return np.array([self.task(name) for name in names], np.intp)

    def names(self, tasks: Rows) -> list[str]:
        return [self.snapshot.tasks.ids[task].removeprefix("default/") for task in tasks.tolist()]

    def evictable(self, kind: Eviction, task: int, candidates: Rows, *, breaks_gangs: bool = False) -> Any:
        """What the plugin says about victims for one task."""
        evictor = Evictor(int(self.snapshot.tasks.job[task]), np.array([task], np.intp), breaks_gangs)
        return self.plugin.evictable(kind, evictor, candidates)

    def victims(self, kind: Eviction, task: int, candidates: Rows, *, breaks_gangs: bool = False) -> Rows:
        """What the session makes of it."""
        evictor = Evictor(int(self.snapshot.tasks.job[task]), np.array([task], np.intp), breaks_gangs)
        return self.session.evictable(kind, evictor, candidates)

    def amounts(self, **amounts: float) -> Amounts:
        """A request: `cpu` in cores, `gpu` in GPUs, others as they are."""
        given = {"cpu": int(amounts.pop("cpu", 0) * 1000), GPU: int(amounts.pop("gpu", 0) * 1000)}
        return self.snapshot.axis.vector({**given, **{name: int(amount) for name, amount in amounts.items()}})

    def of(self, table: Amounts, queue: str, resource: str = "cpu") -> int:
        """One number of a table over queues, in base units."""
        return int(table[self.queue(queue), self.snapshot.axis.index[resource]])

    def place(self, task: str, node: str = "n1") -> None:
        """Put a pending task on a node."""
        self.session.statement().place(self.task(task), self.snapshot.nodes.index[node])


def with_policies(group: PodGroup, *policies: SubGroupPolicy) -> PodGroup:
    return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, sub_group_policy=list(policies)))


def leaving(pod: Pod) -> Pod:
    """The pod, being deleted."""
    stamp = builders.moment(1.0)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=stamp))


def annotated(item: _Annotated, annotations: Mapping[str, str]) -> _Annotated:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=dict(annotations)))


def closed(queue: Queue) -> Queue:
    return msgspec.structs.replace(queue, status=msgspec.structs.replace(queue.status, state="Closed"))


def prioritised(queue: Queue, priority: int) -> Queue:
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, priority=priority))


def running(name: str, queue: str, *, node: str = "n1", minimum: int = 1, **request: Any) -> list[KubeObject]:
    """A PodGroup of one running pod; `request` is what the pod asks for."""
    return [
        builders.pod_group(name, minimum=minimum, queue=queue, phase="Running"),
        builders.pod(f"{name}-0", group=name, node=node, **request),
    ]
