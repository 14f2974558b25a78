from pathlib import Path

import pytest

from muster.cli.main import run
from muster.framework.config import DEFAULT_YAML


def _check(text: str, folder: Path) -> int:
    path = folder / "scheduler.yaml"
    path.write_text(text)
    return run(["config", "check", str(path)])


def test_show_prints_what_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert shown == DEFAULT_YAML
    assert _check(shown, tmp_path) == 0


def test_check_prints_what_was_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
- plugins:
  - name: binpack
    arguments: {binpack.weight: "10"}
"""
    assert _check(config, tmp_path) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].endswith("scheduler.yaml: valid")
    assert lines.index("  enqueue") < lines.index("  allocate")
    assert lines.index("Tier 1") < lines.index("  gang  enablePreemptable: false") < lines.index("Tier 2")
    assert "    binpack.weight: 10" in lines
    assert "    binpack.cpu: 1  (default)" in lines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a mapping"),
        ("actions: 3\ntiers: []\n", "actions: expected names separated by commas"),
        ('actions: "dance"\ntiers: []\n', "unknown action 'dance'"),
        ('actions: "allocate"\ntiers: [{plugins: [{name: dance}]}]\n', "unknown plugin 'dance'"),
        ('actions: "allocate"\ntiers: [{plugins: [{name: numa-aware}]}]\n', "'numa-aware' is not supported yet"),
        (
            'actions: "allocate"\ntiers: [{plugins: [{name: binpack, arguments: {binpack.weight: heavy}}]}]\n',
            "plugin binpack: arguments:",
        ),
        ('actions: "allocate"\ntiers: [{plugins: [{name: gang, enableDance: true}]}]\n', "enableDance"),
        ("actions: [\n", "not YAML"),
    ],
)
def test_what_is_wrong_names_the_file_and_the_place(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _check(text, tmp_path) == 2
    error = capsys.readouterr().err
    assert "scheduler.yaml" in error
    assert words in error
    assert error.count("\n") == 1
