"""How long a scheduler rests between cycles."""

from __future__ import annotations

import pytest

from muster.server.pace import Pace, planning_pause_s


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rests(fruits: str, pace: Pace, clock: Clock, *, cycle_s: float = 0.001) -> list[float]:
    """The rests after cycles that follow each other at once: "+" brought something, "-" nothing, "." was calm."""
    found = []
    for sign in fruits:
        if sign == ".":
            clock.now += 1.0
            continue
        clock.now += cycle_s
        found.append(round(pace.rest_s(cycle_s, is_fruitful=sign == "+"), 3))
        clock.now += found[-1]
    return found


def test_cycles_that_bring_something_follow_each_other_closely() -> None:
    clock = Clock()
    assert rests("+++++", Pace(clock), clock) == [0.02] * 5


def test_cycles_that_bring_nothing_follow_each_other_less_and_less() -> None:
    clock = Clock()
    assert rests("+-----+-", Pace(clock), clock) == [0.02, 0.02, 0.04, 0.08, 0.16, 0.16, 0.02, 0.02]


def test_after_calm_all_begins_anew() -> None:
    clock = Clock()
    assert rests("---.--", Pace(clock), clock) == [0.02, 0.04, 0.08, 0.02, 0.04]


def test_a_slow_server_is_given_time_up_to_a_limit() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(100):
        pace.answered("POST", 0.03)
    assert rests("++", pace, clock) == [0.09, 0.09]
    for _ in range(100):
        pace.answered("PATCH", 2.0)
    assert rests("+-", pace, clock) == [0.4, 0.4]


def test_a_single_slow_answer_is_hardly_noticed() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(100):
        pace.answered("POST", 0.005)
    pace.answered("POST", 0.05)
    assert rests("+", pace, clock)[0] < 0.03


def test_lists_and_answers_of_long_ago_say_nothing() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.answered("GET", 9.0)
    assert rests("+", pace, clock) == [0.02]
    pace.answered("POST", 9.0)
    assert rests("+.+", pace, clock) == [0.4, 0.02]


def test_long_cycles_take_a_quarter_of_the_time_at_most() -> None:
    clock = Clock()
    assert rests("+-", Pace(clock), clock, cycle_s=0.2) == [0.6, 0.6]


@pytest.mark.parametrize(
    ("took_s", "is_busy", "pause_s"),
    [(0.001, False, 0.02), (0.01, False, 0.04), (1.0, False, 0.25), (0.001, True, 0.1), (0.04, True, 0.16)],
)
def test_rounds_of_planning_follow_less_closely_where_plans_wait(took_s: float, is_busy: bool, pause_s: float) -> None:
    assert planning_pause_s(took_s, is_busy=is_busy) == pause_s
