"""Figures of the dashboard, in a real Chromium: `python -m benchmarks.ui [--only U1,U2,U3]`.

U1  first picture of 5,000 nodes, from the beginning of the navigation to the end of the first drawing
U2  20,000 nodes with 100,000 pods: zoom and change of colours, the longest frame
U3  live changes at 500 decisions a second: from the end of the cycle to the drawing that shows it

U4, what the dashboard costs the scheduler of a live cluster, needs one: `python -m benchmarks.kubernetes --only U4`.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import uvicorn

from benchmarks.clusters import add_gang, add_nodes, add_queues, add_topology, node_name, requests
from muster.api import KubeObject
from muster.cluster import Timeline
from muster.cluster.timeline import Add, Entry
from muster.framework import Session, default_config
from muster.snapshot import Mirror
from muster.ui.app import Desk, make_app
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.history import Moment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
POLL_S: Final = 0.005


@dataclass
class Collected:
    """Objects as the builders of clusters add them."""

    objects: list[KubeObject] = field(default_factory=list)

    def upsert(self, thing: KubeObject) -> None:
        self.objects.append(thing)


def large_feed(n_nodes: int, n_pods: int, n_waiting: int = 40, gang: int = 8) -> Feed:
    """One cycle of nodes in racks of 16 under spines of 16, running gangs in four queues, and gangs that wait.

    The picture is made straight from the mirror, before any action has run: what is measured is the dashboard.
    """
    mirror = Mirror()
    add_nodes(mirror, n_nodes)
    add_topology(mirror, n_nodes)
    queues = add_queues(mirror, 4)
    # Some nodes are fuller than others, so that there is something to see.
    per_node = max(1, n_pods // n_nodes)
    places = [node_name(i) for i in range(n_nodes) for _ in range(per_node + (1 if i // 16 % 2 else -1))][:n_pods]
    slots = iter(places)
    for i in range(len(places) // gang):
        add_gang(mirror, f"running-{i:05d}", queues[i // 7 % 4], gang, requests(1), nodes=slots)
    for i in range(n_waiting):
        add_gang(mirror, f"waiting-{i:03d}", queues[i % 4], 16, requests(8))
    feed = Feed(Label("files", f"{n_nodes:,} nodes"), default_config())
    session = Session(mirror.snapshot(), feed.config, feed.registry)
    feed.history.add(Moment(1, 0.0, running=len(places) // gang, waiting=n_waiting, session=session))
    feed.has_ended = True
    return feed


def busy_timeline(seconds: int, per_second: int, gang: int = 10) -> tuple[list[KubeObject], Timeline]:
    """An empty cluster of 1,000 nodes, to which gangs come: so many pods each second."""
    made = Collected()
    add_nodes(made, 1000)  # type: ignore[arg-type]  # it asks for `upsert` alone
    [queue] = add_queues(made, 1)  # type: ignore[arg-type]  # the same
    entries = []
    for second in range(1, seconds + 1):
        coming = Collected()
        for i in range(per_second // gang):
            add_gang(coming, f"job-{second:03d}-{i:03d}", queue, gang, requests(1))  # type: ignore[arg-type]
        entries.append(Entry(float(second), Add(tuple(coming.objects)), ""))
    return made.objects, Timeline(tuple(entries))


# -- server and browser ----------------------------------------------------------------------------------------------


@contextmanager
def served(desk: Desk, port: int = 0) -> Iterator[str]:
    """The dashboard of a desk on a free port; yields its address. The feed is the caller's."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    config = uvicorn.Config(make_app(desk), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run([listening]), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(POLL_S)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        desk.close()
        server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def browser() -> Iterator[Browser]:
    """The Chromium of this machine, without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # figures without a browser need none

    if CHROMIUM is None:
        raise SystemExit("there is no Chromium here (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        # No sandbox: tests run as root in containers, and the page is our own.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


def feed_of(objects: list[KubeObject], timeline: Timeline | None = None, **options: float | int) -> FileFeed:
    """A feed of objects, begun."""
    played = Played(objects, default_config(), timeline, **options)  # type: ignore[arg-type]  # numbers of its fields
    feed = FileFeed(Label("files", "benchmark"), played)
    feed.begin()
    return feed


# -- figures ---------------------------------------------------------------------------------------------------------

FIRST_DRAWN = "() => performance.getEntriesByName('muster-map-drawn').length > 0"


def first_picture_ms(page: Page, address: str) -> float:
    """From the beginning of the navigation to the end of the first drawing of the map."""
    page.goto(f"{address}/cluster", wait_until="commit")
    page.wait_for_function(FIRST_DRAWN)
    return float(page.evaluate("() => performance.getEntriesByName('muster-map-drawn')[0].startTime"))


#: Does something on every frame for a while, and returns how long each frame took.
FRAMES = """async ({steps, act}) => {
    const frames = [];
    const canvas = document.querySelector('.map canvas');
    const acts = {
        zoom: (i) => canvas.dispatchEvent(new WheelEvent('wheel', {
            deltaY: i < steps / 2 ? -80 : 80, ctrlKey: true, bubbles: true, cancelable: true,
            clientX: canvas.getBoundingClientRect().left + 300, clientY: canvas.getBoundingClientRect().top + 200})),
        colours: (i) => {
            const buttons = document.querySelectorAll('[aria-label="Colours by"] button');
            buttons[i % buttons.length].click();
        },
    };
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    await frame();
    for (let i = 0; i < steps; i++) {
        const began = performance.now();
        acts[act](i);
        await frame(); await frame();
        frames.push((performance.now() - began) / 2);
    }
    return frames;
}"""


def frames_ms(page: Page, act: str, steps: int = 30) -> list[float]:
    """How long frames took while the map was zoomed, or its colours changed."""
    return [float(value) for value in page.evaluate(FRAMES, {"steps": steps, "act": act})]


def changes_ms(page: Page, address: str, feed: Feed, seconds: int) -> list[float]:
    """From the end of each cycle to the drawing that shows it, for cycles that decided something."""
    ended: dict[int, float] = {}

    def hear() -> None:
        latest = feed.history.latest
        if latest is not None and latest.decisions:
            ended.setdefault(latest.cycle, time.time() * 1000)

    forget = feed.history.listen(hear)
    page.goto(f"{address}/cluster", wait_until="commit")
    time.sleep(seconds)
    forget()
    drawn = page.evaluate(
        "() => performance.getEntriesByName('muster-map-drawn')"
        ".map((mark) => [mark.detail.cycle, performance.timeOrigin + mark.startTime])"
    )
    late = []
    for cycle, moment in ended.items():
        shown = [when for number, when in drawn if number >= cycle]
        if shown:
            late.append(min(shown) - moment)
    return [max(0.0, value) for value in late]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="U1,U2,U3")
    wanted = parser.parse_args().only.split(",")
    with browser() as started:
        if "U1" in wanted:
            with served(Desk(large_feed(5_000, 25_000))) as address:
                times = [first_picture_ms(started.new_page(), address) for _ in range(5)]
            print(f"U1 first picture of 5,000 nodes: {min(times):.0f} to {max(times):.0f} ms (goal 1,000)")
        if "U2" in wanted:
            with served(Desk(large_feed(20_000, 100_000))) as address:
                page = started.new_page()
                first = first_picture_ms(page, address)
                for act in ("zoom", "colours"):
                    frames = frames_ms(page, act)
                    middle = sorted(frames)[len(frames) // 2]
                    print(f"U2 20,000 nodes, {act}: {middle:.0f} ms a frame, longest {max(frames):.0f} (goal 100)")
            print(f"   its first picture: {first:.0f} ms")
        if "U3" in wanted:
            objects, timeline = busy_timeline(12, 500)
            feed = feed_of(objects, timeline, speed=1.0)
            with served(Desk(feed)) as address:
                late = changes_ms(started.new_page(), address, feed, 12)
            feed.stop()
            shown = f"{max(late):.0f} ms at most in {len(late)} cycles" if late else "nothing was drawn"
            print(f"U3 changes on the screen at 500 decisions a second: {shown} (goal 1,000)")


if __name__ == "__main__":
    main()
