"""Every plugin and action as data: summary, arguments, extension points, and the package it comes from.

Made from the classes themselves, so that it cannot drift from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

import msgspec
from msgspec import inspect as types

from muster.framework import Action, Plugin, Registry
from muster.framework.plugin import Arguments
from muster.framework.points import implemented
from muster.framework.registry import ACTION_GROUP, PLUGIN_GROUP

OWN_PACKAGE = "muster"


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """One argument as the configuration file names it."""

    name: str
    type: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A plugin or an action."""

    kind: str
    name: str
    summary: str
    package: str
    arguments: tuple[ArgumentInfo, ...]
    #: Extension points that a plugin answers; empty for actions.
    points: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:  # Any: a JSON document
        return {
            "kind": self.kind,
            "name": self.name,
            "summary": self.summary,
            "package": self.package,
            "extensionPoints": list(self.points),
            "arguments": [
                {"name": a.name, "type": a.type, "default": a.default, "meaning": a.meaning} for a in self.arguments
            ],
        }


def inventory(registry: Registry) -> list[PartInfo]:
    """Describe everything that a registry holds: plugins by name, then actions by name."""
    plugins = [_describe("plugin", known) for _, known in sorted(registry.plugins.items())]
    actions = [_describe("action", known) for _, known in sorted(registry.actions.items())]
    return plugins + actions


def _describe(kind: str, known: type[Plugin] | type[Action]) -> PartInfo:
    points: tuple[str, ...] = ()
    if issubclass(known, Plugin):
        points = tuple(point.name for point in implemented(known))
    return PartInfo(
        kind=kind,
        name=known.name,
        summary=known.summary or _first_line(known),
        package=_package_of(known),
        arguments=tuple(argument_infos(known.Args)),
        points=points,
    )


def argument_infos(arguments: type[Arguments]) -> Iterator[ArgumentInfo]:
    """Describe the fields of an `Args` class."""
    described = types.type_info(arguments)
    assert isinstance(described, types.StructType)
    for field in described.fields:
        bare, meaning = _without_meaning(field.type)
        yield ArgumentInfo(field.encode_name, type_text(bare), _default_text(field), meaning)


def _without_meaning(given: types.Type) -> tuple[types.Type, str]:
    meaning = ""
    while isinstance(given, types.Metadata):
        meaning = str((given.extra_json_schema or {}).get("description", meaning))
        given = given.type
    return given, meaning


def type_text(given: types.Type) -> str:
    """Return a type in words, with its limits: "whole number, at least 1"."""
    given, _ = _without_meaning(given)
    if isinstance(given, types.IntType | types.FloatType):
        return ", ".join(["whole number" if isinstance(given, types.IntType) else "number", *_limits(given)])
    if isinstance(given, types.BoolType):
        return "true or false"
    if isinstance(given, types.StrType):
        return "text"
    return _compound_text(given)


def _compound_text(given: types.Type) -> str:
    match given:
        case types.LiteralType():
            return " or ".join(str(value) for value in given.values)
        case types.EnumType():
            return " or ".join(str(member.value) for member in given.cls)
        case types.DictType():
            return f"mapping of {type_text(given.key_type)} to {type_text(given.value_type)}"
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            return f"list of {type_text(given.item_type)}"
        case types.UnionType():
            parts = [part for part in given.types if not isinstance(part, types.NoneType)]
            return " or ".join(type_text(part) for part in parts)
        case types.StructType():
            return f"mapping with {', '.join(field.encode_name for field in given.fields)}"
        case _:
            return "any value"


def _limits(given: types.IntType | types.FloatType) -> list[str]:
    if given.ge is not None and given.le is not None:
        return [f"{_number(given.ge)} to {_number(given.le)}"]
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    return [
        f"{word} {_number(getattr(given, limit))}" for limit, word in words.items() if getattr(given, limit) is not None
    ]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _default_text(field: types.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return value_text(value)


def value_text(value: object) -> str:
    """Return a value as one would write it in the configuration; nothing for what is not set."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value or '""'
    plain = msgspec.to_builtins(value, str_keys=True)
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{key}: {value_text(item)}" for key, item in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ", ".join(value_text(item) for item in plain) + "]"
    return _number(plain) if isinstance(plain, int | float) else str(plain)


def _first_line(known: type) -> str:
    return (inspect.getdoc(known) or "").partition("\n")[0]


def _package_of(known: type) -> str:
    """Return the distribution that registered a class by entry point, "muster" for built-in ones."""
    if known.__module__.partition(".")[0] == OWN_PACKAGE:
        return OWN_PACKAGE
    for group in (PLUGIN_GROUP, ACTION_GROUP):
        for entry in entry_points(group=group):
            if entry.value == f"{known.__module__}:{known.__qualname__}" and entry.dist is not None:
                return entry.dist.name
    return known.__module__.partition(".")[0]
