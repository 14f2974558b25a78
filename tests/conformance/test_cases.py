"""Case files are found, read and told apart."""

from pathlib import Path

import pytest

from conformance.cases import read_cases
from muster.api import UserError
from tests.conformance.case_files import cluster_case, function_case, write_cases

KAI_CLUSTER = {"id": "kai/1", "nodes": {}, "jobs": [], "queues": [], "actions": ["allocate"], "expect": {}}
KAI_FUNCTION = {"id": "kai/2", "function": "fairShare", "input": {}, "output": {}}


def test_plain_and_gzipped_files_are_found_at_any_depth(tmp_path: Path) -> None:
    write_cases(tmp_path, cluster_case({}, id="one"), name="deep/er/a.json")
    write_cases(tmp_path, cluster_case({}, id="two"), name="b.json.gz")
    (tmp_path / "README.md").write_text("not a case")
    found = [(case.file, case.id) for case in read_cases(tmp_path)]
    assert found == [("b.json.gz", "two"), ("deep/er/a.json", "one")]


@pytest.mark.parametrize(
    ("body", "system", "is_function"),
    [
        (cluster_case({}), "volcano", False),
        (function_case("subJobID", {}, {}), "volcano", True),
        (KAI_CLUSTER, "kai", False),
        (KAI_FUNCTION, "kai", True),
    ],
)
def test_the_kind_of_a_case_follows_from_its_fields(
    tmp_path: Path, body: dict[str, object], system: str, is_function: bool
) -> None:
    (case,) = read_cases(write_cases(tmp_path, body))
    assert (case.system, case.is_function) == (system, is_function)


def test_only_selects_by_a_part_of_the_id(tmp_path: Path) -> None:
    path = write_cases(tmp_path, cluster_case({}, id="a/x/1"), cluster_case({}, id="a/y/1"))
    assert [case.id for case in read_cases(path, "/y/")] == ["a/y/1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"{", "JSON list"),
        ("a.json", b"{}", "JSON list of cases, got dict"),
        ("a.json", b"\xff\xfe\x00", "JSON list"),
        ("a.json", b"[" * 100_000, "JSON list"),
        ("a.json.gz", b"plain text", "cannot be read|gzip"),
        ("a.json", b"[7]", 'case 1: expected an object with a text "id"'),
        ("a.json", b'[{"id": "x", "tags": 3}]', "tags: expected a list of text"),
        ("a.json", b'[{"id": "x"}]', "case 1 [(]x[)]: expected config, objects and expect"),
        ("a.json", b'[{"id": "x", "config": {}, "objects": {}, "expect": 1}]', "expected config"),
    ],
)
def test_a_file_that_holds_no_cases_is_named_in_the_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        list(read_cases(tmp_path))
    assert name in str(caught.value)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        list(read_cases(tmp_path / "nowhere"))
