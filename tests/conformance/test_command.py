"""The command: exit codes, closing line, results file."""

import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from tests.conformance.case_files import cluster_case, write_cases


def test_a_run_without_failures_exits_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(tmp_path, cluster_case({"bindsNum": 2}))
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


def test_a_failure_exits_with_one_and_is_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(tmp_path, cluster_case({"bindsNum": 1}), cluster_case({"bindsNum": 2}, id="fine"), name="c.json")
    out = tmp_path / "new" / "results.json"
    assert main([str(tmp_path / "c.json"), "--out", str(out)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "FAIL c.json area/Test/01-gang-of-two: bindsNum: expected 1, got 2"
    assert printed[-1] == "1 passed, 1 failed, 0 skipped"
    assert json.loads(out.read_text()) == [
        {
            "id": "area/Test/01-gang-of-two",
            "file": "c.json",
            "outcome": "failed",
            "expected": {"bindsNum": 1},
            "got": {"bindsNum": 2},
        },
        {"id": "fine", "file": "c.json", "outcome": "passed"},
    ]


def test_only_and_verbose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = cluster_case({"bindsNum": 2}, id="two", tags=["custom-plugin"])
    write_cases(tmp_path, cluster_case({"bindsNum": 1}, id="one"), skipped)
    assert main([str(tmp_path), "--only", "tw", "--verbose"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "skipped cases.json two (custom-plugin (exists in Volcano's tests only))"
    assert printed[-1] == "0 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize("content", ["[]", "{"])
def test_nothing_to_run_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (tmp_path / "cases.json").write_text(content)
    assert main([str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_a_results_file_that_cannot_be_written_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(tmp_path, cluster_case({"bindsNum": 2}))
    assert main([str(tmp_path / "cases.json"), "--out", str(tmp_path)]) == 2
    assert "cannot write the results" in capsys.readouterr().err
