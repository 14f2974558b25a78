"""The fields that are known are those of Kubernetes, and near names are found."""

from __future__ import annotations

import pytest
from kubernetes_asyncio.client import models

from muster.api.fields import nearest, unknown_fields
from muster.api.objects import claims, meta, node, pod, scheduling

#: Types of ours beside those of the client library, which is made from the server's own description.
SAME = [
    (meta.ObjectMeta, "V1ObjectMeta"),
    (meta.OwnerReference, "V1OwnerReference"),
    (meta.Condition, "V1PodCondition"),
    (meta.Condition, "V1NodeCondition"),
    (meta.LabelSelector, "V1LabelSelector"),
    (pod.Pod, "V1Pod"),
    (pod.PodSpec, "V1PodSpec"),
    (pod.PodStatus, "V1PodStatus"),
    (pod.ContainerStatus, "V1ContainerStatus"),
    (pod.ContainerState, "V1ContainerState"),
    (pod.ContainerTerminated, "V1ContainerStateTerminated"),
    (pod.Container, "V1Container"),
    (pod.ContainerPort, "V1ContainerPort"),
    (pod.ResourceRequirements, "V1ResourceRequirements"),
    (pod.Volume, "V1Volume"),
    (pod.Affinity, "V1Affinity"),
    (pod.PodAffinityTerm, "V1PodAffinityTerm"),
    (pod.TopologySpreadConstraint, "V1TopologySpreadConstraint"),
    (node.Node, "V1Node"),
    (node.NodeSpec, "V1NodeSpec"),
    (node.NodeStatus, "V1NodeStatus"),
    (node.Taint, "V1Taint"),
    (node.Toleration, "V1Toleration"),
    (node.Namespace, "V1Namespace"),
    (claims.PersistentVolume, "V1PersistentVolume"),
    (claims.PersistentVolumeSpec, "V1PersistentVolumeSpec"),
    (claims.PersistentVolumeStatus, "V1PersistentVolumeStatus"),
    (claims.PersistentVolumeClaimSpec, "V1PersistentVolumeClaimSpec"),
    (claims.PersistentVolumeClaimStatus, "V1PersistentVolumeClaimStatus"),
    (claims.CSIPersistentVolumeSource, "V1CSIPersistentVolumeSource"),
    (claims.ObjectReference, "V1ObjectReference"),
    (claims.StorageClass, "V1StorageClass"),
    (scheduling.PriorityClass, "V1PriorityClass"),
    (scheduling.PodDisruptionBudgetSpec, "V1PodDisruptionBudgetSpec"),
    (scheduling.PodDisruptionBudgetStatus, "V1PodDisruptionBudgetStatus"),
    (scheduling.ResourceQuotaSpec, "V1ResourceQuotaSpec"),
]


@pytest.mark.parametrize(("ours", "theirs"), SAME, ids=[theirs for _, theirs in SAME])
def test_every_field_of_kubernetes_is_known(ours: type, theirs: str) -> None:
    fields = getattr(models, theirs).attribute_map.values()
    assert [found.path for found in unknown_fields(dict.fromkeys(fields, 1), ours)] == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nodeSelecter", "nodeSelector"),
        ("nodeselector", "nodeSelector"),
        ("node_selector", "nodeSelector"),
        ("priorityClass", "priorityClassName"),
        ("replicas", ""),
        ("x", ""),
    ],
)
def test_near_names_are_found(written: str, meant: str) -> None:
    assert nearest(written, {"nodeSelector", "nodeName", "priorityClassName", "priority", "containers"}) == meant
