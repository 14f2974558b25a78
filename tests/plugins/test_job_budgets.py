"""How many pods a job gives up at a time."""

from __future__ import annotations

import logging

import pytest

from muster.api.names import JDB_MAX_UNAVAILABLE as MOST
from muster.api.names import JDB_MIN_AVAILABLE as LEAST
from muster.plugins.nodes.tdm import allowance


@pytest.mark.parametrize(
    ("marks", "running", "ended", "allowed"),
    [
        ({}, 10, 0, 1),
        ({}, 0, 0, 0),
        ({MOST: "3"}, 10, 0, 3),
        ({MOST: "25%"}, 10, 0, 3),  # rounded up
        ({MOST: "3"}, 8, 0, 1),  # two are missing already
        ({MOST: "3"}, 8, 2, 3),  # two have ended, nobody is missing
        ({MOST: "3"}, 5, 0, 0),
        ({LEAST: "7"}, 10, 0, 3),
        ({LEAST: "75%"}, 10, 0, 2),
        ({LEAST: "7"}, 5, 0, 0),  # below its minimum already
        ({LEAST: "10"}, 10, 0, 0),
    ],
)
def test_a_job_of_ten_pods_gives_what_its_budget_says(
    marks: dict[str, str], running: int, ended: int, allowed: int
) -> None:
    assert allowance(marks, "ns/job", 10, running, ended) == allowed


@pytest.mark.parametrize("key", [MOST, LEAST])
@pytest.mark.parametrize("text", ["many", "-1", "1.5", "%"])
def test_a_budget_that_makes_no_sense_lets_nobody_go_and_is_logged_once(
    key: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = f"ns/{key}{text}"
    with caplog.at_level(logging.WARNING):
        assert [allowance({key: text}, job, 10, 10, 0) for _ in range(2)] == [0, 0]
    assert len(caplog.records) == 1
    assert job in caplog.text
    assert key in caplog.text
