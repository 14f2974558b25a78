"""For whoever does not see the page, or has no mouse: everything has a name, is reached by keys, and can be read."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from muster.ui.app import Desk
from muster.ui.feeds import FileFeed
from tests.ui.browser.conftest import Open

expect.set_options(timeout=20_000)

PAGES = (
    "/cluster",
    "/cluster?node=gpu-1",
    "/cluster?view=table",
    "/jobs",
    "/jobs/research/evaluate",
    "/jobs/product/serve",
    "/queues?queue=product",
    "/decisions",
    "/whatif",
    "/whatif?c=add-nodes:1xgpu-1",
    "/lab",
    "/config",
)
AXE = Path(__file__).parents[3] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
#: What one can do something with.
OPERATED = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "slider", "application", "tab"}

NAME = "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"


def settled(page: Page) -> None:
    expect(page.locator("main .panel, main .empty").first).to_be_visible()
    expect(page.locator(".wait")).to_have_count(0)


def tree(page: Page) -> list[dict[str, Any]]:
    """What a screen reader gets to see."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    return [node for node in nodes if not node["ignored"]]


def text(node: dict[str, Any], key: str) -> str:
    return str(node.get(key, {}).get("value", ""))


@pytest.mark.parametrize("path", PAGES)
def test_everything_has_a_name(show: Open, demo: FileFeed, path: str) -> None:
    page = show(Desk(demo), path)
    settled(page)
    seen = tree(page)
    nameless = [
        text(node, "role") for node in seen if text(node, "role") in OPERATED and not text(node, "name").strip()
    ]
    assert nameless == []
    assert {"main", "navigation", "banner"} <= {text(node, "role") for node in seen}
    titles = page.locator("h1").all_inner_texts()
    assert len(titles) == 1, "one title for each page"
    assert titles[0].strip()


@pytest.mark.parametrize("path", PAGES)
def test_the_rules_of_wcag_aa_are_kept(show: Open, demo: FileFeed, path: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not here: `make ui` installs it with what builds the front end")
    page = show(Desk(demo), path)
    settled(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert broken_rules(page) == []
    page.get_by_role("button", name="Change to the dark theme").click()
    assert broken_rules(page) == []


def broken_rules(page: Page) -> list[str]:
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("(tags) => axe.run(document, {runOnly: tags})", tags)
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:160]}" for rule in found["violations"] for node in rule["nodes"]
    ]


def test_keys_alone_reach_and_operate_everything(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/cluster")
    settled(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText")
        )
        ring = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none" or reached[-1] is None, f"{reached[-1]} does not show that it has the focus"
        if reached[-1] and "Cycle;" in reached[-1]:
            break
    assert any("Arrow keys move" in name for name in reached if name), reached
    assert any("Cycle;" in name for name in reached if name), reached
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".player .said")).to_contain_text("cycle 11")
    page.get_by_role("radio", name="Job", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Queue", exact=True)).to_be_focused()
    expect(page.get_by_role("radio", name="Queue", exact=True)).to_be_checked()


def test_what_changes_is_told(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/jobs?at=1")
    settled(page)
    said = page.locator(".player [aria-live=polite]")
    page.get_by_role("button", name="Next cycle").click()
    expect(said).to_contain_text("6 evicted")
