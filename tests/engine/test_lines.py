"""Lines: the first queue by key is next, with its first job; a queue whose key grew meanwhile stands further back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.engine.lines import Line
from muster.framework import Session
from muster.snapshot import Rows
from muster.testing import pod, pod_group, queue
from tests.engine.stage import job_row, open_session


class Shares(Session):
    """A session whose queues and jobs are ordered by given numbers."""

    queues: dict[str, int]
    jobs: dict[str, int]

    def queue_key(self, queue: int) -> tuple[int, str]:
        name = self.snapshot.queues.records[queue].name
        return self.queues[name], name

    def job_key(self, job: int) -> tuple[int]:
        return (self.jobs.get(self.snapshot.jobs.records[job].name, 0),)

    def job_keys(self, jobs: Rows) -> None:
        """There is nobody who knows the keys of many at once."""


def open_shares(queues: dict[str, int], jobs: dict[str, str], keys: dict[str, int] | None = None) -> Shares:
    """`jobs`: the queue of each."""
    objects = [queue(name) for name in queues]
    groups = [item for name, home in jobs.items() for item in (pod_group(name, queue=home), pod(name, group=name))]
    session = open_session([*objects, *groups])
    session.__class__ = Shares
    assert isinstance(session, Shares)
    session.queues, session.jobs = queues, keys or {}
    return session


def rows(session: Session, *names: str) -> list[int]:
    return [job_row(session, name) for name in names]


def drain(line: Line) -> list[int]:
    found = []
    while (first := line.pop()) is not None:
        found.append(first)
    return found


def test_those_who_are_left_out_have_no_turn() -> None:
    session = open_shares({"a": 1, "b": 2}, {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}, {"b2": 1})
    line = Line(session, rows(session, "a1", "a2", "b1", "b2"))
    assert line.pop() == job_row(session, "a1")
    gone = set(rows(session, "a1", "a2", "b1"))
    assert line.leave_out(gone) == rows(session, "a2", "b1")
    assert drain(line) == rows(session, "b2")


@given(st.permutations(range(4)))
def test_jobs_of_a_queue_come_out_by_key(keys: list[int]) -> None:
    names = ["j0", "j1", "j2", "j3"]
    session = open_shares({"a": 0}, dict.fromkeys(names, "a"), dict(zip(names, keys, strict=True)))
    expected = [name for _, name in sorted(zip(keys, names, strict=True))]
    assert drain(Line(session, rows(session, *names))) == rows(session, *expected)


def test_queues_that_are_equal_take_turns() -> None:
    session = open_shares({"a": 1, "b": 1, "c": 1}, {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"})
    line = Line(session, rows(session, "a1", "a2", "b1", "b2", "c1"))
    found = []
    while (first := line.pop()) is not None:
        found.append(first)
        session.queues[session.snapshot.jobs.records[first].queue] += 1
    assert found == rows(session, "a1", "b1", "c1", "a2", "b2")


def test_the_queue_with_the_smallest_key_is_served_until_another_is_before_it() -> None:
    session = open_shares({"a": 2, "b": 1}, {"a1": "a", "b1": "b", "b2": "b", "b3": "b"})
    line = Line(session, rows(session, "a1", "b1", "b2", "b3"))
    assert [line.pop(), line.pop()] == rows(session, "b1", "b2")
    session.queues["b"] = 3
    assert drain(line) == rows(session, "a1", "b3")


def test_a_queue_whose_key_grew_while_it_stood_in_line_stands_at_its_new_place() -> None:
    session = open_shares({"a": 1, "b": 2, "c": 3}, {"a1": "a", "b1": "b", "c1": "c"})
    line = Line(session, rows(session, "a1", "b1", "c1"))
    assert line.pop() == rows(session, "a1")[0]
    session.queues["b"] = 9
    assert drain(line) == rows(session, "c1", "b1")


def test_a_job_that_goes_back_in_line_is_served_again() -> None:
    session = open_shares({"a": 1}, {"a1": "a", "a2": "a"}, {"a2": 1})
    line = Line(session, rows(session, "a1", "a2"))
    first = line.pop()
    assert first is not None
    session.jobs["a1"] = 2
    line.push(first)
    assert drain(line) == rows(session, "a2", "a1")


def test_queues_can_be_taken_whole() -> None:
    session = open_shares({"a": 2, "b": 1}, {"a1": "a", "b1": "b", "b2": "b"})
    line = Line(session, rows(session, "a1", "b1", "b2"))
    index = session.snapshot.queues.index
    assert line.pop_queue() == (index["b"], rows(session, "b1", "b2"))
    assert line.pop_queue() == (index["a"], rows(session, "a1"))
    assert line.pop_queue() is None
