"""Volcano's work: Jobs, from whose tasks a controller makes a PodGroup and pods; Commands to them; what makes Jobs.

Admission checks these kinds, controllers serve them, and scheduling sees only what becomes of them. Pod templates,
volume claims and patches stay as they were written. What a Job leaves open is filled in here, in one way for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from msgspec import field

from muster.api.names import DEFAULT_QUEUE
from muster.api.objects.meta import Int32, K8sModel, KubeObject, OwnerReference, Timestamp
from muster.api.objects.scheduling import NetworkTopology

Json = dict[str, Any]  # Any: documents as they were written
#: As many pods as Kubernetes supports in one cluster: counting out two thousand million costs everybody else.
MAX_JOB_PODS: Final = 150_000
#: What policies and Commands do to a Job.
ACTIONS: Final = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)


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


# -- commands --------------------------------------------------------------------------------------------------


class Command(KubeObject):
    """A word to one Job: an action that is carried out once, and the Command is gone."""

    api_version: ClassVar[str] = "bus.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "Command"

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


# -- Jobs that start one after the other -----------------------------------------------------------------------


class TaskProbe(K8sModel):
    """A task that has to be in a phase."""

    task_name: str = ""
    phase: str = ""


class HttpProbe(K8sModel):
    """A page that the first pod of a task has to serve."""

    task_name: str = ""
    path: str = ""
    port: Int32 = 0
    http_header: dict[str, str] = field(default_factory=dict, name="httpHeader")


class TcpProbe(K8sModel):
    """A port that the first pod of a task has to listen on."""

    task_name: str = ""
    port: Int32 = 0


class FlowProbe(K8sModel):
    """What is asked of the Jobs before; nothing: that they are complete."""

    http_get_list: Sequence[HttpProbe] = ()
    tcp_socket_list: Sequence[TcpProbe] = ()
    task_status_list: Sequence[TaskProbe] = ()


class FlowDependencies(K8sModel):
    """Flows that have to end first, or to be as far as the probe asks."""

    targets: Sequence[str] = ()
    probe: FlowProbe | None = None


class FlowPatch(K8sModel):
    """What is different from the template; Volcano's pages also write it as `spec`."""

    job_spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


class Flow(K8sModel):
    """One Job of a JobFlow, by the name of its template."""

    name: str = ""
    depends_on: FlowDependencies | None = None
    patch: FlowPatch | None = None


class JobFlowSpec(K8sModel):
    """The Jobs, their order, and whether they stay when all have ended."""

    flows: Sequence[Flow] = ()
    job_retain_policy: str = "retain"


class FlowJobStatus(K8sModel):
    """How one Job of a JobFlow is."""

    name: str = ""
    state: str = ""
    start_timestamp: Timestamp | None = None
    end_timestamp: Timestamp | None = None
    restart_count: Int32 = 0


class FlowState(K8sModel):
    """The phase of a JobFlow."""

    phase: str = ""


class JobFlowStatus(K8sModel):
    """How the Jobs of a JobFlow are."""

    pending_jobs: Sequence[str] = ()
    running_jobs: Sequence[str] = ()
    failed_jobs: Sequence[str] = ()
    completed_jobs: Sequence[str] = ()
    terminated_jobs: Sequence[str] = ()
    un_know_jobs: Sequence[str] = ()
    job_status_list: Sequence[FlowJobStatus] = ()
    state: FlowState = field(default_factory=FlowState)


class JobFlow(KubeObject):
    """Jobs of Volcano that start one after the other."""

    api_version: ClassVar[str] = "flow.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "JobFlow"

    spec: JobFlowSpec = field(default_factory=JobFlowSpec)
    status: JobFlowStatus = field(default_factory=JobFlowStatus)


class JobTemplateStatus(K8sModel):
    """The Jobs that were made from a template."""

    job_depends_on_list: Sequence[str] = ()


class JobTemplate(KubeObject):
    """A Job that JobFlows make, as often as they need it."""

    api_version: ClassVar[str] = "flow.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "JobTemplate"

    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
    status: JobTemplateStatus = field(default_factory=JobTemplateStatus)


# -- Jobs by the clock -----------------------------------------------------------------------------------------


class CronJobTemplate(K8sModel):
    """The Job that a CronJob makes."""

    metadata: dict[str, Any] = field(default_factory=dict)  # Any: kept as written
    spec: dict[str, Any] = field(default_factory=dict)  # Any: kept as written


class CronJobSpec(K8sModel):
    """When, what, and what to do about a Job that still runs."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool | None = None
    job_template: CronJobTemplate = field(default_factory=CronJobTemplate)
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class ObjectReference(K8sModel):
    """Another object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class CronJobStatus(K8sModel):
    """Jobs that run, and when the last one was due and the last one succeeded."""

    active: Sequence[ObjectReference] = ()
    last_schedule_time: Timestamp | None = None
    last_successful_time: Timestamp | None = None


class CronJob(KubeObject):
    """A Job of Volcano that is made again and again, at times that a line of cron says."""

    api_version: ClassVar[str] = "batch.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "CronJob"

    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)


# -- what a Job leaves open ------------------------------------------------------------------------------------

_RETRIES: Final = 3
_TASK_NAME: Final = "default"
#: Pods on the network of their node find services only with this.
_HOST_NETWORK_DNS: Final = "ClusterFirstWithHostNet"
#: Plugins of Jobs that work only beside others.
_BESIDE: Final = {
    "mpi": ("svc", "ssh"),
    "pytorch": ("svc",),
    "ray": ("svc",),
    "tensorflow": ("svc",),
}


def fill_job_spec(spec: Json, scheduler_name: str) -> None:
    """Fill in, in place, what the spec of a Job leaves open; what is written stays."""
    spec["queue"] = spec.get("queue") or DEFAULT_QUEUE
    spec["schedulerName"] = spec.get("schedulerName") or scheduler_name
    spec["maxRetry"] = spec.get("maxRetry") or _RETRIES
    tasks = [task for task in spec.get("tasks") or () if isinstance(task, dict)]
    for index, task in enumerate(tasks):
        _fill_task(task, index)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(_count(task.get("minAvailable")) for task in tasks)
    plugins = spec.get("plugins") or {}
    for name in sorted(plugins):
        for needed in _BESIDE.get(name, ()):
            plugins.setdefault(needed, [])


def _fill_task(task: Json, index: int) -> None:
    task["name"] = task.get("name") or f"{_TASK_NAME}{index}"
    task["maxRetry"] = task.get("maxRetry") or _RETRIES
    if task.get("minAvailable") is None:
        task["minAvailable"] = _least(task)
    pod = (task.get("template") or {}).get("spec")
    if isinstance(pod, dict) and pod.get("hostNetwork") is True and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = _HOST_NETWORK_DNS


def _least(task: Json) -> int:
    """All pods of a task start together, or those of as many partitions as must."""
    policy = task.get("partitionPolicy") or {}
    partitions = _count(policy.get("minPartitions"))
    return partitions * _count(policy.get("partitionSize")) if partitions else _count(task.get("replicas"))


def _count(value: object) -> int:
    """A number of a document that nobody has checked yet."""
    return value if isinstance(value, int) else 0
