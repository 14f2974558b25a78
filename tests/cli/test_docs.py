"""Pages that are made are current; everything there is to document is documented; no link leads nowhere."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.docs.__main__ import PAGES, stale, write
from muster.docs.markdown import refreshed
from muster.docs.recording import SCENES
from muster.docs.reference_pages import (
    builtin_parts,
    cli_page,
    command_names,
    configuration_page,
    plugin_page,
    reason_page,
)
from muster.framework.points import POINTS


def test_the_pages_on_disk_are_what_the_code_says(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)
    assert stale(Path("docs")) == [], "run: python -m muster.docs"


def test_every_command_is_documented() -> None:
    page = cli_page()
    assert set(command_names()) >= {"", "simulate", "explain", "plugins", "demo", "config check", "config show"}
    for name in command_names():
        assert f"\n## muster {name}".rstrip() + "\n" in page


def test_every_plugin_action_and_argument_is_documented() -> None:
    page = plugin_page()
    for part in builtin_parts():
        assert f"\n### {part.name}\n\n{part.summary}\n" in page
        for argument in part.arguments:
            assert f"| `{argument.name}` |" in page


def test_every_flag_and_every_reason_is_documented(repo_root: Path) -> None:
    configuration, reasons = configuration_page(), reason_page()
    assert all(f"`{point.flag}`" in configuration for point in POINTS if point.flag)
    sources = [path.read_text() for path in (repo_root / "src/muster").rglob("*.py")]
    declared = {
        code for text in sources for code in re.findall(r'^[A-Z_]+ = reason\(\s*"([a-z-]+)"', text, re.MULTILINE)
    }
    assert declared >= {"insufficient-resources", "node-selector", "too-few-pods", "node-too-small"}
    assert {code for code in declared if f"| `{code}` |" not in reasons} == set()


def test_a_stale_page_is_named_and_written_again(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    assert {path.relative_to(docs).as_posix() for path in write(docs)} == set(PAGES)
    assert stale(docs) == []
    page = docs / "reference/reasons.md"
    page.write_text("old")
    assert stale(docs) == [page]


def test_the_command_fails_on_stale_pages_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    command = [sys.executable, "-m", "muster.docs", "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "docs/reference/cli.md is stale: run `python -m muster.docs`" in done.stderr
    assert list((tmp_path / "docs").iterdir()) == []


def test_the_output_of_commands_in_pages_is_put_in(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\ntwo\nthree\n")
    page = (
        "Before\n\n```console\n$ cat note.txt | head -2\nold\n$ make demo\nkept\n$ muster --version\n```\n\n"
        "```\n$ muster plugins\n```\n"
    )
    assert refreshed(page, tmp_path) == (
        "Before\n\n```console\n$ cat note.txt | head -2\none\ntwo\n...\n$ make demo\nkept\n$ muster --version\n"
        f"muster {_version()}\n```\n\n```\n$ muster plugins\n```\n"
    )


def test_the_last_lines_of_an_output_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\ntwo\nthree\n")
    page = "```console\n$ cat note.txt | tail -1\n$ cat note.txt | tail -3\n```\n"
    assert refreshed(page, tmp_path) == (
        "```console\n$ cat note.txt | tail -1\n...\nthree\n$ cat note.txt | tail -3\none\ntwo\nthree\n```\n"
    )


def _version() -> str:
    from muster import __version__

    return __version__


def test_the_recording_is_well_formed_small_and_calls_nobody(repo_root: Path) -> None:
    text = (repo_root / "docs/images/first-minutes.svg").read_text()
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert len(text) < 500_000
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in text
    name = "{http://www.w3.org/2000/svg}"
    scenes = [part for part in root.iter(f"{name}g") if part.get("class") == "scene"]
    typed = ["".join(scene.findall(f"{name}text")[1].itertext()) for scene in scenes]
    assert typed == [command for command, _ in SCENES]
    for number, scene in enumerate(scenes):
        shown = "".join(scene.itertext()).replace("\xa0", " ")
        assert not re.search(r"Traceback|\berror:", shown), typed[number]
        assert len(shown) > 200
        for motion in ("show", "tell", "type"):
            assert f"@keyframes {motion}-{number} " in text
            assert f"animation: {motion}-{number} " in text
    assert "research/pretrain" in "".join(root.itertext()).replace("\xa0", " ")


@pytest.mark.parametrize("command", [command for command, _ in SCENES if command != "make demo"])
def test_commands_of_the_recording_exist(command: str, repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)
    assert run(command.split()[1:]) == 0


def _pages(root: Path) -> list[Path]:
    return sorted(
        [
            *root.glob("*.md"),
            *(root / "docs").rglob("*.md"),
            *(root / "examples").rglob("*.md"),
            root / "deploy/README.md",
        ]
    )


def test_links_between_pages_lead_somewhere(repo_root: Path) -> None:
    broken = []
    for page in _pages(repo_root):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            target, _, anchor = link.partition("#")
            if "://" in target:
                continue
            path = (page.parent / target).resolve() if target else page
            if not path.exists() or (anchor and f"# {anchor.replace('-', ' ')}" not in path.read_text().lower()):
                broken.append(f"{page.relative_to(repo_root)}: {link}")
    assert broken == []


def test_every_page_can_be_reached_from_the_readme(repo_root: Path) -> None:
    seen: set[Path] = set()
    todo = [repo_root / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text())
        todo += [
            (page.parent / link).resolve()
            for link in links
            if "://" not in link and link.endswith(".md") and (page.parent / link).exists()
        ]
    lost = [page.relative_to(repo_root).as_posix() for page in (repo_root / "docs").rglob("*.md") if page not in seen]
    assert sorted(lost) == []
