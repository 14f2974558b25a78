"""Pages name files and modules that exist, and walks through the code stay short."""

import re
from pathlib import Path

import pytest

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
    walks = re.split(r"^### ", text.partition("## Three walks\n")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]
    assert len(walks) == 3
    for walk in walks:
        steps = re.findall(r"^\d+\. (.*(?:\n   .*)*)", walk, re.MULTILINE)
        title = walk.partition("\n")[0]
        assert 5 <= len(steps) <= MOST_HOPS, title
        assert all(FILE.search(step) for step in steps), f"{title}: every hop names its file"
