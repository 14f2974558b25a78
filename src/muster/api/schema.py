"""OpenAPI schemas of our types, as custom resource definitions want them (structural schemas).

Called by `definitions`. Fields that Muster does not know are kept, not pruned: users' objects may carry fields of newer
versions and of other tools. What a type alone cannot say (choices, limits, rules) comes in as `Extras`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import NODEFAULT, inspect

from muster.api.base import K8sModel
from muster.api.quantity import Quantity

Schema = dict[str, Any]  # Any: JSON

# Amounts are never negative.
_QUANTITY = r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


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
    raise TypeError(f"no schema for {info!r}")


def _union(info: inspect.UnionType, extras: Mapping[type, Extras]) -> Schema:
    """An optional field; absent, never null."""
    present = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
    assert len(present) == 1, f"no schema for {info!r}"
    return _type(present[0], extras)
