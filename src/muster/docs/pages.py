"""Which pages there are, and whether those on disk are current."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from muster.docs.cli_page import cli_page
from muster.docs.console import has_commands, refreshed
from muster.docs.json_page import json_page
from muster.docs.picture import demo_picture
from muster.docs.plugin_page import configuration_page, plugin_page
from muster.docs.queue_page import queues_json_page
from muster.docs.reason_page import reason_page
from muster.docs.rooms_page import rooms_page
from muster.docs.topology_page import topology_json_page, topology_picture

#: Path below the folder of the docs, and what makes the page.
PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/plugins.md": plugin_page,
    "reference/configuration.md": configuration_page,
    "reference/reasons.md": reason_page,
    "reference/simulate-json.md": json_page,
    "reference/queues-json.md": queues_json_page,
    "reference/topology-json.md": topology_json_page,
    "architecture/rooms.md": rooms_page,
    "images/demo.svg": demo_picture,
    "images/topology.svg": topology_picture,
}


def stale(root: Path) -> list[Path]:
    """Return the pages that differ from what the code says."""
    return [path for path, text in _current(root) if _on_disk(path) != text]


def write(root: Path) -> list[Path]:
    """Write the pages that are stale, and return them."""
    written = []
    for path, text in _current(root):
        if _on_disk(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def _current(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every page that is made, and every hand-written one with commands, as it should be."""
    for name, make in PAGES.items():
        yield root / name, make()
    made = {root / name for name in PAGES}
    for path in [root.parent / "README.md", *sorted(root.rglob("*.md"))]:
        text = _on_disk(path)
        if path not in made and text is not None and has_commands(text):
            yield path, refreshed(text, root.resolve().parent)


def _on_disk(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
