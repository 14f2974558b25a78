"""`python -m muster.docs.site FOLDER`: lays the pages out for the generator of the site, with its configuration.

The list of pages is `docs/README.md`: its headings are the parts of the navigation, its tables the pages in them. A
page that is itself a list, as that of the decisions, has its pages below it. The folder mirrors the repository, so that
links between pages, and from pages to examples and manifests, lead where they lead there. Nothing beyond the standard
library is needed: the site is built apart from Muster.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
#: What pages link to, beside each other.
_COPIED = (
    "docs",
    "examples",
    "deploy",
    "conformance/disagreements.yaml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
)
_HEADING = re.compile(r"^## (.+)$")
_PAGE = re.compile(r"^(?:\| |- )\[([^\]]+)\]\(([^)#]+\.md)\)")
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
_SETTINGS = """\
[project]
site_name = "Muster"
site_description = "A batch scheduler for Kubernetes: gangs, fair queues, network topology."
docs_dir = "pages"
site_dir = "site"
nav = {nav}

[project.theme]
# Nothing is fetched from elsewhere.
font = false
features = ["navigation.sections", "navigation.top", "navigation.footer", "toc.follow", "content.code.copy"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""
#: A part of the navigation: a title, and a page or further parts.
Nav = list[dict[str, "str | Nav"]]


def navigation() -> Nav:
    """The parts of the site in order, from the list of pages."""
    parts: Nav = [{"Muster": "README.md"}]
    inner: Nav = parts
    for line in (_ROOT / "docs" / "README.md").read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.match(line):
            inner = []
            parts.append({heading[1]: inner})
        elif page := _PAGE.match(line):
            inner.append({_title(page[1]): _entry(page[2])})
    return parts


def _entry(target: str) -> str | Nav:
    path = (_ROOT / "docs" / target).resolve()
    name = path.relative_to(_ROOT).as_posix()
    if path.name != "README.md":
        return name
    inner: Nav = [{"All": name}]
    for page in filter(None, map(_PAGE.match, path.read_text(encoding="utf-8").splitlines())):
        inner.append({_title(page[1]): f"{Path(name).parent.as_posix()}/{page[2]}"})
    return inner


def _title(text: str) -> str:
    return text[0].upper() + text[1:]


def lay_out(folder: Path) -> None:
    """Write pages and configuration into an empty folder."""
    pages = folder / "pages"
    for name in _COPIED:
        source, target = _ROOT / name, pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(_LINK.sub(partial(_to_page, page.parent), text), encoding="utf-8")
    nav = json.dumps(navigation(), ensure_ascii=False).replace('": ', '" = ')
    (folder / "zensical.toml").write_text(_SETTINGS.format(nav=nav), encoding="utf-8")


def _to_page(folder: Path, link: re.Match[str]) -> str:
    """Where a link leads on the site: a folder of examples has a page that shows its files."""
    target = link[1]
    path = (folder / target).resolve()
    if not path.is_dir():
        return target
    if not (path / "README.md").exists():
        shown = "\n".join(_shown(path))
        (path / "README.md").write_text(f"# {path.name}\n\n{shown}", encoding="utf-8")
    return f"{target.rstrip('/')}/README.md"


def _shown(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".yaml", ".py", ".toml"}:
            language = path.suffix[1:].replace("py", "python")
            text = path.read_text(encoding="utf-8").rstrip()
            yield f"## {path.relative_to(folder).as_posix()}\n\n```{language}\n{text}\n```\n"


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
