"""Tree line: the best job of the best leaf of the best queue is next, whatever was taken and put back before."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.lines import Line
from muster.framework import PluginOption, Registry, SchedulerConfig, Session
from muster.framework.plugin import Arguments, Plugin
from muster.plugins import BUILTIN
from muster.snapshot import NO_ROW, Amounts, Mirror
from muster.testing import pod_group, queue


class Turns(Plugin):
    """Queues with less on them first."""

    name = "turns"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.load: dict[int, int] = {}
        #: Jobs by which queues were judged, and whether victims were looked for.
        self.heard: list[tuple[int, bool]] = []

    def queue_turn(self, queue: int, job: int, leaving: Amounts | None) -> int:
        self.heard.append((job, leaving is not None))
        return self.load.get(queue, 0)


REGISTRY = Registry.of([*BUILTIN, Turns], [])


def opened(objects: Iterable[KubeObject], *plugins: str) -> Session:
    mirror = Mirror()
    for item in objects:
        mirror.upsert(item)
    options = tuple(PluginOption(name) for name in plugins)
    return Session(mirror.snapshot(), SchedulerConfig((), (options,)), REGISTRY)


def turns(session: Session) -> Turns:
    plugin = session.plugins["turns"]
    assert isinstance(plugin, Turns)
    return plugin


def rows(session: Session, *names: str) -> list[int]:
    return [session.snapshot.jobs.index[f"default/{name}"] for name in names]


def drained(session: Session, line: Line) -> list[str]:
    found = []
    while (job := line.pop()) is not None:
        found.append(session.snapshot.jobs.records[job].name)
    return found


TREE = [
    queue("east"),
    queue("west"),
    queue("e1", parent="east"),
    queue("e2", parent="east"),
    queue("w1", parent="west"),
]


def job(name: str, leaf: str, created: float = 0.0) -> KubeObject:
    return pod_group(name, queue=leaf, created=created)


# -- order ---------------------------------------------------------------------------------------------------


def test_without_a_word_on_turns_queues_come_by_age_and_name_and_jobs_by_age_within() -> None:
    session = opened([*TREE, job("a", "w1"), job("b", "e2"), job("c", "e1", 2.0), job("d", "e1", 1.0)])
    line = Line(session, rows(session, "a", "b", "c", "d"), is_tree=True)
    assert len(line) == 4
    assert drained(session, line) == ["d", "c", "b", "a"]
    assert not line


def test_a_queue_is_judged_by_the_first_job_below_it() -> None:
    session = opened([*TREE, job("a", "e1", 2.0), job("b", "e1", 1.0), job("c", "w1")], "turns")
    line = Line(session, rows(session, "a", "b", "c"), is_tree=True)
    line.pop()
    assert set(turns(session).heard) == {(row, False) for row in rows(session, "b", "c")}


def test_a_queue_that_has_nobody_to_be_compared_with_is_not_judged() -> None:
    session = opened([*TREE, job("a", "e1", 2.0), job("b", "e1", 1.0)], "turns")
    assert drained(session, Line(session, rows(session, "a", "b"), is_tree=True)) == ["b", "a"]
    assert turns(session).heard == []


def test_a_queue_that_got_something_waits_for_its_siblings() -> None:
    session = opened([*TREE, job("a", "e1"), job("b", "e1"), job("c", "e2"), job("d", "w1")], "turns")
    line = Line(session, rows(session, "a", "b", "c", "d"), is_tree=True)
    found = []
    while (row := line.pop()) is not None:
        found.append(session.snapshot.jobs.records[row].name)
        for above in session.snapshot.queues.paths[session.snapshot.jobs.queue[row]].tolist():
            turns(session).load[above] = turns(session).load.get(above, 0) + 1
    assert found == ["a", "d", "c", "b"]


def test_a_job_that_is_put_back_stands_in_line_again() -> None:
    session = opened([*TREE, job("a", "e1"), job("b", "w1")])
    line = Line(session, rows(session, "a"), is_tree=True)
    assert line.pop() == rows(session, "a")[0]
    assert line.pop() is None
    for row in rows(session, "b", "a"):
        line.push(row)
    assert len(line) == 2
    assert drained(session, line) == ["a", "b"]


def test_only_the_first_jobs_of_each_leaf_are_kept() -> None:
    objects = [*TREE, *(job(f"{leaf}-{age}", leaf, age) for leaf in ("e1", "w1") for age in (3, 1, 2))]
    session = opened(objects)
    every = [int(row) for row in np.flatnonzero(session.snapshot.jobs.live)]
    assert drained(session, Line(session, every, is_tree=True, depth=2)) == ["e1-1", "e1-2", "w1-1", "w1-2"]
    line = Line(session, rows(session, "e1-2", "e1-3"), is_tree=True, depth=2)
    line.push(rows(session, "e1-1")[0])
    assert len(line) == 2
    assert drained(session, line) == ["e1-1", "e1-2"]


# -- against a model that sorts everything anew --------------------------------------------------------------


class Model:
    """The same line, found by looking at everything before each turn."""

    def __init__(self, session: Session, jobs: Iterable[int]) -> None:
        self.session = session
        self.waiting = list(jobs)

    def pop(self) -> int | None:
        if not self.waiting:
            return None
        best = self._best(NO_ROW)
        self.waiting.remove(best)
        return best

    def _leaf(self, row: int) -> int:
        return int(self.session.snapshot.jobs.queue[row])

    def _best(self, parent: int) -> int:
        """The next job below a queue."""
        session, queues = self.session, self.session.snapshot.queues
        occupied = {int(above) for row in self.waiting for above in queues.paths[self._leaf(row)]}
        below = {one: self._best(one) for one in occupied if queues.parent[one] == parent}
        if not below:
            return min((row for row in self.waiting if self._leaf(row) == parent), key=session.job_key)
        return below[min(below, key=lambda one: session.queue_turn_key(one, below[one]))]


LEAVES = ["e1", "e2", "w1", "lone"]
STEPS = st.lists(st.tuples(st.sampled_from(["pop", "push back", "push any"]), st.integers(0, 3)), max_size=30)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(0, 3)), max_size=8), STEPS)
def test_jobs_come_as_if_everything_was_sorted_anew(
    given_jobs: list[tuple[str, int]], steps: list[tuple[str, int]]
) -> None:
    objects = [job(f"j{index}", leaf, float(age)) for index, (leaf, age) in enumerate(given_jobs)]
    session = opened([*TREE, queue("lone", created=1.0), *objects], "turns")
    everybody = [session.snapshot.jobs.index[f"default/j{index}"] for index in range(len(given_jobs))]
    line, model = Line(session, everybody, is_tree=True), Model(session, everybody)
    for step, number in steps:
        if step == "push any":
            absent = [row for row in everybody if row not in model.waiting]
            back = absent[number % len(absent)] if absent else None
        else:
            back = line.pop()
            assert back == model.pop()
            if back is not None:
                # What is placed weighs on the queues above it; nobody becomes lighter meanwhile.
                for above in session.snapshot.queues.paths[session.snapshot.jobs.queue[back]].tolist():
                    turns(session).load[above] = turns(session).load.get(above, 0) + number
            back = back if step == "push back" else None
        if back is not None:
            line.push(back)
            model.waiting.append(back)
        assert len(line) == len(model.waiting)
    while model.waiting:
        assert line.pop() == model.pop()
    assert line.pop() is None


def test_thousands_of_jobs_in_hundreds_of_queues_cost_a_few_keys_per_turn() -> None:
    leaves = [queue(f"q{index}", parent=f"top{index % 10}") for index in range(300)]
    jobs = [pod_group(f"j{index}", queue="q0" if index < 4000 else f"q{index % 300}") for index in range(6000)]
    session = opened([*(queue(f"top{index}") for index in range(10)), *leaves, *jobs], "turns")
    plugin = turns(session)
    line = Line(session, range(6000), is_tree=True)
    count = 0
    while (row := line.pop()) is not None:
        count += 1
        for above in session.snapshot.queues.paths[session.snapshot.jobs.queue[row]].tolist():
            plugin.load[above] = plugin.load.get(above, 0) + 1
    assert count == 6000
    # Two levels and a look at the new first queue: a handful of keys per turn, not one per queue.
    assert len(plugin.heard) < 6 * 6000
