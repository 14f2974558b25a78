"""Every mistake in a file is told with file, document, object, field and what is expected."""

from itertools import pairwise
from pathlib import Path

import pytest

from muster.api import UserError, load_files, load_text

GROUP = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: train, namespace: team-a}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team-a}\n"
WHERE = "jobs.yaml: document 1 (PodGroup team-a/train): "
POD_WHERE = "jobs.yaml: document 1 (Pod team-a/p): "


def error_of(text: str, file: str = "jobs.yaml") -> str:
    with pytest.raises(UserError) as caught:
        load_text(text, file)
    return str(caught.value)


def test_a_wrong_type_names_document_object_and_path() -> None:
    node = "{apiVersion: v1, kind: Node, metadata: {name: n}}\n---\n"
    text = node + node.replace(" n}", " m}") + GROUP + "spec: {minMember: eight}\n"
    expected = 'jobs.yaml: document 3 (PodGroup team-a/train): spec.minMember: expected an integer, got "eight"'
    assert error_of(text) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("spec: {minMember: 1.5}", "spec.minMember: expected an integer, got 1.5"),
        ("spec: {minMember: true}", "spec.minMember: expected an integer, got true"),
        ("spec: {minMember: [8]}", "spec.minMember: expected an integer, got a list"),
        ("spec: {minMember: 3000000000}", "spec.minMember: expected an integer of at most 2147483647, got 3000000000"),
        ("spec: {queue: 7}", "spec.queue: expected a string, got 7; put it in quotes"),
        ("spec: [1]", "spec: expected a mapping, got a list"),
        ("spec: {subGroupPolicy: {name: a}}", "spec.subGroupPolicy: expected a list, got a mapping"),
        ("spec: {subGroupPolicy: [{name: a}, 3]}", "spec.subGroupPolicy[1]: expected a mapping, got 3"),
        (
            "spec: {subGroupPolicy: [{name: a, subGroupSize: two}]}",
            'spec.subGroupPolicy[0].subGroupSize: expected an integer, got "two"',
        ),
        ("spec: {minTaskMember: {a: 1, b: x}}", 'spec.minTaskMember["b"]: expected an integer, got "x"'),
        (
            "spec: {minTaskMember: {a: 1, b: 3000000000}}",
            'spec.minTaskMember["b"]: expected an integer of at most 2147483647, got 3000000000',
        ),
        (
            "spec: {minResources: {cpu: 1, nvidia.com/gpu: 8GPU}}",
            'spec.minResources["nvidia.com/gpu"]: expected a quantity such as "500m", "4" or "64Gi", got "8GPU"',
        ),
        (
            "spec: {minResources: {cpu: {}}}",
            'spec.minResources["cpu"]: expected a quantity such as "500m", "4" or "64Gi", got a mapping',
        ),
        (
            "spec: {minResources: {cpu: -1}}",
            'spec.minResources.cpu: expected an amount of zero or more, such as "4", got "-1"',
        ),
        (
            "spec: {minResources: {memory: 9Ei}}",
            'spec.minResources.memory: expected an amount that fits 64 bits, such as "500m", "4" or "64Gi", got "9Ei"',
        ),
    ],
)
def test_wrong_types_and_values(body: str, message: str) -> None:
    assert error_of(f"{GROUP}{body}\n") == WHERE + message


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("{name: p, labels: {tier: 1}}", 'metadata.labels["tier"]: expected a string, got 1; put it in quotes'),
        ("{name: p, labels: {a: b, on: x}}", "metadata.labels: expected a string as key, got true; put it in quotes"),
        ("{name: p, labels: [a]}", "metadata.labels: expected a mapping, got a list"),
        (
            "{name: p, creationTimestamp: yesterday}",
            'metadata.creationTimestamp: expected a time such as "2026-01-31T12:00:00Z", got "yesterday"',
        ),
        (
            "{name: p, creationTimestamp: 2026-01-31T12:00:00}",
            'metadata.creationTimestamp: expected a time such as "2026-01-31T12:00:00Z", got "2026-01-31T12:00:00"',
        ),
        ("{name: a/b}", 'metadata.name: expected a name without "/" and spaces, got "a/b"'),
    ],
)
def test_wrong_metadata(metadata: str, message: str) -> None:
    assert error_of(f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\n").partition("): ")[2] == message


@pytest.mark.parametrize("metadata", ["", "metadata: {}", "metadata: {generateName: 3}", "metadata:"])
def test_an_object_needs_a_name(metadata: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\n{metadata}\n"
    assert error_of(text) == "jobs.yaml: document 1 (Pod): metadata.name: expected a name, got nothing"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\n", 'document 1 (Pod): apiVersion: expected a string such as "v1", got nothing'),
        ("apiVersion: v1\n", 'document 1: kind: expected a string such as "Pod", got nothing'),
        ("apiVersion: 1\nkind: Pod\n", 'document 1 (Pod): apiVersion: expected a string such as "v1", got 1'),
        ("apiVersion: v1\nkind: [Pod]\n", 'document 1 (object): kind: expected a string such as "Pod", got a list'),
        ("- a\n- b\n", "document 1: expected a mapping with apiVersion and kind, got a list"),
        ("just text\n", 'document 1: expected a mapping with apiVersion and kind, got "just text"'),
        ("apiVersion: v1\nkind: List\nitems: 3\n", "document 1 (List): items: expected a list, got 3"),
        (
            "apiVersion: v1\nkind: List\nitems: [3]\n",
            "document 1, item 1: expected a mapping with apiVersion and kind, got 3",
        ),
    ],
)
def test_what_is_no_object_at_all(text: str, message: str) -> None:
    assert error_of(text) == f"jobs.yaml: {message}"


def test_an_error_in_an_item_of_a_list_names_the_item() -> None:
    text = (
        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n  spec: {priority: x}\n"
    )
    expected = 'jobs.yaml: document 1, item 2 (Pod default/b): spec.priority: expected an integer, got "x"'
    assert error_of(text) == expected


def test_the_same_object_twice_names_both_places() -> None:
    text = POD + "---\n{apiVersion: v1, kind: Node, metadata: {name: p}}\n---\n" + POD
    expected = (
        "jobs.yaml: document 3 (Pod team-a/p): the same object already stands in jobs.yaml: document 1 (line 1); "
        "remove one of them"
    )
    assert error_of(text) == expected


def test_the_same_object_in_two_files_names_both(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(POD)
    with pytest.raises(UserError) as caught:
        load_files([tmp_path])
    assert f"{tmp_path / 'b.yaml'}: document 1 (Pod team-a/p)" in str(caught.value)
    assert f"{tmp_path / 'a.yaml'}: document 1 (line 1)" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: [1, 2\nb: 3\n", "jobs.yaml:2:2: not YAML: "),
        ("a: b: c\n", "jobs.yaml:1:5: not YAML: mapping values are not allowed"),
        (
            "metadata: {name: {{ .Release.Name }}}\n",
            'jobs.yaml:1:19: not YAML: "{{" begins a template; give what `helm template` makes of it',
        ),
        ("\ta: 1\n", "jobs.yaml:1:1: not YAML: a tab stands where YAML wants spaces"),
        ("a: 1\na: 2\n", 'jobs.yaml:2:1: not YAML: the key "a" stands twice in the same mapping'),
        ("a: *nowhere\n", "jobs.yaml:1:4: not YAML: "),
        ("a: !!python/object:os.system {}\n", "jobs.yaml:1:4: not YAML: could not determine a constructor"),
        ("a: \x00\n", "jobs.yaml:1: not YAML: the character #x0000 is not allowed"),
        ("{[a]: 1}\n", "jobs.yaml:1:"),
    ],
)
def test_malformed_yaml_names_line_and_column(text: str, start: str) -> None:
    assert error_of(text).startswith(start)


def test_good_documents_before_malformed_yaml_do_not_hide_it() -> None:
    assert error_of(POD + "---\na: [\n").startswith("jobs.yaml:6:1: not YAML: ")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('{"a": 1,}', "jobs.json:1:"),
        ('{"a":\n', "jobs.json:"),
        ("kind: Pod\n", "jobs.json:1:1: not JSON: "),
        ('{"a": 1, "a": 2}', 'jobs.json:1: not JSON: the key "a" stands twice'),
        ("[" * 100_000, "jobs.json:1: not JSON: "),
    ],
)
def test_malformed_json_names_the_line(text: str, start: str) -> None:
    assert error_of(text, "jobs.json").startswith(start)


@pytest.mark.parametrize("depth", [2000, 100_000])
def test_deeply_nested_yaml_is_an_error_and_no_crash(depth: int) -> None:
    assert error_of("a: " + "[" * depth + "]" * depth).startswith("jobs.yaml")


def test_a_yaml_document_that_contains_itself_is_an_error() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: &s\n  again: *s\n"
    assert error_of(text) == "jobs.yaml:4:7: not YAML: found unconstructable recursive node"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.yaml: cannot read the file: No such file or directory$"):
        load_files([tmp_path / "nowhere.yaml"])


def test_a_directory_without_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the directory holds no \.yaml, \.yml, \.json or \.jsonl file$"):
        load_files([tmp_path])


def test_text_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\nb: \xff\xfe\n")
    with pytest.raises(UserError, match=r"a\.yaml:2: expected text in UTF-8$"):
        load_files([file])


def test_a_document_that_aliases_make_huge_is_refused_at_once() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in pairwise("abcdefghij")]
    with pytest.raises(UserError, match=r"bomb.yaml: not YAML: its aliases make 4,\d+,\d+,\d+ values of 30"):
        load_text("\n".join(lines), "bomb.yaml")


def test_a_few_aliases_are_fine() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: &l {a: b}, annotations: *l}\n"
    assert load_text(text).objects[0].metadata.annotations == {"a": "b"}
