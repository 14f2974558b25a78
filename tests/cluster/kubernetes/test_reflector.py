"""Reflectors against a server of a few lines: what they make of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from muster.api import BackendError, Pod, PodDisruptionBudget
from muster.cluster.kubernetes.client import kinds, reflector
from muster.cluster.kubernetes.client.kinds import Resource
from muster.cluster.kubernetes.client.leases import Election, LeaseOptions, elapsed_s
from muster.cluster.kubernetes.client.reflector import Reflector
from muster.cluster.kubernetes.client.requests import ApiError, Client, Page, Selection
from muster.cluster.kubernetes.client.shards import Target
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.queues import Inbox
from muster.snapshot.messages import Event

PODS = Resource(Pod, "/api/v1", "pods")
BUDGETS = Resource(PodDisruptionBudget, "/apis/policy/v1", "poddisruptionbudgets")
FORBIDDEN = ApiError(403, "Forbidden", "not for you")


def line(kind: str, name: str, version: int) -> bytes:
    meta = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return msgspec.json.encode({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", "metadata": meta}})


class Server(Client):
    """Says what it is told to; a watch that has nothing more to say stays open."""

    def __init__(self) -> None:
        self.listed: list[str | ApiError] = []
        self.newest = "0"
        self.watches: list[list[bytes]] = []
        #: What all watches are answered with, once there is nothing more to say.
        self.no_watch: ApiError | None = None
        #: How long each watch was asked to be.
        self.seconds: list[int] = []
        self.versions: list[str] = []

    async def pages(self, path: str, selector: str | Selection = "") -> AsyncIterator[Page]:
        said = self.listed.pop(0)
        if isinstance(said, ApiError):
            raise said
        yield msgspec.json.decode(b'{"metadata":{"resourceVersion":"%s"},"items":[]}' % said.encode(), type=Page)

    async def newest_version(self, path: str) -> str:
        return self.newest

    async def watch(
        self,
        path: str,
        resource_version: str,
        selector: str | Selection = "",
        seconds: int = 600,
        gather_s: float = 0.0,
    ) -> AsyncIterator[list[bytes]]:
        self.seconds.append(seconds)
        self.versions.append(resource_version)
        if self.watches:
            yield self.watches.pop(0)
        elif self.no_watch is not None:
            raise self.no_watch
        if seconds > 5:
            await asyncio.Event().wait()


def follow(
    server: Server, then: Callable[[Reflector], Coroutine[None, None, None]], resource: Resource = PODS
) -> list[str]:
    """Follow the server until `then` is done; returns what was reported."""
    told: list[Event] = []

    def take(events: list[Event], *, is_urgent: bool) -> None:  # noqa: ARG001  # all are wanted here
        told.extend(events)

    async def main() -> None:
        reflector = Reflector(server, resource, take)
        running = asyncio.create_task(reflector.run())
        await asyncio.wait_for(then(reflector), 5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    return [f"{event.kind} {event.object.name}" for event in told]


async def synced(reflector: Reflector) -> None:
    await reflector.synced.wait()
    await asyncio.sleep(0.01)


async def caught_up(reflector: Reflector) -> None:
    await synced(reflector)
    await reflector.catch_up(asyncio.get_running_loop().time())


def test_a_kind_that_was_removed_keeps_nobody_waiting() -> None:
    server = Server()
    server.listed = [ApiError(404, "NotFound", "the server could not find the requested resource")]
    assert follow(server, synced) == []


def test_a_silent_watch_is_asked_again_before_it_is_believed() -> None:
    server = Server()
    server.listed, server.newest = ["5"], "9"
    server.watches = [[], [line("ADDED", "late", 7), line("BOOKMARK", "", 9)]]
    assert follow(server, caught_up) == ["ADDED late"]
    assert server.seconds[0] > 60
    assert server.seconds[1] < 5
    assert server.versions[:2] == ["5", "5"]


def test_a_watch_that_is_up_to_date_is_left_alone() -> None:
    server = Server()
    server.listed, server.newest = ["5"], "9"
    server.watches = [[line("BOOKMARK", "", 9)]]
    assert follow(server, caught_up) == []
    assert len(server.seconds) == 1


def test_a_server_without_bookmarks_is_listed_again() -> None:
    server = Server()
    server.listed, server.newest = ["5", "10"], "9"
    server.watches = [[], []]
    follow(server, caught_up)
    assert server.listed == []


def test_what_came_before_the_end_of_a_stream_is_not_lost() -> None:
    server = Server()
    gone = msgspec.json.encode({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    server.listed = ["5", "8"]
    server.watches = [[line("ADDED", "early", 6), gone]]

    async def listed_twice(_: Reflector) -> None:
        while server.listed:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)

    assert follow(server, listed_twice) == ["ADDED early", "DELETED early"]


def test_an_object_that_cannot_be_read_any_more_is_forgotten_when_it_is_deleted() -> None:
    server = Server()
    broken = msgspec.json.decode(line("DELETED", "odd", 8), type=dict[str, Any])
    broken["object"]["spec"] = {"containers": "none"}
    server.listed = ["5"]
    server.watches = [[line("ADDED", "odd", 6), msgspec.json.encode(broken)]]
    assert follow(server, synced) == ["ADDED odd", "DELETED odd"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused once is refused."""
    monkeypatch.setattr(kinds, "_PATIENCE_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_kind_that_may_not_be_listed_keeps_nobody_waiting_and_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kinds, "_AGAIN_SECONDS", 0.05)
    server = Server()
    server.listed, server.newest = [FORBIDDEN, FORBIDDEN, "5"], "9"

    async def left_out_and_taken_up(reflector: Reflector) -> None:
        await synced(reflector)
        assert reflector.n_lists == 0
        while not reflector.n_lists:
            await asyncio.sleep(0.01)

    follow(server, left_out_and_taken_up, BUDGETS)
    assert server.listed == []


@pytest.mark.usefixtures("impatient")
def test_a_kind_that_may_not_be_watched_is_listed_for_a_leader_who_must_know() -> None:
    server = Server()
    server.listed, server.newest, server.no_watch = ["5", "9"], "9", FORBIDDEN
    follow(server, caught_up, BUDGETS)
    assert server.listed == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("listed", [[FORBIDDEN], ["5"]])
def test_pods_that_may_not_be_read_are_an_error(listed: list[str | ApiError]) -> None:
    server = Server()
    server.listed, server.no_watch = list(listed), FORBIDDEN
    verb = "watch" if listed == ["5"] else "list"

    async def ended() -> None:
        await asyncio.wait_for(Reflector(server, PODS, lambda _events, *, is_urgent: None).run(), 5)  # noqa: ARG005

    with pytest.raises(BackendError, match=f"^may not {verb} pods: "):
        asyncio.run(ended())


def test_a_watch_that_brings_nothing_shows_and_one_that_never_will_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(reflector, "time", SimpleNamespace(monotonic=lambda: now[0]))
    server = Server()
    server.listed, server.watches = ["5"], [[line("ADDED", "early", 6)]]

    async def silence(reflector: Reflector) -> None:
        now[0] = 150.0
        await synced(reflector)
        assert reflector.silent_s() == 0
        now[0] = 300.0
        assert reflector.silent_s() == 150
        api = ApiThread(Inbox(), Target(), None)
        api._reflectors.append(reflector)
        assert api.trouble(149) == "no news of any Pod for 150 s"
        assert api.trouble(151) == ""

    follow(server, silence)
    server.listed = [ApiError(404, "NotFound", "no such kind")]

    async def nothing_to_hear(reflector: Reflector) -> None:
        await synced(reflector)
        now[0] = 900.0
        assert reflector.silent_s() == 0

    follow(server, nothing_to_hear)


def test_a_leader_that_cannot_find_out_what_was_done_before_it_shows() -> None:
    async def main() -> None:
        election = Election(LeaseOptions("ns", "muster", "a"))
        election._held_until = elapsed_s() + 5
        election.taken_at = asyncio.get_running_loop().time() - 20
        api = ApiThread(Inbox(), Target(), election)
        assert api.trouble(10) == "leads since 20 s without knowing what the leader before did"
        assert api.trouble(30) == ""
        api._caught_up = election.taken_at
        assert api.trouble(10) == ""

    asyncio.run(main())
