"""`muster plugins new`: what it writes works as it stands, and what cannot be written is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.framework import load_config


def test_the_skeleton_passes_its_own_test(repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "new", "cheap-power", "--directory", str(tmp_path)]) == 0
    folder = tmp_path / "cheap-power"
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert written == [
        "cluster.yaml",
        "pyproject.toml",
        "scheduler.yaml",
        "src/muster_cheap_power/__init__.py",
        "tests/test_cheap_power.py",
    ]
    shown = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    assert f"$ muster plugins new cheap-power\n{shown}```" in (repo_root / "docs/how-to/write-a-plugin.md").read_text()
    assert "cheap-power" in [option.name for option in load_config(folder / "scheduler.yaml").plugin_options()]
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "tests"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout
    capsys.readouterr()
    # Under the default configuration: only an installed package has an entry point.
    assert run(["simulate", str(folder / "cluster.yaml")]) == 0
    assert "1 decision" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Cheap_Power", "Cheap_Power: expected small letters and digits, with dashes between, such as cheap-power"),
        ("gang", "gang: a built-in plugin has this name; choose another"),
        ("there", "is there already; choose another name or --directory"),
    ],
)
def test_what_cannot_be_is_refused(name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    assert run(["plugins", "new", name, "--directory", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
