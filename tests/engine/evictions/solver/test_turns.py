"""Turns of a dry run: those of the next allocate, with everybody who waits in line."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.evictions.solver.trial import Turns, Waiting
from muster.framework import Session
from tests.engine.evictions.solver.solver_stage import gang, job_row, kai, kai_queue, nodes, open_session

Q: list[KubeObject] = [kai_queue("q"), kai_queue("other")]


def stage(*objects: KubeObject) -> Session:
    return open_session([*Q, *nodes(1, gpu=8), *objects], kai("preempt"))


def in_line(session: Session, *names: str) -> Waiting:
    """These jobs wait."""
    rows = [job_row(session, name) for name in names]
    return Waiting(session, {row: session.sort_tasks(session.snapshot.tasks_of(row)) for row in rows})


def turns(session: Session, waiting: Waiting, *names: str) -> list[str]:
    """The order in which these jobs are served."""
    line = Turns(session, waiting, [job_row(session, name) for name in names], session.job_key)
    served = []
    while (job := line.pop()) is not None:
        served.append(session.snapshot.jobs.records[job].name)
    return served


def test_jobs_of_one_queue_are_served_by_priority_and_age() -> None:
    session = stage(
        *gang("late", pending=1, created=3),
        *gang("early", pending=1, created=1),
        *gang("urgent", pending=1, priority="high", created=9),
    )
    assert turns(session, in_line(session), "late", "early", "urgent") == ["urgent", "early", "late"]


def test_jobs_of_a_dry_run_are_served_once_and_nobody_else_is() -> None:
    session = stage(
        *gang("a", pending=1, created=1), *gang("b", pending=1, created=2), *gang("c", pending=1, created=3)
    )
    waiting = in_line(session, *"abc")
    assert turns(session, waiting, "c", "a") == ["a", "c"]
    assert turns(session, waiting, "b") == ["b"]


def test_jobs_that_wait_keep_their_place_in_line_and_hold_back_those_behind_them() -> None:
    session = stage(
        *gang("huge", "other", pending=1, gpu=8, priority="high"),
        *gang("theirs", "other", pending=1, gpu=1),
        *gang("mine", "q", pending=1, gpu=4),
    )
    assert turns(session, in_line(session), "mine", "theirs") == ["theirs", "mine"]
    waiting = in_line(session, "huge")
    assert turns(session, waiting, "mine", "theirs") == ["mine", "theirs"]


def test_a_job_that_was_served_leaves_the_line() -> None:
    session = stage(*gang("a", pending=1, gpu=8, created=1), *gang("b", pending=1, created=2))
    waiting = in_line(session, "a", "b")
    waiting.served(job_row(session, "a"), np.empty(0, np.intp))
    (line,) = waiting.lines.values()
    assert [job for _, job in line] == [job_row(session, "b")]


def test_a_dry_run_leaves_the_line_as_it_was() -> None:
    session = stage(*gang("a", pending=1, created=1), *gang("b", "other", pending=1, created=2))
    waiting = in_line(session, "a")
    before = {queue: list(line) for queue, line in waiting.lines.items()}
    turns(session, waiting, "a", "b")
    assert waiting.lines == before


def test_a_job_of_the_dry_run_stands_where_its_own_key_puts_it() -> None:
    session = stage(
        *gang("a", pending=1, gpu=1, created=1),
        *gang("b", pending=1, gpu=8, created=2),
        *gang("c", "other", pending=1, gpu=4),
    )
    waiting = in_line(session, "a", "b")
    a, b, c = (job_row(session, name) for name in "abc")
    last = (*session.job_key(b)[:-1], "z")
    line = Turns(session, waiting, [a, c], {a: last, c: session.job_key(c)}.__getitem__)
    assert [line.pop(), line.pop(), line.pop()] == [c, a, None]


@given(data=st.data(), created=st.lists(st.integers(0, 9), min_size=2, max_size=8, unique=True))
def test_passing_over_equal_jobs_together_changes_no_turn(data: st.DataObject, created: list[int]) -> None:
    names = [f"j{k}" for k in range(len(created))]
    objects = [
        item
        for name, age in zip(names, created, strict=True)
        for item in gang(
            name,
            data.draw(st.sampled_from(["q", "other"])),
            pending=1,
            gpu=data.draw(st.sampled_from([1, 4, 8])),
            created=age,
        )
    ]
    session = stage(*objects)
    own = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    others = [name for name in names if name not in own or data.draw(st.booleans())]
    together = turns(session, in_line(session, *others), *own)
    with patch.object(Waiting, "shape", lambda _self, job: job):
        one_by_one = turns(session, in_line(session, *others), *own)
    assert together == one_by_one
