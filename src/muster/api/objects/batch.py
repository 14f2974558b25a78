"""Volcano's Job, ``batch.volcano.sh/v1alpha1``: tasks from which a controller makes a PodGroup and pods.

Here for its definition (`definitions`); scheduling reads the PodGroup and the pods. Pod templates and volume claims
stay as they were written. Of a JobFlow only what admission checks is read: the order of its Jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import field

from muster.api.objects.meta import Int32, K8sModel, KubeObject, Timestamp
from muster.api.objects.scheduling import NetworkTopology


class LifecyclePolicy(K8sModel):
    """What to do when something happens to a task or the job."""

    action: str = ""
    event: str = ""
    events: Sequence[str] = ()
    exit_code: Int32 | None = None
    timeout: str | None = None


class DependsOn(K8sModel):
    """Tasks that have to be there first: any of them, or all."""

    name: Sequence[str] = ()
    iteration: str = ""


class PartitionPolicy(K8sModel):
    """How the pods of a task are divided into groups that stay close together."""

    total_partitions: Int32 = 0
    partition_size: Int32 = 0
    min_partitions: Int32 = 0
    network_topology: NetworkTopology | None = None


class JobTask(K8sModel):
    """Equal pods of a job."""

    name: str = ""
    replicas: Int32 = 0
    min_available: Int32 | None = None
    template: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
    policies: Sequence[LifecyclePolicy] = ()
    topology_policy: str = ""
    max_retry: Int32 = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class JobVolume(K8sModel):
    """A volume that all pods of a job mount."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None  # Any: kept as written


class JobSpec(K8sModel):
    """The tasks, and what they need together."""

    scheduler_name: str = ""
    min_available: Int32 = 0
    volumes: Sequence[JobVolume] = ()
    tasks: Sequence[JobTask] = ()
    policies: Sequence[LifecyclePolicy] = ()
    plugins: dict[str, Sequence[str]] = field(default_factory=dict)
    running_estimate: str | None = None
    queue: str = ""
    max_retry: Int32 = 3
    ttl_seconds_after_finished: Int32 | None = None
    priority_class_name: str = ""
    min_success: Int32 | None = None
    network_topology: NetworkTopology | None = None


class JobState(K8sModel):
    """The phase, and how it came about."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class JobCondition(K8sModel):
    """A phase that the job has been in."""

    status: str = ""
    last_transition_time: Timestamp | None = None


class TaskState(K8sModel):
    """Pods of a task by their phase."""

    phase: dict[str, Int32] = field(default_factory=dict)


class JobStatus(K8sModel):
    """How the job is."""

    state: JobState = field(default_factory=JobState)
    min_available: Int32 = 0
    task_status_count: dict[str, TaskState] = field(default_factory=dict)
    pending: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 = 0
    unknown: Int32 = 0
    version: Int32 = 0
    retry_count: Int32 = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] = field(default_factory=dict)
    conditions: Sequence[JobCondition] = ()


class Job(KubeObject):
    """A job of Volcano."""

    api_version: ClassVar[str] = "batch.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "Job"

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class FlowDependencies(K8sModel):
    """Flows that have to end first."""

    targets: Sequence[str] = ()


class Flow(K8sModel):
    """One Job of a JobFlow, by the name of its template."""

    name: str = ""
    depends_on: FlowDependencies | None = None


class JobFlowSpec(K8sModel):
    """The Jobs, and their order."""

    flows: Sequence[Flow] = ()


class JobFlow(KubeObject):
    """Jobs of Volcano that start one after the other."""

    api_version: ClassVar[str] = "flow.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "JobFlow"

    spec: JobFlowSpec = field(default_factory=JobFlowSpec)
