"""Role order: whoever lacks its minimum, then whoever has least beyond it, then names."""

from __future__ import annotations

from muster.engine.role_order import role_key, turn_key
from muster.testing import pod, pod_group
from tests.engine.stage import job_row, open_session


def test_roles_below_their_minimum_go_first_then_those_with_less_beyond_it_then_names() -> None:
    short, shorter, exact, double, idle, extra = (
        turn_key(2, 4, "a"),
        turn_key(1, 3, "b"),
        turn_key(2, 2, "c"),
        turn_key(4, 2, "d"),
        turn_key(0, 0, "e"),
        turn_key(1, 0, "f"),
    )
    assert sorted([extra, double, exact, idle, shorter, short]) == [short, shorter, idle, exact, double, extra]


def test_a_role_is_judged_by_its_tasks_that_have_a_place() -> None:
    members = [pod("j-0", group="j", role="x", node="n"), pod("j-1", group="j", role="y")]
    session = open_session([pod_group("j", minimum=2, roles={"x": 1, "y": 1}), *members])
    x, y = session.snapshot.jobs.roles[job_row(session, "j")]
    assert role_key(session, x) == (True, 1.0, "x")
    assert role_key(session, y) == (False, 0.0, "y")
