from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from muster.cluster.kubernetes import lanes
from muster.cluster.kubernetes.lanes import Errand, Lane, Later, Send

Answers = list[tuple[object, str]]


def errand(about: object, answers: Answers, send: Send) -> Errand:
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


def test_errands_that_wait_for_something_take_up_no_worker() -> None:
    answers: Answers = []
    over = asyncio.Event()

    async def wait() -> str | Later:
        return "" if over.is_set() else Later(over.wait)

    async def let_them_go() -> str:
        over.set()
        return ""

    run([*(errand(number, answers, wait) for number in range(5)), errand("last", answers, let_them_go)], n_workers=1)
    assert answers == [("last", ""), *((number, "") for number in range(5))]


def test_errands_that_wait_for_something_keep_no_lane_busy() -> None:
    async def main() -> None:
        lane = Lane("test", 1)
        over, answers = asyncio.Event(), Answers()

        async def wait() -> str | Later:
            return "" if over.is_set() else Later(over.wait)

        lane.submit([errand(number, answers, wait) for number in range(5)])
        assert lane.is_busy()
        while lane.is_busy():
            await asyncio.sleep(0.001)
        assert answers == []
        over.set()
        await lane.drain()
        assert len(answers) == 5
        await lane.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_an_errand_is_answered_even_when_its_waiting_breaks_off() -> None:
    async def break_off() -> None:
        raise RuntimeError("a bug")

    async def wait() -> str | Later:
        return Later(break_off)

    answers: Answers = []
    run([errand("bad", answers, wait), errand("good", answers, succeed)], n_workers=1)
    assert sorted(answers) == [("bad", "RuntimeError: a bug"), ("good", "")]


def test_stopping_a_lane_drops_those_who_wait() -> None:
    async def wait_for_ever() -> str | Later:
        return Later(asyncio.Event().wait)

    async def main() -> Answers:
        lane, answers = Lane("test", 1), Answers()
        lane.submit([errand("victim", answers, wait_for_ever)])
        while lane.is_busy():
            await asyncio.sleep(0.001)
        await lane.stop()
        return answers

    assert asyncio.run(asyncio.wait_for(main(), 10)) == []


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


def test_what_comes_after_the_end_of_the_loop_is_dropped() -> None:
    made: list[Lane] = []

    async def main() -> None:
        made.append(Lane("test", 1))
        await made[0].stop()

    answers: Answers = []
    asyncio.run(main())
    made[0].submit([errand("late", answers, succeed)])
    assert answers == []
