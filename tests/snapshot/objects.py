"""Short ways to write objects in these tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

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
    Quantity,
    Queue,
    QueueSpec,
    ResourceRequirements,
)
from muster.api.names import GROUP_NAME, TASK_SPEC

START = datetime(2026, 1, 1, tzinfo=UTC)


def amounts(**given: str) -> dict[str, Quantity]:
    names = {"gpu": "nvidia.com/gpu"}
    return {names.get(name, name): Quantity(text) for name, text in given.items()}


def node(name: str, **given: str) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}),
        status=NodeStatus(allocatable=amounts(**{"cpu": "8", "memory": "64Gi", "pods": "10", **given})),
    )


def queue(name: str, **spec: Any) -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(**spec))


def group(name: str, minimum: int, queue: str = "default", **spec: Any) -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="ns"),
        spec=PodGroupSpec(min_member=minimum, queue=queue, **spec),
        status=PodGroupStatus(phase="Inqueue"),
    )


def pod(
    name: str,
    group: str | None = None,
    *,
    on: str = "",
    phase: str = "",
    role: str = "",
    age: int = 0,
    labels: dict[str, str] | None = None,
    **requests: str,
) -> Pod:
    annotations = {GROUP_NAME: group} if group else {}
    if role:
        annotations[TASK_SPEC] = role
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=name,
            annotations=annotations,
            labels=labels or {},
            creation_timestamp=START - timedelta(seconds=age),
        ),
        spec=PodSpec(
            containers=[Container(resources=ResourceRequirements(requests=amounts(**requests)))], node_name=on
        ),
        status=PodStatus(phase=phase or ("Running" if on else "Pending")),
    )
