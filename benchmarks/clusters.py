"""Clusters for the benchmarks: nodes of 96 CPUs, 1 TiB and 8 GPUs, gangs of identical pods, running pods.

A pod of g GPUs asks for 8g CPUs and 64g GiB. Pods are made from one decoded template and changed in name only,
so that building fifty thousand of them takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from muster.api import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    PriorityClass,
    Quantity,
    Queue,
    QueueSpec,
    ResourceRequirements,
)
from muster.api.names import GROUP_NAME
from muster.snapshot import Mirror

NAMESPACE = "ns"
GPU = "nvidia.com/gpu"


def add_nodes(mirror: Mirror, count: int) -> None:
    """Add nodes node-00000, node-00001, ..."""
    status = NodeStatus(
        allocatable={"cpu": Quantity("96"), "memory": Quantity("1024Gi"), GPU: Quantity("8"), "pods": Quantity("110")}
    )
    for i in range(count):
        name = node_name(i)
        mirror.upsert(Node(metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}), status=status))


def node_name(i: int) -> str:
    """Name of node i."""
    return f"node-{i:05d}"


def add_queues(mirror: Mirror, count: int) -> list[str]:
    """Add queues q1, q2, ... of weight 1 and the priority classes high and low."""
    names = [f"q{i + 1}" for i in range(count)]
    for name in names:
        mirror.upsert(Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1)))
    for name, value in (("high", 1000), ("low", 10)):
        mirror.upsert(PriorityClass(metadata=ObjectMeta(name=name), value=value))
    return names


def requests(gpus: int, extra_cpu: int = 0) -> ResourceRequirements:
    """What a pod of so many GPUs asks for; `extra_cpu` milli-CPUs make classes differ."""
    return ResourceRequirements(
        requests={
            "cpu": Quantity(f"{8000 * gpus + extra_cpu}m"),
            "memory": Quantity(f"{64 * gpus}Gi"),
            GPU: Quantity(str(gpus)),
        }
    )


def add_gang(
    mirror: Mirror,
    name: str,
    queue: str,
    tasks: int,
    resources: ResourceRequirements,
    *,
    nodes: Iterator[str] | None = None,
) -> None:
    """Add one gang of identical pods, minMember all of them; with `nodes` it is running already."""
    running = nodes is not None
    mirror.upsert(
        PodGroup(
            metadata=ObjectMeta(name=name, namespace=NAMESPACE),
            spec=PodGroupSpec(min_member=tasks, queue=queue, priority_class_name="low" if running else "high"),
            status=PodGroupStatus(phase="Running" if running else "Inqueue"),
        )
    )
    template = Pod(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, annotations={GROUP_NAME: name}),
        spec=PodSpec(containers=[Container(name="main", resources=resources)], priority=10 if running else 1000),
        status=PodStatus(phase="Running" if running else "Pending"),
    )
    for i in range(tasks):
        meta = msgspec.structs.replace(template.metadata, name=f"{name}-{i}", uid=f"{name}-{i}")
        spec = template.spec if nodes is None else msgspec.structs.replace(template.spec, node_name=next(nodes))
        mirror.upsert(msgspec.structs.replace(template, metadata=meta, spec=spec))


def add_pending(mirror: Mirror, tasks: int, queues: list[str], classes: int = 1, gang: int = 8) -> None:
    """Add pending one-GPU tasks in gangs, spread over queues and task classes in turn."""
    for i in range(tasks // gang):
        add_gang(mirror, f"job-{i:05d}", queues[i % len(queues)], gang, requests(1, extra_cpu=i % classes))


def fill(mirror: Mirror, pods: int, n_nodes: int, queue: str, gang: int = 8, gpus: int = 1) -> None:
    """Add running gangs, pods dealt to nodes one after the other."""
    slots = (node_name(i % n_nodes) for i in range(pods))
    for i in range(pods // gang):
        add_gang(mirror, f"running-{i:05d}", queue, gang, requests(gpus), nodes=slots)
