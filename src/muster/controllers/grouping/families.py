"""Gangs as PodGroups of Volcano's or of KAI's family: names, queues, priorities, and what pods carry to name them.

KAI's: pods that name KAI's scheduler or carry any of its labels or annotations, they, an owner or a template of it; and
all pods of a cluster that has queues of KAI and none of Volcano's. All others are Volcano's.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from muster.api import KaiPodGroup, Pod, PodGroup, pod_request
from muster.api.names import (
    COOLDOWN_TIME,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    JOB_QUEUE,
    KAI_DEFAULT_QUEUE,
    KAI_GROUP_NAME,
    KAI_NODE_POOL,
    KAI_OLD_QUEUE,
    KAI_PREEMPTIBILITY,
    KAI_PREEMPTION_DELAY,
    KAI_PRIORITY_CLASSES,
    KAI_PRIORITY_LABEL,
    KAI_SCHEDULER,
    KAI_STALE_GRACE,
    KAI_SUBGROUP,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE_ZONE,
    TASK_SPEC,
)
from muster.api.objects.pod import kai_queue_of
from muster.api.resources import format_amount
from muster.controllers.contract import Json
from muster.controllers.grouping.rules import Document, Gang, Level, Owner
from muster.controllers.grouping.table import Rule, text_at

Family = Literal["volcano", "kai"]
FAMILIES: Final[tuple[Family, ...]] = ("volcano", "kai")
_KAI_KEYS: Final = ("kai.scheduler/", KAI_OLD_QUEUE)
_VOLCANO_KEYS: Final = "scheduling.volcano.sh/"
_NETWORK_MODE: Final = "volcano.sh/network-topology-mode"
_NETWORK_TIER: Final = "volcano.sh/network-topology-highest-tier"
_MODES: Final = ("hard", "soft")
#: The label of KAI's users that names a queue by their project.
_PROJECT: Final = "project"
_USER: Final = "user"
_PREEMPTIBILITY: Final = ("preemptible", "non-preemptible", "semi-preemptible")
_GANG_ANNOTATIONS: Final = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
_KAI_GANG_ANNOTATIONS: Final = (KAI_PREEMPTION_DELAY, KAI_STALE_GRACE)
_GANG_LABELS: Final = (PREEMPTABLE, COOLDOWN_TIME)
_UID: Final = re.compile(r"[a-z0-9-]+")
_MAX_NAME: Final = 253
#: Annotations that quote the whole object.
_QUOTING: Final = "kubectl.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Known:
    """What the cluster has that PodGroups depend on."""

    queues: Collection[str] = ()
    kai_queues: Collection[str] = ()
    priority_classes: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A PodGroup that is to be there, and what pods carry that are of it."""

    family: Family
    document: Json
    gang: Gang

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def key(self) -> str:
        return f"{self.document['metadata']['namespace']}/{self.name}"

    def marks(self, pod: Pod) -> Json:
        """What a pod carries to be of it."""
        part = self.gang.part_of(pod)
        if self.family == "kai":
            return {"annotations": {KAI_GROUP_NAME: self.name}, **({"labels": {KAI_SUBGROUP: part}} if part else {})}
        return {"annotations": {GROUP_NAME: self.name, **({TASK_SPEC: part} if part else {})}}


def family_of(pod: Pod, owners: Iterable[Owner], known: Known, there: Collection[Family] = FAMILIES) -> Family:
    """Whose PodGroup a pod gets; `there`: those that the cluster can have, at least one."""
    wanted = _family_of(pod, owners, known)
    return wanted if wanted in there else next(iter(there))


def _family_of(pod: Pod, owners: Iterable[Owner], known: Known) -> Family:
    meta = pod.metadata
    keys = [*meta.labels, *meta.annotations]
    for owner in owners:
        keys += [*owner.labels, *owner.annotations]
        # Of several templates perhaps one names KAI; all pods of an owner are of one family.
        text = str(owner.document.get("spec"))
        if any(key in text for key in (*_KAI_KEYS, f"'{KAI_SCHEDULER}'")):
            return "kai"
    if pod.spec.scheduler_name == KAI_SCHEDULER or any(key.startswith(_KAI_KEYS) for key in keys):
        return "kai"
    return "kai" if known.kai_queues and not known.queues else "volcano"


@dataclass(frozen=True, slots=True)
class Member:
    """A pod, and all that its PodGroup follows from."""

    pod: Pod
    rule: Rule
    #: From the one that made the pod upwards, the last of them the one that counts; a pod that nobody owns has itself.
    owners: Sequence[Owner]
    gang: Gang
    #: The object that has the fields.
    fields: Document

    @property
    def top(self) -> Owner:
        return self.owners[-1]


def wanted(family: Family, member: Member, known: Known) -> Wanted:
    """The PodGroup of a pod."""
    pod, top = member.pod, member.top
    share = member.rule.share_of(family, top.document)
    holder = {"owner": top, "child": member.owners[0], "pod": owner_of_itself(pod), "each": top}[share]
    document = _for_kai(member, known) if family == "kai" else _for_volcano(member)
    gang = member.gang
    base = name_of(family, pod.name if share == "each" else holder.name, holder.uid)
    document["metadata"] |= {
        "name": f"{base}{gang.suffix}"[:_MAX_NAME],
        "namespace": pod.namespace,
        "ownerReferences": [_reference(holder)],
    }
    return Wanted(family, document, gang)


def owner_of_itself(pod: Pod) -> Owner:
    """A pod in the place of its owner."""
    marks = {"metadata": {"labels": pod.metadata.labels, "annotations": pod.metadata.annotations}}
    return Owner(Pod.api_version, Pod.kind, pod.name, pod.metadata.uid, marks)


def name_of(family: Family, name: str, uid: str) -> str:
    """What the PodGroup of an owner is called."""
    short = uid if _UID.fullmatch(uid) else f"{zlib.crc32(uid.encode()):08x}"
    return f"pg-{name}-{short}" if family == "kai" else f"podgroup-{short}"


def _reference(owner: Owner) -> Json:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


# -- Volcano ---------------------------------------------------------------------------------------------------


def _for_volcano(member: Member) -> Json:
    pod, gang, of_pod = member.pod, member.gang, member.pod.metadata
    annotations = {
        key: text
        for owner in reversed(member.owners)
        for key, text in owner.annotations.items()
        if key.startswith(_VOLCANO_KEYS)
    }
    annotations |= {key: of_pod.annotations[key] for key in _GANG_ANNOTATIONS if key in of_pod.annotations}
    budget = next((key for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if key in of_pod.annotations), None)
    if budget is not None:
        annotations[budget] = of_pod.annotations[budget]
    spec: Json = {
        "minMember": gang.minimum,
        "queue": _volcano_queue(member),
        "priorityClassName": text_at(member.fields, member.rule.priority_class) or pod.spec.priority_class_name,
        "minTaskMember": {part.name: part.minimum for part in gang.parts if part.label},
        "networkTopology": _network_topology(of_pod.annotations),
    }
    if not gang.parts:
        spec["minResources"] = {
            name: format_amount(name, amount * gang.minimum)
            for name, amount in pod_request(pod).items()
            if amount and name != "pods"
        }
    labels: dict[str, str] = {key: of_pod.labels[key] for key in _GANG_LABELS if key in of_pod.labels}
    return _document(PodGroup.api_version, labels, annotations, spec)


def _volcano_queue(member: Member) -> str:
    meta, owners = member.pod.metadata, member.owners
    named = [marks.get(QUEUE_NAME) for marks in (meta.annotations, *(owner.annotations for owner in owners))]
    named.append(text_at(member.fields, member.rule.queue))
    named += [labels.get(JOB_QUEUE) for labels in (meta.labels, *(owner.labels for owner in owners))]
    return next(filter(None, named), "")


def _network_topology(annotations: Mapping[str, str]) -> Json | None:
    """As Volcano reads it: hard unless soft is asked for, and a tier that is no number is none."""
    mode, tier = annotations.get(_NETWORK_MODE), annotations.get(_NETWORK_TIER)
    if mode is None and tier is None:
        return None
    word = (mode or "").lower()
    made: Json = {"mode": word if word in _MODES else _MODES[0]}
    return {**made, "highestTierAllowed": int(tier)} if tier is not None and tier.isdecimal() else made


# -- KAI -------------------------------------------------------------------------------------------------------


def _for_kai(member: Member, known: Known) -> Json:
    gang, top, of_pod = member.gang, member.top, member.pod.metadata
    labels = {key: of_pod.labels[key] for key in (_USER, KAI_NODE_POOL) if key in of_pod.labels} | dict(top.labels)
    annotations: dict[str, str] = {
        key: of_pod.annotations[key] for key in _KAI_GANG_ANNOTATIONS if key in of_pod.annotations
    }
    annotations |= {key: text for key, text in top.annotations.items() if not key.startswith(_QUOTING)}
    spec: Json = {
        "minMember": gang.minimum,
        "queue": _kai_queue(top, of_pod.labels, known),
        "priorityClassName": _kai_priority(member, known),
        "preemptibility": _preemptibility(member),
        "topologyConstraint": None if gang.level is None else _constraint(gang.level),
        "subGroups": [
            {
                "name": part.name.lower(),
                "minMember": part.minimum,
                **({"parent": part.parent.lower()} if part.parent else {}),
                **({} if part.level is None else {"topologyConstraint": _constraint(part.level)}),
            }
            for part in gang.parts
        ],
    }
    return _document(KaiPodGroup.api_version, labels, annotations, spec)


def _kai_queue(top: Owner, of_pod: Mapping[str, str], known: Known) -> str:
    for labels in (top.labels, of_pod):
        if queue := kai_queue_of(labels):
            return queue
    for labels in (top.labels, of_pod):
        if project := labels.get(_PROJECT):
            pool = of_pod.get(KAI_NODE_POOL)
            return f"{project}-{pool}" if pool else project
    return KAI_DEFAULT_QUEUE if KAI_DEFAULT_QUEUE in known.kai_queues else ""


def _kai_priority(member: Member, known: Known) -> str:
    """The first class that there is, of those that owners and pod name; KAI's own need no object."""
    pod = member.pod
    names = [text_at(member.fields, member.rule.priority_class)]
    names += [owner.labels.get(KAI_PRIORITY_LABEL, "") for owner in member.owners]
    names += [pod.metadata.labels.get(KAI_PRIORITY_LABEL, ""), pod.spec.priority_class_name]
    existing = {*known.priority_classes, *KAI_PRIORITY_CLASSES}
    return next((name for name in names if name in existing), member.rule.priority)


def _preemptibility(member: Member) -> str:
    marks = [*(owner.labels for owner in member.owners), member.pod.metadata.labels]
    said = [labels.get(KAI_PREEMPTIBILITY, "").lower() for labels in marks]
    return next((word for word in said if word in _PREEMPTIBILITY), "")


def _constraint(level: Level) -> Json:
    made = {
        "topology": level.topology,
        "requiredTopologyLevel": level.required,
        "preferredTopologyLevel": level.preferred,
    }
    return {name: text for name, text in made.items() if text}


def _document(api_version: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Json) -> Json:
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"labels": dict(labels), "annotations": dict(annotations)},
        "spec": {name: value for name, value in spec.items() if value not in (None, "", {}, [])},
    }
