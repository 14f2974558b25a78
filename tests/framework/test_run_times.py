"""What is expected of jobs: their own word, their deadline, or what their owner's jobs took before."""

from __future__ import annotations

import msgspec
import pytest

from muster.api.names import EXPECTED_SECONDS, OWNER
from muster.framework.run_times import Expected, RunTimes, expected_seconds
from muster.snapshot import Mirror
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
