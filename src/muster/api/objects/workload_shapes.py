"""What the specs of Kubernetes' own workloads hold, so that files can be checked before anything is made of them.

The objects themselves are kept as written (`workloads`). Of what Muster does not read only the names stand here. Kinds
of operators have no shape: their definitions change with them, and only their pod templates are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, field

from muster.api.objects.meta import Int32, K8sModel, ObjectMeta
from muster.api.objects.pod import PodSpec
from muster.api.objects.workloads import Fields

#: How many pods a workload has.
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Unread = Any  # whatever Kubernetes defines


class PodTemplate(K8sModel):
    """The pods of a workload, which are kept as written and become pods later."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class ReplicaSetSpec(K8sModel):
    """Of ReplicaSets and ReplicationControllers."""

    replicas: Count | None = None
    selector: _Unread = None
    min_ready_seconds: _Unread = None
    template: PodTemplate | None = None


class DeploymentSpec(ReplicaSetSpec):
    """Of Deployments."""

    strategy: _Unread = None
    revision_history_limit: _Unread = None
    paused: _Unread = None
    progress_deadline_seconds: _Unread = None


class StatefulSetSpec(ReplicaSetSpec):
    """Of StatefulSets."""

    service_name: _Unread = None
    pod_management_policy: _Unread = None
    update_strategy: _Unread = None
    revision_history_limit: _Unread = None
    volume_claim_templates: _Unread = None
    persistent_volume_claim_retention_policy: _Unread = None
    ordinals: _Unread = None


class BatchJobSpec(K8sModel):
    """Of Kubernetes' Jobs."""

    parallelism: Count | None = None
    completions: Count | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None
    active_deadline_seconds: _Unread = None
    backoff_limit: _Unread = None
    backoff_limit_per_index: _Unread = None
    completion_mode: _Unread = None
    managed_by: _Unread = None
    manual_selector: _Unread = None
    max_failed_indexes: _Unread = None
    pod_failure_policy: _Unread = None
    pod_replacement_policy: _Unread = None
    scheduling: _Unread = None
    selector: _Unread = None
    success_policy: _Unread = None
    ttl_seconds_after_finished: _Unread = None


class BatchJobTemplate(K8sModel):
    """The Jobs of a CronJob."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BatchJobSpec = field(default_factory=BatchJobSpec)


class BatchCronJobSpec(K8sModel):
    """Of Kubernetes' CronJobs."""

    schedule: str = ""
    time_zone: str | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: Count | None = None
    failed_jobs_history_limit: Count | None = None
    job_template: BatchJobTemplate | None = None


class GangPolicy(K8sModel):
    """Start together, so many at least."""

    min_count: Int32 | None = None


class SchedulingPolicy(K8sModel):
    """How the pods of a PodGroup of Kubernetes are started: each alone, or together."""

    basic: Fields | None = None
    gang: GangPolicy | None = None


class NativePodGroupSpec(K8sModel):
    """Of PodGroups of Kubernetes."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: _Unread = None
    disruption_mode: _Unread = None
    pod_group_template_ref: _Unread = None
    priority: _Unread = None
    priority_class_name: _Unread = None
    resource_claims: _Unread = None
    parent_composite_pod_group_name: _Unread = None


#: By API version and kind.
SHAPES: Final[Mapping[tuple[str, str], type[K8sModel]]] = {
    ("v1", "ReplicationController"): ReplicaSetSpec,
    ("apps/v1", "ReplicaSet"): ReplicaSetSpec,
    ("apps/v1", "Deployment"): DeploymentSpec,
    ("apps/v1", "StatefulSet"): StatefulSetSpec,
    ("batch/v1", "Job"): BatchJobSpec,
    ("batch/v1", "CronJob"): BatchCronJobSpec,
    ("batch/v1beta1", "CronJob"): BatchCronJobSpec,
    ("scheduling.k8s.io/v1alpha2", "PodGroup"): NativePodGroupSpec,
    ("scheduling.k8s.io/v1alpha3", "PodGroup"): NativePodGroupSpec,
    ("scheduling.k8s.io/v1beta1", "PodGroup"): NativePodGroupSpec,
}
#: What kinds of operators make their pods of, by kind and API group, where there is no other way.
MADE_OF: Final[Mapping[tuple[str, str], str]] = {
    ("PyTorchJob", "kubeflow.org"): "pytorchReplicaSpecs",
    ("TFJob", "kubeflow.org"): "tfReplicaSpecs",
    ("XGBoostJob", "kubeflow.org"): "xgbReplicaSpecs",
    ("MPIJob", "kubeflow.org"): "mpiReplicaSpecs",
    ("PaddleJob", "kubeflow.org"): "paddleReplicaSpecs",
    ("JAXJob", "kubeflow.org"): "jaxReplicaSpecs",
    ("MXJob", "kubeflow.org"): "mxReplicaSpecs",
    ("RayCluster", "ray.io"): "headGroupSpec",
    ("JobSet", "jobset.x-k8s.io"): "replicatedJobs",
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): "leaderWorkerTemplate",
}


def templates_in(value: object, path: str = "spec") -> Iterator[tuple[str, Fields]]:
    """Yield the pod templates of a workload with their paths: whatever is called so and holds containers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}"
            if isinstance(inner, dict) and str(key).lower().endswith("template") and _has_containers(inner.get("spec")):
                yield here, inner
            else:
                yield from templates_in(inner, here)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from templates_in(inner, f"{path}[{index}]")


def _has_containers(spec: object) -> bool:
    return isinstance(spec, dict) and isinstance(spec.get("containers"), Sequence)
