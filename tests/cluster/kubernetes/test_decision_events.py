from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from muster.api import KubeObject, Pod, PodGroup
from muster.cluster.kubernetes.sending.events import DecisionEvents, KubeEvent, gang_note
from muster.snapshot.messages import Bind, Evict, JobUpdate, Nominate

_Kind = TypeVar("_Kind", bound=KubeObject)


class Desk:
    """Collects what is told; jobs that are called "a/…gang" have a PodGroup."""

    def __init__(self) -> None:
        self.told: list[KubeEvent] = []
        self.events = DecisionEvents(self._take, self._group)

    def _take(self, news: Sequence[KubeEvent], /) -> None:
        self.told.extend(news)

    def _group(self, job: str) -> KubeObject | None:
        return named(PodGroup(), job) if job.endswith("gang") else None

    @property
    def lines(self) -> list[tuple[str, str, bool]]:
        return [(news.regarding.key, news.note, news.is_detail) for news in self.told]


def named(thing: _Kind, key: str) -> _Kind:
    thing.metadata.namespace, _, thing.metadata.name = key.partition("/")
    return thing


def test_a_gang_is_told_once_when_the_last_answer_is_in_and_without_what_failed() -> None:
    desk = Desk()
    asked = desk.events.answers()
    answers = [
        asked.expect(Bind(f"a/p{number}", node, "a/gang", "why"), named(Pod(), f"a/p{number}"))
        for number, node in enumerate(("n1", "n1", "n2"))
    ]
    answers[0]("")
    answers[2]("refused")
    assert desk.told == []
    answers[1]("")
    assert desk.lines == [
        ("a/gang", "placed 2 pods on n1 ×2 (why)", False),
        ("a/p0", "Successfully assigned a/p0 to n1 (why)", True),
        ("a/p1", "Successfully assigned a/p1 to n1 (why)", True),
    ]


def test_of_an_attempt_that_failed_as_a_whole_nothing_is_told() -> None:
    desk = Desk()
    desk.events.answers().expect(Bind("a/p", "n1", "a/gang", "why"), named(Pod(), "a/p"))("refused")
    assert desk.told == []


def test_an_eviction_names_its_beneficiary() -> None:
    desk = Desk()
    evicted = Evict("a/p", "n1", "a/pod/p", "b/gang", "preempt: makes room")
    desk.events.answers().expect(evicted, named(Pod(), "a/p"))("")
    assert desk.lines == [("a/p", "evicted from n1 for b/gang: preempt: makes room", False)]
    assert desk.told[0].related is not None
    assert desk.told[0].related.key == "b/gang"


def test_long_lists_of_nodes_are_cut_and_promises_taken_back_are_told() -> None:
    many = [Nominate(f"a/p{number}", f"n{number}", "a/gang", "why") for number in range(9)]
    assert gang_note(many) == "9 pods will go to n0, n1, n2, n3, n4, n5 and 3 more (why)"
    assert gang_note([Nominate("a/p", "", "a/gang", "why")]) == "1 pod: no node is promised any more"


def test_only_jobs_that_wait_are_told_to_wait() -> None:
    desk = Desk()
    group = named(PodGroup(), "a/gang")
    desk.events.waits(JobUpdate("a/gang", "Running", 1, 0, 0), group, [])
    assert desk.told == []
    desk.events.waits(JobUpdate("a/gang", "Pending", 0, 0, 0, "full", "full: no room"), group, [named(Pod(), "a/p")])
    assert [(news.reason, news.type, news.series, news.note, news.is_detail) for news in desk.told] == [
        ("Unschedulable", "Warning", "full", "full: no room", False),
        ("FailedScheduling", "Warning", "full", "full: no room", True),
    ]
