"""No change that a leader sends may happen after another one leads, also when the server is slow to make it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from muster.cluster.kubernetes.client.connection import Connection
from muster.cluster.kubernetes.client.kubeconfig import Access
from muster.cluster.kubernetes.client.leases import Election, LeaseOptions
from muster.cluster.kubernetes.client.requests import NOT_LEADER, ApiError, Client
from muster.cluster.kubernetes.client.shards import Target
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.queues import Inbox

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/muster"
EVICTION = "/api/v1/namespaces/ns/pods/p/eviction"
#: Long enough for a busy machine, short enough for a test: others may lead after two seconds.
DURATION_S = 2
RENEWAL_S = 0.4


class LateServer:
    """Keeps a lease, and makes changes only after a while.

    A change is dropped when its time is over (`keeps_time`), or when the client has left (`sees_leaving`): real servers
    do both, but either alone has to be enough.
    """

    def __init__(self, *, keeps_time: bool, sees_leaving: bool) -> None:
        self._keeps_time = keeps_time
        self._sees_leaving = sees_leaving
        self.lease: dict[str, dict[str, str | int]] | None = None
        self.late_s = 0.0
        #: Whose renewals get lost.
        self.cut_off = ""
        self.n_received = 0
        self.carried_out: list[float] = []

    async def start(self) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=self._sees_leaving, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]  # of asyncio

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        if "/leases" in request.path:
            return await self._handle_lease(request)
        self.n_received += 1
        limit_s = float(request.query.get("timeout", "34000ms").removesuffix("ms")) / 1000
        if self._keeps_time and limit_s < self.late_s:
            await asyncio.sleep(limit_s)
            return web.json_response({"code": 504, "message": "timeout"}, status=504)
        await asyncio.sleep(self.late_s)
        self.carried_out.append(time.monotonic())
        return web.json_response({})

    async def _handle_lease(self, request: web.Request) -> web.Response:
        if self.cut_off and request.headers.get("Authorization") == f"Bearer {self.cut_off}":
            await asyncio.sleep(60)
        if request.method == "GET":
            return web.json_response({}, status=404) if self.lease is None else web.json_response(self.lease)
        given = msgspec.json.decode(await request.read(), type=dict[str, Any])  # Any: JSON
        meta, spec = given["metadata"], given["spec"]
        assert isinstance(meta, dict)
        assert isinstance(spec, dict)
        old = 0 if self.lease is None else int(self.lease["metadata"]["resourceVersion"])
        if int(meta.get("resourceVersion", 0)) != old:
            return web.json_response({"code": 409}, status=409)
        self.lease = {"metadata": {**meta, "resourceVersion": str(old + 1)}, "spec": spec}
        return web.json_response({})


class Replica:
    """A client and its candidacy."""

    def __init__(self, url: str, name: str) -> None:

        async def authorize() -> str:
            return f"Bearer {name}"

        self.client = Client(Connection(Access(url, token=name), authorize, "a test"))
        self.election = Election(LeaseOptions("ns", "muster", name, DURATION_S, RENEWAL_S))
        self.client.write_seconds = self.election.write_seconds
        self._running: asyncio.Task[None] | None = None

    async def lead(self) -> None:
        """Take part until the end, and return when we lead."""
        self._running = asyncio.create_task(self.election.run(self.client))
        while not self.election.is_held():
            await asyncio.sleep(0.01)

    async def evict(self) -> str:
        """Send a change once; return what came of it."""
        try:
            await self.client.send("POST", EVICTION, b"{}", attempts=1)
        except ApiError as fault:
            return fault.reason or str(fault.status)
        return ""

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.client.close()


def played(server: LateServer, play: Callable[[Replica, Replica], Awaitable[None]]) -> None:
    async def main() -> None:
        url = await server.start()
        first, second = Replica(url, "first"), Replica(url, "second")
        try:
            await asyncio.wait_for(play(first, second), 20)
        finally:
            await first.close()
            await second.close()
            await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize(("keeps_time", "sees_leaving"), [(True, False), (False, True)])
def test_a_change_that_is_late_is_dropped_before_another_leads(keeps_time: bool, sees_leaving: bool) -> None:
    server = LateServer(keeps_time=keeps_time, sees_leaving=sees_leaving)
    led_at = []

    async def play(first: Replica, second: Replica) -> None:
        await first.lead()
        server.late_s = DURATION_S * 1.8  # the other leads by then
        server.cut_off = "first"
        under_way = [asyncio.create_task(first.evict())]
        while first.election.is_held():  # changes all along, to the very end of leading
            await asyncio.sleep(0.05)
            under_way.append(asyncio.create_task(first.evict()))
        await second.lead()
        led_at.append(time.monotonic())
        assert all(task.done() for task in under_way), "the old leader still waits for an answer"
        await asyncio.sleep(DURATION_S)

    played(server, play)
    assert server.n_received > 5
    assert [moment for moment in server.carried_out if moment >= led_at[0]] == []


def test_a_server_in_time_makes_the_change() -> None:
    server = LateServer(keeps_time=True, sees_leaving=True)

    async def play(first: Replica, second: Replica) -> None:
        await first.lead()
        server.late_s = 0.1
        assert await first.evict() == ""
        assert await second.evict() == NOT_LEADER
        assert first.client.uncertain_s() == 0

    played(server, play)
    assert len(server.carried_out) == 1


def test_the_lease_is_handed_over_only_when_nothing_is_under_way() -> None:
    server = LateServer(keeps_time=True, sees_leaving=False)

    async def play(first: Replica, second: Replica) -> None:
        await first.lead()
        server.late_s = 60.0
        under_way = asyncio.create_task(first.evict())
        await asyncio.sleep(0.2)
        api = ApiThread(Inbox(), Target(), first.election)
        api.client = first.client
        first.election.stand_down(60)
        assert not first.election.is_held()
        handing = asyncio.create_task(api._hand_over(first.election))
        await asyncio.sleep(0.3)
        assert not handing.done(), "the change may still be made"
        await handing
        assert await under_way != ""
        assert server.lease is not None
        assert server.lease["spec"].get("holderIdentity", "") == ""
        await second.lead()
        await asyncio.sleep(RENEWAL_S * 3)
        assert second.election.is_held()
        assert not first.election.is_held()

    played(server, play)


def test_a_lease_is_not_released_while_a_change_may_still_be_made() -> None:
    server = LateServer(keeps_time=True, sees_leaving=False)

    async def play(first: Replica, _: Replica) -> None:
        await first.lead()
        server.late_s = 60.0
        under_way = asyncio.create_task(first.evict())
        await asyncio.sleep(0.2)
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)
        api = ApiThread(Inbox(), Target(), first.election)
        api.client = first.client
        await api._release(first.election)
        assert server.lease is not None
        assert server.lease["spec"]["holderIdentity"] == "first", "it has to run out"

    played(server, play)


def test_a_request_that_never_reached_the_server_leaves_nothing_open() -> None:
    async def main() -> None:
        replica = Replica("http://127.0.0.1:1", "first")
        replica.client.write_seconds = lambda: 5.0
        try:
            assert await replica.evict() == "NotConnectedError"
            assert replica.client.uncertain_s() == 0
        finally:
            await replica.close()

    asyncio.run(main())


@pytest.mark.parametrize(("told", "waited"), [("3", 3.0), ("86400", 10.0), ("9" * 400, 10.0), ("soon", 0.0), ("", 0.0)])
def test_a_server_may_ask_for_patience_but_not_for_any(told: str, waited: float) -> None:
    class Impatient(LateServer):
        async def _handle(self, request: web.Request) -> web.Response:
            return web.json_response({}, status=429, headers={"Retry-After": told})

    server = Impatient(keeps_time=True, sees_leaving=True)

    async def play(first: Replica, _: Replica) -> None:
        with pytest.raises(ApiError) as raised:
            await first.client.request("GET", "/api")
        assert raised.value.retry_after_s == waited

    played(server, play)
