import contextlib
import io
import logging
import re
import shlex
from pathlib import Path

import pytest

from muster.api import load_files
from muster.cli.demo.story import EARLY_S, LATER_S, OBJECTS, TIMELINE, _program
from muster.cli.main import run
from muster.cli.screen import SHAPING
from muster.cluster import load_timeline
from muster.explain import explain_job, find_job, queue_overview
from muster.simulate import simulate


@pytest.fixture(scope="module")
def lines() -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        # The fixture that does this for each test comes too late for one of the module.
        for name in SHAPING:
            patch.delenv(name, raising=False)
        patch.setattr("muster.cli.demo.story._program", lambda: "muster")
        return _demo()


def _demo() -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["demo"]) == 0
    return out.getvalue().splitlines()


def test_it_stays_short(lines: list[str]) -> None:
    assert 40 <= len(lines) <= 125
    assert max(map(len, lines)) <= 100
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        "research/train        2 pods",
        "product/serve         10 pods",
        "a lone pod: a gang of one",
        "1 leader and 2 workers needed",
        "research/evaluate waits: all 5 nodes lack a label",
        "2m  evict     6 pods of product/serve (gpu-1 ×3, gpu-4 ×3): gangreclaim: makes room for",
        "2m 30s  bind      2 pods of research/pretrain (gpu-1, gpu-4)",
        "product/serve runs with 4 pods; 6 more pods wait: no node has room for 6 of 6 pods",
        "needs     12 GPUs in all; 0 GPUs free where it may run, 12 GPUs missing",
        "queue     product (weight 1) holds 8 GPUs, has a fair share of 7 GPUs",
        "product/serve  5 more pods",
        "research/ring  4 pods",
        "research/pair waits: no network domain within its constraint has room for it",
        "evict     nightly-0 (gpu-2): gangpreempt: makes room for research/hotfix",
        "evict     3 pods of research/crawl (gpu-3, gpu-5, gpu-7): stalegangeviction: its gang has",
        "· free",
    ],
)
def test_it_shows(words: str, lines: list[str]) -> None:
    assert any(words in line for line in lines)


def test_what_the_narration_says_in_numbers_is_true(lines: list[str]) -> None:
    """Before pretrain comes no GPU is free; it needs 6 on each of two nodes, and comes after two minutes."""
    assert "6 GPUs on each of two nodes, and not one is free" in "\n".join(lines)
    before = simulate(load_files([OBJECTS]), until=EARLY_S)
    assert sum(8 - int(node.used.get("nvidia.com/gpu", 0)) for name, node in before.nodes.items() if "gpu" in name) == 0
    late = simulate(load_files([OBJECTS]), until=LATER_S, timeline=load_timeline(TIMELINE)).last_session
    assert late is not None
    pretrain = explain_job(late, find_job(late.snapshot, "pretrain"))
    assert len({placement.node for placement in pretrain.placements}) == 2
    assert [entry.at for entry in load_timeline(TIMELINE).entries] == [120.0]


def test_what_product_is_left_with_is_at_least_its_share() -> None:
    session = simulate(load_files([OBJECTS]), until=LATER_S, timeline=load_timeline(TIMELINE)).last_session
    assert session is not None
    product = next(queue for queue in queue_overview(session).top if queue.name == "product").resources[
        "nvidia.com/gpu"
    ]
    assert product.fair_share is not None
    assert product.held >= product.fair_share


def test_the_examples_are_the_objects_of_the_demo(repo_root: Path) -> None:
    examples = repo_root / "examples" / "demo"
    assert examples.resolve() == OBJECTS.resolve()
    assert len(list(examples.glob("*.yaml"))) >= 7
    assert TIMELINE.resolve() == (examples / TIMELINE.name).resolve()


@pytest.mark.parametrize("place", ["repository", "elsewhere"])
def test_the_commands_that_it_suggests_work_where_they_are_printed(
    place: str, repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo_root if place == "repository" else tmp_path)
    monkeypatch.setattr("muster.cli.demo.story._program", lambda: "muster")
    suggested = [line.strip().split("  ")[0] for line in _demo() if line.startswith("   muster ")]
    assert len(suggested) == 8
    shown: list[str] = []  # the last one would serve until it is interrupted
    monkeypatch.setattr("muster.cli.dashboard.sources.serve", lambda feed, *_: shown.append(feed.label.title))
    assert ("examples/demo" in suggested[0]) == (place == "repository")
    level = logging.getLogger("muster").level
    for line in suggested:
        assert run(shlex.split(line)[1:]) == 0
    assert logging.getLogger("muster").level == level, "a dashboard that has ended lets others log again"
    assert shown == ["the demo"]
    assert capsys.readouterr().out


def test_the_program_is_named_as_the_reader_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "muster"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert _program() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _program() == "muster"


def test_jobs_keep_their_letters_from_picture_to_picture(lines: list[str]) -> None:
    letters: dict[str, str] = {}
    for line in lines:
        for letter, job in re.findall(r"(?:^| )([A-Za-z0-9]) ((?:research|product|default)/\S+)", line):
            assert letters.setdefault(job, letter) == letter, f"{job} was {letters[job]}"
    assert {"research/pretrain", "product/serve"} <= set(letters)
    assert len(set(letters.values())) == len(letters)
