from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import cast

from muster.api import Condition, ObjectMeta, Pod, PodStatus
from muster.cluster.kubernetes.client.requests import ApiError, Client
from muster.cluster.kubernetes.sending.queues import Request, RequestQueue, Send
from muster.cluster.kubernetes.verbs.eviction_requests import ANOTHER_STAYS, BudgetLocks, GuardedEvictions
from muster.cluster.kubernetes.verbs.evictions import Nominations

READY = Condition(type="Ready", status="True")


def pod(name: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name), status=PodStatus(conditions=[READY]))


class Server:
    """Budgets and what they allow; a pod's budget is the first letter of its name."""

    def __init__(self, **allowed: int) -> None:
        self.allowed = allowed
        self.evicted: list[str] = []
        self.n_asked = 0
        #: Evictions under way, by budget, and the most at once.
        self._under_way: dict[str, int] = {}
        self.most_at_once = 0
        #: How many requests are answered before all budgets allow something.
        self.yields_after: int | None = None
        self.on_dry_run: Callable[[], None] = lambda: None

    async def send(self, _method: str, path: str, body: bytes | None = None, **_options: object) -> bytes:
        if self.yields_after is not None:
            self.yields_after -= 1
            if self.yields_after < 0:
                self.allowed = dict.fromkeys(self.allowed, 1)
        if "/poddisruptionbudgets?" in path:
            known = self.allowed.items()
            items = [{"metadata": {"name": name}, "status": {"disruptionsAllowed": left}} for name, left in known]
            return json.dumps({"metadata": {}, "items": items}).encode()
        name = path.split("/")[-2]
        budget = name[0]
        is_dry = "dryRun" in json.loads(body or b"")["deleteOptions"]
        self._under_way[budget] = self._under_way.get(budget, 0) + 1
        if not is_dry:
            self.most_at_once = max(self.most_at_once, self._under_way[budget])
        await asyncio.sleep(0.001)
        self._under_way[budget] -= 1
        if budget in self.allowed and self.allowed[budget] < 1:
            raise ApiError(429, "TooManyRequests", "budget")
        if is_dry:
            self.n_asked += 1
            self.on_dry_run()
        else:
            self.evicted.append(name)
            if budget in self.allowed:
                self.allowed[budget] -= 1
        return b'{"kind":"Status","status":"Success"}'

    pages = Client.pages


def play(
    server: Server, plans: Sequence[tuple[Sequence[str], Sequence[str]]], patience_s: float = 0.4, promised: str = ""
) -> dict[str, str]:
    """Evict the guarded pods and the others of each plan, on one worker; returns what is wrong, by pod."""
    answers: dict[str, str] = {}

    async def main() -> None:
        queue, locks, client = RequestQueue("test", 1), BudgetLocks(), cast("Client", server)

        def request(name: str, send: Send) -> Request:
            return Request(name, send, lambda error: answers.update({name: error}))

        async def nominate() -> str:
            return promised

        def leaving(name: str) -> Send:
            async def send() -> str:
                server.evicted.append(name)
                return ""

            return send

        for names, others in plans:
            nominations = Nominations()
            queue.submit([Request(object(), nominations.with_one_more(nominate), lambda _: None)])
            guarded = GuardedEvictions(client, locks, patience_s, nominations.error)
            queue.submit([request(name, nominations.before(guarded.before(leaving(name)))) for name in others])
            queue.submit([request(name, guarded.guard(pod(name), [f"ns/{name[0]}"])) for name in names])
        await asyncio.sleep(0)
        await queue.drain()
        await queue.stop()

    asyncio.run(asyncio.wait_for(main(), 10))
    return answers


def test_guarded_pods_leave_first_and_then_the_others() -> None:
    server = Server(a=1, b=1)
    assert set(play(server, [(["a0", "b0"], ["x", "y"])]).values()) == {""}
    assert server.evicted[2:] == ["x", "y"]


def test_nobody_leaves_when_one_of_two_budgets_refuses() -> None:
    server = Server(a=1, b=0)
    answers = play(server, [(["a0", "b0"], ["x"])])
    assert server.evicted == []
    assert answers["a0"] == answers["x"] == ANOTHER_STAYS
    assert "429" in answers["b0"]


def test_nobody_leaves_when_a_budget_allows_fewer_than_have_to_go() -> None:
    server = Server(a=2)
    answers = play(server, [(["a0", "a1", "a2"], [])])
    assert server.evicted == []
    assert "allows 2 disruptions, 3 are needed" in answers["a2"]


def test_nobody_leaves_when_the_gang_could_not_be_nominated() -> None:
    server = Server(a=1)
    answers = play(server, [(["a0"], ["x"])], promised="gone")
    assert server.evicted == []
    assert set(answers.values()) == {"not all of those it would make room for could be nominated"}


def test_a_single_guarded_pod_is_evicted_without_asking_first() -> None:
    server = Server(a=1)
    play(server, [(["a0"], ["x"])])
    assert (server.evicted, server.n_asked) == (["a0", "x"], 0)


def test_pods_under_one_budget_leave_one_after_the_other() -> None:
    server = Server(a=4, b=4)
    play(server, [(["a0", "a1", "b0", "b1"], []), (["a2", "b2"], [])])
    assert len(server.evicted) == 6
    assert server.most_at_once == 1


def test_a_plan_that_waits_for_its_budget_takes_neither_worker_nor_turn_from_others() -> None:
    server = Server(a=1, b=0, c=1)
    answers = play(server, [(["a0", "b0"], ["x"]), (["a1", "c0"], ["y"])])
    assert sorted(server.evicted[:2]) == ["a1", "c0"]
    assert server.evicted[2:] == ["y"]
    assert answers["x"] == ANOTHER_STAYS


def test_a_budget_that_yields_in_time_lets_all_go() -> None:
    server = Server(a=1, b=0)
    server.yields_after = 3
    assert set(play(server, [(["a0", "b0"], ["x"])], patience_s=5.0).values()) == {""}


def test_a_budget_used_up_by_somebody_else_after_the_asking_keeps_the_others() -> None:
    server = Server(a=1, b=1)

    def use_up() -> None:
        if server.n_asked == 2:
            server.allowed["b"] = 0

    server.on_dry_run = use_up
    answers = play(server, [(["b0", "a0"], ["x", "y"])])
    assert not {"x", "y"} & set(server.evicted)
    assert answers["x"] == answers["y"] == ANOTHER_STAYS


def test_what_went_through_in_earlier_cycles_is_forgotten() -> None:
    async def main() -> GuardedEvictions:
        server, locks, last = cast("Client", Server(a=9)), BudgetLocks(), None
        for number in range(3):
            last = GuardedEvictions(server, locks, 0.4, earlier=last)
            last.guard(pod(f"a{number}"), ["ns/a"])
        assert last is not None
        assert await last.error() == ""
        return last

    assert asyncio.run(main())._earlier is None
