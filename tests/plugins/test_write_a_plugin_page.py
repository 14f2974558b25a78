"""The page for authors of plugins: every piece of code on it is run, and does what its text says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from muster.api import KubeObject
from muster.api.errors import MusterError
from muster.framework import NodeScores, Plugin, Session
from muster.framework.points import POINTS
from muster.testing import check_plugin, gang, node, one_cycle, pod, pod_group, priority_class, queue
from muster.testing.conformance import _open

PAGE = "docs/how-to/write-a-plugin.md"


@pytest.fixture(scope="module")
def text(repo_root: Path) -> str:
    return (repo_root / PAGE).read_text()


@pytest.fixture(scope="module")
def page(text: str) -> ModuleType:
    """The page as a module: its pieces one after the other, as a reader types them."""
    module = ModuleType("page")
    sys.modules["page"] = module
    for code in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(code, PAGE, "exec"), module.__dict__)  # the page is ours
    return module


def plugins_of(module: ModuleType) -> list[type[Plugin]]:
    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == "page"]
    return [value for value in own if issubclass(value, Plugin)]


def test_every_plugin_on_the_page_keeps_its_contract(page: ModuleType) -> None:
    found = plugins_of(page)
    assert len(found) == 8
    for plugin in found:
        check_plugin(plugin)


def test_every_signature_on_the_page_is_the_contract(text: str) -> None:
    shown = re.findall(r"^`(\w+)(\(self.*?)`", text, re.MULTILINE)
    contracts = {point.name: point.contract for point in POINTS}
    assert [name for name, _ in shown] == ["node_mask", "node_score", "job_order", "evictable", "queue_allocatable"]
    assert [f"{name}{rest}" for name, rest in shown] == [contracts[name] for name, _ in shown]


def test_the_filter(page: ModuleType) -> None:
    outcome = one_cycle(page.GpuNodes, [node("a", gpu=8), node("b"), pod("web", cpu=1), pod("train", cpu=1, gpu=1)])
    assert outcome.placed == {"default/web": "b", "default/train": "a"}


@pytest.mark.parametrize(("plugin", "arguments"), [("CheapPower", {}), ("Priced", {"priced.weight": 3})])
def test_the_score(page: ModuleType, plugin: str, arguments: dict[str, Any]) -> None:
    for cheap, dear in (("a", "b"), ("b", "a")):
        nodes = [node(dear, labels={page.PRICE: "3"}), node(cheap, labels={page.PRICE: "2.5"})]
        outcome = one_cycle(getattr(page, plugin), [*nodes, pod("web", cpu=1)], arguments=arguments)
        assert outcome.placed == {"default/web": cheap}


def test_the_points_of_the_score(page: ModuleType) -> None:
    """The cheapest gets all, the dearest and those without a readable price nothing."""
    prices = {"a": "102", "b": "100", "c": "cheap!", "d": ""}
    session = _open(page.CheapPower, {}, [node(name, labels={page.PRICE: text}) for name, text in prices.items()])
    scores = session.plugins["cheap-power"].node_score(0)
    assert scores is not None
    points = scores.fixed
    assert points is not None
    assert dict(zip(session.snapshot.nodes.names, points, strict=True)) == {"a": 0.0, "b": 100.0, "c": 0.0, "d": 0.0}


class Failing(Plugin):
    """Raises where it is told to."""

    name = "failing"
    fails_in = "open"

    def open(self, session: Session) -> None:
        super().open(session)
        assert self.fails_in != "open"

    def node_score(self, cls: int) -> NodeScores:
        raise ValueError("no such price")


@pytest.mark.parametrize(("fails_in", "said"), [("open", "failing.open"), ("node_score", "failing.node_score")])
def test_one_cycle_hides_no_fault(fails_in: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "fails_in", fails_in)
    with pytest.raises((AssertionError, MusterError), match=said):
        one_cycle(Failing, [node("a"), pod("web", cpu=1)])


def annotated(name: str, annotations: dict[str, str], **more: Any) -> list[KubeObject]:
    group, *pods = gang(name, 1, cpu=4, **more)
    group.metadata.annotations.update(annotations)
    return [group, *pods]


def test_the_order(page: ModuleType) -> None:
    late, soon = ({page.DEADLINE: seconds} for seconds in ("200", "90"))
    jobs = [*annotated("idle", {}, created=1), *annotated("late", late), *annotated("soon", soon)]
    assert one_cycle(page.Deadlines, [node("n", cpu=4), *jobs]).placed == {"default/soon-0": "n"}


@pytest.mark.parametrize(
    ("annotations", "evicted"), [({}, ["default/old-1"]), ({"example.com/holds-licence": "x"}, [])]
)
def test_the_victim_rule(page: ModuleType, annotations: dict[str, str], evicted: list[str]) -> None:
    group = pod_group("old", minimum=1, phase="Running", created=1)
    group.metadata.annotations.update(annotations)
    held = [group, *(pod(f"old-{k}", group="old", cpu=2, node="n") for k in range(2))]
    urgent = [pod_group("new", minimum=1, priority_class="high"), pod("new-0", group="new", cpu=2, priority=1000)]
    cluster = [node("n", cpu=4), queue("default"), priority_class("high", 1000), *held, *urgent]
    assert one_cycle(page.KeepLicensed, cluster, actions="allocate, preempt").evicted == evicted


def test_the_queue_rule(page: ModuleType) -> None:
    queues = [queue("test-a"), queue("prod")]
    jobs = [thing for name in "abc" for thing in gang(f"t{name}", 1, cpu=1, queue="test-a")]
    jobs += [thing for name in "abc" for thing in gang(f"p{name}", 1, cpu=1, queue="prod")]
    placed = one_cycle(page.SmallTestQueues, [node("n", cpu=64), *queues, *jobs]).placed
    assert sorted(name.removeprefix("default/") for name in placed) == ["pa-0", "pb-0", "pc-0", "ta-0", "tb-0"]


def test_labels_that_are_named(page: ModuleType) -> None:
    nodes = [node("gold", labels={page.TIER: "gold"}, cpu=1)]
    for order in (slice(None), slice(None, None, -1)):
        pods = [pod("plain", cpu=1), pod("rich", cpu=1, labels={page.TIER: "gold"})][order]
        assert one_cycle(page.GoldNodes, [*nodes, *pods]).placed == {"default/rich": "gold"}


def test_a_division(page: ModuleType) -> None:
    cluster = [node("dark", labels={"example.com/night": ""}), queue("night"), queue("day")]
    jobs = [*gang("owl", 1, cpu=1, queue="night"), *gang("lark", 1, cpu=1, queue="day")]
    assert one_cycle(page.NightQueue, [*cluster, *jobs]).placed == {"default/owl-0": "dark"}
