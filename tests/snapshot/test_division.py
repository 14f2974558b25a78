"""Classes are divided by what plugins tell apart, and everything else stays as it is."""

from __future__ import annotations

import numpy as np

from muster.api import KubeObject
from muster.snapshot import NEEDS_LIVE_CHECK, Mirror, Snapshot
from muster.snapshot.classes import Division, divide_classes
from muster.testing.builders import node, pod


def snapshot_of(*objects: KubeObject) -> Snapshot:
    mirror = Mirror()
    for item in (node("n", gpu=8), *objects):
        mirror.upsert(item)
    return mirror.snapshot()


def parts(snapshot: Snapshot, **given: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array([given.get(name.removeprefix("default/"), 0) for name in snapshot.tasks.ids], np.intp)


def cls(snapshot: Snapshot, name: str) -> int:
    return int(snapshot.tasks.cls[snapshot.tasks.ids.index(f"default/{name}")])


def test_parts_of_a_class_become_classes_with_the_same_request() -> None:
    snapshot = snapshot_of(*(pod(name, gpu=1) for name in "abc"), pod("large", gpu=2))
    before = {name: snapshot.request(snapshot.tasks.ids.index(f"default/{name}")).tolist() for name in ("a", "large")}
    own = divide_classes(snapshot, {"plugin": Division(parts(snapshot, b=1, c=2, large=1), ("", "one", "two"))})
    classes = [cls(snapshot, name) for name in ("a", "b", "c", "large")]
    assert len(set(classes)) == 4
    assert own["plugin"][classes].tolist() == [0, 1, 2, 1]
    assert snapshot.classes.requests[classes[1], 0].tolist() == before["a"]
    assert snapshot.classes.requests[classes[3], 0].tolist() == before["large"]
    assert len({snapshot.classes.keys[row] for row in classes}) == 4


def test_two_plugins_divide_the_same_class() -> None:
    snapshot = snapshot_of(*(pod(name, gpu=1) for name in "abcd"))
    first, second = parts(snapshot, a=1, b=1), parts(snapshot, b=1, c=1)
    own = divide_classes(snapshot, {"x": Division(first, ("", "in")), "y": Division(second, ("", "in"))})
    classes = [cls(snapshot, name) for name in "abcd"]
    assert len(set(classes)) == 4
    assert own["x"][classes].tolist() == [1, 1, 0, 0]
    assert own["y"][classes].tolist() == [0, 1, 1, 0]


def test_classes_are_named_alike_in_every_snapshot_and_by_the_name_of_the_part() -> None:
    def key(part: str, *order: str) -> bytes:
        snapshot = snapshot_of(*(pod(name, gpu=1) for name in order))
        divide_classes(snapshot, {"x": Division(parts(snapshot, a=1), ("", part))})
        return snapshot.classes.keys[cls(snapshot, "a")]

    assert key("open", "a", "b") == key("open", "b", "a") != key("closed", "a", "b")


def test_nothing_changes_for_tasks_of_no_part() -> None:
    snapshot = snapshot_of(pod("a", gpu=1))
    table = snapshot.classes
    own = divide_classes(snapshot, {"x": Division(parts(snapshot), ("",))})
    assert snapshot.classes is table
    assert own["x"].tolist() == [0] * len(table)


def test_tasks_that_depend_on_others_are_marked_to_be_placed_one_by_one() -> None:
    snapshot = snapshot_of(pod("a", gpu=1), pod("b", gpu=1))
    live = parts(snapshot, a=1) == 1
    divide_classes(snapshot, {"x": Division(parts(snapshot), ("",), live)})
    assert ((snapshot.tasks.flags & NEEDS_LIVE_CHECK) != 0).tolist() == live.tolist()


def test_the_next_snapshot_of_the_mirror_is_not_divided() -> None:
    mirror = Mirror()
    for item in (node("n"), pod("a", cpu=1)):
        mirror.upsert(item)
    first = mirror.snapshot()
    divide_classes(first, {"x": Division(np.ones(len(first.tasks), np.intp), ("", "in"))})
    assert len(mirror.snapshot().classes) == len(first.classes) - 1
