"""What `make` installs, as it says itself: the demo gets by without the tools, and tools come when they are used."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def locks(target: str, venv: Path) -> list[str]:
    """The locks that a target would install, in order, in a place where nothing is."""
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={venv}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.findall(r"--requirement (\S+)", said)


def test_the_demo_installs_only_what_it_runs_on(tmp_path: Path) -> None:
    assert locks("demo", tmp_path / "venv") == ["requirements-run.lock", "requirements-build.lock"]


@pytest.mark.parametrize("target", ["unit", "lint", "conformance"])
def test_tools_are_there_for_whoever_uses_them(target: str, tmp_path: Path) -> None:
    assert locks(target, tmp_path / "venv")[0] == "requirements.lock"


def test_the_demo_installs_nothing_where_everything_is(tmp_path: Path) -> None:
    said = subprocess.run(
        ["make", "--dry-run", "setup", f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    stamp = re.search(r"touch (\S+/setup-\S+\.done)", said)
    assert stamp is not None
    Path(stamp[1]).touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert locks("demo", tmp_path) == []
