from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from muster.cluster.kubernetes.sending import queues
from muster.cluster.kubernetes.sending.queues import Later, Request, RequestQueue, Send

Answers = list[tuple[object, str]]


def request(
    about: object,
    answers: Answers,
    send: Send,
    *,
    is_patient: bool = False,
    is_passing: bool = False,
    patience_s: float = 0.0,
) -> Request:
    done = partial(_note, answers, about)
    return Request(about, send, done, is_patient or is_passing, is_passing, patience_s)


def _note(answers: Answers, about: object, error: str) -> None:
    answers.append((about, error))


async def succeed() -> str:
    return ""


def run(requests: list[Request], *, n_workers: int = 2) -> None:
    async def main() -> None:
        queue = RequestQueue("test", n_workers)
        queue.submit(requests)
        await asyncio.sleep(0)
        await queue.drain()
        await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_nothing_to_send_wakes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        queue = RequestQueue("test", 1)
        woken = 0

        def wake(*_words: object) -> None:
            nonlocal woken
            woken += 1

        monkeypatch.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", wake)
        queue.submit([])
        none = woken
        queue.submit([request("g", [], succeed)])
        assert woken == none + 1
        await queue.stop()
        return none

    assert asyncio.run(asyncio.wait_for(main(), 10)) == 0


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
    run([request(number, answers, send) for number in range(20)], n_workers=3)
    assert (most, len(answers)) == (3, 20)


def test_a_waiting_report_is_replaced_by_a_newer_one() -> None:
    sent: list[str] = []

    def says(text: str) -> Callable[[], Awaitable[str]]:
        async def send() -> str:
            sent.append(text)
            return ""

        return send

    answers: Answers = []
    run([request("g", answers, says("old")), request("h", answers, says("other")), request("g", answers, says("new"))])
    assert sorted(sent) == ["new", "other"]


def test_a_broken_errand_does_not_take_its_worker_along() -> None:
    async def break_off() -> str:
        raise RuntimeError("a bug")

    answers: Answers = []
    run([request("bad", answers, break_off), request("good", answers, succeed)], n_workers=1)
    assert answers == [("bad", "RuntimeError: a bug"), ("good", "")]


def test_errands_that_wait_for_something_take_up_no_worker() -> None:
    answers: Answers = []
    over = asyncio.Event()

    async def wait() -> str | Later:
        return "" if over.is_set() else Later(over.wait)

    async def let_them_go() -> str:
        over.set()
        return ""

    run([*(request(number, answers, wait) for number in range(5)), request("last", answers, let_them_go)], n_workers=1)
    assert answers == [("last", ""), *((number, "") for number in range(5))]


def test_errands_that_wait_for_something_keep_no_lane_busy() -> None:
    async def main() -> None:
        queue = RequestQueue("test", 1)
        over, answers = asyncio.Event(), Answers()

        async def wait() -> str | Later:
            return "" if over.is_set() else Later(over.wait)

        queue.submit([request(number, answers, wait) for number in range(5)])
        assert queue.is_busy()
        while queue.is_busy():
            await asyncio.sleep(0.001)
        assert answers == []
        over.set()
        await queue.drain()
        assert len(answers) == 5
        await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_an_errand_is_answered_even_when_its_waiting_breaks_off() -> None:
    async def break_off() -> None:
        raise RuntimeError("a bug")

    async def wait() -> str | Later:
        return Later(break_off)

    answers: Answers = []
    run([request("bad", answers, wait), request("good", answers, succeed)], n_workers=1)
    assert sorted(answers) == [("bad", "RuntimeError: a bug"), ("good", "")]


def test_stopping_a_lane_drops_those_who_wait() -> None:
    async def wait_for_ever() -> str | Later:
        return Later(asyncio.Event().wait)

    async def main() -> Answers:
        queue, answers = RequestQueue("test", 1), Answers()
        queue.submit([request("victim", answers, wait_for_ever)])
        while queue.is_busy():
            await asyncio.sleep(0.001)
        await queue.stop()
        return answers

    assert asyncio.run(asyncio.wait_for(main(), 10)) == []


def test_a_queue_gives_way_while_the_one_that_it_yields_to_is_busy() -> None:
    sent: list[str] = []

    def says(text: str, seconds: float = 0.0) -> Callable[[], Awaitable[str]]:
        async def send() -> str:
            await asyncio.sleep(seconds)
            sent.append(text)
            return ""

        return send

    async def main() -> None:
        urgent = RequestQueue("urgent", 2)
        reports = RequestQueue("reports", 2, yields_to=urgent)
        answers: Answers = []
        urgent.submit([request(number, answers, says("urgent", 0.1)) for number in range(6)])
        assert urgent.is_busy()
        reports.submit([request("report", answers, says("report"))])
        await asyncio.sleep(0)
        await reports.drain()
        assert not urgent.is_busy()
        await urgent.drain()
        for queue in (urgent, reports):
            await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))
    assert sent.index("report") >= 5


def test_a_lane_that_has_waited_long_enough_trickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(queues, "_TRICKLE_SECONDS", 0.2)
    monkeypatch.setattr(queues, "_LOOK_SECONDS", 0.01)

    async def main() -> None:
        urgent = RequestQueue("urgent", 1)
        reports = RequestQueue("reports", 4, yields_to=urgent)
        answers: Answers = []
        done = asyncio.Event()

        async def wait() -> str:
            await done.wait()
            return ""

        urgent.submit([request(number, [], wait) for number in range(2)])
        reports.submit([request(number, answers, succeed) for number in range(8)])
        await asyncio.sleep(0.5)
        assert 1 <= len(answers) < 8
        done.set()
        await reports.drain()
        assert len(answers) == 8
        for queue in (urgent, reports):
            await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_patient_reports_wait_until_the_other_queue_is_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_LOOK_SECONDS", 0.005)

    async def main() -> list[str]:
        urgent = RequestQueue("urgent", 8)
        reports = RequestQueue("reports", 2, yields_to=urgent)
        sent: list[str] = []

        def says(text: str) -> Callable[[], Awaitable[str]]:
            async def send() -> str:
                await asyncio.sleep(0.01)
                sent.append(text)
                return ""

            return send

        for number in range(4):  # one at a time, so that the queue is never busy
            urgent.submit([request(number, [], says("urgent"))])
            reports.submit([request(number, [], says("report"), is_patient=True)])
            await asyncio.sleep(0.05)
            assert not urgent.is_busy()
        await reports.drain()
        for queue in (urgent, reports):
            await queue.stop()
        return sent

    assert asyncio.run(asyncio.wait_for(main(), 10)) == ["urgent"] * 4 + ["report"] * 4


def test_a_report_that_somebody_waits_for_passes_patient_ones() -> None:
    async def main() -> list[object]:
        urgent = RequestQueue("urgent", 8)
        reports = RequestQueue("reports", 1, yields_to=urgent)
        answers: Answers = []
        done = asyncio.Event()

        async def wait() -> str:
            await done.wait()
            return ""

        urgent.submit([request("binding", [], wait)])
        reports.submit([request(name, answers, succeed, is_patient=True) for name in ("a", "b")])
        reports.submit([request("let in", answers, succeed), request("b", answers, succeed)])
        while len(answers) < 2:
            await asyncio.sleep(0.005)
        first = [about for about, _ in answers]
        done.set()
        await reports.drain()
        for queue in (urgent, reports):
            await queue.stop()
        return [first, [about for about, _ in answers]]

    assert asyncio.run(asyncio.wait_for(main(), 10)) == [["let in", "b"], ["let in", "b", "a"]]


def test_what_waits_for_long_is_sent_at_the_pace_at_which_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(queues, "_LOOK_SECONDS", 0.005)

    async def main() -> int:
        urgent = RequestQueue("urgent", 8)
        reports = RequestQueue("reports", 4, yields_to=urgent)
        answers: Answers = []
        done = asyncio.Event()

        async def wait() -> str:
            await done.wait()
            return ""

        urgent.submit([request("for ever", [], wait)])
        reports.submit([request(number, answers, succeed, is_patient=True) for number in range(200)])
        await asyncio.sleep(0.1)
        assert not answers
        await asyncio.sleep(1.0)
        n_sent = len(answers)
        done.set()
        for queue in (urgent, reports):
            await queue.stop()
        return n_sent

    # By a trickle it would be five.
    assert asyncio.run(asyncio.wait_for(main(), 10)) > 20


def test_notes_that_only_we_read_give_way_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(queues, "_LOOK_SECONDS", 0.005)
    monkeypatch.setattr(queues, "_LINGER_SECONDS", 0.0)

    async def main() -> tuple[list[object], list[object]]:
        urgent = RequestQueue("urgent", 8)
        reports = RequestQueue("reports", 2, yields_to=urgent)
        answers: Answers = []
        done = asyncio.Event()

        async def wait() -> str:
            await done.wait()
            return ""

        urgent.submit([request("for ever", [], wait)])
        reports.submit([request("stamp", answers, succeed, is_patient=True, patience_s=0.6)])
        reports.submit([request("status", answers, succeed, is_patient=True)])
        reports.submit([request("late", answers, succeed, is_patient=True, patience_s=60.0)])
        await asyncio.sleep(0.4)
        early = [about for about, _ in answers]
        await asyncio.sleep(0.6)
        later = [about for about, _ in answers]
        done.set()
        await reports.drain()  # at the end all go
        assert len(answers) == 3
        for queue in (urgent, reports):
            await queue.stop()
        return early, later

    early, later = asyncio.run(asyncio.wait_for(main(), 10))
    assert early == ["status"]
    assert later == ["status", "stamp"]


def test_passing_reports_wait_for_newer_ones_about_the_same_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(queues, "_PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(queues, "_LINGER_SECONDS", 0.0)
    monkeypatch.setattr(queues, "_LOOK_SECONDS", 0.005)

    async def main() -> tuple[list[str], list[str]]:
        urgent = RequestQueue("urgent", 8)
        reports = RequestQueue("reports", 2, yields_to=urgent)
        sent: list[str] = []

        def says(text: str) -> Callable[[], Awaitable[str]]:
            async def send() -> str:
                sent.append(text)
                return ""

            return send

        for number in range(4):
            reports.submit([request("gang", [], says(f"gang {number}"), is_passing=True)])
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.4)
        once = list(sent)
        for number in range(16):
            reports.submit([request("queue", [], says(f"queue {number}"), is_passing=True)])
            await asyncio.sleep(0.05)
        for queue in (urgent, reports):
            await queue.stop()
        return once, sent[len(once) :]

    once, often = asyncio.run(asyncio.wait_for(main(), 10))
    assert once == ["gang 3"]
    assert len(often) == 1  # though there was never a moment without news


def test_nothing_waits_for_its_like_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_SETTLE_SECONDS", 60.0)
    monkeypatch.setattr(queues, "_PATIENCE_SECONDS", 60.0)

    async def main() -> Answers:
        urgent = RequestQueue("urgent", 8)
        reports = RequestQueue("reports", 2, yields_to=urgent)
        answers: Answers = []
        reports.submit([request("gang", answers, succeed, is_passing=True)])
        await asyncio.sleep(0)
        await reports.drain()
        for queue in (urgent, reports):
            await queue.stop()
        return answers

    assert asyncio.run(asyncio.wait_for(main(), 10)) == [("gang", "")]


def test_a_report_that_was_replaced_does_not_keep_a_lane_busy() -> None:
    async def main() -> None:
        queue = RequestQueue("test", 1)
        queue.submit([request("g", [], succeed) for _ in range(5)])
        await asyncio.sleep(0)
        await queue.drain()
        assert not queue.is_busy()
        await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_what_comes_after_the_end_of_the_loop_is_dropped() -> None:
    made: list[RequestQueue] = []

    async def main() -> None:
        made.append(RequestQueue("test", 1))
        await made[0].stop()

    answers: Answers = []
    asyncio.run(main())
    made[0].submit([request("late", answers, succeed)])
    assert answers == []
