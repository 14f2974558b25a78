"""Custom resource definitions of the kinds that Muster works with, made from the types in this package.

Names, short names and columns are those that Volcano's users know. Where Volcano's own definitions are installed, they
are used as they are. The schemas are structural, as the server wants them. Fields that Muster does not know are kept,
not pruned: users' objects may carry fields of newer versions and of other tools. What a type alone cannot say stands
in `crd_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import NODEFAULT, inspect

from muster.api.crd_rules import RULES, Extras, Schema
from muster.api.errors import UserError
from muster.api.objects.batch import Command, CronJob, Job, JobFlow, JobTemplate
from muster.api.objects.meta import K8sModel, KubeObject
from muster.api.objects.scheduling import PodGroup, Queue
from muster.api.objects.topology import HyperNode
from muster.api.quantity import Quantity

#: Marks what `muster crds install` made, and may therefore bring up to date.
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "muster"}


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    path: str
    type: str = "string"
    #: 1: only in wide output.
    priority: int = 0

    def as_json(self) -> Schema:
        column: Schema = {"name": self.name, "jsonPath": self.path, "type": self.type}
        return {**column, "priority": self.priority} if self.priority else column


@dataclass(frozen=True, slots=True)
class _Kind:
    type: type[KubeObject]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[_Column, ...]


_AGE: Final = _Column("Age", ".metadata.creationTimestamp", "date")
_KINDS: Final = (
    _Kind(
        PodGroup,
        "podgroups",
        ("pg", "podgroup-v1beta1"),
        (
            _Column("Status", ".status.phase"),
            _Column("MinMember", ".spec.minMember", "integer"),
            _Column("Runnings", ".status.running", "integer"),
            _AGE,
            _Column("Queue", ".spec.queue", priority=1),
        ),
    ),
    _Kind(
        Queue,
        "queues",
        ("q", "queue-v1beta1"),
        (
            _Column("Parent", ".spec.parent"),
            _Column("Weight", ".spec.weight", "integer"),
            _Column("State", ".status.state"),
            _AGE,
        ),
    ),
    _Kind(
        HyperNode,
        "hypernodes",
        ("hn",),
        (
            _Column("Tier", ".spec.tier", "integer"),
            _Column("TierName", ".spec.tierName"),
            _Column("NodeCount", ".status.nodeCount", "integer"),
            _AGE,
        ),
    ),
    _Kind(
        Job,
        "jobs",
        ("vcjob", "vj"),
        (
            _Column("Status", ".status.state.phase"),
            _Column("MinAvailable", ".spec.minAvailable", "integer"),
            _Column("Runnings", ".status.running", "integer"),
            _AGE,
            _Column("Queue", ".spec.queue", priority=1),
        ),
    ),
    _Kind(
        CronJob,
        "cronjobs",
        ("cronvcjob", "cronvj"),
        (
            _Column("Schedule", ".spec.schedule"),
            _Column("Suspend", ".spec.suspend", "boolean"),
            _Column("LastSchedule", ".status.lastScheduleTime", "date"),
            _AGE,
        ),
    ),
    _Kind(JobFlow, "jobflows", ("jf",), (_Column("Status", ".status.state.phase"), _AGE)),
    _Kind(JobTemplate, "jobtemplates", ("jt",), (_AGE,)),
    _Kind(
        Command,
        "commands",
        ("cmd",),
        (_Column("Action", ".action"), _Column("Target", ".target.name"), _AGE),
    ),
)


def definitions(wanted: Sequence[str] = ()) -> list[Schema]:
    """Return the definitions as documents: of the kinds named in any of their ways, or of all. Raises UserError."""
    chosen = {_find(name) for name in wanted} or set(_KINDS)
    return [_definition(known) for known in _KINDS if known in chosen]


def _find(name: str) -> _Kind:
    for known in _KINDS:
        if name.lower() in {known.type.kind.lower(), known.plural, *known.short_names}:
            return known
    kinds = ", ".join(known.type.kind for known in _KINDS)
    raise UserError(f'no definition of a kind "{name}"; there are {kinds}')


def _definition(known: _Kind) -> Schema:
    group, _, version = known.type.api_version.partition("/")
    kind = known.type.kind
    served: Schema = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(known.type)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.as_json() for column in known.columns],
    }
    names: Schema = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": known.plural,
        "singular": kind.lower(),
        "shortNames": list(known.short_names),
    }
    scope = "Namespaced" if known.type.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{known.plural}.{group}", "labels": dict(MANAGED_BY)},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


def _root(kind: type[KubeObject]) -> Schema:
    """The schema of a whole object; its metadata is the server's business."""
    schema = schema_of(kind, RULES)
    # Fields beside spec and status are nobody's.
    del schema["x-kubernetes-preserve-unknown-fields"]
    own = {name: part for name, part in schema["properties"].items() if name != "metadata"}
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return {**schema, "properties": {**head, **own}}


# Amounts are never negative.
_QUANTITY = r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


def schema_of(wanted: type[K8sModel], extras: Mapping[type, Extras]) -> Schema:
    """Return the schema of a struct and of everything in it."""
    info = inspect.type_info(wanted)
    assert isinstance(info, inspect.StructType)
    return _struct(info, extras)


def _struct(info: inspect.StructType, extras: Mapping[type, Extras]) -> Schema:
    known = extras.get(info.cls, Extras())
    unknown = (known.fields.keys() | set(known.required)) - {each.encode_name for each in info.fields}
    assert not unknown, f"{info.cls.__name__} has no fields {sorted(unknown)}"
    properties = {
        each.encode_name: {**_type(each.type, extras), **_default(each), **known.fields.get(each.encode_name, {})}
        for each in info.fields
    }
    schema: Schema = {"type": "object", "description": _first_line(info.cls), "properties": properties}
    schema["x-kubernetes-preserve-unknown-fields"] = True
    if known.required:
        schema["required"] = list(known.required)
    if known.rules:
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": text} for rule, text in known.rules.items()]
    return {**schema, **known.more}


def _first_line(described: type) -> str:
    """What a type is; `kubectl explain` shows it."""
    return (described.__doc__ or "").partition("\n")[0]


def _default(each: inspect.Field) -> Schema:
    """The value that the server fills in; "" and 0 are what absent fields are read as anyway."""
    return {"default": each.default} if each.default is not NODEFAULT and each.default else {}


def _type(info: inspect.Type, extras: Mapping[type, Extras]) -> Schema:
    match info:
        case inspect.StructType():
            return _struct(info, extras)
        case inspect.UnionType():
            return _union(info, extras)
        case inspect.DictType():
            if isinstance(info.value_type, inspect.AnyType):
                return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            return {"type": "object", "additionalProperties": _type(info.value_type, extras)}
        case inspect.ListType() | inspect.VarTupleType():
            return {"type": "array", "items": _type(info.item_type, extras)}
        case inspect.CustomType() if info.cls is Quantity:
            return dict(_AMOUNT)
    return _scalar(info)


_AMOUNT: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": _QUANTITY,
    "minimum": 0,
    "x-kubernetes-int-or-string": True,
}


def _scalar(info: inspect.Type) -> Schema:
    match info:
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int32" if info.le == 2**31 - 1 else "int64"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.LiteralType():
            return {"enum": list(info.values)}
    raise TypeError(f"no schema for {info!r}")


def _union(info: inspect.UnionType, extras: Mapping[type, Extras]) -> Schema:
    """An optional field, or one of several types; absent, never null."""
    present = [_type(kind, extras) for kind in info.types if not isinstance(kind, inspect.NoneType)]
    return present[0] if len(present) == 1 else {"anyOf": present}
