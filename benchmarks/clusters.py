"""Clusters for the benchmarks: nodes of 96 CPUs, 1 TiB and 8 GPUs, gangs of identical pods, running pods.

A pod of g GPUs asks for 8g CPUs and 64g GiB. Pods are made from one decoded template and changed in name only,
so that building fifty thousand of them takes seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec

from muster.api import (
    Container,
    HyperNode,
    NetworkTopology,
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
    SubGroupPolicy,
)
from muster.api.names import GROUP_NAME, PARTITION_ID, TASK_SPEC
from muster.api.objects.meta import LabelSelector
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, Member, MemberSelector
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


PRIORITIES = {"top": 2000, "high": 1000, "low": 10}


def add_queues(mirror: Mirror, count: int, weights: Sequence[int] = ()) -> list[str]:
    """Add queues q1, q2, ... of the given weights (else 1) and the priority classes."""
    names = [f"q{i + 1}" for i in range(count)]
    for i, name in enumerate(names):
        weight = weights[i] if weights else 1
        mirror.upsert(Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=weight)))
    for name, value in PRIORITIES.items():
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
    priority: str = "low",
    topology: NetworkTopology | None = None,
    partition: int = 0,
) -> None:
    """Add one gang of identical pods, minMember all of them; with `nodes` it is running already.

    `partition`: so many pods each form a sub-group that is held together at tier 1.
    """
    running = nodes is not None
    rank = priority if running else "high"
    mirror.upsert(
        PodGroup(
            metadata=ObjectMeta(name=name, namespace=NAMESPACE),
            spec=PodGroupSpec(
                min_member=tasks,
                queue=queue,
                priority_class_name=rank,
                network_topology=topology,
                sub_group_policy=[_partitions(partition, tasks)] if partition else (),
            ),
            status=PodGroupStatus(phase="Running" if running else "Inqueue"),
        )
    )
    template = Pod(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, annotations={GROUP_NAME: name}),
        spec=PodSpec(containers=[Container(name="main", resources=resources)], priority=PRIORITIES[rank]),
        status=PodStatus(phase="Running" if running else "Pending"),
    )
    for i in range(tasks):
        labels = {PARTITION_ID: str(i // partition)} if partition else {}
        meta = msgspec.structs.replace(template.metadata, name=f"{name}-{i}", uid=f"{name}-{i}", labels=labels)
        spec = template.spec if nodes is None else msgspec.structs.replace(template.spec, node_name=next(nodes))
        mirror.upsert(msgspec.structs.replace(template, metadata=meta, spec=spec))


def add_parted_gang(mirror: Mirror, name: str, queue: str, policies: dict[str, tuple[int, int]]) -> None:
    """Add a pending gang of whole-node pods: partitions of several policies (number, size), and a master of none.

    Partitions keep to one rack, the job to one spine.
    """
    policy = [
        SubGroupPolicy(
            name=role,
            label_selector=LabelSelector(match_labels={TASK_SPEC: role}),
            match_label_keys=[PARTITION_ID],
            sub_group_size=size,
            min_sub_groups=count,
            network_topology=hard(1),
        )
        for role, (count, size) in policies.items()
    ]
    pods = [(role, str(k)) for role, (count, size) in policies.items() for k in range(count) for _ in range(size)]
    pods.append(("master", ""))
    mirror.upsert(
        PodGroup(
            metadata=ObjectMeta(name=name, namespace=NAMESPACE),
            spec=PodGroupSpec(
                min_member=len(pods),
                queue=queue,
                priority_class_name="high",
                network_topology=hard(2),
                sub_group_policy=policy,
            ),
            status=PodGroupStatus(phase="Inqueue"),
        )
    )
    for i, (role, part) in enumerate(pods):
        labels = {TASK_SPEC: role, PARTITION_ID: part} if part else {TASK_SPEC: role}
        meta = ObjectMeta(
            name=f"{name}-{i}", uid=f"{name}-{i}", namespace=NAMESPACE, annotations={GROUP_NAME: name}, labels=labels
        )
        spec = PodSpec(containers=[Container(name="main", resources=requests(8))], priority=PRIORITIES["high"])
        mirror.upsert(Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending")))


def _partitions(size: int, tasks: int) -> SubGroupPolicy:
    return SubGroupPolicy(
        name="part",
        match_label_keys=[PARTITION_ID],
        sub_group_size=size,
        min_sub_groups=tasks // size,
        network_topology=NetworkTopology(mode="hard", highest_tier_allowed=1),
    )


def hard(tier: int) -> NetworkTopology:
    """A hard constraint."""
    return NetworkTopology(mode="hard", highest_tier_allowed=tier)


def add_topology(mirror: Mirror, n_nodes: int, rack: int = 16, spine: int = 16) -> None:
    """Add racks of nodes (tier 1), spines of racks (tier 2) and the cluster (tier 3), by exact names."""
    racks = [[node_name(i) for i in range(lo, min(lo + rack, n_nodes))] for lo in range(0, n_nodes, rack)]
    names = [f"rack-{r:04d}" for r in range(len(racks))]
    for name, members in zip(names, racks, strict=True):
        mirror.upsert(hyper_node(name, 1, "Node", members))
    spines = [f"spine-{s:04d}" for s in range(-(-len(names) // spine))]
    for s, name in enumerate(spines):
        mirror.upsert(hyper_node(name, 2, "HyperNode", names[s * spine : (s + 1) * spine]))
    mirror.upsert(hyper_node("cluster", 3, "HyperNode", spines))


def hyper_node(name: str, tier: int, kind: str, members: list[str]) -> HyperNode:
    """A HyperNode with members by exact name."""
    return HyperNode(
        metadata=ObjectMeta(name=name),
        spec=HyperNodeSpec(
            tier=tier,
            members=[
                Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member))) for member in members
            ],
        ),
    )


def spine(name: str, racks: list[str], nodes: list[str]) -> HyperNode:
    """A HyperNode of tier 2 with racks and nodes of its own."""
    inner = hyper_node(name, 2, "HyperNode", racks)
    members = [*inner.spec.members, *hyper_node(name, 2, "Node", nodes).spec.members]
    return msgspec.structs.replace(inner, spec=msgspec.structs.replace(inner.spec, members=members))


def fill_in_order(mirror: Mirror, n_nodes: int, gpus: int, queue: str, *, priority: str = "low") -> None:
    """Fill every GPU with running gangs of 8 tasks: gang after gang, node after node."""
    slots = (node_name(k * gpus // 8) for k in range(8 * n_nodes // gpus))
    for i in range(n_nodes // gpus):
        add_gang(mirror, f"running-{i:05d}", queue, 8, requests(gpus), nodes=slots, priority=priority)


def fill_at_random(mirror: Mirror, n_nodes: int, share: float, queue: str) -> None:
    """Put a running whole-node pod on so many of the nodes, chosen by a fixed seed."""
    rng = random.Random(20260101)  # noqa: S311 - a reproducible cluster, not a secret
    taken = [node_name(i) for i in range(n_nodes) if rng.random() < share]
    for i, name in enumerate(taken):
        add_gang(mirror, f"running-{i:05d}", queue, 1, requests(8), nodes=iter([name]))


def add_pending(mirror: Mirror, tasks: int, queues: list[str], classes: int = 1, gang: int = 8) -> None:
    """Add pending one-GPU tasks in gangs, spread over queues and task classes in turn."""
    for i in range(tasks // gang):
        add_gang(mirror, f"job-{i:05d}", queues[i % len(queues)], gang, requests(1, extra_cpu=i % classes))


def fill(mirror: Mirror, pods: int, n_nodes: int, queue: str, gang: int = 8, gpus: int = 1) -> None:
    """Add running gangs, pods dealt to nodes one after the other."""
    slots = (node_name(i % n_nodes) for i in range(pods))
    for i in range(pods // gang):
        add_gang(mirror, f"running-{i:05d}", queue, gang, requests(gpus), nodes=slots)
