from __future__ import annotations

from msgspec.structs import replace

from muster.api import Pod
from muster.cluster.kubernetes.gangs import HalfBoundGangs
from muster.snapshot.messages import Bind
from muster.testing import pod


def member(number: int) -> tuple[Bind, Pod]:
    plain = pod(f"g-{number}")
    return Bind(plain.key, "n1", "default/g", "test"), replace(
        plain, metadata=replace(plain.metadata, uid=f"u{number}")
    )


def attempt(gangs: HalfBoundGangs, errors: list[str], now: float) -> None:
    members = [member(number) for number in range(len(errors))]
    answered = gangs.attempt([made for made, _ in members])
    for (made, each), error in zip(members, errors, strict=True):
        answered(made, each, error, now)


def test_a_gang_that_was_bound_whole_is_forgotten() -> None:
    gangs = HalfBoundGangs(30)
    attempt(gangs, ["", ""], now=0)
    assert gangs.due(1000, lambda _: False) == []


def test_a_gang_of_which_nothing_was_bound_leaves_nothing_to_undo() -> None:
    gangs = HalfBoundGangs(30)
    attempt(gangs, ["no", "no"], now=0)
    assert gangs.due(1000, lambda _: False) == []


def test_half_a_gang_is_undone_when_its_time_is_up_and_only_then() -> None:
    gangs = HalfBoundGangs(30)
    attempt(gangs, ["", "no"], now=100)
    assert gangs.due(129, lambda _: False) == []
    assert gangs.due(130, lambda _: False) == [("default/g", {"default/g-0": "u0"})]
    assert gangs.due(1000, lambda _: False) == []


def test_half_a_gang_that_was_completed_is_left_alone() -> None:
    gangs = HalfBoundGangs(30)
    attempt(gangs, ["", "no"], now=0)
    assert gangs.due(10, lambda job: job == "default/g") == []
    assert gangs.due(1000, lambda _: False) == []


def test_another_failed_attempt_wins_no_time_and_forgets_no_pod() -> None:
    gangs = HalfBoundGangs(30)
    attempt(gangs, ["", "no", "no"], now=0)
    attempt(gangs, ["no", "", "no"], now=20)
    assert gangs.due(30, lambda _: False) == [("default/g", {"default/g-0": "u0", "default/g-1": "u1"})]


def test_the_clock_stands_still_while_a_gang_waits_for_volumes() -> None:
    gangs = HalfBoundGangs(30)
    attempt(gangs, ["", "no"], now=100)
    assert gangs.due(110, lambda _: False) == []
    for moment in (400, 700):
        assert gangs.due(moment, lambda _: False, ["default/g"]) == []
    assert gangs.due(719, lambda _: False) == []
    assert gangs.due(720, lambda _: False) == [("default/g", {"default/g-0": "u0"})]
