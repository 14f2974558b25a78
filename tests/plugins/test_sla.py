from __future__ import annotations

import pytest

from muster.api import UserError
from muster.framework import Vote
from muster.testing.builders import pod_group
from tests.plugins.queue_stage import Stage, annotated


def waiting(time: object = None, *, own: str = "", key: str = "sla-waiting-time", now: float = 100.0) -> Stage:
    group = annotated(pod_group("a", created=50), {key: own} if own else {})
    return Stage("sla", [group], arguments={} if time is None else {"sla-waiting-time": time}, now=now)


@pytest.mark.parametrize(
    ("time", "own", "vote"),
    [
        (None, "", Vote.ABSTAIN),
        ("50s", "", Vote.PERMIT),
        ("51s", "", Vote.ABSTAIN),
        ("1h", "10s", Vote.PERMIT),
        ("10s", "1h", Vote.ABSTAIN),
        # What a job says wrongly does not count.
        ("10s", "soon", Vote.PERMIT),
        ("10s", "-1s", Vote.PERMIT),
        ("0s", "", Vote.ABSTAIN),
        ("-5s", "", Vote.ABSTAIN),
    ],
)
def test_a_job_that_waited_too_long_is_admitted(time: str | None, own: str, vote: Vote) -> None:
    stage = waiting(time, own=own)
    assert stage.plugin.job_enqueueable(stage.job("a")) is vote


def test_both_spellings_of_the_annotation_are_read() -> None:
    stage = waiting(own="10s", key="volcano.sh/sla-waiting-time")
    assert stage.plugin.job_enqueueable(stage.job("a")) is Vote.PERMIT


def test_the_earliest_deadline_goes_first_and_no_deadline_last() -> None:
    groups = [
        annotated(pod_group("late", created=10), {"sla-waiting-time": "100s"}),
        annotated(pod_group("soon", created=60), {"sla-waiting-time": "20s"}),
        pod_group("never", created=0),
    ]
    stage = Stage("sla", groups)
    assert sorted(["late", "soon", "never"], key=lambda name: stage.plugin.job_order(stage.job(name))) == [
        "soon",
        "late",
        "never",
    ]


@pytest.mark.parametrize("time", ["tomorrow", "10", "", 5, "1h-1m"])
def test_a_time_that_is_none_is_an_error(time: object) -> None:
    with pytest.raises(UserError, match="sla-waiting-time"):
        waiting(time)
