"""A real Chromium, and dashboards for it. Without one on the machine these tests are left out, and say so."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchmarks.ui import CHROMIUM, browser, served
from muster.ui.app import Desk

if CHROMIUM is None:
    pytest.skip("there is no Chromium here (Debian: apt install chromium)", allow_module_level=True)

from playwright.sync_api import Browser, ConsoleMessage, Page

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def show(chromium: Browser) -> Iterator[Open]:
    """Opens a page of a desk; whatever the page complains about fails the test."""
    with ExitStack() as stack:
        complaints: list[str] = []

        def hear(message: ConsoleMessage) -> None:
            # A server that is away is what some tests are about; the browser tells of it by itself.
            if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
                complaints.append(message.text)

        def open_page(desk: Desk, path: str = "/", *, width: int = 1280, scheme: str = "light") -> Page:
            address = stack.enter_context(served(desk))
            context = chromium.new_context(
                viewport={"width": width, "height": 800},
                color_scheme="dark" if scheme == "dark" else "light",
                locale="en-GB",
                timezone_id="Asia/Tokyo",
            )
            stack.callback(context.close)
            page = context.new_page()
            page.on("console", hear)
            page.on("pageerror", lambda fault: complaints.append(str(fault)))
            page.goto(f"{address}{path}")
            return page

        yield open_page
    assert complaints == []
