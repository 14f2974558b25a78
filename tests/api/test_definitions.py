"""Definitions are made from the types: every field is there, rules name fields that exist, and the form is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from muster.api import HyperNode, KubeObject, PodGroup, Queue, UserError
from muster.api.crd_rules import RULES, Extras
from muster.api.definitions import definitions, schema_of
from muster.api.objects.batch import Job
from muster.api.objects.scheduling import PodGroupSpec

Json = dict[str, Any]

KINDS = (PodGroup, Queue, HyperNode, Job)


def version_of(kind: type[KubeObject]) -> Json:
    (definition,) = definitions([kind.kind])
    (version,) = definition["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def schema(kind: type[KubeObject]) -> Json:
    found: Json = version_of(kind)["schema"]["openAPIV3Schema"]
    return found


def missing(info: msgspec.inspect.Type, made: Json, path: str) -> Iterator[str]:
    """Yield fields of a type that a schema does not have, wherever they are."""
    match info:
        case msgspec.inspect.StructType():
            for field in info.fields:
                here = f"{path}.{field.encode_name}"
                if field.encode_name not in made["properties"]:
                    yield here
                elif here != ".metadata":
                    yield from missing(field.type, made["properties"][field.encode_name], here)
        case msgspec.inspect.UnionType():
            for option in info.types:
                yield from missing(option, made, path)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            yield from missing(info.item_type, made["items"], f"{path}[]")
        case msgspec.inspect.DictType() if "additionalProperties" in made:
            yield from missing(info.value_type, made["additionalProperties"], f"{path}.*")


def nodes(made: Json) -> Iterator[Json]:
    """Yield every part of a schema that describes a value."""
    yield made
    for part in made.get("properties", {}).values():
        yield from nodes(part)
    for key in ("items", "additionalProperties"):
        if key in made:
            yield from nodes(made[key])


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_type_is_in_the_schema(kind: type[KubeObject]) -> None:
    assert list(missing(msgspec.inspect.type_info(kind), schema(kind), "")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_structural(kind: type[KubeObject]) -> None:
    for node in nodes(schema(kind)):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node)
        assert not ("properties" in node and "additionalProperties" in node)
        assert set(node.get("required", ())) <= set(node.get("properties", {}))
        assert node.get("type") != "array" or "items" in node


@pytest.mark.parametrize("kind", KINDS)
def test_objects_say_what_they_are(kind: type[KubeObject]) -> None:
    described = [node for node in nodes(schema(kind)) if "properties" in node]
    assert all(node["description"] for node in described)


@pytest.mark.parametrize(
    ("kind", "name", "scope", "short"),
    [
        (PodGroup, "podgroups.scheduling.volcano.sh", "Namespaced", "pg"),
        (Queue, "queues.scheduling.volcano.sh", "Cluster", "q"),
        (HyperNode, "hypernodes.topology.volcano.sh", "Cluster", "hn"),
        (Job, "jobs.batch.volcano.sh", "Namespaced", "vcjob"),
    ],
)
def test_names_are_those_of_volcano(kind: type[KubeObject], name: str, scope: str, short: str) -> None:
    (definition,) = definitions([short])
    assert definition["metadata"]["name"] == name
    assert definition["spec"]["scope"] == scope
    assert definition["spec"]["names"]["kind"] == kind.kind
    assert short in definition["spec"]["names"]["shortNames"]
    assert version_of(kind)["subresources"] == {"status": {}}
    assert f"{definition['spec']['group']}/{version_of(kind)['name']}" == kind.api_version


@pytest.mark.parametrize("kind", KINDS)
def test_columns_show_fields_that_exist(kind: type[KubeObject]) -> None:
    for column in version_of(kind)["additionalPrinterColumns"]:
        first, *rest = column["jsonPath"].strip(".").split(".")
        node = schema(kind)["properties"][first]
        for name in rest if first != "metadata" else ():
            node = node["properties"][name]
        assert first == "metadata" or node["type"] == column["type"]


def test_every_rule_is_of_a_type_that_a_definition_has() -> None:
    seen: set[type] = set()

    def walk(info: msgspec.inspect.Type) -> None:
        match info:
            case msgspec.inspect.StructType():
                seen.add(info.cls)
                for field in info.fields:
                    walk(field.type)
            case msgspec.inspect.UnionType():
                for option in info.types:
                    walk(option)
            case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
                walk(info.item_type)

    for kind in KINDS:
        walk(msgspec.inspect.type_info(kind))
    assert set(RULES) <= seen


def test_a_rule_on_a_field_that_its_type_does_not_have_is_an_error() -> None:
    with pytest.raises(AssertionError, match="minMembers"):
        schema_of(PodGroupSpec, {PodGroupSpec: Extras(fields={"minMembers": {"minimum": 0}})})


def test_a_kind_without_a_definition_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(UserError, match='no definition of a kind "pods"; there are PodGroup, Queue, HyperNode, Job'):
        definitions(["pods"])
