"""Hours of a day: what is open when, past midnight, in a time zone, and on days when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from muster.plugins.nodes.tdm import local, parse_time_zone, parse_window


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=parse_time_zone(zone))


@pytest.mark.parametrize(
    ("hours", "clock", "is_open"),
    [
        ("10:00-21:00", "09:59:59", False),
        ("10:00-21:00", "10:00", True),
        ("10:00-21:00", "20:59:59", True),
        ("10:00-21:00", "21:00", False),
        # Past midnight.
        ("22:00-6:00", "23:00", True),
        ("22:00-6:00", "03:00", True),
        ("22:00-6:00", "06:00", False),
        ("22:00-6:00", "21:59", False),
        # All day.
        ("0:00-0:00", "00:00", True),
        ("9:30-9:30", "09:00", True),
    ],
)
def test_a_window_is_open_from_its_first_minute_to_its_last(hours: str, clock: str, is_open: bool) -> None:
    assert parse_window(hours).is_open(at(f"2030-05-01T{clock}")) is is_open


@pytest.mark.parametrize(
    ("hours", "clock", "change"),
    [
        ("10:00-21:00", "09:00", "2030-05-01T10:00"),
        ("10:00-21:00", "10:00", "2030-05-01T21:00"),
        ("10:00-21:00", "21:00", "2030-05-02T10:00"),
        ("22:00-6:00", "23:00", "2030-05-02T06:00"),
        ("22:00-6:00", "03:00", "2030-05-01T06:00"),
    ],
)
def test_the_next_change_is_told(hours: str, clock: str, change: str) -> None:
    assert parse_window(hours).next_change(at(f"2030-05-01T{clock}")) == at(change)


def test_a_window_that_never_closes_has_no_next_change() -> None:
    assert parse_window("0:00-0:00").next_change(at("2030-05-01T12:00")) is None


def test_hours_are_those_of_the_time_zone() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()
    window = parse_window("20:00-22:00")
    assert window.is_open(local(noon, parse_time_zone("Asia/Shanghai"))) is True
    assert window.is_open(local(noon, parse_time_zone("UTC"))) is False


def test_the_next_change_is_right_on_the_day_when_clocks_change() -> None:
    """At two in the night of 31 March 2030, clocks in Berlin go to three: six o'clock comes after five hours."""
    midnight = at("2030-03-31T00:00", "Europe/Berlin")
    change = parse_window("6:00-7:00").next_change(midnight)
    assert change is not None
    assert change.timestamp() - midnight.timestamp() == 5 * 3600


@pytest.mark.parametrize("text", ["", "10:00", "10:00-24:00", "10:60-11:00", "ten-eleven", "10-11", 1000, None])
def test_hours_that_make_no_sense_are_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match="10:00-21:00"):
        parse_window(text)


@pytest.mark.parametrize("name", ["", "Nowhere/Land", "../etc/passwd"])
def test_time_zones_that_nobody_knows_are_refused_with_an_example(name: str) -> None:
    with pytest.raises(ValueError, match="Europe/Berlin"):
        parse_time_zone(name)
