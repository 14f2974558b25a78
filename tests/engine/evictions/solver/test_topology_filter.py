"""The topology question for scenarios: no domain could hold the gang, by what is free and what victims hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.evictions.solver.topology_filter import topology_filter
from muster.engine.placing import EVERYWHERE, PROMISES, Door, Goal
from muster.framework import Eviction, Scenario, Session
from muster.snapshot import Rows
from tests.engine.label_networks import RACK, ZONE, filler, group, members, opened, pending, racks, sub_group, within
from tests.engine.stage import job_row

NOBODY: Rows = np.empty(0, np.int32)


def scenario(session: Session, *victims: str) -> Scenario:
    """The job's pending tasks, for which the pods on the nodes `victims` would go."""
    rows = [session.snapshot.tasks.ids.index(f"default/filler-{name}") for name in victims]
    gone = np.array(rows, np.int32)
    waiting = pending(session, "job")
    return Scenario(Eviction.PREEMPT, job_row(session, "job"), waiting, gone, gone, NOBODY)


def is_worth_a_try(session: Session, *victims: str) -> bool:
    question = topology_filter(session, job_row(session, "job"))
    assert question is not None
    return question(scenario(session, *victims))


FULL = [*racks({"z0": [2, 2]}), *filler(["z0-r0-n0", "z0-r0-n1", "z0-r1-n0", "z0-r1-n1"])]


def test_victims_must_make_room_in_one_domain() -> None:
    session = opened(*FULL, group("job", 2, within(RACK)), *members("job", 2))
    assert not is_worth_a_try(session)
    assert not is_worth_a_try(session, "z0-r0-n0", "z0-r1-n0")
    assert is_worth_a_try(session, "z0-r0-n0", "z0-r1-n0", "z0-r1-n1")


def test_victims_only_help_where_the_gang_already_runs() -> None:
    cluster = [*racks({"z0": [2, 2]}), *filler(["z0-r0-n1", "z0-r1-n0"])]
    session = opened(*cluster, group("job", 1, within(RACK)), *members("job", 2, on=["z0-r0-n0"]))
    assert not is_worth_a_try(session, "z0-r1-n0")
    assert is_worth_a_try(session, "z0-r0-n1")


def test_every_group_that_requires_a_level_is_asked_for() -> None:
    parts = [sub_group("a", 2, within(RACK)), sub_group("b", 1)]
    job = [group("job", 3, within(ZONE), parts), *members("job", 2, role="a"), *members("job", 1, role="b")]
    cluster = [*racks({"z0": [1, 1, 2]}), *filler(["z0-r2-n0"])]
    session = opened(*cluster, *job)
    assert not is_worth_a_try(session)
    assert is_worth_a_try(session, "z0-r2-n0")


def test_what_changes_in_the_meantime_is_seen() -> None:
    session = opened(*FULL, group("job", 2, within(RACK)), *members("job", 2))
    question = topology_filter(session, job_row(session, "job"))
    assert question is not None
    assert not question(scenario(session, "z0-r0-n0"))
    statement = session.statement()
    statement.evict(scenario(session, "z0-r0-n1").victims)
    assert question(scenario(session, "z0-r0-n0"))
    statement.rollback()
    assert not question(scenario(session, "z0-r0-n0"))


def test_only_required_levels_raise_a_question() -> None:
    for constraint in (within(preferred=RACK), None):
        session = opened(*FULL, group("job", 2, constraint), *members("job", 2))
        assert topology_filter(session, job_row(session, "job")) is None


def test_nobody_s_going_helps_a_job_whose_level_does_not_exist() -> None:
    session = opened(*FULL, group("job", 1, within("net/spine")), *members("job", 1))
    assert not is_worth_a_try(session, "z0-r0-n0", "z0-r0-n1")


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.dictionaries(
        st.sampled_from(["z0", "z1"]), st.lists(st.integers(1, 2), min_size=1, max_size=3), min_size=1
    ),
    gone=st.lists(st.booleans(), min_size=12, max_size=12),
    level=st.sampled_from([ZONE, RACK]),
    inner=st.sampled_from(["", RACK]),
    tasks=st.integers(1, 3),
)
def test_nothing_that_could_work_is_passed_over(
    sizes: dict[str, list[int]], gone: list[bool], level: str, inner: str, tasks: int
) -> None:
    cluster = racks(sizes)
    names = [item.metadata.name for item in cluster[1:]]
    parts = [sub_group("a", tasks, within(inner) if inner else None), sub_group("b", 1)]
    pods: list[KubeObject] = [*members("job", tasks, role="a"), *members("job", 1, role="b")]
    session = opened(*cluster, *filler(names), group("job", tasks + 1, within(level), parts), *pods)
    victims = [name for name, goes in zip(names, gone, strict=False) if goes]
    said = is_worth_a_try(session, *victims)
    statement = session.statement()
    statement.evict(scenario(session, *victims).victims)
    works = Door(session).place(
        job_row(session, "job"), pending(session, "job"), statement, EVERYWHERE, PROMISES, Goal.ALL
    )
    assert said or not works
