"""`python -m muster.docs [--check]`: write the generated pages below `docs/`, or check that they are current.

Run in the root of the repository. With --check nothing is written; stale pages are named and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from muster.docs.json_pages import (
    compare_json_page,
    json_page,
    queues_json_page,
    report_json_page,
    topology_json_page,
    what_if_json_page,
)
from muster.docs.markdown import has_commands, refreshed
from muster.docs.pictures import rooms_page, topology_picture
from muster.docs.recording import recording
from muster.docs.reference_pages import cli_page, configuration_page, metrics_page, plugin_page, reason_page


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m muster.docs", description="Make the reference pages.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    parser.add_argument("--root", type=Path, default=Path("docs"), help="the folder of the pages")
    arguments = parser.parse_args()
    if not arguments.root.is_dir():
        parser.error(f"there is no folder {arguments.root}; run this in the root of the repository")
    if not arguments.check:
        for path in write(arguments.root):
            sys.stdout.write(f"wrote {path}\n")
        return 0
    old = stale(arguments.root)
    for path in old:
        sys.stderr.write(f"{path} is stale: run `python -m muster.docs`\n")
    return 1 if old else 0


#: Written with the others, but not stale for every word that a command says otherwise: tests look at its structure.
RECORDING = "images/first-minutes.svg"
#: Path below the folder of the docs, and what makes the page.
PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/plugins.md": plugin_page,
    "reference/configuration.md": configuration_page,
    "reference/reasons.md": reason_page,
    "reference/metrics.md": metrics_page,
    "reference/simulate-json.md": json_page,
    "reference/queues-json.md": queues_json_page,
    "reference/topology-json.md": topology_json_page,
    "reference/report-json.md": report_json_page,
    "reference/whatif-json.md": what_if_json_page,
    "reference/compare-json.md": compare_json_page,
    "architecture/rooms.md": rooms_page,
    RECORDING: recording,
    "images/topology.svg": topology_picture,
}


def stale(root: Path) -> list[Path]:
    """Return the pages that differ from what the code says."""
    return [path for path, text in _current(root) if _on_disk(path) != text and path != root / RECORDING]


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


if __name__ == "__main__":
    sys.exit(main())
