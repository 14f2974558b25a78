"""Pages name files and modules that exist, the list of pages is whole, walks stay short."""

import re
import tomllib
from pathlib import Path

import pytest

from muster.docs.site import Nav, lay_out, navigation

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
#: In `code`, something that looks like a file of ours: `engine/domains.py`, `src/muster/api/names.py`.
FILE = re.compile(r"`((?:[a-z_0-9-]+/)*[a-z_0-9]+\.py)`")
MOST_HOPS = 12
MODULE = re.compile(r"`(muster(?:\.[a-z_0-9]+)+)`")


def _exists(name: str) -> bool:
    return any((root / name).is_file() for root in (ROOT, ROOT / "src/muster", ROOT / "src/muster/cluster/kubernetes"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    # A reader's own file, which a how-to tells to write.
    own = {"gold.py", "test_gold.py"}
    missing = {name for name in FILE.findall(text) if "/" in name and not _exists(name)} - own
    assert missing == set()


@pytest.mark.parametrize("page", ["architecture.md", "way-of-a-gang.md"])
def test_every_module_that_an_architecture_page_names_exists(page: str) -> None:
    for name in MODULE.findall((ROOT / "docs" / page).read_text()):
        path = ROOT / "src" / name.replace(".", "/")
        parent = path.parent
        is_named = path.with_suffix(".py").is_file() or path.is_dir()
        # Or a name in a module: `muster.actions.BUILTIN`.
        assert is_named or parent.with_suffix(".py").is_file() or parent.is_dir(), name


def test_walks_through_the_code_take_at_most_twelve_hops() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    walks = re.split(r"^### ", text.partition("## Four walks\n")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]
    assert len(walks) == 4
    for walk in walks:
        steps = re.findall(r"^\d+\. (.*(?:\n   .*)*)", walk, re.MULTILINE)
        title = walk.partition("\n")[0]
        assert 5 <= len(steps) <= MOST_HOPS, title
        assert all(FILE.search(step) for step in steps), f"{title}: every hop names its file"


LINK = re.compile(r"\]\(([^)\s]+)\)")


def _pages_of(nav: str | Nav) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for part in nav for inner in part.values() for page in _pages_of(inner)]


def test_the_list_of_pages_has_every_page_once() -> None:
    listed = _pages_of(navigation())
    assert len(set(listed)) == len(listed)
    index = "docs/README.md"
    assert {page for page in listed if page.startswith("docs/")} == {
        page.relative_to(ROOT).as_posix() for page in PAGES
    } - {index}
    assert {"How to", "Concepts", "Reference", "Architecture", "Decisions"} <= {
        key for part in navigation() for key in part
    }


def test_the_site_is_laid_out_as_the_list_says(tmp_path: Path) -> None:
    lay_out(tmp_path)
    settings = tomllib.loads((tmp_path / "zensical.toml").read_text())["project"]
    assert settings["nav"] == navigation()
    for name in _pages_of(navigation()):
        page = tmp_path / settings["docs_dir"] / name
        assert page.is_file()
        for link in LINK.findall(
            re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        ):
            target = link.partition("#")[0]
            assert "://" in link or not target or (page.parent / target).is_file(), f"{name}: {link}"
