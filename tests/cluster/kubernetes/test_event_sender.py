"""Events are sent: counted when they repeat, dropped when there are too many, or not allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import msgspec
import pytest

from muster.api import Pod
from muster.cluster.kubernetes.client.requests import ApiError, Client
from muster.cluster.kubernetes.sending import events
from muster.cluster.kubernetes.sending.events import EventSender, KubeEvent


class Server:
    """Takes requests down."""

    def __init__(self, refuse: ApiError | None = None) -> None:
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self._refuse = refuse

    async def send(self, method: str, path: str, body: bytes, content_type: str = "", attempts: int = 6) -> bytes:
        await asyncio.sleep(0)
        self.requests.append((method, path, msgspec.json.decode(body)))
        if self._refuse is not None:
            raise self._refuse
        return b"{}"

    @property
    def notes(self) -> list[str]:
        return [body["message"] for method, _, body in self.requests if method == "POST"]


def about(name: str, note: str = "", *, series: str = "", is_detail: bool = False) -> KubeEvent:
    pod = Pod()
    pod.metadata.name = name
    pod.metadata.uid = f"uid-{name}"
    return KubeEvent(pod, "Reason", "Acting", note or name, series=series, is_detail=is_detail)


def played(server: Server, play: Callable[[EventSender], Awaitable[None]], *, is_busy: bool = False) -> Server:
    async def run() -> None:
        sender = EventSender(cast("Client", server), lambda: True, lambda: is_busy)
        await play(sender)
        await sender.stop()

    asyncio.run(run())
    return server


async def until_quiet(server: Server) -> None:
    """Wait until nothing has been sent for some turns of the loop."""
    before = -1
    while before != len(server.requests):
        before = len(server.requests)
        for _ in range(20):
            await asyncio.sleep(0)


def told(server: Server, *batches: Iterable[KubeEvent]) -> Server:
    async def play(sender: EventSender) -> None:
        for batch in batches:
            sender.tell(batch)
            await until_quiet(server)

    return played(server, play)


def test_an_event_names_the_object_and_says_what_happened() -> None:
    [(method, path, body)] = told(Server(), [about("p", "placed on n1")]).requests
    assert (method, path) == ("POST", "/api/v1/namespaces/default/events")
    assert (body["reason"], body["action"], body["message"]) == ("Reason", "Acting", "placed on n1")
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "uid-p",
    }


def test_news_that_repeat_are_counted_and_the_count_is_written_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    again = [about("p", series="full")]
    assert len(told(Server(), again, again, again).requests) == 1
    monkeypatch.setattr(events, "_COUNT_S", 0.0)
    server = told(Server(), again, again, again)
    assert [method for method, _, _ in server.requests] == ["POST", "PATCH", "PATCH"]
    first, last = server.requests[0][2], server.requests[-1][2]
    assert (first["count"], last["count"]) == (1, 3)
    assert first["firstTimestamp"] == first["lastTimestamp"] <= last["lastTimestamp"]
    assert server.requests[-1][1].rpartition("/")[2] == server.requests[0][2]["metadata"]["name"]


def test_another_reason_or_another_object_is_told_anew() -> None:
    server = told(
        Server(), [about("p", "a", series="full"), about("p", "b", series="closed"), about("q", series="full")]
    )
    assert server.notes == ["a", "b", "q"]


def test_details_wait_for_what_matters_and_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MAX_WAITING", 2)
    details = [about(f"pod-{number}", is_detail=True) for number in range(5)]
    assert told(Server(), [*details, about("gang")]).notes == ["gang", "pod-3", "pod-4"]


def test_no_more_than_so_many_are_sent_at_once() -> None:
    server = told(Server(), [about(f"p{number}") for number in range(200)])
    assert len(server.requests) < 40


def test_news_give_way_to_decisions() -> None:
    def sent_in_a_moment(*, is_busy: bool) -> int:
        server = Server()

        async def play(sender: EventSender) -> None:
            sender.tell(about(f"p{number}") for number in range(200))
            await asyncio.sleep(0.3)

        return len(played(server, play, is_busy=is_busy).requests)

    assert sent_in_a_moment(is_busy=True) < sent_in_a_moment(is_busy=False)


def test_details_wait_while_anything_is_decided_and_the_rest_does_not() -> None:
    def sent(*, is_detail: bool, is_still: bool) -> int:
        server = Server()

        async def run() -> None:
            sender = EventSender(cast("Client", server), lambda: True, lambda: False, lambda: is_still)
            sender.tell(about(f"p{number}", is_detail=is_detail) for number in range(200))
            await asyncio.sleep(0.6)
            await sender.stop()

        asyncio.run(run())
        return len(server.requests)

    held, calm, main = (
        sent(is_detail=True, is_still=False),
        sent(is_detail=True, is_still=True),
        sent(is_detail=False, is_still=False),
    )
    assert held < calm < main


def test_where_no_events_may_be_written_nothing_is_told_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(ApiError(403, "Forbidden", "no"))
    assert len(told(server, [about("a"), about("b")], [about("c")]).requests) == 1
    monkeypatch.setattr(events, "_CLOSED_S", 0.0)
    again = Server(ApiError(403, "Forbidden", "no"))
    assert len(told(again, [about("a")], [about("b")]).requests) == 2


def test_a_namespace_that_is_about_to_go_silences_no_other() -> None:
    class Server403(Server):
        async def send(self, method: str, path: str, body: bytes, content_type: str = "", attempts: int = 6) -> bytes:
            self._refuse = ApiError(403, "Forbidden", "it is being terminated") if "/leaving/" in path else None
            return await super().send(method, path, body, content_type)

    leaving = about("a")
    leaving.regarding.metadata.namespace = "leaving"
    assert told(Server403(), [leaving], [about("b")]).notes == ["a", "b"]


def test_the_name_of_an_event_is_one_however_long_that_of_its_object_is() -> None:
    [(_, _, body)] = told(Server(), [about("a" * 229 + "-" + "b" * 20)]).requests
    assert body["metadata"]["name"].startswith("a" * 229 + ".")


def test_a_server_that_fails_loses_one_piece_of_news_and_no_more() -> None:
    server = Server(ApiError(500, "InternalError", "no"))
    assert len(told(server, [about("a"), about("b")]).requests) == 2


def test_what_is_being_sent_at_the_end_is_answered_and_nothing_is_sent_after_it() -> None:
    class Slow(Server):
        n_answered = 0

        async def send(self, method: str, path: str, body: bytes, content_type: str = "", attempts: int = 6) -> bytes:
            answer = await super().send(method, path, body, content_type)
            await asyncio.sleep(0.2)
            self.n_answered += 1
            return answer

    server = Slow()

    async def leave_in_the_middle(sender: EventSender) -> None:
        sender.tell([about("first"), about("second")])
        while not server.requests:
            await asyncio.sleep(0.01)

    played(server, leave_in_the_middle)
    assert server.notes == ["first"]
    assert server.n_answered == 1
