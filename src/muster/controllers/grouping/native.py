"""Kubernetes' own gangs: pods that name a PodGroup of scheduling.k8s.io, or a Workload of 1.35, in their spec.

Each gets a PodGroup of Volcano's or of KAI's family in its place, made with it and going with it, so that queues,
priorities and evictions are those of all other gangs. Its state goes back to the PodGroup as kube-scheduler writes it.
A topology key is a level of a Topology: one that the cluster has, or one that is made for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from muster.api import KaiPodGroup, OwnerReference, Pod, PodGroup, Topology
from muster.controllers.contract import Json, stamp
from muster.controllers.grouping.rules import Document, Gang, Level, Owner
from muster.controllers.grouping.table import at, number_at, text_at

#: Where PodGroups of Kubernetes are served, and how each version calls the condition that they are scheduled.
SCHEDULED: Final = {
    "scheduling.k8s.io/v1beta1": "PodGroupInitiallyScheduled",
    "scheduling.k8s.io/v1alpha3": "PodGroupInitiallyScheduled",
    "scheduling.k8s.io/v1alpha2": "PodGroupScheduled",
}
#: Where Workloads have PodGroups inside.
WORKLOADS: Final = ("scheduling.k8s.io/v1alpha1",)
_MIN_COUNT: Final = "schedulingPolicy.gang.minCount"
_PREFIX: Final = "native"
_OF_GROUP: Final = "PodGroup"
_OF_WORKLOAD: Final = "Workload"


class Native(NamedTuple):
    """What a pod names."""

    kind: str
    name: str
    #: Of a Workload: the PodGroup inside, and which of its copies.
    part: str = ""
    replica: str = ""

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(SCHEDULED) if self.kind == _OF_GROUP else WORKLOADS

    @property
    def group_name(self) -> str:
        """What the PodGroup in its place is called; pods can name it before it is there."""
        return "-".join(filter(None, (_PREFIX, self.name, self.part, self.replica)))


def native_of(pod: Pod) -> Native | None:
    """The gang of Kubernetes that a pod names."""
    group, workload = pod.spec.scheduling_group, pod.spec.workload_ref
    if group is not None and group.pod_group_name:
        return Native(_OF_GROUP, group.pod_group_name)
    if workload is not None and workload.name:
        return Native(_OF_WORKLOAD, workload.name, workload.pod_group, workload.pod_group_replica_key)
    return None


def gang_of_native(native: Native, owner: Owner, topology: str) -> Gang | None:
    """The gang; None where the Workload has no such part."""
    if native.kind == _OF_GROUP:
        key = topology_key(owner.document)
        level = Level(topology, required=key) if key else None
        return Gang(number_at(owner.document, [f"spec.{_MIN_COUNT}"]) or 1, level=level)
    parts: Sequence[Any] = at(owner.document, "spec.podGroups") or ()
    entry = next((each for each in parts if text_at(each, ["name"]) == native.part), None)
    return None if entry is None else Gang(number_at(entry, ["policy.gang.minCount"]) or 1)


def goes_whole(native: Native, owner: Owner) -> bool:
    """Whether pods of the gang may only be taken away together: `disruptionMode: PodGroup`, or `{all: {}}` later on."""
    if native.kind == _OF_GROUP:
        mode = at(owner.document, "spec.disruptionMode")
    else:
        parts: Sequence[Any] = at(owner.document, "spec.podGroups") or ()
        entry: Document = next((each for each in parts if text_at(each, ["name"]) == native.part), {})
        mode = at(entry, "disruptionMode") or at(entry, "policy.gang.disruptionMode")
    return mode == _OF_GROUP or (isinstance(mode, dict) and "all" in mode)


def topology_key(document: Document) -> str:
    """The node label whose value all pods of a PodGroup are to share, "" for none."""
    constraints = at(document, "spec.schedulingConstraints.topology")
    first = constraints[0] if isinstance(constraints, list) and constraints else {}
    return text_at(first, ["key"])


def topology_for(key: str, known: Iterable[Topology]) -> str:
    """The name of the Topology that has a label as a level; "" for none."""
    return next(
        (each.name for each in known if any(level.node_label == key for level in each.spec.levels)),
        "",
    )


def made_topology(key: str) -> Json:
    """A Topology of one level."""
    name = f"{_PREFIX}-{key.replace('/', '.')}".lower()
    return {
        "apiVersion": Topology.api_version,
        "kind": Topology.kind,
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key}]},
    }


def native_owner(group: PodGroup | KaiPodGroup) -> OwnerReference | None:
    """The PodGroup of Kubernetes in whose place a group is."""
    return next((each for each in group.metadata.owner_references if each.api_version in SCHEDULED), None)


def told(group: PodGroup | KaiPodGroup, owner: Owner, now: float) -> Json | None:
    """The status of a PodGroup of Kubernetes as kube-scheduler writes it; None: it says so already.

    Once it was scheduled it stays so, whatever becomes of its pods.
    """
    kind = SCHEDULED.get(owner.api_version)
    standing: list[Json] = at(owner.document, "status.conditions") or []
    before: Json = next((each for each in standing if each.get("type") == kind), {})
    wanted = _condition(group)
    if kind is None or wanted is None or (before.get("status") == "True" and wanted["status"] != "True"):
        return None
    if all(before.get(field) == text for field, text in wanted.items()):
        return None
    is_new = before.get("status") != wanted["status"]
    moment = stamp(int(now)).strftime("%Y-%m-%dT%H:%M:%SZ") if is_new else before["lastTransitionTime"]
    generation = at(owner.document, "metadata.generation")
    condition = {"type": kind, **wanted, "lastTransitionTime": moment}
    if isinstance(generation, int):
        condition["observedGeneration"] = generation
    return {"conditions": [*(each for each in standing if each.get("type") != kind), condition]}


def _condition(group: PodGroup | KaiPodGroup) -> Json | None:
    said = {each.type: each for each in group.status.conditions if each.status == "True"}
    if group.status.phase in ("Running", "Completed") or "Scheduled" in said:
        return {"status": "True", "reason": "Scheduled", "message": ""}
    if "Unschedulable" in said:
        return {"status": "False", "reason": "Unschedulable", "message": said["Unschedulable"].message}
    return None
