"""A copy shares what never changes, owns what may, and refuses what cannot be told apart."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from muster.api import Pod
from muster.simulate import Run
from muster.simulate.forking import fork
from muster.testing import gang, node, pod


def test_values_are_shared_and_containers_are_not() -> None:
    thing = pod("a", gpu=1)
    original: dict[str, Any] = {
        "pods": [thing],
        "rows": np.arange(3),
        "sets": [{1}, {2}],
        "deep": defaultdict(dict, {"a": {"b": 1}}),
    }
    copy = fork(original)
    assert copy["pods"][0] is thing
    copy["pods"].clear()
    copy["rows"][0] = 7
    copy["sets"][0].add(9)
    copy["deep"]["a"]["b"] = 2
    assert original["pods"] == [thing]
    assert original["rows"].tolist() == [0, 1, 2]
    assert original["sets"] == [{1}, {2}]
    assert original["deep"] == {"a": {"b": 1}}


def test_what_several_refer_to_is_copied_once_and_circles_close() -> None:
    inner: list[object] = [pod("a"), []]
    outer: dict[str, Any] = {"one": inner, "two": inner}
    inner.append(outer)
    copy = fork(outer)
    assert copy["one"] is copy["two"]
    assert copy["one"][2] is copy
    assert copy["one"] is not inner


def test_methods_and_partial_calls_belong_to_the_copy() -> None:
    run = Run([node("n1")])
    copied: Any
    (copied,) = fork([(run, partial(run.go_on, cycles=1), run.cluster.now)], [run.scheduler.registry])
    copied[1]()
    assert (len(run.cycles), len(copied[0].cycles)) == (0, 1)
    assert copied[2].__self__ is copied[0].cluster


def test_functions_that_remember_their_surroundings_are_refused() -> None:
    seen: list[int] = []
    with pytest.raises(TypeError, match="remembers its surroundings"):
        fork({"call": lambda: seen.append(1)})


@dataclass
class _Elsewhere:
    items: deque[int] = field(default_factory=deque)


def test_objects_of_others_are_refused() -> None:
    with pytest.raises(TypeError, match="nobody knows how"):
        fork([_Elsewhere()])


def test_what_a_copy_does_to_its_cluster_is_not_seen_by_the_original() -> None:
    run = Run([node("n1", gpu=4), *gang("g", 2, gpu=1, run_seconds=10)])
    copy = run.fork()
    copy.go_on()
    assert run.cycles == []
    assert {pod.status.phase for pod in run.cluster.store.all(Pod)} == {"Pending"}
    assert {pod.status.phase for pod in copy.cluster.store.all(Pod)} == {"Succeeded"}
