"""Lines: the first by key is next, a queue that was put in again stands at its new place only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.engine.lines import JobLine, QueueLine, related_queues
from muster.framework import PluginOption
from muster.testing import queue
from tests.engine.stage import configured, open_session


def drain(line: QueueLine) -> list[int]:
    found = []
    while (first := line.pop()) is not None:
        found.append(first)
    return found


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12, unique_by=lambda pair: pair[1]))
def test_jobs_come_out_by_key_and_then_by_row(pairs: list[tuple[int, int]]) -> None:
    line = JobLine()
    for key, job in pairs:
        line.push((key,), job)
    assert sorted(line.jobs()) == sorted(job for _, job in pairs)
    assert len(line) == len(pairs)
    assert [line.pop() for _ in pairs] == [job for _, job in sorted(pairs)]
    assert not line


def test_queues_come_out_by_key_each_once() -> None:
    keys = {1: 5, 2: 3, 3: 4}
    line = QueueLine(keys, lambda queue: (keys[queue],), {})
    line.push(2)
    assert drain(line) == [2, 3, 1]
    assert line.pop() is None


def test_a_queue_whose_key_changed_stands_at_its_new_place_after_a_refresh() -> None:
    keys = {1: 1, 2: 2, 3: 3}
    line = QueueLine(keys, lambda queue: (keys[queue],), {1: [2, 3]})
    assert line.pop() == 1
    keys[2] = 9
    line.refresh_around(1)
    assert drain(line) == [3, 2]


def test_a_refresh_does_not_bring_back_a_queue_that_left() -> None:
    keys = {1: 1, 2: 2}
    line = QueueLine(keys, lambda queue: (keys[queue],), {1: [2], 2: [1]})
    assert line.pop() == 1
    line.refresh_around(2)
    assert drain(line) == [2]
    line.refresh_around(1)
    assert line.pop() is None


def test_queues_that_share_a_parent_are_related() -> None:
    session = open_session(
        [
            queue("root"),
            queue("team", parent="root"),
            queue("a", parent="team"),
            queue("b", parent="team"),
            queue("c", parent="root"),
            queue("default", parent="root"),
            queue("lone"),
        ]
    )
    index = session.snapshot.queues.index
    found = related_queues(session, [index[name] for name in ("a", "b", "c", "lone")])
    names = {row: name for name, row in index.items()}
    assert {names[row]: sorted(names[other] for other in others) for row, others in found.items()} == {
        "a": ["b", "c"],
        "b": ["a", "c"],
        "c": ["a", "b"],
    }


def test_with_a_tree_in_annotations_everybody_is_related_to_everybody() -> None:
    option = PluginOption("drf", flags={"enableHierarchy": True})
    session = open_session([queue("a"), queue("b")], configured(option))
    rows = sorted(session.snapshot.queues.index.values())
    assert related_queues(session, rows) == {row: [other for other in rows if other != row] for row in rows}
