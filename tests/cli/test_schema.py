"""Schemas accept what Muster reads, and refuse what it refuses: files of examples and pages, and misspelt ones."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.api import KINDS
from muster.cli.main import run
from muster.cli.schemas import configuration_schema, object_schema, objects_schema, timeline_schema
from muster.framework import PROFILES, profile_yaml

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
#: Has no types of its own, so nothing is lost by looking it up.
VALIDATOR: Any = import_module("jsonschema").Draft7Validator

SCHEMAS: dict[str, Callable[[], Json]] = {
    "objects": objects_schema,
    "configuration": configuration_schema,
    "timeline": timeline_schema,
}


@pytest.fixture(scope="module")
def validators() -> dict[str, Any]:
    made = {name: make() for name, make in SCHEMAS.items()}
    for schema in made.values():
        VALIDATOR.check_schema(schema)
    return {name: VALIDATOR(schema) for name, schema in made.items()}


def complaints(validator: Any, document: object) -> list[str]:
    # A timestamp is a string in JSON, and a moment to the reader of YAML.
    plain = json.loads(json.dumps(document, default=lambda each: each.isoformat()))
    return [
        f"{'/'.join(map(str, fault.absolute_path))}: {fault.message[:200]}" for fault in validator.iter_errors(plain)
    ]


#: Configurations with plugins that are not installed where the tests run.
_FOREIGN = {ROOT / "examples/plugin/scheduler.yaml"}


def kind_of(document: object) -> str:
    if isinstance(document, list) and all(isinstance(entry, dict) and "at" in entry for entry in document):
        return "timeline"
    if isinstance(document, dict) and {"actions", "tiers"} <= document.keys():
        return "configuration"
    return "objects" if isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys() else ""


def yaml_files() -> list[Path]:
    found = [path for folder in ("examples", "src/muster/cli/demo") for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in found if path.suffix in {".yaml", ".timeline"} and path not in _FOREIGN)


def documents_of_pages() -> Iterator[tuple[str, object]]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)):
            if "…" not in block and "..." not in block:
                for document in yaml.safe_load_all(block):
                    if kind_of(document):
                        yield f"{page.relative_to(ROOT)}-{number}", document


@pytest.mark.parametrize("path", yaml_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_of_examples_pass(path: Path, validators: dict[str, Any]) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        if kind_of(document):
            assert complaints(validators[kind_of(document)], document) == []


def test_a_plugin_that_is_not_installed_is_underlined(validators: dict[str, Any]) -> None:
    for path in _FOREIGN:
        said = complaints(validators["configuration"], yaml.safe_load(path.read_text()))
        assert [text.partition(":")[0] for text in said] == ["tiers/1/plugins/1/name"]


def test_blocks_of_pages_pass(validators: dict[str, Any]) -> None:
    found = list(documents_of_pages())
    assert {kind_of(document) for _, document in found} == {"objects", "configuration", "timeline"}
    wrong = {place: said for place, document in found if (said := complaints(validators[kind_of(document)], document))}
    assert wrong == {}


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_pass(name: str, validators: dict[str, Any]) -> None:
    assert complaints(validators["configuration"], yaml.safe_load(profile_yaml(name))) == []


PODGROUP: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train"},
    "spec": {"minMember": 3, "queue": "research", "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "containers": [
            {"name": "main", "image": "x", "livenessProbe": {"anything": 1}, "resources": {"requests": {"cpu": 0.5}}}
        ],
    },
}
JOB: Json = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": {"spec": POD["spec"]}}]},
}
QUEUE: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"weight": 2, "capability": {"cpu": "4"}},
}
HYPERNODE: Json = {
    "apiVersion": "topology.volcano.sh/v1alpha1",
    "kind": "HyperNode",
    "metadata": {"name": "h"},
    "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]},
}
CONFIGURATION: Json = {
    "actions": "enqueue, allocate",
    "tiers": [
        {
            "plugins": [
                {"name": "gang", "enablePreemptable": False},
                {"name": "binpack", "arguments": {"binpack.cpu": "5"}},
            ]
        }
    ],
}
TIMELINE: list[Json] = [{"at": "5m", "cordon": "n1"}, {"at": 600, "add": [PODGROUP, "more.yaml"]}]


def renamed(document: Any, path: str) -> Any:
    """The document with the last name of a path misspelt, or set to what stands after an equals sign."""
    changed = copy.deepcopy(document)
    place, _, value = path.partition("=")
    *steps, last = place.split("/")
    inner = changed
    for step in steps:
        inner = inner[int(step) if step.isdigit() else step]
    if value:
        inner[last] = yaml.safe_load(value)
    else:
        inner[f"{last}x"] = inner.pop(last)
    return changed


@pytest.mark.parametrize(
    ("schema", "document", "path"),
    [
        ("objects", PODGROUP, "spec/minMember"),
        ("objects", PODGROUP, "spec/minMember=three"),
        ("objects", PODGROUP, "spec/networkTopology/mode=firm"),
        ("objects", PODGROUP, "spec"),
        ("objects", POD, "spec/nodeSelector"),
        ("objects", POD, "spec/containers/0/resources"),
        ("objects", POD, "spec/tolerations/0/operator=3"),
        ("objects", POD, "metadata/labels"),
        ("objects", JOB, "spec/tasks/0/template/spec/nodeSelector"),
        ("objects", QUEUE, "spec/weight"),
        ("objects", QUEUE, "spec/capability/cpu=four"),
        ("objects", HYPERNODE, "spec/members"),
        ("objects", HYPERNODE, "spec/members/0/selector/exactMatch"),
        ("configuration", CONFIGURATION, "tiers"),
        ("configuration", CONFIGURATION, "actions=enqueue, alocate"),
        ("configuration", CONFIGURATION, "tiers/0/plugins/0/name=gangs"),
        ("configuration", CONFIGURATION, "tiers/0/plugins/0/enablePreemptable"),
        ("configuration", CONFIGURATION, "tiers/0/plugins/1/arguments/binpack.cpu"),
        ("timeline", TIMELINE, "0/cordon"),
        ("timeline", TIMELINE, "0/at"),
        ("timeline", TIMELINE, "1/add/0/spec/minMember"),
        ("timeline", TIMELINE, "0/delete=Node/n1"),
    ],
)
def test_right_ones_pass_and_misspelt_ones_fail(
    schema: str, document: Any, path: str, validators: dict[str, Any]
) -> None:
    assert complaints(validators[schema], document) == []
    assert complaints(validators[schema], renamed(document, path)) != []


def test_kinds_that_muster_does_not_read_are_left_alone(validators: dict[str, Any]) -> None:
    assert complaints(validators["objects"], {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"x": 1}}) == []


def test_every_kind_has_a_schema_with_descriptions() -> None:
    for kind in KINDS.values():
        schema = object_schema(kind)
        VALIDATOR.check_schema(schema)
        assert schema["description"]
        assert "x-kubernetes" not in json.dumps(schema)


def test_the_command_prints_schemas_and_lists_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:] if line[:1] != " "}
    assert {"objects", "configuration", "timeline", "podgroup", "queue", "hypernode", "kai-queue"} <= listed
    for name in sorted(listed):
        assert run(["schema", name]) == 0
        VALIDATOR.check_schema(json.loads(capsys.readouterr().out))
    assert run(["schema", "que"]) == 2
    assert 'no schema "que"' in capsys.readouterr().err
