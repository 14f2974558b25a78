"""The pictures of the dashboard in the docs, taken in a real Chromium: `python -m benchmarks.ui_pictures [DIR]`.

Each is a page as a reader has it on the screen, of the demo or of a large cluster; look at them before they are
committed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.ui import browser, large_feed, served
from muster.api import load_files
from muster.cli.demo.story import OBJECTS, TIMELINE
from muster.cluster import load_timeline
from muster.framework import default_config
from muster.ui.app import Desk
from muster.ui.feeds import Feed, FileFeed, Label, Played

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_WIDTH: Final = 1280
#: How long a page may take until nothing of it is awaited any more, in milliseconds.
_SETTLES_MS: Final = 20_000
#: Nothing is being read, nothing is being tried, and what there is has been drawn.
_SETTLED: Final = """() => document.querySelector('main .panel') && !document.querySelector('.wait')
    && !/Trying what could help|Reading …/.test(document.body.innerText)"""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown, how high, and how it is coloured."""

    name: str
    path: str
    height: int
    scheme: Literal["light", "dark"] = "light"


OF_DEMO: Final = (
    Picture("cluster", "/cluster?at=4&node=gpu-1", 720),
    Picture("job", "/jobs/product/serve", 900),
    Picture("queues", "/queues", 760),
    Picture("decisions", "/decisions?kind=evict", 520),
    Picture("whatif", "/whatif?c=add-nodes:1xgpu-1", 640),
)
OF_LARGE: Final = (Picture("map", "/cluster?by=queue", 860, "dark"),)


def take(started: Browser, feed: Feed, pictures: tuple[Picture, ...], folder: Path) -> None:
    """Write pictures of the pages of one feed."""
    with served(Desk(feed)) as address:
        for picture in pictures:
            page = started.new_page(
                viewport={"width": _WIDTH, "height": picture.height}, color_scheme=picture.scheme, locale="en-GB"
            )
            page.goto(f"{address}{picture.path}")
            page.wait_for_function(_SETTLED, timeout=_SETTLES_MS)
            page.wait_for_timeout(500)  # lines and ribbons are drawn a frame later
            page.screenshot(path=folder / f"dashboard-{picture.name}.png")
            page.close()


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/images"))
    folder: Path = parser.parse_args().folder
    demo = FileFeed(
        Label("files", "the demo"), Played(load_files([OBJECTS]), default_config(), load_timeline(TIMELINE))
    )
    demo.begin()
    demo.wait()
    with browser() as started:
        take(started, demo, OF_DEMO, folder)
        take(started, large_feed(4_000, 20_000), OF_LARGE, folder)
    print(f"wrote {len(OF_DEMO) + len(OF_LARGE)} pictures into {folder}; look at them")


if __name__ == "__main__":
    main()
