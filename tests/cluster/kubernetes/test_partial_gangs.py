"""Gangs of which some pods could be bound and others not: watched until they are whole, or undone."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from msgspec.structs import replace

from muster.api import Pod
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.assumptions import Assumptions, bound
from muster.cluster.kubernetes.verbs.partial_gangs import PartialGangs
from muster.snapshot.messages import Bind, Event
from muster.testing import pod, pod_group


class Play:
    """A gang of three that needs all of them, by a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.assumptions = Assumptions()
        self.members = [member(number) for number in range(3)]
        for thing in (pod_group("g", minimum=3), *self.members):
            self.assumptions.observe(Event("ADDED", thing))
        self.gangs = PartialGangs(cast("ApiThread", None), self.assumptions, 30, (), clock=lambda: self.now)

    def attempt(self, errors: list[str], now: float) -> None:
        self.now = now
        asked = [(Bind(each.key, "n1", "default/g", "test"), each) for each in self.members[: len(errors)]]
        answered = self.gangs.attempt([made for made, _ in asked])
        for (made, each), error in zip(asked, errors, strict=True):
            answered(made, each, error)

    def undone(self, now: float, waiting: Collection[str] = ()) -> list[str]:
        self.now = now
        return [each.name for each in self.gangs.given_up({"default/g": waiting} if waiting else {})]

    def complete(self) -> None:
        for each in self.members:
            self.assumptions.hold(bound(each, "n1"))


def member(number: int) -> Pod:
    plain = pod(f"g-{number}", group="g")
    return replace(plain, metadata=replace(plain.metadata, uid=f"u{number}"))


def test_a_gang_that_was_bound_whole_is_forgotten() -> None:
    play = Play()
    play.attempt(["", ""], now=0)
    assert play.undone(1000) == []


def test_a_gang_of_which_nothing_was_bound_leaves_nothing_to_undo() -> None:
    play = Play()
    play.attempt(["no", "no"], now=0)
    assert play.undone(1000) == []


def test_half_a_gang_is_undone_when_its_time_is_up_and_only_then() -> None:
    play = Play()
    play.attempt(["", "no"], now=100)
    assert play.undone(129) == []
    assert play.undone(130) == ["g-0"]
    assert play.undone(1000) == []


def test_a_pod_that_was_made_anew_is_not_undone() -> None:
    play = Play()
    play.attempt(["", "", "no"], now=0)
    anew = replace(play.members[0], metadata=replace(play.members[0].metadata, uid="another"))
    play.assumptions.observe(Event("MODIFIED", anew))
    assert play.undone(1000) == ["g-1"]


def test_half_a_gang_that_was_completed_is_left_alone() -> None:
    play = Play()
    play.attempt(["", "no"], now=0)
    play.complete()
    assert play.undone(10) == []
    for each in play.members:
        play.assumptions.observe(Event("MODIFIED", replace(each, status=replace(each.status, phase="Failed"))))
    assert play.undone(1000) == []


def test_another_failed_attempt_wins_no_time_and_forgets_no_pod() -> None:
    play = Play()
    play.attempt(["", "no", "no"], now=0)
    play.attempt(["no", "", "no"], now=20)
    assert play.undone(30) == ["g-0", "g-1"]


def test_the_clock_stands_still_while_a_gang_waits_for_volumes() -> None:
    play = Play()
    play.attempt(["", "no"], now=100)
    assert play.undone(110) == []
    for moment in (400, 700):
        assert play.undone(moment, waiting=["default/g-2"]) == []
    assert play.undone(719) == []
    assert play.undone(720) == ["g-0"]
