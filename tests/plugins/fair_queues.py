"""Queues of KAI and shares by hand, for tests of fair shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from muster.api import KaiQueue, KubeObject, ObjectMeta, Pod
from muster.api.names import PREEMPTABLE
from muster.api.objects.pod import PodSchedulingGate
from muster.api.objects.scheduling import KaiQueueResource, KaiQueueResources, KaiQueueSpec
from muster.plugins.queues.fairshare.tree import FairShares
from muster.snapshot import NO_ROW, UNLIMITED, Amounts
from muster.testing import builders
from tests.plugins.queue_stage import Stage

FREE = KaiQueueResource(quota=-1, limit=-1, over_quota_weight=1)


def kai_queue(
    name: str,
    *,
    gpu: tuple[float, float, float] = (0, -1, 1),
    parent: str = "",
    priority: int | None = None,
    created: float = 0.0,
) -> KaiQueue:
    """A queue of KAI with (quota, limit, weight) of GPUs, and no bounds on cpu and memory."""
    quota, limit, weight = gpu
    return KaiQueue(
        metadata=ObjectMeta(name=name, creation_timestamp=builders.moment(created)),
        spec=KaiQueueSpec(
            parent_queue=parent,
            priority=priority,
            resources=KaiQueueResources(gpu=KaiQueueResource(quota, limit, weight), cpu=FREE, memory=FREE),
        ),
    )


def fair(*objects: KubeObject, gpu: int = 8, **arguments: object) -> Stage:
    """The plugin, opened on one large node and some objects."""
    return Stage("fairshare", [builders.node("n1", cpu=1000, gpu=gpu), *objects], arguments=arguments)


def job(
    name: str, queue: str, *, pending: int = 0, running: int = 0, minimum: int = 1, gpu: float = 1, firm: bool = False
) -> list[KubeObject]:
    """A PodGroup with pods of so many GPUs each; `firm`: it is not preemptible."""
    pods = [
        builders.pod(
            f"{name}-{index}",
            group=name,
            gpu=gpu,
            node="n1" if index < running else "",
            annotations={PREEMPTABLE: "false"} if firm else {},
        )
        for index in range(running + pending)
    ]
    return [builders.pod_group(name, minimum=minimum, queue=queue, phase="Running"), *pods]


def with_gate(pod: Pod) -> Pod:
    """The pod, not to be scheduled yet."""
    gates = [PodSchedulingGate(name="later")]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=gates))


def by_hand(
    parents: Sequence[int],
    *,
    fair_share: Sequence[int],
    quota: Sequence[int] | None = None,
    limits: Sequence[int] | None = None,
    firm: Sequence[int] | None = None,
    total: int = 100,
) -> FairShares:
    """Shares of one resource; `parents` are rows, NO_ROW for top queues."""

    def column(values: Sequence[int] | None, missing: int) -> Amounts:
        return np.array([[missing] for _ in parents] if values is None else [[value] for value in values], np.int64)

    lines = []
    for row in range(len(parents)):
        line = [row]
        while parents[line[-1]] != NO_ROW:
            line.append(parents[line[-1]])
        lines.append(tuple(line))
    return FairShares(
        quota=column(quota, 0),
        limits=column(limits, int(UNLIMITED)),
        firm_limits=column(quota if firm is None else firm, 0),
        fair=column(fair_share, 0),
        total=np.array([total], np.int64),
        lines=lines,
        columns=(0,),
        core=(0,),
        units=np.ones(1, np.int64),
    )


def held(*amounts: int) -> Amounts:
    """What queues hold of one resource."""
    return np.array([[amount] for amount in amounts], np.int64)


def gpus(stage: Stage, table: Amounts) -> Mapping[str, float]:
    """One table in GPUs, by queue."""
    column = stage.snapshot.axis.index["nvidia.com/gpu"]
    return {name: int(table[row, column]) / 1000 for name, row in stage.snapshot.queues.index.items()}
