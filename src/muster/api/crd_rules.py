"""What the types alone do not say of users' objects: limits, choices, required fields, rules in CEL, meanings.

The rules are those of the documents that describe the objects, and say what `validate` says of objects in files, so
that a server refuses what a file is refused for; in brackets stand the words of Volcano's refusals, by which programs
know them. A server also refuses what only files have, as Volcano's definitions do: a queue that weighs nothing, members
with names that no object can have. Names of fields are those of documents; a name that its type does not have is an
error when the schema is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.names import DEFAULT_QUEUE
from muster.api.objects.batch import JobSpec, JobTask, JobVolume, LifecyclePolicy, PartitionPolicy
from muster.api.objects.meta import LabelSelector, LabelSelectorRequirement
from muster.api.objects.scheduling import NetworkTopology, PodGroupSpec, Queue, QueueSpec, SubGroupPolicy
from muster.api.objects.topology import ExactMatch, HyperNodeSpec, HyperNodeStatus, Member, MemberSelector, RegexMatch

Schema = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class Extras:
    """What is known of a struct beside its types."""

    #: More about single fields, by their name in documents.
    fields: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    #: Rules in CEL over the whole struct, with the message for objects that break one.
    rules: Mapping[str, str] = field(default_factory=dict)
    #: More about the struct itself.
    more: Schema = field(default_factory=dict)


_NAME: Final[Schema] = {"minLength": 1}
_MAX_NAME: Final = 253
_MAX_WEIGHT: Final = 65535
#: The name of an object: words of small letters, digits and dashes, with dots between them.
_OBJECT_NAME: Final[Schema] = {
    "minLength": 1,
    "maxLength": _MAX_NAME,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}


def _count(text: str = "", least: int = 0) -> Schema:
    """A number with a lower limit."""
    return {"minimum": least, **_said(text)}


def _counts(text: str) -> Schema:
    """A map to numbers that are not negative."""
    return {"additionalProperties": {"type": "integer", "format": "int32", "minimum": 0}, **_said(text)}


def _choice(*words: str, text: str = "") -> Schema:
    return {"enum": list(words), **_said(text)}


def _said(text: str) -> Schema:
    return {"description": text} if text else {}


_SELECTORS: Final[dict[type, Extras]] = {
    # A selector is one thought: two appliers must not mix theirs.
    LabelSelector: Extras(more={"x-kubernetes-map-type": "atomic"}),
    LabelSelectorRequirement: Extras(
        fields={"operator": _choice("In", "NotIn", "Exists", "DoesNotExist")}, required=("key", "operator")
    ),
}
_GANGS: Final[dict[type, Extras]] = {
    NetworkTopology: Extras(
        fields={
            "mode": _choice("hard", "soft", text="Whether pods must, or only should, be this close together."),
            "highestTierAllowed": _count("The highest tier that the pods may span."),
            "highestTierName": _said("The highest tier that the pods may span, by its name."),
        },
        rules={
            "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''": (
                "give highestTierAllowed or highestTierName, not both"
            )
        },
    ),
    PodGroupSpec: Extras(
        fields={
            "minMember": _count("Pods that start together, or none does."),
            "minTaskMember": _counts("Pods of each role that start together, by role."),
            "minResources": _said("What the gang needs at least; a queue admits it when it has as much."),
            "queue": _said("The queue that the gang waits in."),
            "priorityClassName": _said("The PriorityClass of the gang."),
            # Names are unique, and appliers merge policies by name.
            "subGroupPolicy": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        }
    ),
    SubGroupPolicy: Extras(
        fields={
            "name": _NAME,
            "labelSelector": _said("The pods that the policy divides; all when absent."),
            "matchLabelKeys": _said("Labels whose values tell sub-groups apart."),
            "subGroupSize": _count("Pods of one sub-group.", least=1),
            "minSubGroups": _count("Sub-groups that start together, or none does."),
        },
        required=("name",),
    ),
}
_QUEUES: Final[dict[type, Extras]] = {
    QueueSpec: Extras(
        fields={
            "weight": {
                **_count("The queue's part of what nobody deserves, against its siblings'.", least=1),
                "maximum": _MAX_WEIGHT,
            },
            "capability": _said("The most that the queue may hold."),
            "deserved": _said("What the queue gets back when others have borrowed it."),
            "guarantee": _said("What is held back for the queue, used or not."),
            "reclaimable": _said("Whether others may take back what the queue has borrowed; true when absent."),
            "parent": _said("The queue above; the root when absent."),
            "priority": _said("Queues of a higher priority come first, and give back last."),
            "dequeueStrategy": _choice("fifo", "traverse", text="Whether a job that cannot start holds up the others."),
        }
    ),
    Queue: Extras(
        rules={
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name": (
                "a queue cannot be its own parent"
            )
        }
    ),
}
_HYPER_NODES: Final[dict[type, Extras]] = {
    ExactMatch: Extras(fields={"name": _OBJECT_NAME}, required=("name",)),
    RegexMatch: Extras(fields={"pattern": _NAME}, required=("pattern",)),
    Member: Extras(
        fields={"type": _choice("Node", "HyperNode")},
        required=("type", "selector"),
        rules={"self.type != 'HyperNode' || !has(self.selector.labelMatch)": "labels select nodes, not HyperNodes"},
    ),
    MemberSelector: Extras(
        rules={
            "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + (has(self.labelMatch) ? 1 : 0) == 1": (
                "give exactly one of exactMatch, regexMatch and labelMatch"
            )
        }
    ),
    HyperNodeSpec: Extras(
        fields={
            "tier": _count("How far apart the nodes are; lower is closer together."),
            "tierName": {"maxLength": _MAX_NAME, **_said("What the tier is called.")},
        },
        required=("tier",),
    ),
    HyperNodeStatus: Extras(fields={"nodeCount": _count()}),
}
_JOBS: Final[dict[type, Extras]] = {
    PartitionPolicy: Extras(
        fields={
            "totalPartitions": _count("Groups that the task's pods are divided into.", least=1),
            "partitionSize": _count("Pods of one group.", least=1),
            "minPartitions": _count("Groups that start together, or none does."),
        },
        required=("totalPartitions", "partitionSize"),
    ),
    LifecyclePolicy: Extras(
        rules={
            "!has(self.exitCode) || !(has(self.event) || has(self.events))": (
                "give events or exitCode, not both (must not specify event and exitCode simultaneously)"
            ),
            "has(self.exitCode) || has(self.event) || has(self.events)": (
                "give an event, events or an exitCode (either event and exitCode should be specified)"
            ),
            "!has(self.exitCode) || self.exitCode != 0": (
                "0 is not the exit code of a failure (0 is not a valid error code)"
            ),
        }
    ),
    JobVolume: Extras(fields={"mountPath": _NAME}),
    JobTask: Extras(
        fields={
            # Without a name the task gets one.
            "name": {"pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", "maxLength": 63},
            "replicas": _count("Pods of the task."),
            "minAvailable": _count("Pods of the task that start together; all when absent."),
            "maxRetry": _count(),
            "topologyPolicy": _choice("none", "best-effort", "restricted", "single-numa-node"),
        },
        rules={
            "!has(self.minAvailable) || self.minAvailable <= (has(self.replicas) ? self.replicas : 0)": (
                "minAvailable must not be more than replicas ('minAvailable' is greater than 'replicas' in task)"
            ),
            (
                "!has(self.partitionPolicy) || (has(self.replicas) ? self.replicas : 0)"
                " == self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize"
            ): "replicas must be totalPartitions times partitionSize",
            (
                "!has(self.partitionPolicy) || !has(self.minAvailable) || !has(self.partitionPolicy.minPartitions)"
                " || self.partitionPolicy.minPartitions == 0"
                " || self.minAvailable == self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize"
            ): "minAvailable must be minPartitions times partitionSize",
        },
    ),
    JobSpec: Extras(
        fields={
            "minAvailable": _count("Pods that start together; all when absent."),
            "maxRetry": _count(),
            "minSuccess": _count(least=1),
            "ttlSecondsAfterFinished": _count("Seconds after its end when the Job is deleted; never when absent."),
            "queue": {"default": DEFAULT_QUEUE},
            # The server estimates what rules cost at most, and wants a bound; this many do not fit an object anyway.
            "tasks": {"maxItems": 10000},
        }
    ),
}
RULES: Final[dict[type, Extras]] = {**_SELECTORS, **_GANGS, **_QUEUES, **_HYPER_NODES, **_JOBS}
