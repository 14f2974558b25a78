"""`muster schema`: JSON Schemas of the files that Muster reads, by which editors complete and check them.

Made from the types that read the files: what an editor underlines, `muster simulate` refuses. Draft 7, which editors
know best. Fields that exist and that Muster does not read may have any value; kinds that it does not read are not
looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import typer

from muster.api import KINDS, WORKLOADS, KubeObject, UserError
from muster.api.crd_rules import RULES
from muster.api.definitions import schema_of
from muster.api.fields import did_you_mean, level_of
from muster.api.kinds import ALSO_IN
from muster.api.objects.workloads import ForeignWorkload
from muster.cli.screen import make_console, plain_table
from muster.controllers.grouping.table import Rule
from muster.framework.config import KNOWN_FLAGS
from muster.framework.plugin import Arguments
from muster.scheduler import builtin_registry

Json = dict[str, Any]  # Any: a JSON document

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
#: Workloads of others are checked by their own operators.
_TYPES: Final = tuple(kind for kind in (*KINDS.values(), *WORKLOADS.values()) if not issubclass(kind, ForeignWorkload))
_ANY_STRING: Final[Json] = {"type": "string"}
_NAMES: Final[Json] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
#: What a scalar of a configuration may be written as besides.
_AS_TEXT: Final = frozenset({"integer", "number", "boolean"})


def print_schema(name: str | None) -> None:
    """Print one schema, or the names of all. Raises UserError."""
    known = _schemas()
    if name is None:
        table = plain_table("name", "of")
        for each, (text, _) in known.items():
            table.add_row(each, text)
        make_console().print(table)
        return
    if name.lower() not in known:
        raise UserError(f'there is no schema "{name}"{did_you_mean(name, known)}; `muster schema` lists them')
    text, make = known[name.lower()]
    typer.echo(json.dumps({"$schema": _DRAFT, "title": text, **make()}, indent=2, ensure_ascii=False))


def _schemas() -> dict[str, tuple[str, Callable[[], Json]]]:
    """By name: what it is of, and what makes it."""
    found: dict[str, tuple[str, Callable[[], Json]]] = {
        "objects": ("files with objects of any kind, for `muster simulate` and kubectl", objects_schema),
        "configuration": (
            "the scheduler configuration, with the plugins installed here",
            configuration_schema,
        ),
        "timeline": ("what happens later, for `--timeline`", timeline_schema),
    }
    for kind in _TYPES:
        found[_name(kind)] = (f"{kind.kind} ({kind.api_version})", _maker(kind))
    return found


def _name(kind: type[KubeObject]) -> str:
    family = "kai-" if kind.__name__.startswith("Kai") else ""
    return f"{family}{kind.kind.lower()}"


def _maker(kind: type[KubeObject]) -> Callable[[], Json]:
    return lambda: object_schema(kind)


# -- objects -----------------------------------------------------------------------------------------------------


def object_schema(kind: type[KubeObject]) -> Json:
    """The schema of one kind; fields that it does not have are errors."""
    schema = _closed(_plain(schema_of(kind, RULES)), kind)
    versions = [kind.api_version, *ALSO_IN.get(kind, ())]
    head = {"apiVersion": {"enum": versions}, "kind": {"const": kind.kind}}
    return {**schema, "properties": {**schema["properties"], **head}, "required": ["apiVersion", "kind", "metadata"]}


def _plain(schema: Json) -> Json:
    """A schema without what only an API server reads, and with amounts as files have them."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": schema["pattern"]}]}
    return {key: _plain_part(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}


def _plain_part(value: Any) -> Any:  # noqa: ANN401  # a part of a JSON document
    if isinstance(value, dict):
        return _plain(value)
    return [_plain_part(each) for each in value] if isinstance(value, list) else value


def _closed(schema: Json, wanted: type) -> Json:
    """The schema of a type with all fields that there are, and no other."""
    level = level_of(wanted)
    inner: Json = {name: {} for name in sorted(level.known)} | schema["properties"]
    for name, kind in level.below.items():
        if (found := inner[name]).get("properties") is not None:
            inner[name] = _closed(found, kind)
        elif "items" in found:
            inner[name] = {**found, "items": _closed(found["items"], kind)}
        else:  # kept as written, and read later
            inner[name] = _closed(_plain(schema_of(kind, RULES)), kind)
    if "creationTimestamp" in inner:
        inner["creationTimestamp"] = {"type": ["string", "null"]}  # as kubectl prints templates
    return {**schema, "properties": inner, "additionalProperties": False}


def objects_schema() -> Json:
    """The schema of a document of any kind: those that Muster reads are checked by their own."""
    return {**_any_object("#"), "definitions": {_name(kind): object_schema(kind) for kind in _TYPES}}


def _any_object(root: str) -> Json:
    cases = [
        {
            "if": {
                "required": ["apiVersion", "kind"],
                "properties": {"apiVersion": {"const": version}, "kind": {"const": kind.kind}},
            },
            "then": {"$ref": f"{root}/definitions/{_name(kind)}"},
        }
        for kind in _TYPES
        for version in (kind.api_version, *ALSO_IN.get(kind, ()))
    ]
    versions = sorted({kind.api_version for kind in _TYPES})
    return {
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"anyOf": [{"enum": versions}, _ANY_STRING]},
            "kind": {"anyOf": [{"enum": sorted({kind.kind for kind in _TYPES})}, _ANY_STRING]},
        },
        "allOf": cases,
    }


# -- other files -------------------------------------------------------------------------------------------------


def timeline_schema() -> Json:
    """The schema of a timeline."""
    thing = {"anyOf": [{"type": "string", "description": "a file, relative to this one"}, _any_object("#")]}
    verbs: Mapping[str, Json] = {
        "add": {"description": "make objects", "anyOf": [thing, {"type": "array", "items": thing}]},
        "delete": {"description": "delete objects, such as Pod/team-a/train-0", **_NAMES},
        "cordon": {"description": "keep new pods off nodes", **_NAMES},
        "uncordon": {"description": "let pods on nodes again", **_NAMES},
        "ready": {"description": "make nodes ready", **_NAMES},
        "notReady": {"description": "make nodes not ready; their pods stay", **_NAMES},
        "patch": {
            "description": "change fields of an object; a null removes one",
            "type": "object",
            "properties": {"target": _ANY_STRING, "merge": {"type": "object"}},
            "required": ["target", "merge"],
            "additionalProperties": False,
        },
    }
    moment = {"type": ["number", "string"], "minimum": 0, "description": 'time from the start: "5m", or seconds'}
    entry = {
        "type": "object",
        "properties": {"at": moment, **verbs},
        "required": ["at"],
        "minProperties": 2,
        "maxProperties": 2,
        "additionalProperties": False,
    }
    return {"type": "array", "items": entry, "definitions": objects_schema()["definitions"]}


def configuration_schema() -> Json:
    """The schema of a scheduler configuration: names and arguments of what is installed."""
    registry = builtin_registry()
    plugins = {name: part.Args for name, part in registry.plugins.items()}
    actions = {name: part.Args for name, part in registry.actions.items()}
    arguments = sorted({*plugins.values(), *actions.values()}, key=lambda each: each.__qualname__)
    shapes, components = msgspec.json.schema_components(arguments, ref_template="#/definitions/{name}")
    shape_of = dict(zip(arguments, shapes, strict=True))
    action = "|".join(sorted(actions))
    flags = {flag: {"type": "boolean"} for flag in sorted(KNOWN_FLAGS)}
    tier = {
        "plugins": {
            "type": "array",
            "items": _named(plugins, shape_of, flags),
        },
        "arguments": {"type": ["object", "null"]},
    }
    configured = {"type": ["array", "null"], "items": _named(actions, shape_of, {})}
    return {
        **_object(
            {
                "actions": {
                    "type": "string",
                    "description": "the steps of a cycle, in order, separated by commas",
                    "pattern": rf"^\s*({action})\s*(,\s*({action})\s*)*,?\s*$",
                },
                "tiers": {
                    "description": "groups of plugins; a later one decides only what the earlier ones left open",
                    "type": "array",
                    "items": _object(tier, ["plugins"]),
                },
                "configurations": {"description": "arguments of actions", **configured},
                "metrics": {"description": "accepted, without effect"},
                "grouping": {
                    "description": "which pods belong together, by the kind of what owns them",
                    "type": "array",
                    "items": _object({name: {} for name in level_of(Rule).known}, ["kind"]),
                },
            },
            ["actions", "tiers"],
        ),
        "definitions": {name: _as_text_too(component) for name, component in components.items()},
    }


def _named(parts: Mapping[str, type[Arguments]], shapes: Mapping[type[Arguments], Json], more: Json) -> Json:
    """Something with a name, whose arguments follow from it."""
    cases = [
        {
            "if": {"properties": {"name": {"const": name}}},
            "then": {"properties": {"arguments": {"anyOf": [shapes[arguments], {"type": "null"}]}}},
        }
        for name, arguments in sorted(parts.items())
    ]
    fields = {"name": {"enum": sorted(parts)}, "arguments": {"type": ["object", "null"]}, **more}
    return {**_object(fields, ["name"]), "allOf": cases}


def _object(fields: Json, required: Iterable[str]) -> Json:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def _as_text_too(value: Any) -> Any:  # noqa: ANN401  # a part of a JSON document
    """The same, with numbers and truth values also as text, and arguments without a value."""
    if isinstance(value, list):
        return [_as_text_too(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("type"), str) and value["type"] in _AS_TEXT:
        return {**value, "type": [value["type"], "string", "null"]}
    return {key: _as_text_too(each) for key, each in value.items()}
