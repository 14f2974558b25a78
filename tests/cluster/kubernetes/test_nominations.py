from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster.cluster.kubernetes.sending.queues import Request, RequestQueue
from muster.cluster.kubernetes.verbs.evictions import Nominations

NOT_NOMINATED = "not all of those it would make room for could be nominated"


class Play:
    """A gang whose nominations are answered as told, and one victim, on few workers."""

    def __init__(self, *answers: str | None) -> None:
        self.order: list[str] = []
        self.answers: dict[object, str] = {}
        self._answers = answers

    def run(self) -> Play:
        asyncio.run(asyncio.wait_for(self._run(), 10))
        return self

    async def _run(self) -> None:
        nominations = Nominations()
        asked = [self._request(number, nominations, answer) for number, answer in enumerate(self._answers)]
        queue = RequestQueue("test", 1)
        # The victim stands first in line, and must not take the only worker from those it waits for.
        queue.submit([Request("victim", nominations.before(self._evict), self._done("victim")), *asked])
        await asyncio.sleep(0)
        await queue.drain()
        await queue.stop()

    def _request(self, number: int, nominations: Nominations, answer: str | None) -> Request:
        async def nominate() -> str:
            await asyncio.sleep(0.001)
            self.order.append("nominated")
            if answer is None:
                raise RuntimeError("a bug")
            return answer

        return Request(number, nominations.with_one_more(nominate), self._done(number))

    async def _evict(self) -> str:
        self.order.append("evicted")
        return ""

    def _done(self, about: object) -> Callable[[str], None]:
        return lambda error: self.answers.update({about: error})


def test_evictions_wait_until_their_beneficiaries_are_nominated() -> None:
    assert Play("", "").run().order == ["nominated", "nominated", "evicted"]


def test_nobody_is_evicted_when_not_all_of_a_gang_could_be_nominated() -> None:
    play = Play("", "gone").run()
    assert play.order == ["nominated", "nominated"]
    assert play.answers["victim"] == NOT_NOMINATED


def test_a_broken_nomination_does_not_keep_evictions_waiting_for_ever() -> None:
    assert Play(None).run().answers["victim"] == NOT_NOMINATED
