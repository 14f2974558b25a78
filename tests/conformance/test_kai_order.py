"""Cases of order, in the form of KAI's recorded ones: what they describe is asked of the product's own lines."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kai_order import ADAPTERS

TREE = [{"name": "top"}, {"name": "a", "parent": "top", "createdOrder": 1}, {"name": "b", "parent": "top"}]
POP: dict[str, Any] = {"op": "pop"}


def job(name: str, queue: str, priority: int = 50, state: str = "Pending") -> dict[str, Any]:
    return {"name": name, "queue": queue, "priority": priority, "minAvailable": 1, "podsByStatus": {state: 1}}


def taken(*jobs: dict[str, Any], steps: list[dict[str, Any]], **options: bool) -> Any:
    given = {"queues": TREE, "jobs": list(jobs), "options": options, "steps": steps}
    return ADAPTERS["jobOrderByQueues"](given)


def test_jobs_are_taken_down_the_tree_until_nobody_is_left() -> None:
    jobs = [job("a1", "a"), job("b1", "b"), job("b2", "b", 60), job("lost", "nowhere")]
    assert taken(*jobs, steps=[{"op": "init"}, POP, POP, POP, POP]) == ["b2", "b1", "a1", ""]


def test_jobs_can_be_put_in_line_later() -> None:
    push: dict[str, Any] = {"op": "push", "job": job("b1", "b")}
    steps: list[dict[str, Any]] = [{"op": "init"}, push, POP, push, POP]
    assert taken(job("a1", "a"), steps=steps) == ["b1", "b1"]


def test_victims_are_taken_from_the_last_queue_and_the_last_job() -> None:
    running = [job(name, queue, priority, "Running") for name, queue, priority in (("a1", "a", 9), ("a2", "a", 8))]
    running.append(job("b1", "b", 7, "Running"))
    assert taken(*running, steps=[POP, POP, POP, POP], victimQueue=True) == ["a2", "a1", "b1", ""]


@pytest.mark.parametrize(
    ("function", "given", "output"),
    [
        ("elasticJobOrder", {"left": [(1, 1), (0, 1)], "right": [(1, 1)]}, -1),
        ("elasticJobOrder", {"left": [(2, 1)], "right": [(1, 1)]}, 1),
        ("elasticJobOrder", {"left": [(0, 2)], "right": [(1, 2)]}, 0),
    ],
)
def test_jobs_by_their_minimum(function: str, given: dict[str, list[tuple[int, int]]], output: int) -> None:
    sides = {
        side: [{"name": "s", "allocatedTasks": held, "minAvailable": least} for held, least in sets]
        for side, sets in given.items()
    }
    assert ADAPTERS[function](sides) == output


@pytest.mark.parametrize(
    ("left", "right", "output"), [((1, 3), (2, 4), 0), ((1, 3), (3, 3), -1), ((5, 2), (4, 2), 1), ((4, 2), (8, 4), 0)]
)
def test_pod_sets_by_what_they_have(left: tuple[int, int], right: tuple[int, int], output: int) -> None:
    sides = {
        side: {"name": side, "allocatedTasks": held, "minAvailable": least}
        for side, (held, least) in (("left", left), ("right", right))
    }
    assert ADAPTERS["subGroupOrder"](sides) == output


@pytest.mark.parametrize(
    ("left", "right", "output"), [("1", "2", 1), ("10", "9", -1), ("1", None, -1), (None, None, 0)]
)
def test_tasks_by_their_label(left: str | None, right: str | None, output: int) -> None:
    key = "kai.scheduler/task-priority"
    labels = {f"{side}Labels": {key: value} for side, value in (("left", left), ("right", right)) if value is not None}
    assert ADAPTERS["taskOrder"](labels) == output
