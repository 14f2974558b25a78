"""What a reader sees when something goes wrong between the page and the server: it is said, and it mends itself."""

import socket
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, expect

from benchmarks.ui import FIRST_DRAWN, served
from muster.api import load_files
from muster.cli.demo.story import OBJECTS, TIMELINE
from muster.cluster import load_timeline
from muster.framework import default_config
from muster.ui.access import TokenGate
from muster.ui.app import Desk
from muster.ui.feeds import Feed, FileFeed, Label, Played
from tests.ui.browser.conftest import Open

expect.set_options(timeout=20_000)
FIRST, SECOND = "first-token-of-the-test", "second-token-of-the-test"


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def test_a_server_that_goes_and_comes_back(chromium: Browser, demo: FileFeed) -> None:
    port = free_port()
    page = chromium.new_page()
    with served(Desk(demo), port) as address:
        page.goto(f"{address}/jobs")
        expect(page.locator(".feed")).to_contain_text("simulated")
    expect(page.get_by_role("status").filter(has_text="The connection is lost")).to_be_visible()
    expect(page.get_by_role("link", name="research/evaluate")).to_be_visible()
    with served(Desk(demo), port):
        expect(page.get_by_text("The connection is lost")).to_have_count(0)
        page.get_by_role("link", name="research/evaluate").click()
        expect(page.get_by_role("heading", name="Why does it wait?")).to_be_visible()
        page.close()


def test_a_stream_that_is_cut_goes_on(show: Open) -> None:
    played = Played(load_files([OBJECTS]), default_config(), load_timeline(TIMELINE))
    feed = FileFeed(Label("files", "later"), played)
    desk = Desk(feed)
    page = show(desk, "/cluster")
    expect(page.locator("main")).to_contain_text("no cycle has been run yet")
    desk.close()
    page.wait_for_timeout(200)
    desk.is_closing = False
    feed.begin()
    page.wait_for_function(FIRST_DRAWN)
    expect(page.locator(".player")).to_contain_text("cycle 12")
    expect(page.get_by_text("The connection is lost")).to_have_count(0)


def test_a_token_that_expires_is_asked_for_again(show: Open, demo: FileFeed, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(FIRST)
    page = show(Desk(demo, gate=TokenGate(file=file), loopback_only=False, beat_s=0.3), f"/jobs#token={FIRST}")
    expect(page.get_by_role("link", name="research/evaluate")).to_be_visible()
    assert FIRST not in page.url, "a token does not stay in the address"
    file.write_text(SECOND)
    expect(page.get_by_role("heading", name="Who are you?")).to_be_visible()
    expect(page.get_by_text("research/evaluate")).to_have_count(0)
    page.get_by_label("Token").fill("wrong-token-of-the-test")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("the token is not the right one")).to_be_visible()
    page.get_by_label("Token").fill(SECOND)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="research/evaluate")).to_be_visible()


DAY_AHEAD = """
    const Right = Date;
    globalThis.Date = class extends Right {
        constructor(...given) { super(...(given.length ? given : [Right.now() + 86400000])); }
        static now() { return Right.now() + 86400000; }
    };
"""


def test_a_browser_whose_clock_is_off_tells_the_time_of_the_cluster(chromium: Browser, demo: FileFeed) -> None:
    with served(Desk(demo)) as address, chromium.new_context() as context:
        context.add_init_script(DAY_AHEAD)
        page = context.new_page()
        page.goto(f"{address}/jobs")
        expect(page.get_by_role("row", name="research/evaluate")).to_contain_text("10m 3s")
        page.get_by_role("link", name="product/serve").click()
        expect(page.locator(".timeline .is-evict")).to_contain_text("+2m")
        page.goto(f"{address}/decisions")
        expect(page.locator(".cycles > li").first).to_contain_text("+10m 1s")


def test_a_cluster_whose_clock_is_set_back_is_shown_all_the_same(show: Open, demo: FileFeed) -> None:
    latest = demo.history.latest
    assert latest is not None
    feed = Feed(Label("files", "set back"), demo.config)
    for number, time in enumerate((1000.0, 1060.0, 400.0, 460.0), start=1):
        feed.history.add(replace(latest, cycle=number, time=time, answers={}))
    feed.has_ended = True
    page = show(Desk(feed), "/queues")
    expect(page.locator(".chart canvas").first).to_be_visible()
    times = page.evaluate("async () => (await (await fetch('/api/queues/series?resource=cpu')).json()).time")
    assert times == [1000.0, 1060.0, 1060.0, 1060.0]
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(page.locator(".player")).to_contain_text("cycle 1")
