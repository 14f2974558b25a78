"""Objects come from YAML and JSON files, directories and standard input."""

import io
from pathlib import Path

import pytest

from muster.api import Node, Pod, PodGroup, PriorityClass, Quantity, Queue, UserError, load_files, load_text

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - resources: {requests: {cpu: %s}}\n"


def names(text: str, file: str = "a.yaml") -> list[str]:
    return [loaded.object.key for loaded in load_text(text, file)]


def cpu_of(written: str) -> Quantity:
    [loaded] = load_text(POD % written)
    assert isinstance(loaded.object, Pod)
    return loaded.object.spec.containers[0].resources.requests["cpu"]


def test_documents_keep_their_order_and_know_their_place() -> None:
    text = "# first\n---\n" + NODE % "b" + "---\n" + NODE % "a"
    loaded = load_text(text, "nodes.yaml")
    assert [item.object.key for item in loaded] == ["b", "a"]
    assert [(item.source.document_index, item.source.line) for item in loaded] == [(1, 3), (2, 7)]
    assert str(loaded[1].source) == "nodes.yaml: document 2"


def test_empty_documents_count_and_give_nothing() -> None:
    loaded = load_text("---\n---\n" + NODE % "a" + "---\n")
    assert [str(item.source) for item in loaded] == ["text: document 2"]
    assert load_text("") == []
    assert load_text("# only a comment\n") == []


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e3", "1000"),
        ("1.5", "1500m"),
        ("2", "2"),
        ("100m", "100m"),
        ("'1'", "1"),
        ("1P", "1P"),
        (".5", "500m"),
        ("1e-3", "1m"),
        ("0x10", "16"),
        ("010", "8"),
        ("0", "0"),
    ],
)
def test_quantities_are_read_however_yaml_writes_them(written: str, value: str) -> None:
    assert cpu_of(written) == Quantity(value)


def test_times_and_clock_like_scalars_stay_text() -> None:
    text = NODE.replace("{name: %s}", "{name: n, annotations: {day: 2026-01-31, clock: 12:30:00}}")
    [loaded] = load_text(text)
    assert loaded.object.metadata.annotations == {"day": "2026-01-31", "clock": "12:30:00"}


def test_unquoted_timestamps_are_times() -> None:
    [loaded] = load_text(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  creationTimestamp: 2026-01-31T12:00:00Z\n"
    )
    assert loaded.object.metadata.creation_timestamp is not None
    assert loaded.object.metadata.creation_timestamp.isoformat() == "2026-01-31T12:00:00+00:00"


def test_anchors_and_merge_keys_work() -> None:
    text = (
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: &l {a: x}\n  annotations:\n    <<: *l\n    b: y\n"
    )
    [loaded] = load_text(text)
    assert loaded.object.metadata.annotations == {"a": "x", "b": "y"}


def test_json_documents_may_follow_each_other() -> None:
    first = '{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}'
    second = '{"apiVersion":"v1","kind":"Node",\n"metadata":{"name":"b"}}'
    text = f"{first}\n\n{second}\n"
    loaded = load_text(text, "nodes.json")
    assert [(item.object.key, item.source.line) for item in loaded] == [("a", 1), ("b", 3)]


def test_json_is_yaml_too() -> None:
    assert names('{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}', "a.yaml") == ["a"]


def test_lists_are_opened() -> None:
    node = "- {apiVersion: v1, kind: Node, metadata: {name: a}}"
    pod = "- {apiVersion: v1, kind: Pod, metadata: {name: p}}"
    text = f"apiVersion: v1\nkind: List\nitems:\n{node}\n{pod}\n"
    loaded = load_text(text)
    assert [type(item.object) for item in loaded] == [Node, Pod]
    assert [str(item.source) for item in loaded] == ["text: document 1, item 1", "text: document 1, item 2"]


def test_items_of_typed_lists_need_no_kind() -> None:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: QueueList\nitems:\n- {metadata: {name: a}}\n"
    [loaded] = load_text(text)
    assert isinstance(loaded.object, Queue)


def test_a_list_without_items_is_empty() -> None:
    assert load_text("apiVersion: v1\nkind: PodList\nitems:\n") == []


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "DaemonSet"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("v1", "ConfigMapList"),
    ],
)
def test_kinds_that_are_not_read_are_left_out_and_counted(api_version: str, kind: str) -> None:
    node = NODE % "a" + "status: {allocatable: {cpu: 1}}\n"
    loaded = load_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n---\n{node}")
    assert [item.object.key for item in loaded] == ["a"]
    assert loaded.left_out == {(api_version, kind): 1}
    [note] = loaded.notes
    assert note.startswith(f"1 {kind} of {api_version} left out: ")


def test_directories_are_walked_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.yaml").write_text(NODE % "b")
    (tmp_path / "a.yml").write_text(NODE % "a")
    (tmp_path / "sub" / "c.json").write_text('{"apiVersion":"v1","kind":"Node","metadata":{"name":"c"}}')
    (tmp_path / "notes.txt").write_text("not: [for us")
    assert [item.object.key for item in load_files([tmp_path])] == ["a", "b", "c"]


def test_several_files_and_strings_as_paths(tmp_path: Path) -> None:
    one, two = tmp_path / "1.yaml", tmp_path / "2.yaml"
    one.write_text(NODE % "x")
    two.write_text(NODE % "y")
    loaded = load_files([str(two), one])
    assert [item.object.key for item in loaded] == ["y", "x"]
    assert loaded.objects == [item.object for item in loaded]


@pytest.mark.parametrize("text", [NODE % "a", '{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}'])
def test_a_dash_is_standard_input(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    [loaded] = load_files(["-"])
    assert loaded.source.file == "standard input"


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + (NODE % "a").encode())
    assert len(load_files([file])) == 1


def test_the_same_name_is_fine_for_other_kinds_namespaces_and_groups() -> None:
    text = (
        "{apiVersion: v1, kind: Pod, metadata: {name: x}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: team-a}}\n---\n"
        "{apiVersion: v1, kind: Node, metadata: {name: x}}\n---\n"
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: x}}\n---\n"
        "{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: x}}\n"
    )
    assert len(load_text(text)) == 5


def test_gang_from_ordinary_yaml() -> None:
    text = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: train
  namespace: team-a
spec:
  minMember: 2
  queue: research
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: high
value: 1000
globalDefault: no
"""
    group, priority = load_text(text).objects
    assert isinstance(group, PodGroup)
    assert group.spec.min_member == 2
    assert isinstance(priority, PriorityClass)
    assert priority.value == 1000
    assert priority.global_default is False


def test_all_problems_are_told_at_once() -> None:
    text = "{apiVersion: v1, kind: Node}\n---\n{apiVersion: v1, kind: Pods, metadata: {name: x}}\n"
    with pytest.raises(UserError) as caught:
        load_text(text, "a.yaml")
    first, second = str(caught.value).splitlines()
    assert first == "a.yaml: document 1 (Node): metadata.name: expected a name, got nothing"
    assert second.startswith('a.yaml: document 2 (Pods default/x): kind: unknown kind "Pods" of v1; did you mean Pod?')
    assert caught.value.exit_code == 2


def test_many_problems_are_cut_short() -> None:
    with pytest.raises(UserError) as caught:
        load_text("---\n".join(["{apiVersion: v1, kind: Node}\n"] * 25))
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 5 more"
