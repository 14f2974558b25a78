"""What is expected of jobs: their own word, their deadline, or what their owner's jobs took before."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from muster.api.names import EXPECTED_SECONDS, OWNER
from muster.framework.run_times import Expected, RunTimes, expected_seconds
from muster.snapshot import JobRecord, Mirror
from muster.testing.builders import node, pod, pod_group, queue


def mirror() -> Mirror:
    made = Mirror()
    for thing in (queue("default"), node("n", gpu=8)):
        made.upsert(thing)
    return made


def test_a_pod_speaks_for_itself_before_its_deadline() -> None:
    said = pod("p", annotations={EXPECTED_SECONDS: "60"})
    bounded = msgspec.structs.replace(said, spec=msgspec.structs.replace(said.spec, active_deadline_seconds=90))
    assert expected_seconds(bounded) == 60
    silent = msgspec.structs.replace(bounded, metadata=pod("p").metadata)
    assert expected_seconds(silent) == 90
    assert expected_seconds(pod("p")) is None
    assert expected_seconds(pod("p", annotations={EXPECTED_SECONDS: "soon"})) is None


def test_what_has_run_longer_than_expected_goes_on_for_a_while() -> None:
    assert Expected(100, "said").remaining(40) == 60
    assert Expected(100, "said").remaining(400) == 200


def test_the_record_of_an_owner_tells_where_nobody_says_anything() -> None:
    book, times, now = mirror(), RunTimes(), 0.0
    for number, seconds in enumerate((10.0, 20.0, 40.0)):
        name = f"g{number}"
        group = pod_group(name)
        runs = pod(f"{name}-0", group=name, gpu=1, node="n", annotations={OWNER: "ann"})
        book.upsert(group)
        book.upsert(runs)
        times.follow(book.snapshot(), now)
        now += seconds
        book.delete(runs)
        book.delete(group)
        times.follow(book.snapshot(), now)
    book.upsert(pod_group("next"))
    book.upsert(pod("next-0", group="next", gpu=1, annotations={OWNER: "ann"}))
    snapshot = book.snapshot()
    found = times.of(snapshot.jobs.records[0], snapshot.tasks.pods[:1])
    assert found is not None
    assert (found.seconds, found.source) == (20.0, "record of ann")
    assert found.error == pytest.approx(2.0)
    other = times.of(snapshot.jobs.records[0], [pod("other", group="next")])
    assert other is not None
    assert (other.seconds, other.source) == (20.0, "record of everybody"), "an owner without a record of his own"
    assert found.at_most == 40.0
    assert found.remaining(15.0) == 25.0, "of those that ran longer the middle one took 40"
    assert found.remaining(100.0) == 60.0, "longer than any before"


def test_a_record_is_trusted_as_far_as_85_in_a_hundred_of_its_runs() -> None:
    runs = tuple(float(seconds) for seconds in range(1, 21))
    assert Expected(10.5, "record of ann", 2.0, runs).at_most == 17.0
    assert Expected(30.0, "said").at_most == 30.0, "who says it is believed"


def test_when_a_job_ends_by_its_own_word_is_asked_once_until_it_is_over() -> None:
    record = JobRecord("default/j", "default", "j", "default", 1, 0.0, started=100.0)
    times, asked = RunTimes(), [0]

    def said() -> Expected:
        asked[0] += 1
        times._said["default/j"] = record, expected
        return expected

    expected = Expected(50.0, "said")
    assert [times.end(record, said, now) for now in (100.0, 120.0, 149.0)] == [150.0, 150.0, 150.0]
    assert asked == [1]
    assert times.end(record, said, 200.0) == 260.0, "it runs over, and goes on for a while"
    anew = replace(record, started=300.0)
    assert times.end(anew, lambda: None, 310.0) == math.inf, "another run of it, of which nobody knows anything"
