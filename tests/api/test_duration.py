"""Durations as Go writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import parse_duration, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("2d12h", 216000.0),
        ("1w", 604800.0),
        (".5s", 0.5),
        ("2.s", 2.0),
        ("100ms", 0.1),
        ("0", 0.0),
        ("-1m", -60.0),
        ("+1m", 60.0),
        ("1m1us1ns", 60.000001001),
        ("1µs", 0.000001),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "ten minutes", "1h 30m", "1y", "h", "-", "1h30", "9" * 100 + "s"])
def test_what_is_not_a_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match='expected a duration such as "90s" or "1h30m", got'):
        parse_duration(text)


@given(st.integers(0, 1000), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("given", "seconds"), [("90s", 90.0), ("90", 90.0), ("1.5", 1.5), ("-1", -1.0), (5, 5.0), (0.25, 0.25)]
)
def test_seconds_may_be_plain_numbers(given: str | float, seconds: float) -> None:
    assert parse_seconds(given) == seconds


@pytest.mark.parametrize("given", ["", "ten", "1e3", "nan", float("nan"), float("inf")])
def test_what_are_no_seconds(given: str | float) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_seconds(given)
