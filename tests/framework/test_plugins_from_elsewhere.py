"""What becomes of answers that break the contract, and of labels that the pods of a class need not have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from muster.actions import BUILTIN as ACTIONS
from muster.api import PluginError
from muster.cli.main import _bug
from muster.cluster import MemoryCluster
from muster.framework import FITS, NodeScores, Plugin, Registry, Session, Verdicts, parse_config, reason
from muster.framework.faults import told
from muster.plugins import BUILTIN as PLUGINS
from muster.scheduler import Scheduler
from muster.testing import gang, node, pod, queue
from tests.framework.test_session import opened

KEPT = reason("kept-for-gold", "are kept for gold")
TIER = "example.com/tier"


class Gold(Plugin):
    """The node `gold` is for pods with the label tier=gold."""

    name: ClassVar[str] = "gold"
    pod_labels: ClassVar[tuple[str, ...]] = (TIER,)

    def node_mask(self, cls: int) -> Verdicts:
        snapshot = self.session.snapshot
        is_gold = snapshot.classes.pods[cls].metadata.labels.get(TIER) == "gold"
        barred = [name == "gold" and not is_gold for name in snapshot.nodes.names]
        return np.where(barred, KEPT.number, FITS).astype(np.int16)


class Careless(Gold):
    """The same, and does not say which label it reads."""

    pod_labels: ClassVar[tuple[str, ...]] = ()


def masks(session: Session) -> dict[str, list[int]]:
    tasks = session.snapshot.tasks
    return {
        tasks.ids[task].removeprefix("default/"): session.node_verdicts(int(tasks.cls[task])).tolist()
        for task in session.snapshot.pending_tasks().tolist()
    }


@pytest.mark.parametrize("first", ["gold", "plain"])
def test_pods_that_differ_in_a_label_that_a_plugin_reads_are_judged_apart(first: str) -> None:
    pods = [pod("gold", labels={TIER: "gold"}, cpu=1), pod("tin", labels={TIER: "tin"}, cpu=1), pod("plain", cpu=1)]
    pods.sort(key=lambda one: one.name != first)
    session = opened([Gold], objects=[node("gold"), node("other"), *pods])
    no = KEPT.number
    assert masks(session) == {"gold": [FITS, FITS], "tin": [no, FITS], "plain": [no, FITS]}


def test_a_label_that_no_plugin_named_cannot_be_read_and_the_error_says_what_to_do() -> None:
    session = opened([Careless], objects=[node("gold"), pod("one", labels={TIER: "gold"}, cpu=1)])
    with pytest.raises(PluginError) as caught:
        session.node_verdicts(int(session.snapshot.tasks.cls[0]))
    assert told(caught.value) == (
        f"plugin gold: node_mask: the label {TIER} may differ between the pods of a class, which share this answer; "
        f'name it in the plugin: pod_labels = ("{TIER}",); the contract is node_mask(self, cls: int) -> Verdicts'
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda pod: TIER in pod.metadata.labels,
        lambda pod: pod.metadata.labels[TIER],
        lambda pod: dict(pod.metadata.labels.items()),
        lambda pod: list(pod.metadata.labels),
        lambda pod: pod.metadata.annotations.get("any"),
    ],
)
def test_there_is_no_way_around(read: Callable[[Any], object]) -> None:
    session = opened([Careless], objects=[node("gold"), pod("one", labels={TIER: "gold"}, cpu=1)])
    with pytest.raises(PluginError, match="may differ between the pods of a class"):
        read(session.snapshot.classes.pods[0])


# -- answers that break the contract --------------------------------------------------------------------------------


class Short(Plugin):
    name: ClassVar[str] = "short"

    def node_score(self, cls: int) -> NodeScores:
        return NodeScores(fixed=np.zeros(1))


class Broken(Plugin):
    name: ClassVar[str] = "broken"

    def node_score(self, cls: int) -> NodeScores:
        weights: dict[str, float] = {}
        return self._points(weights["gpu"])

    def _points(self, weight: float) -> NodeScores:
        raise AssertionError(weight)


class Curious(Plugin):
    name: ClassVar[str] = "curious"

    def node_score(self, cls: int, node: int) -> NodeScores:  # type: ignore[override]  # that is the mistake
        return NodeScores()


OTHER_PARAMETERS = (
    "plugin curious: node_score: cannot be asked: Curious.node_score() missing 1 required positional argument: 'node'; "
    "the contract is node_score(self, cls: int) -> NodeScores"
)
WRONG_SHAPE = (
    "plugin short: node_score: expected NodeScores: `fixed` finite float64 per node, `terms` of 2 + as many numbers as "
    "resources, got NodeScores(fixed=an array of float64 with the shape (1,): [0.], terms of [] numbers); the contract "
    "is node_score(self, cls: int) -> NodeScores"
)
RAISED = "plugin broken.node_score failed: KeyError: 'gpu'; the contract is node_score(self, cls: int) -> NodeScores"


@pytest.mark.parametrize(("plugin", "message"), [(Short, WRONG_SHAPE), (Broken, RAISED), (Curious, OTHER_PARAMETERS)])
def test_a_wrong_answer_names_plugin_point_and_contract_and_is_no_bug_of_muster_s(
    plugin: type[Plugin], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = opened([plugin], objects=[node("n1"), node("n2"), pod("one", cpu=1)])
    with pytest.raises((PluginError, KeyError)) as caught:
        session.node_scores(0)
    assert told(caught.value) == message
    assert _bug(caught.value) == 1
    shown = capsys.readouterr().err
    assert f"error: {message}\n" in shown
    assert "bug in muster" not in shown


def test_the_job_that_was_asked_about_says_who_failed_and_the_others_go_on() -> None:
    config = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: short}]}]'
    registry = Registry.of([*PLUGINS, Short], ACTIONS)
    cluster = MemoryCluster([node("n1"), node("n2"), *gang("a", 1, cpu=1)])
    scheduler = Scheduler(cluster, parse_config(config, "t"), registry)
    assert not scheduler.run_once().decisions
    [entry] = scheduler.mirror.quarantine
    assert "plugin short: node_score: expected NodeScores" in str(entry)


def test_an_answer_that_is_wrong_outside_of_any_job_does_not_end_the_cycle() -> None:
    class Unsorted(Plugin):
        name: ClassVar[str] = "unsorted"

        def queue_order(self, queue: int) -> object:
            return np.zeros(2)

    config = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: unsorted}]}]'
    registry = Registry.of([*PLUGINS, Unsorted], ACTIONS)
    # Of a single queue nobody asks where it stands.
    objects = [node("n1"), queue("q"), *gang("a", 1, cpu=1), *gang("b", 1, cpu=1, queue="q")]
    scheduler = Scheduler(MemoryCluster(objects), parse_config(config, "t"), registry)
    assert "plugin unsorted.queue_order in action allocate failed" in str(scheduler.run_once().error)
    for _ in range(2):
        scheduler.run_once()
    assert scheduler.strikes.count == 1
    assert [made.pod for made in scheduler.run_once().decisions] == ["default/a-0", "default/b-0"]
