"""Queues stay on the node groups that they name, and within their limits in each."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from muster.api import KubeObject, Queue
from muster.api.objects.scheduling import NodeGroupAffinity, QueueAffinity
from muster.cluster import MemoryCluster
from muster.framework import parse_config, reason_number
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Bind
from muster.testing.builders import gang, node, pod, pod_group, queue
from tests.plugins.queue_stage import Stage, annotated

LIMITS = "volcano.sh/nodegroup-resource-limits"
NODES = [
    *(node(f"n{k}", gpu=8, labels={"volcano.sh/nodegroup-name": f"g{k}"}) for k in (1, 2, 3, 4)),
    node("bare", gpu=8),
]


def groups(made: Queue, likes: tuple[list[str], list[str]], dislikes: tuple[list[str], list[str]] = ([], [])) -> Queue:
    """The queue with (required, preferred) groups, to use and to avoid."""
    affinity = QueueAffinity(
        node_group_affinity=NodeGroupAffinity(required=likes[0], preferred=likes[1]),
        node_group_anti_affinity=NodeGroupAffinity(required=dislikes[0], preferred=dislikes[1]),
    )
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, affinity=affinity))


def stage_of(*queues: Queue, tree: bool = False, **arguments: Any) -> Stage:
    """One waiting pod per queue, all alike; it has the queue's name."""
    jobs: list[KubeObject] = []
    for made in queues:
        jobs += gang(made.metadata.name, 1, gpu=1, queue=made.metadata.name)
    return Stage("nodegroup", [*NODES, *queues, *jobs], arguments=arguments, tree=tree)


def verdicts(stage: Stage, name: str) -> dict[str, str]:
    """Reason codes by node, without the nodes that fit."""
    found = stage.session.node_verdicts(int(stage.snapshot.tasks.cls[stage.task(f"{name}-0")]))
    codes = {node: reason_number(int(v)).code for node, v in zip(stage.snapshot.nodes.names, found, strict=True)}
    return {node: code for node, code in codes.items() if code != "fits"}


def scores(stage: Stage, name: str) -> dict[str, float]:
    fixed = stage.plugin.node_score(int(stage.snapshot.tasks.cls[stage.task(f"{name}-0")])).fixed
    return dict(zip(stage.snapshot.nodes.names, fixed.tolist(), strict=True))


def test_groups_that_are_required_or_preferred_are_open_and_all_others_closed() -> None:
    stage = stage_of(groups(queue("q"), (["g1"], ["g2"])))
    assert verdicts(stage, "q") == {"n3": "node-group", "n4": "node-group", "bare": "no-node-group"}
    assert scores(stage, "q") == {"n1": 100, "n2": 50, "n3": 0, "n4": 0, "bare": 0}


def test_avoiding_comes_before_using_and_a_group_that_is_only_disliked_stays_open_as_the_last() -> None:
    stage = stage_of(groups(queue("q"), (["g1", "g2"], []), (["g2"], ["g3"])))
    assert verdicts(stage, "q") == {"n2": "node-group", "n4": "node-group", "bare": "no-node-group"}
    assert scores(stage, "q")["n3"] == -1


@pytest.mark.parametrize(("strict", "bare"), [(True, {"bare": "no-node-group"}), (False, {})])
def test_nodes_without_a_group_are_for_queues_that_name_none_unless_strict(strict: bool, bare: dict[str, str]) -> None:
    stage = stage_of(queue("plain"), groups(queue("empty"), ([], [])), groups(queue("q"), (["g1"], [])), strict=strict)
    closed = {f"n{k}": "queue-without-node-groups" for k in (1, 2, 3, 4)}
    assert verdicts(stage, "plain") == verdicts(stage, "empty") == {**closed, **bare}
    assert "bare" in verdicts(stage, "q")


def test_pods_that_are_alike_but_of_different_queues_are_told_apart_and_those_of_equal_policies_are_not() -> None:
    stage = stage_of(
        groups(queue("a"), (["g1"], [])), groups(queue("b"), (["g2"], [])), groups(queue("c"), (["g1"], []))
    )
    a, b, c = (int(stage.snapshot.tasks.cls[stage.task(f"{name}-0")]) for name in "abc")
    assert a == c != b


def test_preferred_groups_in_order_are_worth_less_and_less() -> None:
    made = groups(queue("q"), ([], ["g3", "g1"]))
    assert scores(stage_of(made, enablePreferredOrder=True), "q") == {"n1": 25, "n2": 0, "n3": 50, "n4": 0, "bare": 0}
    assert scores(stage_of(made), "q") == {"n1": 50, "n2": 0, "n3": 50, "n4": 0, "bare": 0}


@pytest.mark.parametrize(("tree", "usable"), [(True, ["n1"]), (False, [])])
def test_a_queue_that_names_no_groups_has_those_of_the_nearest_above_if_queues_are_a_tree(
    tree: bool, usable: list[str]
) -> None:
    top = groups(queue("root"), (["g2"], []))
    team = groups(queue("team", parent="root"), (["g1"], []))
    stage = stage_of(top, team, queue("leaf", parent="team"), tree=tree)
    assert [name for name in stage.snapshot.nodes.names if name not in verdicts(stage, "leaf")] == usable


def test_a_queue_without_a_parent_hangs_under_root() -> None:
    stage = stage_of(groups(queue("root"), (["g2"], [])), queue("leaf"), tree=True)
    assert "n2" not in verdicts(stage, "leaf")


# -- limits ------------------------------------------------------------------------------------------------------


def limited(text: str) -> Queue:
    return annotated(groups(queue("q"), (["g1", "g2"], ["g1"])), {LIMITS: text})


def bound(*objects: KubeObject, actions: str = "allocate") -> dict[str, str]:
    """Where pods go in one cycle."""
    config = parse_config(
        f'actions: "{actions}"\ntiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: nodegroup}}]}}]', "t"
    )
    scheduler = Scheduler(MemoryCluster([*NODES, *objects], start=0.0), config, builtin_registry(third_party=False))
    made = scheduler.run_once().decisions
    return {one.pod.removeprefix("default/"): one.node for one in made if isinstance(one, Bind)}


def test_what_a_queue_holds_of_a_group_stays_within_its_limit_and_the_rest_goes_elsewhere() -> None:
    running = [pod_group("old", queue="q", phase="Running"), pod("old-0", group="old", gpu=2, node="n1")]
    made = bound(limited('{"g1": {"nvidia.com/gpu": "4"}}'), *running, *gang("job", 4, minimum=1, gpu=1, queue="q"))
    assert sorted(made.values()) == ["n1", "n1", "n2", "n2"]


def test_a_gang_that_does_not_fit_within_the_limits_does_not_start() -> None:
    limits = '{"g1": {"nvidia.com/gpu": "1"}, "g2": {"nvidia.com/gpu": "1"}}'
    assert bound(limited(limits), *gang("job", 3, gpu=1, queue="q")) == {}


def test_the_limit_of_one_queue_is_not_that_of_another() -> None:
    other = groups(queue("other"), (["g1"], []))
    made = bound(limited('{"g1": {"nvidia.com/gpu": "1"}}'), other, *gang("job", 4, gpu=1, queue="other"))
    assert list(made.values()) == ["n1"] * 4


def test_what_is_not_limited_is_free() -> None:
    made = bound(limited('{"g1": {"cpu": "1"}}'), *gang("job", 4, gpu=1, cpu="250m", queue="q"))
    assert list(made.values()) == ["n1"] * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"g1": {"cpu":', "expected JSON such as"),
        ('["g1"]', "expected amounts by node group"),
        ('{"g1": "8"}', "g1: expected amounts"),
        ('{"g1": {"cpu": "lots"}}', "g1.cpu: expected a quantity"),
    ],
)
def test_limits_that_cannot_be_read_close_every_node_and_are_logged(
    text: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        stage = stage_of(limited(text))
    assert set(verdicts(stage, "q").values()) == {"node-group-limits-unreadable"}
    assert expected in caplog.text
    assert LIMITS in caplog.text
