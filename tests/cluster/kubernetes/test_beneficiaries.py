"""Evictions that wait, and for whom."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from muster.api import ObjectMeta, Pod
from muster.cluster.kubernetes.client.requests import ApiError, Client
from muster.cluster.kubernetes.sending.queues import Request, RequestQueue, Send
from muster.cluster.kubernetes.verbs.eviction_requests import NOT_NEEDED, BudgetLocks, EvictionRequest, GuardedEvictions
from muster.cluster.kubernetes.verbs.evictions import Beneficiaries

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))


class Budget:
    """Refuses until somebody is told that nobody needs the room; from then on everything is allowed."""

    def __init__(self, beneficiaries: Beneficiaries) -> None:
        self._beneficiaries = beneficiaries
        self.n_refused = 0
        self.n_evicted = 0

    async def send(self, *_words: object, **_options: object) -> bytes:
        if self.n_refused:
            self.n_evicted += 1
            return b""
        self.n_refused += 1
        self._beneficiaries.look(lambda _: False)
        raise ApiError(429, "TooManyRequests", "budget")


@pytest.mark.parametrize("is_guarded", [True, False])
def test_an_eviction_that_waits_is_dropped_when_its_beneficiary_waits_no_more(is_guarded: bool) -> None:
    beneficiaries = Beneficiaries()
    budget = Budget(beneficiaries)
    answers: list[str] = []

    async def main() -> None:
        queue, client = RequestQueue("test", 1), cast("Client", budget)
        needed = beneficiaries.open("ns/gang").needs_room
        send: Send = EvictionRequest(client, POD, 5.0, needed).send
        if is_guarded:
            send = GuardedEvictions(client, BudgetLocks(), 5.0, is_needed=needed).guard(POD, ["ns/budget"])
        queue.submit([Request("p", send, answers.append)])
        await asyncio.sleep(0)
        await queue.drain()
        await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))
    assert answers == [NOT_NEEDED]
    assert (budget.n_refused, budget.n_evicted) == (1, 0)


def test_a_job_is_forgotten_with_the_last_answer() -> None:
    beneficiaries = Beneficiaries()
    first = beneficiaries.open("ns/gang")
    assert beneficiaries.open("ns/gang") is first
    beneficiaries.close("ns/gang")
    beneficiaries.look(lambda _: False)
    assert not first.needs_room()
    beneficiaries.close("ns/gang")
    assert beneficiaries.open("ns/gang") is not first
