"""Which fields there are, so that a misspelt one is told with the name that was meant.

Muster reads a part of what Kubernetes, Volcano and KAI define; the rest is listed here by name, since leaving out
`livenessProbe` is right and leaving out `nodeSelecter` is not. Only the levels that scheduling reads are looked at:
what stands below a security context or a probe is somebody else's business, and device claims are kept as written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec

from muster.api.objects import batch, claims, meta, node, pod, scheduling, topology
from muster.api.objects.workload_shapes import SHAPES, PodTemplate, templates_in
from muster.api.objects.workloads import ForeignWorkload, foreign_type

#: Fields that exist and that Muster does not read, by the type that holds them.
_UNREAD: Final[Mapping[type, str]] = {
    meta.KubeObject: "apiVersion kind",
    meta.ObjectMeta: "clusterName finalizers generateName managedFields selfLink",
    meta.OwnerReference: "blockOwnerDeletion",
    meta.Condition: "lastHeartbeatTime lastProbeTime lastUpdateTime",
    pod.PodSpec: """
        activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers
        hostAliases hostIPC hostPID hostUsers hostname hostnameOverride imagePullSecrets os readinessGates
        runtimeClassName securityContext serviceAccount serviceAccountName setHostnameAsFQDN
        shareProcessNamespace subdomain""",
    pod.PodStatus: """
        allocatedResources containerStatuses ephemeralContainerStatuses extendedResourceClaimStatus hostIP hostIPs
        initContainerStatuses nodeAllocatableResourceClaimStatuses observedGeneration podIP podIPs qosClass resize
        resources""",
    pod.ContainerStatus: """
        allocatedResources allocatedResourcesStatus containerID image imageID lastState resources started stopSignal
        user volumeMounts""",
    pod.ContainerState: "running waiting",
    pod.ContainerTerminated: "containerID message reason signal startedAt",
    pod.Container: """
        args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy restartPolicyRules
        securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices
        volumeMounts workingDir""",
    pod.Volume: """
        awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir fc flexVolume flocker
        gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs photonPersistentDisk portworxVolume projected
        quobyte rbd scaleIO secret storageos vsphereVolume""",
    pod.PodResourceClaim: "source",
    node.Namespace: "spec status",
    node.NodeSpec: "configSource externalID podCIDR podCIDRs",
    node.NodeStatus: """
        addresses config daemonEndpoints declaredFeatures features images nodeInfo phase runtimeHandlers
        volumesAttached volumesInUse""",
    claims.ObjectReference: "apiVersion fieldPath resourceVersion",
    claims.CSIPersistentVolumeSource: """
        controllerExpandSecretRef controllerPublishSecretRef fsType nodeExpandSecretRef nodePublishSecretRef
        nodeStageSecretRef readOnly volumeAttributes""",
    claims.PersistentVolumeSpec: """
        awsElasticBlockStore azureDisk azureFile cephfs cinder fc flexVolume flocker gcePersistentDisk glusterfs
        hostPath iscsi local mountOptions nfs persistentVolumeReclaimPolicy photonPersistentDisk portworxVolume quobyte
        rbd scaleIO storageos volumeAttributesClassName vsphereVolume""",
    claims.PersistentVolumeStatus: "lastPhaseTransitionTime message reason",
    claims.PersistentVolumeClaimSpec: "dataSource dataSourceRef volumeAttributesClassName",
    claims.PersistentVolumeClaimStatus: """
        accessModes allocatedResourceStatuses allocatedResources capacity conditions currentVolumeAttributesClassName
        modifyVolumeStatus""",
    claims.StorageClass: "allowVolumeExpansion mountOptions reclaimPolicy",
    topology.Topology: "status",
    scheduling.QueueSpec: "extendClusters",
    scheduling.QueueStatus: "reservation",
    scheduling.KaiPodGroupSpec: "backoffLimit completions minSubGroup parallelism",
    scheduling.KaiSubGroup: "minSubGroup",
    scheduling.KaiPodGroupStatus: "resourcesStatus schedulingConditions",
    scheduling.PodDisruptionBudgetSpec: "unhealthyPodEvictionPolicy",
    scheduling.PodDisruptionBudgetStatus: "conditions disruptedPods observedGeneration",
}
#: What is said of a field where nothing better can be said.
UNKNOWN: Final = "unknown field"
#: So many names still help a reader; more are a wall.
_MAX_LISTED: Final = 12
#: The beginning of a name, if it is no shorter, tells which one was meant.
_MIN_PART: Final = 4


#: What stands in fields that are kept as written.
_WITHIN: Final[Mapping[tuple[type, str], type]] = {
    (batch.JobTask, "template"): PodTemplate,
    (batch.JobTemplate, "spec"): batch.JobSpec,
    (batch.CronJobTemplate, "spec"): batch.JobSpec,
    **{(foreign_type(*kind), "spec"): shape for kind, shape in SHAPES.items()},
}


class Level(NamedTuple):
    """The fields of one type, and the types of those that are looked into."""

    known: frozenset[str]
    below: Mapping[str, type]


class UnknownField(NamedTuple):
    """A field that nobody knows, and what may have been meant."""

    path: str
    text: str


def unknown_fields(document: Mapping[str, Any], wanted: type, path: str = "") -> Iterator[UnknownField]:
    """Yield the fields of a document that its type does not have, in the order of the document."""
    level = level_of(wanted)
    if not document.keys() <= level.known:
        for name in document.keys() - level.known if len(document) > 1 else document:
            yield UnknownField(f"{path}{name}", _advice(str(name), level.known))
    for name, inner in level.below.items():
        value = document.get(name)
        if isinstance(value, dict):
            yield from unknown_fields(value, inner, f"{path}{name}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from unknown_fields(item, inner, f"{path}{name}[{index}].")
    if issubclass(wanted, ForeignWorkload) and "spec" not in level.below:
        for place, template in templates_in(document.get("spec")):
            yield from unknown_fields(template, PodTemplate, f"{place}.")


def has_unknown_field(document: Mapping[str, Any], wanted: type) -> bool:
    """Whether there is one, for those who ask this of very many documents."""
    level = level_of(wanted)
    if not document.keys() <= level.known:
        return True
    for name, inner in level.below.items():
        value = document.get(name)
        if value is None:
            continue
        items = value if isinstance(value, list) else (value,)
        if any(isinstance(item, dict) and has_unknown_field(item, inner) for item in items):
            return True
    return False


@lru_cache(maxsize=256)
def level_of(wanted: type) -> Level:
    """The fields that documents of a type may have, read or not, and what stands in them."""
    fields = msgspec.structs.fields(wanted)
    known = {known.encode_name for known in fields}
    for base in wanted.__mro__:
        known.update(_UNREAD.get(base, "").split())
    below = {known.encode_name: inner for known in fields if (inner := _struct_in(known.type)) is not None}
    below |= {name: inner for (holder, name), inner in _WITHIN.items() if holder is wanted}
    return Level(frozenset(known), below)


def _struct_in(declared: Any) -> type | None:  # noqa: ANN401 - whatever an annotation may be
    """The type of what stands in a field, alone or in a list; None for plain values and for maps."""
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        return declared
    if get_origin(declared) is dict:
        return None
    return next((found for part in get_args(declared) if (found := _struct_in(part)) is not None), None)


def _advice(name: str, known: Collection[str]) -> str:
    if near := nearest(name, known):
        return f"unknown field; did you mean {near}?"
    if len(known) <= _MAX_LISTED:
        return f"unknown field; known here: {', '.join(sorted(known))}"
    return UNKNOWN


def nearest(name: str, known: Collection[str], cutoff: float = 0.75) -> str:
    """The name that was probably meant, "" if none is near; capitals, dashes and underscores do not count."""
    plain = {_plain(each): each for each in sorted(known, reverse=True)}
    wanted = _plain(name)
    found = get_close_matches(wanted, plain, n=1, cutoff=cutoff)
    if not found and len(wanted) >= _MIN_PART:
        found = [each for each in plain if each.startswith(wanted)]
    return plain[found[0]] if len(found) == 1 else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that nobody has."""
    near = nearest(name, known)
    return f'; did you mean "{near}"?' if near else ""
