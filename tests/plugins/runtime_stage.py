"""Queues with minimum runtimes, gangs that started a while ago, and the plugin opened on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from muster.api import KubeObject, PodGroup, Queue
from muster.api.names import PREEMPT_MIN_RUNTIME, RECLAIM_MIN_RUNTIME, START_STAMP
from muster.framework import Eviction, Evictor, Scenario
from muster.snapshot import Rows
from muster.snapshot.records import stamp_text
from muster.testing import builders
from tests.plugins.queue_stage import Stage, annotated

NOW = 10_000.0


def runtime_queue(name: str, parent: str = "", *, preempt: Any = None, reclaim: Any = None) -> Queue:
    """A queue; what is None is not set."""
    marks = {PREEMPT_MIN_RUNTIME: preempt, RECLAIM_MIN_RUNTIME: reclaim}
    return annotated(
        builders.queue(name, parent=parent), {key: str(value) for key, value in marks.items() if value is not None}
    )


def stamped(group: PodGroup, age: float | None) -> PodGroup:
    return group if age is None else annotated(group, {START_STAMP: stamp_text(NOW - age)})


def running(
    name: str, queue: str, *, age: float | None, minimum: int = 1, pods: int = 1, roles: Mapping[str, int] | None = None
) -> list[KubeObject]:
    """A gang whose pods run on n1 since `age` seconds; pods of roles are called after them."""
    group = builders.pod_group(name, minimum=minimum, queue=queue, phase="Running", roles=roles)
    names = [f"{name}-{k}" for k in range(pods)]
    return [stamped(group, age), *(builders.pod(pod, group=name, node="n1", cpu=1) for pod in names)]


def with_role(pod: KubeObject, role: str) -> KubeObject:
    marks = {**pod.metadata.annotations, "volcano.sh/task-spec": role}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=marks))


class RuntimeStage(Stage):
    """The plugin minruntime on some queues and gangs; `new` is a job in each queue that wants to evict."""

    def __init__(self, objects: Sequence[KubeObject], **arguments: Any) -> None:
        queues = [item.metadata.name for item in objects if isinstance(item, Queue)]
        waiting = [item for name in queues for item in builders.gang(f"new-{name}", 1, queue=name, cpu=1)]
        node = builders.node("n1", cpu=1000)
        super().__init__("minruntime", [node, *objects, *waiting], arguments=arguments, now=NOW)

    def may_evict(self, kind: Eviction, queue: str, *victims: str) -> list[bool]:
        """Whether a job of a queue may evict pods of these jobs."""
        job = self.job(f"new-{queue}")
        evictor = Evictor(job, self.snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
        pods = [self.snapshot.tasks_of(self.job(name)) for name in victims]
        gone = self.session.may_go(kind, evictor, np.concatenate(pods))
        return [bool(np.isin(own, gone).any()) for own in pods]

    def scenario(self, kind: Eviction, queue: str, evicted: Rows, moved: Rows | None = None) -> Scenario:
        moved = np.empty(0, np.intp) if moved is None else moved
        job = self.job(f"new-{queue}")
        return Scenario(kind, job, self.tasks(f"new-{queue}-0"), np.concatenate((evicted, moved)), evicted, moved)

    def passes(self, kind: Eviction, queue: str, *evicted: str) -> bool:
        """Whether the scenario filters let a dry run of evicting these pods happen."""
        scenario = self.scenario(kind, queue, self.tasks(*evicted))
        return all(check(scenario) for check in self.plugin.scenario_filters(kind, scenario.evictor))

    def validates(self, kind: Eviction, queue: str, evicted: Sequence[str], moved: Sequence[str] = ()) -> bool:
        """Whether the outcome of a dry run is accepted."""
        scenario = self.scenario(kind, queue, self.tasks(*evicted), self.tasks(*moved))
        answer: bool = self.plugin.scenario_validator(kind, scenario)
        return answer
