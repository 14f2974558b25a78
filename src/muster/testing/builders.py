"""Objects for tests, in one line each, with the parts that a test is about.

Amounts are given as people write them: ``gpu=8``, ``memory="64Gi"``. An amount of zero is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from muster.api import (
    Condition,
    Container,
    KubeObject,
    Node,
    NodeSpec,
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
    Taint,
    Toleration,
)
from muster.api.names import EXIT, GROUP_NAME, HOSTNAME, RUN_SECONDS, TASK_SPEC
from muster.api.objects.scheduling import Guarantee
from muster.api.resources import GPU

Amount = int | float | str
Amounts = Mapping[str, Amount]

_SHORT = {"gpu": GPU}


def resource_list(amounts: Amounts) -> dict[str, Quantity]:
    """Return a resource list; ``gpu`` stands for NVIDIA's name, zeros are left out."""
    return {_SHORT.get(name, name): Quantity.of(amount) for name, amount in amounts.items() if amount != 0}


def moment(seconds: float | None) -> datetime | None:
    """Return a time stamp from seconds since the epoch."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def node(
    name: str,
    *,
    cpu: Amount = 96,
    memory: Amount = "1Ti",
    gpu: Amount = 0,
    pods: Amount = 110,
    others: Amounts | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
    ready: bool = True,
) -> Node:
    """Make a node."""
    amounts = resource_list({"cpu": cpu, "memory": memory, "gpu": gpu, "pods": pods, **(others or {})})
    conditions = [Condition(type="Ready", status="True" if ready else "False")]
    return Node(
        metadata=ObjectMeta(name=name, labels={HOSTNAME: name, **(labels or {})}),
        spec=NodeSpec(unschedulable=unschedulable, taints=taints),
        status=NodeStatus(allocatable=amounts, capacity=amounts, conditions=conditions),
    )


def pod(
    name: str,
    *,
    namespace: str = "default",
    group: str | None = None,
    role: str = "",
    cpu: Amount = 0,
    memory: Amount = 0,
    gpu: Amount = 0,
    node: str = "",
    phase: str = "",
    nominated: str = "",
    priority: int | None = None,
    priority_class: str = "",
    selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Toleration] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    run_seconds: float | None = None,
    exit_as: str = "",
    grace_seconds: int | None = None,
    created: float | None = None,
) -> Pod:
    """Make a pod; with a node and no phase it is Running."""
    marks = {
        GROUP_NAME: group or "",
        TASK_SPEC: role,
        RUN_SECONDS: "" if run_seconds is None else f"{run_seconds:g}",
        EXIT: exit_as,
        **(annotations or {}),
    }
    container = Container(
        name="main",
        resources=ResourceRequirements(requests=resource_list({"cpu": cpu, "memory": memory, "gpu": gpu})),
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels=dict(labels or {}),
            annotations={key: value for key, value in marks.items() if value},
            creation_timestamp=moment(created),
        ),
        spec=PodSpec(
            containers=[container],
            node_name=node,
            node_selector=dict(selector or {}),
            tolerations=tolerations,
            priority=priority,
            priority_class_name=priority_class,
            termination_grace_period_seconds=grace_seconds,
        ),
        status=PodStatus(phase=phase or ("Running" if node else "Pending"), nominated_node_name=nominated),
    )


def pod_group(
    name: str,
    *,
    minimum: int = 1,
    namespace: str = "default",
    queue: str = "default",
    roles: Mapping[str, int] | None = None,
    min_resources: Amounts | None = None,
    priority_class: str = "",
    phase: str = "",
    created: float | None = None,
) -> PodGroup:
    """Make a PodGroup; `roles` are minimums by role."""
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace=namespace, creation_timestamp=moment(created)),
        spec=PodGroupSpec(
            min_member=minimum,
            min_task_member=dict(roles or {}),
            min_resources=resource_list(min_resources or {}),
            queue=queue,
            priority_class_name=priority_class,
        ),
        status=PodGroupStatus(phase=phase),
    )


def gang(
    name: str,
    pods: int,
    *,
    minimum: int | None = None,
    namespace: str = "default",
    queue: str = "default",
    priority_class: str = "",
    min_resources: Amounts | None = None,
    created: float | None = None,
    cpu: Amount = 0,
    memory: Amount = 0,
    gpu: Amount = 0,
    run_seconds: float | None = None,
) -> list[KubeObject]:
    """Make a PodGroup and its pods ``name-0``, ``name-1``, …; all of them are needed unless `minimum` says less."""
    group = pod_group(
        name,
        minimum=pods if minimum is None else minimum,
        namespace=namespace,
        queue=queue,
        priority_class=priority_class,
        min_resources=min_resources,
        created=created,
    )
    members = [
        pod(
            f"{name}-{index}",
            namespace=namespace,
            group=name,
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            priority_class=priority_class,
            run_seconds=run_seconds,
            created=created,
        )
        for index in range(pods)
    ]
    return [group, *members]


def queue(
    name: str,
    *,
    weight: int = 1,
    parent: str = "",
    capability: Amounts | None = None,
    deserved: Amounts | None = None,
    guarantee: Amounts | None = None,
    created: float | None = None,
) -> Queue:
    """Make a queue."""
    return Queue(
        metadata=ObjectMeta(name=name, creation_timestamp=moment(created)),
        spec=QueueSpec(
            weight=weight,
            parent=parent,
            capability=resource_list(capability or {}),
            deserved=resource_list(deserved or {}),
            guarantee=Guarantee(resource=resource_list(guarantee or {})),
        ),
    )


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    """Make a priority class."""
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=default)
