"""Queues as numbers, on a tree with the plugin `capacity`: promised, held, asked for, borrowed, waited for."""

from dataclasses import replace

import pytest

from muster.api import KubeObject
from muster.api.resources import GPU
from muster.explain import QueueOverview, QueueView, queue_overview
from muster.framework import parse_config
from muster.simulate import simulate
from muster.snapshot import UNLIMITED
from muster.testing import builders

CONFIG = parse_config(
    """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]
""",
    "test",
)

TEAMS = [
    builders.queue("lab", deserved={"gpu": 6}),
    builders.queue("a", parent="lab", deserved={"gpu": 3}, weight=2),
    builders.queue("b", parent="lab", deserved={"gpu": 3}, capability={"gpu": 5}),
    builders.queue("shop", deserved={"gpu": 2}),
]


def _tree(*objects: KubeObject) -> QueueOverview:
    session = simulate([builders.node("n1", gpu=8), *objects], CONFIG).last_session
    assert session is not None
    return queue_overview(session)


def _named(tree: QueueOverview) -> dict[str, QueueView]:
    return {queue.name: queue for queue in tree.walk()}


def test_the_tree_is_that_of_the_objects_and_unused_standard_queues_are_left_out() -> None:
    tree = _tree(*TEAMS)
    assert [queue.name for queue in tree.top] == ["lab", "shop"]
    assert [queue.name for queue in tree.top[0].inner] == ["a", "b"]
    assert tree.total[GPU] == 8000


def test_a_standard_queue_with_jobs_is_shown() -> None:
    tree = _tree(*TEAMS, builders.pod("lone", gpu=1))
    assert [queue.name for queue in tree.top] == ["default", "lab", "shop"]


def test_a_parent_counts_what_is_below_it() -> None:
    queues = _named(
        _tree(*TEAMS, *builders.gang("one", 2, queue="a", gpu=2), *builders.gang("two", 5, queue="b", gpu=1))
    )
    a, b, lab = (queues[name].resources[GPU] for name in ("a", "b", "lab"))
    assert (a.quota, a.limit, a.weight, a.held, a.asked) == (3000, None, 2.0, 4000, 4000)
    assert (b.quota, b.limit, b.weight) == (3000, 5000, 1.0)
    assert (lab.held, lab.asked) == (a.held + b.held, a.asked + b.asked)
    assert lab.asked == 9000


def test_use_above_the_quota_is_borrowed_from_idle_siblings_at_each_level() -> None:
    tree = _tree(*TEAMS, *builders.gang("one", 4, queue="a", gpu=2))
    found = [(loan.borrower, loan.lender, loan.amount) for loan in tree.loans if loan.resource == GPU]
    # Of the 8 GPUs of a, 3 are its own, 3 are b's, and lab as a whole has 2 of shop's.
    assert found == [("lab", "shop", 2000), ("a", "b", 3000)]


def test_waiting_jobs_are_counted_with_the_reason_that_most_of_them_share() -> None:
    tree = _tree(
        *TEAMS,
        *builders.gang("fits", 2, queue="b", gpu=1),
        *builders.gang("wide", 4, queue="b", gpu=4),
        *builders.gang("wider", 5, queue="b", gpu=4),
    )
    b = _named(tree)["b"]
    assert (b.running, b.waiting, b.pending_pods) == (1, 2, 9)
    assert sum(n for _, n in b.reasons) == 2
    assert b.resources[GPU].asked == 38000


def test_a_job_that_runs_and_would_grow_is_not_called_waiting() -> None:
    b = _named(_tree(*TEAMS, *builders.gang("elastic", 9, minimum=1, queue="b", gpu=1)))["b"]
    assert (b.running, b.waiting) == (1, 0)
    assert b.pending_pods == 9 - b.resources[GPU].held // 1000
    assert b.reasons[0][1] == 1


def test_faults_and_missing_queues_are_told_apart() -> None:
    tree = _tree(
        *TEAMS,
        builders.queue("orphan", parent="gone"),
        builders.queue("x", parent="y"),
        builders.queue("y", parent="x"),
        *builders.gang("lost", 1, queue="nowhere", gpu=1),
        *builders.gang("stuck", 1, queue="orphan", gpu=1),
    )
    assert {queue.name: queue.fault for queue in tree.broken} == {
        "orphan": "parent gone of orphan does not exist",
        "x": "parents form a cycle: x -> y -> x",
        "y": "parents form a cycle: y -> x -> y",
    }
    assert tree.missing == (("nowhere", 1),)
    [(reason, n_jobs)] = _named(tree)["orphan"].reasons
    assert (reason.code, n_jobs) == ("queue-tree-broken", 1)


@pytest.mark.parametrize(("quota", "shown"), [(None, None), (int(UNLIMITED), "unlimited"), (2500, "2500m")])
def test_json_tells_no_quota_from_one_without_end(quota: int | None, shown: str | None) -> None:
    tree = _tree(*TEAMS)
    [lab, shop] = tree.top
    amounts = {**shop.resources, GPU: replace(shop.resources[GPU], quota=quota)}
    document = replace(tree, top=(lab, replace(shop, resources=amounts))).to_json()
    assert document["queues"][-1]["resources"][GPU]["quota"] == shown
