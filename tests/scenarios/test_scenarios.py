"""Every YAML file in this folder is a test; its name is the behaviour."""

from pathlib import Path

import pytest

from muster.api import UserError
from muster.testing import load_scenario, run_scenario

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    assert run_scenario(load_scenario(path)) == []


def test_a_wrong_expectation_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "name: wrong\n"
        "nodes: {n1: {gpu: 1}}\n"
        "jobs: [{name: a, pods: 1, each: {gpu: 1}}, {name: b, pods: 1, each: {gpu: 1}}]\n"
        "want: {running: [b], evicted: [a-0], pods: {a: 3}, order: [b], started: {a: 9}, bound: {a-0: n7},\n"
        "  completed: [a]}\n"
    )
    found = {line.partition(":")[0] for line in run_scenario(load_scenario(path))}
    assert found == {"running", "evicted", "pods", "order", "started", "bound", "completed"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nwant: {runing: []}", "unknown field `runing`"),
        ("name: x", "missing required field `want`"),
        ("name: x\njobs: [{name: a, start: half}]\nwant: {}", "Invalid enum value|Expected"),
    ],
)
def test_a_typing_mistake_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        load_scenario(path)
