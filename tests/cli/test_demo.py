import contextlib
import io
from pathlib import Path

import pytest

from muster.cli.demo.story import OBJECTS
from muster.cli.main import run
from muster.cli.screen import SHAPING


@pytest.fixture(scope="module")
def lines() -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        # The fixture that does this for each test comes too late for one of the module.
        for name in SHAPING:
            patch.delenv(name, raising=False)
        return _demo()


def _demo() -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["demo"]) == 0
    return out.getvalue().splitlines()


def test_it_stays_short(lines: list[str]) -> None:
    assert 40 <= len(lines) <= 120
    assert max(map(len, lines)) <= 100
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        "research/train        2 pods",
        "product/serve         3 pods",
        "a lone pod: a gang of one",
        "1 leader and 2 workers needed",
        "research/pretrain waits: no node has room for 2 of 2 pods",
        "needs     14 GPUs in all; 14 GPUs free where it may run",
        "product/serve runs with 3 pods; 3 more pods wait: its queue may not hold more",
        "research/evaluate waits: all 5 nodes lack a label",
        "research/pretrain  2 more pods",
        "research/ring  4 pods",
        "research/pair waits: no network domain within its constraint has room for it",
        "evict     nightly-0 (gpu-2): gangpreempt: makes room for research/hotfix",
        "· free",
    ],
)
def test_it_shows(words: str, lines: list[str]) -> None:
    assert any(words in line for line in lines)


def test_what_the_narration_says_in_numbers_is_true(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert "14 GPUs are free" in text
    assert "14 GPUs free where it may run" in text
    assert "asks for  7 GPUs" in text


def test_the_examples_are_the_objects_of_the_demo(repo_root: Path) -> None:
    examples = repo_root / "examples" / "demo"
    assert examples.resolve() == OBJECTS.resolve()
    assert len(list(examples.glob("*.yaml"))) >= 8


def test_the_commands_that_it_suggests_work(
    repo_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: list[str]
) -> None:
    monkeypatch.chdir(repo_root)
    suggested = [line.split("  ")[0].split()[1:] for line in (line.strip() for line in lines) if "muster " in line]
    commands = [words for words in suggested if words and words[0] in ("simulate", "explain", "config", "topology")]
    assert len(commands) == 5
    for words in commands:
        assert run(words) == 0
    assert capsys.readouterr().out
