"""What others make pods of, kept as written: Deployments, Jobs, the kinds of training operators and their like.

Nothing but the metadata has a type: their definitions change with their operators, and who reads one looks for the few
fields that it needs. Each apiVersion and kind is a type of its own, so that objects are found as all others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import new_class
from typing import Any, ClassVar, Final, cast

from msgspec import field

from muster.api.objects.meta import KubeObject

Fields = dict[str, Any]  # Any: whatever an operator defines


class ForeignWorkload(KubeObject):
    """An object of others that makes pods, or says how pods are made."""

    spec: Fields = field(default_factory=dict)
    status: Fields = field(default_factory=dict)

    @property
    def document(self) -> Fields:
        """The object as paths of fields see it."""
        labels, annotations = self.metadata.labels, self.metadata.annotations
        return {"metadata": {"labels": labels, "annotations": annotations}, "spec": self.spec, "status": self.status}


@lru_cache(maxsize=1024)
def foreign_type(api_version: str, kind: str) -> type[ForeignWorkload]:
    """The type of an apiVersion and kind."""
    attributes = {
        "__doc__": f"{kind} of {api_version}.",
        "__module__": __name__,
        "__annotations__": {"api_version": ClassVar[str], "kind": ClassVar[str], "namespaced": ClassVar[bool]},
        "api_version": api_version,
        "kind": kind,
        "namespaced": kind not in _OF_THE_CLUSTER,
    }
    return cast("type[ForeignWorkload]", new_class(kind, (ForeignWorkload,), {}, lambda body: body.update(attributes)))


_OF_THE_CLUSTER: Final = frozenset({"ClusterTrainingRuntime", "ClusterWorkflowTemplate"})
#: What files may hold of these, by API version.
_KINDS: Final[Mapping[str, str]] = {
    "v1": "ReplicationController",
    "apps/v1": "Deployment ReplicaSet StatefulSet",
    "batch/v1": "Job CronJob",
    "batch/v1beta1": "CronJob",
    "kubeflow.org/v1": "PyTorchJob TFJob XGBoostJob MPIJob PaddleJob JAXJob MXJob Notebook",
    "kubeflow.org/v1beta1": "Notebook",
    "kubeflow.org/v2beta1": "MPIJob",
    "trainer.kubeflow.org/v1alpha1": "TrainJob TrainingRuntime ClusterTrainingRuntime",
    "ray.io/v1": "RayCluster RayJob RayService RayCronJob",
    "ray.io/v1alpha1": "RayCluster RayJob RayService",
    "jobset.x-k8s.io/v1alpha2": "JobSet",
    "leaderworkerset.x-k8s.io/v1": "LeaderWorkerSet",
    "sparkoperator.k8s.io/v1beta2": "SparkApplication ScheduledSparkApplication",
    "serving.knative.dev/v1": "Service Revision",
    "argoproj.io/v1alpha1": "Workflow WorkflowTemplate ClusterWorkflowTemplate CronWorkflow",
    "grove.io/v1alpha1": "PodCliqueSet PodClique",
    "scheduler.grove.io/v1alpha1": "PodGang",
    "scheduling.k8s.io/v1alpha1": "Workload",
    "scheduling.k8s.io/v1alpha2": "PodGroup Workload",
    "scheduling.k8s.io/v1alpha3": "PodGroup Workload",
    "scheduling.k8s.io/v1beta1": "PodGroup Workload",
}


def foreign_types() -> Iterator[type[ForeignWorkload]]:
    """All that files may hold."""
    for api_version, kinds in _KINDS.items():
        for kind in kinds.split():
            yield foreign_type(api_version, kind)
