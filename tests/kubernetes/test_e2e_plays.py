"""The same play on the embedded cluster and on the real parts comes to the same end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from muster.api import KubeObject
from muster.cluster import Timeline
from muster.cluster.timeline import Delete, Entry, ObjectName, load_timeline
from muster.framework import find_config, parse_config
from muster.testing import gang, node, priority_class, queue
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.plays import Clock, Connect, Listener, LivePlay, Play, add, on_embedded, outcome_of, read

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(folder: str, config: str, later: str = "", *, in_turn: bool = False) -> Play:
    """An example of the documentation."""
    timeline = load_timeline(EXAMPLES / later) if later else Timeline()
    return Play(read(EXAMPLES / folder), find_config(config), timeline, in_turn)


def with_actions(actions: str, plugins: str) -> str:
    return f'actions: "{actions}"\ntiers: [{{plugins: [{plugins}]}}]\n'


GANG_PREEMPT = with_actions("allocate, gangpreempt", "{name: priority}, {name: gang}, {name: predicates}")
GANG_RECLAIM = with_actions("allocate, gangreclaim", "{name: gang}, {name: predicates}, {name: capacity}")
STALE = with_actions("allocate, stalegangeviction", "{name: gang}, {name: predicates}")


def two_racks() -> list[KubeObject]:
    return [priority_class("low", 1), priority_class("high", 9), *(node(f"n{k}", gpu=4) for k in range(2))]


PLAYS: dict[str, tuple[Play, dict[str, int]]] = {
    "gangs keep to their racks and spines": (example("topology", str(EXAMPLES / "config/topology.yaml")), {}),
    "queues share by weight": (example("queues", "volcano"), {}),
    "a gang of higher priority takes a rack": (
        example("urgent", str(EXAMPLES / "config/gang-preempt.yaml")),
        {"research/crawl": 1, "research/nightly": 1},
    ),
    "what is left of a broken gang goes after its grace period": (
        example("urgent", "muster"),
        {"research/crawl": 4, "research/nightly": 1},
    ),
    "a queue takes back what it was promised": (
        example("fair-shares/now", "muster", "fair-shares/later/timeline.yaml"),
        {"vision/train": 4},
    ),
    "a queue takes back what it was promised, by KAI's rules": (
        example("fair-shares/now", "kai", "fair-shares/later/timeline.yaml"),
        {"vision/train": 4},
    ),
    "a gang is left alone until it has run for its time": (
        example("min-runtime/now", "muster", "min-runtime/later/timeline.yaml", in_turn=True),
        {"batch/sift": 2},
    ),
    "a job is moved to make room in one piece": (example("consolidation", "muster"), {"team/label": 1}),
    "of two gangs the one of lower priority goes, and whole": (
        Play(
            [*two_racks(), *gang("old", 4, gpu=1, priority_class="low"), *gang("older", 4, gpu=1)],
            parse_config(GANG_PREEMPT, "gang preempt"),
            Timeline((add(30, gang("urgent", 4, gpu=1, priority_class="high")),)),
        ),
        {"default/older": 4},
    ),
    "a gang is reclaimed whole from a queue that has more than it deserves": (
        Play(
            [
                queue("rich", deserved={"gpu": 4}),
                queue("poor", deserved={"gpu": 4}),
                *two_racks(),
                *gang("first", 4, gpu=1, queue="rich", priority_class="low"),
                *gang("second", 4, gpu=1, queue="rich"),
            ],
            parse_config(GANG_RECLAIM, "gang reclaim"),
            Timeline((add(30, gang("due", 4, gpu=1, queue="poor")),)),
        ),
        {"default/second": 4},
    ),
    "a gang that lost a pod for good goes after its grace period": (
        Play(
            [*two_racks(), *gang("train", 4, gpu=1)],
            parse_config(STALE, "stale gangs"),
            Timeline((Entry(30, Delete((ObjectName("Pod", "default/train-2"),)), "at 30"),)),
        ),
        {"default/train": 3},
    ),
}


@pytest.mark.parametrize("name", PLAYS)
def test_both_clusters_come_to_the_same_end(name: str, listener: Listener, kubectl: Kubectl) -> None:
    play, evicted = PLAYS[name]
    wanted = outcome_of(on_embedded(play))
    assert wanted.evicted == evicted
    assert outcome_of(LivePlay(listener, kubectl, play).run()) == wanted


# -- restarts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "what is left of a broken gang goes after its grace period",
        "a gang is left alone until it has run for its time",
        "a queue takes back what it was promised",
        "a job is moved to make room in one piece",
    ],
)
def test_a_new_scheduler_for_every_cycle_comes_to_the_same_end(name: str, connect: Connect, kubectl: Kubectl) -> None:
    """All that one cycle leaves to the next is in the cluster: stamps, promises, what is about to leave."""
    play, _ = PLAYS[name]
    clock = Clock()
    with ExitStack() as schedulers:
        live = LivePlay(schedulers.enter_context(connect(clock)), kubectl, play)

        def restart() -> None:
            schedulers.close()
            live.serve(schedulers.enter_context(connect(clock)))
            live.scheduler.observe()

        live.after_cycle = restart  # type: ignore[method-assign]  # made for this
        found = outcome_of(live.run())
    assert found == outcome_of(on_embedded(play))


# -- KAI's own objects -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kai_kinds")
def test_objects_of_kai_are_served_as_they_are(connect: Connect, kubectl: Kubectl) -> None:
    play = example("kai", "kai")
    with connect() as listener:
        found = outcome_of(LivePlay(listener, kubectl, play).run())
    assert found == outcome_of(on_embedded(play))
    assert kubectl.get("KaiPodGroup", "segment")["status"]["running"] == 4
