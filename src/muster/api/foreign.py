"""Kinds that files hold and that Muster does not read: what each of them is, so that leaving it out is told truly.

Workloads make pods, and those pods are what a user wants to see placed: where Muster runs no controller for one, its
pods are to be given. Everything else (settings, rights, services) has no say in where pods go.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Final

from muster.api.errors import UserError
from muster.api.fields import nearest

_WORKLOADS: Final[dict[str, frozenset[str]]] = {
    "": frozenset({"PodTemplate", "ReplicationController"}),
    "apps": frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    "batch": frozenset({"CronJob", "Job"}),
    "batch.volcano.sh": frozenset({"CronJob", "Job", "JobFlow", "JobTemplate"}),
    "flow.volcano.sh": frozenset({"JobFlow", "JobTemplate"}),
    "kubeflow.org": frozenset(
        {"MPIJob", "MXJob", "PaddleJob", "PyTorchJob", "JAXJob", "TFJob", "XGBoostJob", "Notebook"}
    ),
    "trainer.kubeflow.org": frozenset({"ClusterTrainingRuntime", "TrainingRuntime", "TrainJob"}),
    "ray.io": frozenset({"RayCluster", "RayCronJob", "RayJob", "RayService"}),
    "sparkoperator.k8s.io": frozenset({"ScheduledSparkApplication", "SparkApplication"}),
    "flink.apache.org": frozenset({"FlinkDeployment", "FlinkSessionJob"}),
    "jobset.x-k8s.io": frozenset({"JobSet"}),
    "leaderworkerset.x-k8s.io": frozenset({"LeaderWorkerSet"}),
    "workload.codeflare.dev": frozenset({"AppWrapper"}),
    "argoproj.io": frozenset({"ClusterWorkflowTemplate", "CronWorkflow", "Rollout", "Workflow", "WorkflowTemplate"}),
    "tekton.dev": frozenset({"Pipeline", "PipelineRun", "Task", "TaskRun"}),
    "serving.knative.dev": frozenset({"Service"}),
    "serving.kserve.io": frozenset({"InferenceService", "LLMInferenceService"}),
    "nvidia.com": frozenset({"DynamoGraphDeployment"}),
    "grove.io": frozenset({"PodClique", "PodCliqueSet", "PodGangSet"}),
    "training.kubedl.io": frozenset({"MPIJob", "PyTorchJob", "TFJob"}),
    "scheduling.k8s.io": frozenset({"Workload"}),
    "kueue.x-k8s.io": frozenset({"Workload"}),
}
#: Groups that were given up, and where their kinds are now.
_MOVED: Final = {"extensions": "apps"}
#: API groups of Kubernetes itself; a kind of theirs that nobody knows is a mistake.
_OWN: Final[dict[str, frozenset[str]]] = {
    "": frozenset(
        {"Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "Secret", "Service"}
        | {"ServiceAccount"}
    ),
    "apps": frozenset({"ControllerRevision"}),
    "batch": frozenset(),
    "policy": frozenset({"PodSecurityPolicy"}),
    "scheduling.k8s.io": frozenset({"PodGroup"}),
    "storage.k8s.io": frozenset(
        {"CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"}
    ),
    "resource.k8s.io": frozenset({"DeviceTaintRule", "ResourceClaimTemplate", "ResourcePoolStatusRequest"}),
    "scheduling.volcano.sh": frozenset(),
    "topology.volcano.sh": frozenset(),
    "scheduling.run.ai": frozenset({"BindRequest"}),
    "kai.scheduler": frozenset({"Config", "SchedulingShard"}),
}


def is_workload(api_version: str, kind: str) -> bool:
    """Whether objects of the kind make pods."""
    return kind in _WORKLOADS.get(api_version.rpartition("/")[0], ())


def check_foreign(api_version: str, kind: str, known: Iterable[tuple[str, str]]) -> None:
    """Raise UserError where a kind that is not read looks like a mistake for one of the `known` (apiVersion, kind)."""
    group = api_version.rpartition("/")[0]
    theirs = _OWN.get(group)
    if is_workload(api_version, kind) or (theirs is not None and kind in theirs):
        return
    kinds = sorted(known)
    versions = [version for version, name in kinds if name == kind]
    if versions and (theirs is not None or "/" not in api_version or nearest(api_version, versions, 0.85)):
        wanted = " or ".join(f'"{version}"' for version in versions)
        raise UserError(f'expected {wanted} for kind {kind}, got "{api_version}"', field="apiVersion")
    if theirs is None:
        return
    beside = {name for version, name in kinds if version.rpartition("/")[0] == group}
    meant = nearest(kind, beside | theirs | _WORKLOADS.get(group, frozenset()), 0.7)
    if meant:
        raise UserError(f'unknown kind "{kind}" of {api_version}; did you mean {meant}?', field="kind")
    names = ", ".join(f"{name} ({version})" for version, name in sorted(kinds, key=lambda k: (k[1], k[0])))
    raise UserError(f'unknown kind "{kind}" of {api_version}; known kinds: {names}', field="kind")


def described(api_version: str, kind: str, known: Iterable[tuple[str, str]] = (), *, makes_pods: bool = False) -> str:
    """What a kind is that is not read; `known` are those that are, `makes_pods` says that it has templates of pods."""
    group = api_version.rpartition("/")[0]
    read = [v for v, name in known if name == kind and v.rpartition("/")[0] == _MOVED.get(group, group)]
    if read:
        return f"a version that muster does not read, unlike {' and '.join(sorted(read))}"
    if makes_pods or is_workload(api_version, kind):
        return "a workload that muster does not run; give its pods, and their PodGroup if they have one"
    return "a kind that muster does not read"


def told(
    kinds: Mapping[tuple[str, str], int], known: Collection[tuple[str, str]], makers: Container[tuple[str, str]]
) -> list[str]:
    """One line for each kind that was left out, with how many there were.

    `makers`: those with templates of pods.
    """
    return [
        f"{count:,} {kind}{'s' if count > 1 else ''} of {api_version} left out: "
        + described(api_version, kind, known, makes_pods=(api_version, kind) in makers)
        for (api_version, kind), count in kinds.items()
    ]
