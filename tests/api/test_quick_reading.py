"""Reading quickly gives what reading carefully gives: objects, errors and notes, for texts of all kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import UserError, load_text
from muster.api.documents import read_yaml, yaml_shapes
from muster.api.reading.load import _Reader
from muster.api.reading.pieces import NotPlainError, outputs_of
from muster.api.reading.quick import QuickReader
from muster.api.reading.together import Loaded

JSON_NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "%s"}}'
NODE = "apiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n"


def careful(monkeypatch: pytest.MonkeyPatch, text: str, file: str) -> object:
    """What the careful reader says of a text."""

    def never(*_: object, **__: object) -> None:
        raise NotPlainError

    with monkeypatch.context() as patched:
        patched.setattr(_Reader, "_take_pieces", never)
        return outcome(text, file)


def outcome(text: str, file: str) -> object:
    try:
        loaded = load_text(text, file)
    except UserError as error:
        return str(error)
    return list(loaded), loaded.notes, loaded.left_out


ODD_SCALARS = [
    *[
        "yes",
        "No",
        "on",
        "off",
        "~",
        "null",
        "1e3",
        "0x1f",
        "017",
        "1_000",
        "12:30",
        "2026-01-31",
        ".5",
        "+1",
        "-1",
        "a,b",
        "[a]",
        "{a}",
        "a:b",
        "x:",
        ":x",
        "#a",
        "musterValue0x",
    ],
    *["%s", "%", "=", "<<", "*a", "node-1", "true", "100m", "64Gi", "None", "NaN", "y", "N", "'", '"', "\\", "é"],
    *("a: b", "a #b", "- a", "", " a", "a ", "a\nb", "\t"),
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(ODD_SCALARS),
)
KEYS = st.one_of(
    st.text(max_size=5), st.sampled_from(["name", "a.b/c", "items", "apiVersion", "spec", "on", "1", "%s"])
)
CONTENT = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.dictionaries(KEYS, CONTENT, min_size=1, max_size=4), min_size=1, max_size=3), st.booleans())
def test_shapes_mean_what_the_full_parser_says(documents: list[dict[str, Any]], flow: bool) -> None:
    shapes = yaml_shapes()
    for document in documents:
        text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True, width=60)
        for _ in range(2):  # the second time the shape is known
            compare(shapes.json_of(text), text)


def compare(quick: bytes | None, text: str) -> None:
    if quick is None:
        return
    [known] = read_yaml(text, "text")
    assert json.loads(quick) == known.content
    assert repr(json.loads(quick)) == repr(known.content)


ODD_LINES = """\
a: 1|b: x|- a|- b: c|  c: d|  - e|c: >-|    text: more|d: 'x|e: "y|f'|# note: this|g: h # i|h: {a: b, c: d}|i: [a, b]
j: &x k|l: *x|m: {a: b|  n: o}|a: 2|? q|: r|<<: {a: b}|s: !!str 1|t:|  u: v:w|v: [x:y, z]||w: a, b|x: -.inf|1: 2
|y: %s"""
LINES = st.lists(
    st.sampled_from([line for row in ODD_LINES.splitlines() for line in row.split("|")] + ["c: |"]),
    min_size=1,
    max_size=7,
)


@settings(max_examples=1500, deadline=None)
@given(LINES)
def test_shapes_of_odd_texts_mean_what_the_full_parser_says_or_nothing(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    shapes = yaml_shapes()
    for _ in range(2):
        quick = shapes.json_of(text)
        if quick is not None:
            compare(quick, text)  # fails where the full parser would refuse the text


def test_values_are_filled_into_a_known_shape() -> None:
    shapes = yaml_shapes()
    for name, amount in (("a", "1"), ("on", "1e3"), ("'on'", "0x10"), ('"1"', "2026-01-31"), ("~", "12:30")):
        text = f"metadata:\n  name: {name}\nspec:\n- {amount}\n"
        [known] = read_yaml(text, "text")
        made = shapes.json_of(text)
        assert made is not None
        assert json.loads(made) == known.content


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "a", "labels": {"app": "x"}, "annotations": {"note": 'a": b'}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
    "status": {"phase": "Pending"},
}
CHANGES: list[tuple[list[str | int], object]] = [
    ([], None),
    (["spec", "nodeSelecter"], {"a": "b"}),
    (["spec", "containers", 0, "resources", "requests", "cpu"], "1GB"),
    (["spec", "containers", 0, "resources", "requests", "cpu"], 1.5),
    (["spec", "containers", 0, "resources", "requests", "nvidia.com/gpu"], "500m"),
    (["spec", "hostNetwork"], True),
    (["spec", "containers", 0, "ports"], [{"containerPort": 80}]),
    (["spec", "priority"], None),
    (["spec"], None),
    (["status", "phase"], "Sleeping"),
    (["metadata", "name"], "a/b"),
    (["metadata", "labels", "app"], "b c"),
    (["metadata", "labels", "app"], 1),
    (["metadata", "namespace"], ""),
    (["metadata", "creationTimestamp"], "2026-01-31T12:00:00Z"),
    (["metadata", "creationTimestamp"], "yesterday"),
    (["metadata", "uid"], "u"),
    (["metadata", "ownerReferences"], [{"kind": "Job", "name": "j", "uid": "1", "blockOwnerDeletion": True}]),
    (["metadata", "managedFields"], [{"fieldsV1": {"f:a": {}}}]),
    (["kind"], "Node"),
    (["kind"], "Service"),
    (["kind"], "Pood"),
    (["more"], 1),
]


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    document: Any = json.loads(json.dumps(POD))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    if path:
        inner[path[-1]] = value
    return document  # type: ignore[no-any-return]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize(
    "form", ["documents.yaml", "list.yaml", "list.json", "compact.json", "lines.jsonl", "pods.yaml"]
)
def test_pods_are_read_the_same_way(
    form: str, change: tuple[list[str | int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [json.loads(json.dumps(POD)) for _ in range(3)]
    for number, other in enumerate(others):
        other["metadata"]["name"] = f"p{number}"
    text = written([*others, changed(*change), others[0]], form)
    assert outcome(text, form) == careful(monkeypatch, text, form)


def written(documents: list[dict[str, Any]], form: str) -> str:
    if form == "documents.yaml":
        return "---\n".join(yaml.safe_dump(document) for document in documents)
    if form == "lines.jsonl":
        return "".join(json.dumps(document) + "\n" for document in documents)
    if form == "pods.yaml":
        items = [
            {key: part for key, part in document.items() if key not in ("apiVersion", "kind")} for document in documents
        ]
        return yaml.safe_dump({"apiVersion": "v1", "kind": "PodList", "items": items, "metadata": {}})
    whole = {"apiVersion": "v1", "kind": "List", "items": documents, "metadata": {"resourceVersion": ""}}
    if form == "list.yaml":
        return yaml.safe_dump(whole)
    return json.dumps(whole, indent=4 if form == "list.json" else None)


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "metadata": {"name": "b"}}',
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "name": "b"}}',
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": 1, "priority": 2}}',
        '{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Pod"}], "items": []}',
        f'{{"apiVersion": "v1", "kind": "List", "items": [{JSON_NODE % "a"}], "items": [{JSON_NODE % "b"}]}}',
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {"x": "\\u003a", "x": "y"}}}',
    ],
)
def test_keys_that_stand_twice_are_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = outcome(text, "a.json")
    assert said == careful(monkeypatch, text, "a.json")
    assert "stands twice in the same mapping" in str(said)


def test_equal_parts_are_shared_and_names_are_not() -> None:
    reader = QuickReader()
    first, second = (reader.read(json.dumps(changed(["metadata", "name"], name)).encode()) for name in ("a", "b"))
    assert first is not None
    assert second is not None
    assert first.spec is second.spec  # type: ignore[attr-defined]  # pods have one
    assert (first.name, second.name) == ("a", "b")


def names(text: str) -> list[tuple[str, int, int]]:
    return [(each.object.name, each.source.document_index, each.source.line) for each in load_text(text, "f.yaml")]


def test_outputs_of_kubectl_in_one_file_are_told_apart() -> None:
    def output(*found: str) -> str:
        whole = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(NODE % name) for name in found]}
        return yaml.safe_dump(whole)

    text = output("a", "b") + output("c") + NODE % "d" + "---\n" + NODE % "e" + NODE % "f"
    assert [name for name, _, _ in names(text)] == ["a", "b", "c", "d", "e", "f"]
    assert [document for _, document, _ in names(text)] == [1, 1, 2, 3, 4, 5]
    lines = text.splitlines()
    assert all(lines[line - 1].startswith("apiVersion") for _, _, line in names(text))


def test_a_mistake_behind_another_output_is_told_with_its_line() -> None:
    text = NODE % "a" + NODE % "b" + "spec: [\n"
    with pytest.raises(UserError, match=r"^f\.yaml:10:1: not YAML: "):
        load_text(text, "f.yaml")


def test_documents_that_do_not_begin_with_their_version_stay_whole() -> None:
    text = "kind: Node\napiVersion: v1\nmetadata: {name: a}\nkind: Node\napiVersion: v1\n"
    assert len(outputs_of(text)) == 1
    with pytest.raises(UserError, match='the key "kind" stands twice'):
        load_text(text, "f.yaml")


def test_where_objects_stand_is_known() -> None:
    text = f"# cluster\n---\n\n# first\n{NODE % 'a'}---\n---\n{NODE % 'b'}"
    assert names(text) == [("a", 1, 5), ("b", 3, 11)]
    loaded: Loaded = load_text(text, "f.yaml")[1]
    assert str(loaded.source) == "f.yaml: document 3"
