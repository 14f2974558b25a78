from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from muster.cluster.kubernetes import lanes
from muster.cluster.kubernetes.lanes import Errand, Lane
from muster.cluster.kubernetes.promises import Clearance, Promise

Answers = list[tuple[object, str]]


def errand(about: object, answers: Answers, send: Callable[[], Awaitable[str]]) -> Errand:
    return Errand(about, send, lambda error: answers.append((about, error)))


async def succeed() -> str:
    return ""


def run(errands: list[Errand], *, n_workers: int = 2) -> None:
    async def main() -> None:
        lane = Lane("test", n_workers)
        lane.submit(errands)
        await asyncio.sleep(0)
        await lane.drain()
        await lane.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_no_more_than_the_bound_is_under_way_at_once() -> None:
    under_way, most = 0, 0

    async def send() -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return ""

    answers: Answers = []
    run([errand(number, answers, send) for number in range(20)], n_workers=3)
    assert (most, len(answers)) == (3, 20)


def test_a_waiting_report_is_replaced_by_a_newer_one() -> None:
    sent: list[str] = []

    def says(text: str) -> Callable[[], Awaitable[str]]:
        async def send() -> str:
            sent.append(text)
            return ""

        return send

    answers: Answers = []
    run([errand("g", answers, says("old")), errand("h", answers, says("other")), errand("g", answers, says("new"))])
    assert sorted(sent) == ["new", "other"]


def test_a_broken_errand_does_not_take_its_worker_along() -> None:
    async def break_off() -> str:
        raise RuntimeError("a bug")

    answers: Answers = []
    run([errand("bad", answers, break_off), errand("good", answers, succeed)], n_workers=1)
    assert answers == [("bad", "RuntimeError: a bug"), ("good", "")]


def test_evictions_wait_until_their_beneficiaries_are_nominated() -> None:
    order: list[str] = []

    async def nominate() -> str:
        await asyncio.sleep(0.005)
        order.append("nominated")
        return ""

    async def evict() -> str:
        order.append("evicted")
        return ""

    promise, answers = Promise(), Answers()
    nominations = [errand(number, answers, promise.with_one_more(nominate)) for number in range(2)]
    run([*nominations, errand("victim", answers, promise.before(evict))], n_workers=3)
    assert order == ["nominated", "nominated", "evicted"]


def test_nobody_is_evicted_when_nobody_could_be_nominated() -> None:
    async def fail() -> str:
        return "gone"

    promise, answers = Promise(), Answers()
    run([errand("pod", answers, promise.with_one_more(fail)), errand("victim", answers, promise.before(succeed))])
    assert dict(answers)["victim"] == "none of those it would make room for could be nominated"


def test_a_broken_nomination_does_not_keep_evictions_waiting_for_ever() -> None:
    async def break_off() -> str:
        raise RuntimeError("a bug")

    promise, answers = Promise(), Answers()
    run([errand("pod", answers, promise.with_one_more(break_off)), errand("victim", answers, promise.before(succeed))])
    assert dict(answers)["victim"] == "none of those it would make room for could be nominated"


def test_nobody_is_evicted_when_a_budget_keeps_one_of_those_who_would_have_to_go() -> None:
    async def refuse() -> str:
        return "429"

    clearance, answers = Clearance(), Answers()
    guarded = [errand(k, answers, clearance.with_one_more(send)) for k, send in enumerate([succeed, refuse])]
    run([*guarded, errand("victim", answers, clearance.before(succeed))], n_workers=1)
    assert dict(answers)["victim"] == "another pod that would have to leave as well may not"


def test_those_without_a_budget_go_at_once_where_nobody_has_one() -> None:
    answers = Answers()
    run([errand("victim", answers, Clearance().before(succeed))])
    assert answers == [("victim", "")]


def test_a_lane_gives_way_while_the_one_that_goes_first_is_busy() -> None:
    sent: list[str] = []

    def says(text: str, seconds: float = 0.0) -> Callable[[], Awaitable[str]]:
        async def send() -> str:
            await asyncio.sleep(seconds)
            sent.append(text)
            return ""

        return send

    async def main() -> None:
        urgent = Lane("urgent", 2)
        reports = Lane("reports", 2, first=urgent)
        answers: Answers = []
        urgent.submit([errand(number, answers, says("urgent", 0.1)) for number in range(6)])
        assert urgent.is_busy()
        reports.submit([errand("report", answers, says("report"))])
        await asyncio.sleep(0)
        await reports.drain()
        assert not urgent.is_busy()
        await urgent.drain()
        for lane in (urgent, reports):
            await lane.stop()

    asyncio.run(asyncio.wait_for(main(), 10))
    assert sent.index("report") >= 5


def test_a_lane_that_has_waited_long_enough_trickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(lanes, "_TRICKLE_SECONDS", 0.2)
    monkeypatch.setattr(lanes, "_LOOK_SECONDS", 0.01)

    async def main() -> None:
        urgent = Lane("urgent", 1)
        reports = Lane("reports", 4, first=urgent)
        answers: Answers = []
        done = asyncio.Event()

        async def wait() -> str:
            await done.wait()
            return ""

        urgent.submit([errand(number, [], wait) for number in range(2)])
        reports.submit([errand(number, answers, succeed) for number in range(8)])
        await asyncio.sleep(0.5)
        assert 1 <= len(answers) < 8
        done.set()
        await reports.drain()
        assert len(answers) == 8
        for lane in (urgent, reports):
            await lane.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_report_that_was_replaced_does_not_keep_a_lane_busy() -> None:
    async def main() -> None:
        lane = Lane("test", 1)
        lane.submit([errand("g", [], succeed) for _ in range(5)])
        await asyncio.sleep(0)
        await lane.drain()
        assert not lane.is_busy()
        await lane.stop()

    asyncio.run(asyncio.wait_for(main(), 10))
