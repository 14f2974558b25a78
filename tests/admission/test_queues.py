"""Queues: amounts in order, a place in the tree, and deletion."""

from __future__ import annotations

import pytest

from muster.admission import Settings
from tests.admission.requests import Json, create, delete, filled, queue, update

HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
BUSY = {"allocated": {"pods": "3"}}


def chain(*names: str) -> list[Json]:
    """Queues below each other, the first below the root."""
    return [queue(name, parent=above) for name, above in zip(names, ("root", *names), strict=False)]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"guarantee": {"resource": {"cpu": "2"}}}, "spec.deserved.cpu: expected at least what is guaranteed"),
        ({"guarantee": {"resource": {"cpu": "2"}}, "deserved": {"cpu": "1500m"}}, "spec.deserved.cpu: expected at"),
        ({"deserved": {"nvidia.com/gpu": 9}, "capability": {"nvidia.com/gpu": 8}}, 'spec.deserved["nvidia.com/gpu"]'),
        ({"capability": {"cpu": "-1"}}, "spec.capability.cpu: expected an amount of zero or more"),
        ({"parent": "nobody"}, 'spec.parent: expected the name of a queue, got "nobody"'),
        ({"parent": "one"}, "spec.parent: expected another queue, got the queue itself"),
    ],
)
def test_amounts_and_parents_that_cannot_be_are_refused(spec: Json, problem: str) -> None:
    assert problem in create(queue("one", **spec)).message


def test_equal_amounts_in_other_words_are_fine() -> None:
    spec: Json = {"guarantee": {"resource": {"cpu": "2000m"}}, "deserved": {"cpu": "2"}, "capability": {"cpu": "2e0"}}
    assert create(queue("one", **spec)).is_allowed


def test_depth_counts_what_a_queue_brings_along() -> None:
    tree = chain("a", "b", "c")
    settings = Settings(max_queue_depth=4)
    assert create(queue("d", parent="c"), *tree, settings=settings).is_allowed
    moved = update(queue("x"), queue("x", parent="c"), *tree, queue("y", parent="x"), settings=settings)
    assert "expected at most 4 levels" in moved.message


def test_a_queue_cannot_move_below_itself() -> None:
    tree = chain("a", "b", "c")
    assert 'not below "a" itself' in update(tree[0], queue("a", parent="c"), *tree[1:]).message


def test_a_queue_with_pods_becomes_no_parent_unless_it_is_one() -> None:
    busy = queue("a", status=BUSY)
    assert "holds no pods" in create(queue("b", parent="a"), busy).message
    assert create(queue("b", parent="a"), busy, queue("c", parent="a")).is_allowed


def test_siblings_share_what_their_parent_deserves() -> None:
    parent = queue("a", deserved={"cpu": "8", "memory": "8Gi"})
    sibling = queue("b", parent="a", deserved={"cpu": "6"})
    assert create(queue("c", parent="a", deserved={"cpu": "2"}), parent, sibling).is_allowed
    refused = create(queue("c", parent="a", deserved={"cpu": "2001m"}), parent, sibling)
    known_as = "sum of children's deserved"
    text = 'spec.deserved.cpu: expected at most 8, which is what "a" has for all queues below it, got 8001m'
    assert refused.message == f"{text} ({known_as})"


def test_an_update_counts_the_queue_once() -> None:
    parent = queue("a", deserved={"cpu": "8"})
    old = queue("b", parent="a", deserved={"cpu": "6"})
    assert update(old, queue("b", parent="a", deserved={"cpu": "8"}), parent).is_allowed
    assert not update(old, queue("b", parent="a", deserved={"cpu": "9"}), parent).is_allowed


def test_capabilities_are_compared_with_the_nearest_queue_that_has_one() -> None:
    tree = [queue("a", capability={"cpu": "8", "nvidia.com/gpu": "4"}), queue("b", parent="a")]
    assert 'queue "a" above, got 9' in create(queue("c", parent="b", capability={"cpu": "9"}), *tree).message
    below = [*tree[1:], queue("c", parent="b", capability={"cpu": "6"})]
    assert 'queue "c" below, got 5' in update(tree[0], queue("a", capability={"cpu": "5"}), *below).message


def test_an_old_mistake_does_not_hold_up_other_changes() -> None:
    parent, child = queue("a", deserved={"cpu": "1"}), queue("b", parent="a", deserved={"cpu": "9"})
    assert update(child, {**child, "spec": {**child["spec"], "weight": 5}}, parent).is_allowed


@pytest.mark.parametrize(
    ("path", "weights", "problem"),
    [
        ("root/a", "1", "as many weights as names"),
        ("root/a", "1/0", "expected numbers above 0"),
        ("root/a", "1/NaN", "expected numbers above 0"),
        ("root/b", "1/2", 'below which is "root/b/c" of queue "there"'),
        ("root/b/c/d", "1/1/1/1.5e1", ""),
        ("root/bb", "1/1", ""),
    ],
)
def test_paths_in_annotations(path: str, weights: str, problem: str) -> None:
    there = queue("there", annotations={HIERARCHY: "root/b/c", WEIGHTS: "1/1/1"})
    verdict = create(queue("one", annotations={HIERARCHY: path, WEIGHTS: weights}), there)
    assert verdict.is_allowed == (not problem)
    assert problem in verdict.message


def test_queues_that_others_need_are_not_deleted() -> None:
    assert "there are queues below it" in delete(queue("a"), queue("b", parent="a")).message
    assert "cannot be deleted" in delete(queue("root")).message
    busy = queue("a", status=BUSY)
    assert "the queue holds 3 pods" in delete(busy, settings=Settings(guard_busy_queues=True)).message
    assert delete(busy).is_allowed


def test_weight_reclaimable_and_the_root_of_paths_are_filled_in() -> None:
    given = queue("one", annotations={HIERARCHY: "a/b", WEIGHTS: "2/3"}, weight=0)
    whole = filled(given)
    assert whole["spec"] == {"weight": 1, "reclaimable": True}
    assert whole["metadata"]["annotations"] == {HIERARCHY: "root/a/b", WEIGHTS: "1/2/3"}
    complete = queue("one", annotations={HIERARCHY: "root/a", WEIGHTS: "1/1"}, weight=2, reclaimable=False)
    assert filled(complete) == complete
