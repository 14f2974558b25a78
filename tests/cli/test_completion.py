"""Scripts for shells: each shell reads its own, and bash completes with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from muster.cli.main import run

ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_muster
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    shell = getattr(request, "param", "bash")
    assert run(["completion", shell]) == 0
    path = tmp_path / f"muster.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def completed(script: Path, *words: str) -> set[str]:
    command = ["bash", "--norc", "-c", ASK, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=script.parent)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_values(script: Path) -> None:
    assert completed(script, "muster", "sim") == {"simulate"}
    assert completed(script, "muster", "job", "") >= {"list"}
    assert {"--output", "--watch", "--until"} <= completed(script, "muster", "jobs", "--")
    assert completed(script, "muster", "job", "list", "-o", "") == {"table", "wide", "json", "yaml"}
    assert completed(script, "muster", "completion", "--hel") == {"--help"}
    assert completed(script, "muster", "jobs", "--watch", "--no-f") == {"--no-forecast"}


def test_bash_completes_files(script: Path) -> None:
    (script.parent / "cluster.yaml").touch()
    assert completed(script, "muster", "simulate", "clu") == {"cluster.yaml"}
    assert completed(script, "muster", "simulate", "--config", "clu") == {"cluster.yaml"}


@pytest.mark.parametrize("script", ["bash", "zsh", "fish"], indirect=True)
def test_every_shell_can_read_its_script(script: Path) -> None:
    shell = script.suffix[1:]
    text = script.read_text()
    assert "simulate" in text
    assert "--no-forecast" in text or "no-forecast" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    subprocess.run([shell, "-n", str(script)], check=True, capture_output=True, timeout=60)


def test_an_unknown_shell_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
