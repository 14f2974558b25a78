"""Objects that bound what others may do: priority classes, disruption budgets, quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import field

from muster.api.base import Int32, K8sModel, ResourceList
from muster.api.meta import KubeObject, LabelSelector


class PriorityClass(KubeObject):
    """A named priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"
    namespaced: ClassVar[bool] = False

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""


class PodDisruptionBudgetSpec(K8sModel):
    """Which pods are protected, and how many must stay (a number or a percentage)."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(K8sModel):
    """How many of the pods may go now."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0


class PodDisruptionBudget(KubeObject):
    """A limit on voluntary evictions."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    # None: no controller has looked at the budget yet, so the allowance follows from the spec.
    status: PodDisruptionBudgetStatus | None = None


class ScopedResourceSelectorRequirement(K8sModel):
    """A condition on pods that a quota counts."""

    scope_name: str = ""
    operator: str = ""
    values: Sequence[str] = ()


class ScopeSelector(K8sModel):
    """Conditions on pods that a quota counts, all of which must hold."""

    match_expressions: Sequence[ScopedResourceSelectorRequirement] = ()


class ResourceQuotaSpec(K8sModel):
    """The most that a namespace may hold."""

    hard: ResourceList = field(default_factory=dict)
    scopes: Sequence[str] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(K8sModel):
    """The limits in force and what is used of them."""

    hard: ResourceList = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)


class ResourceQuota(KubeObject):
    """A limit on what a namespace may hold."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ResourceQuota"

    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)
