"""Leader election against a server of a few lines, and clocks that do as they please."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api import BackendError
from muster.cluster.kubernetes.client import leases
from muster.cluster.kubernetes.client.leases import Election, LeaseOptions
from muster.cluster.kubernetes.client.requests import ApiError, Client


class Server(Client):
    """Keeps one lease, and refuses what was written for an older version."""

    def __init__(self) -> None:
        self.lease: dict[str, dict[str, str | int]] | None = None
        self.refusal: ApiError | None = None

    async def request(
        self, method: str, path: str, body: bytes | None = None, *, content_type: str = "", timeout_s: float = 0.0
    ) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        if method == "GET":
            if self.lease is None:
                raise ApiError(404, "NotFound", path)
            return msgspec.json.encode(self.lease)
        given = msgspec.json.decode(body or b"", type=dict[str, Any])  # Any: JSON
        meta, spec = given["metadata"], given["spec"]
        assert isinstance(meta, dict)
        assert isinstance(spec, dict)
        old = 0 if self.lease is None else int(self.lease["metadata"]["resourceVersion"])
        if int(meta.get("resourceVersion", 0)) != old:
            raise ApiError(409, "Conflict", path)
        self.lease = {"metadata": {**meta, "resourceVersion": str(old + 1)}, "spec": spec}
        return b""


class Time:
    """The time that passes, and what the clock on the wall says."""

    def __init__(self) -> None:
        self.passed = 100.0
        self.wall = datetime(2026, 3, 1, tzinfo=UTC)

    def elapse(self, seconds: float) -> None:
        self.passed += seconds
        self.wall += timedelta(seconds=seconds)


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()

    class Wall(datetime):
        @classmethod
        def now(cls, _zone: object = None) -> datetime:  # type: ignore[override]  # all that is asked of it
            return time.wall

    monkeypatch.setattr(leases, "elapsed_s", lambda: time.passed)
    monkeypatch.setattr(leases, "datetime", Wall)
    return time


def candidate(name: str) -> Election:
    return Election(LeaseOptions("default", "muster", name, duration_s=10, renewal_s=2.0))


def attempt(server: Server, *elections: Election) -> None:
    async def every_one() -> None:
        for election in elections:
            await election.try_once(server)

    asyncio.run(every_one())


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1)])
@pytest.mark.parametrize("n_jumps", [1, 5])
def test_a_wall_clock_that_jumps_takes_the_lease_from_nobody(jump: timedelta, n_jumps: int, moment: Time) -> None:
    server, first, second = Server(), candidate("first"), candidate("second")
    attempt(server, first, second)
    for number in range(10):
        moment.elapse(2)
        if number < n_jumps:
            moment.wall += jump
        attempt(server, first, second)
        assert (first.is_held(), second.is_held()) == (True, False)


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1)])
def test_a_wall_clock_that_jumps_does_not_keep_a_dead_leader_alive(jump: timedelta, moment: Time) -> None:
    server, first, second = Server(), candidate("first"), candidate("second")
    attempt(server, first, second)
    moment.wall += jump
    for _ in range(6):
        moment.elapse(2)
        attempt(server, second)
    assert (first.is_held(), second.is_held()) == (False, True)


def test_a_leader_that_slept_does_not_lead_when_it_wakes(moment: Time) -> None:
    server, first, second = Server(), candidate("first"), candidate("second")
    attempt(server, first, second)
    moment.elapse(7.1)  # the margin before others may take it
    assert not first.is_held()
    moment.elapse(12.9)
    attempt(server, second)
    assert second.is_held()
    attempt(server, first)
    assert not first.is_held()


def test_a_leader_that_slept_alone_leads_again_but_has_to_look_around_first(moment: Time) -> None:
    server, first = Server(), candidate("first")
    attempt(server, first)
    first.taken.clear()
    moment.elapse(2)
    attempt(server, first)
    assert not first.taken.is_set()
    moment.elapse(3600)
    assert not first.is_held()
    attempt(server, first)
    assert first.is_held()
    assert first.taken.is_set()


def test_the_right_to_the_lease_may_come_a_little_late_and_is_an_error_when_it_does_not(moment: Time) -> None:
    server, first = Server(), candidate("first")
    server.refusal = ApiError(403, "Forbidden", "not for you")
    attempt(server, first)
    moment.elapse(2)
    attempt(server, first)
    moment.elapse(2)
    with pytest.raises(BackendError, match=r"^may not use the lease default/muster: "):
        attempt(server, first)


def test_a_right_that_is_taken_away_ends_the_leading_and_nothing_else(moment: Time) -> None:
    server, first = Server(), candidate("first")
    attempt(server, first)
    server.refusal = ApiError(403, "Forbidden", "not for you any more")
    for _ in range(5):
        moment.elapse(2)
        attempt(server, first)
    assert not first.is_held()
    server.refusal = None
    attempt(server, first)
    assert first.is_held()


@pytest.mark.usefixtures("moment")
def test_giving_the_lease_up_does_not_wait_for_a_server_that_is_silent() -> None:
    class Silent(Server):
        async def request(self, *_words: object, **_options: object) -> bytes:
            await asyncio.sleep(60)
            return b""

    async def main() -> None:
        election = Election(LeaseOptions("ns", "muster", "a", renewal_s=0.01))
        await election.try_once(Server())
        assert election.is_held()
        await asyncio.wait_for(election.release(Silent()), 5)
        assert not election.is_held()

    asyncio.run(main())


class EndsAsItAnswers(Server):
    """Answers, and has whoever asked told to end, some turns of the event loop later."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.asking: asyncio.Task[None] | None = None

    async def request(
        self, method: str, path: str, body: bytes | None = None, *, content_type: str = "", timeout_s: float = 0.0
    ) -> bytes:
        answer = await super().request(method, path, body)
        self._end_in(self.turns)
        return answer

    def _end_in(self, turns: int) -> None:
        assert self.asking is not None
        asyncio.get_running_loop().call_soon(*((self._end_in, turns - 1) if turns else (self.asking.cancel,)))


@pytest.mark.parametrize("turns", range(5))
def test_a_candidate_ends_when_it_is_told_to_also_at_the_moment_of_an_answer(turns: int) -> None:
    async def main() -> bool:
        server = EndsAsItAnswers(turns)
        server.asking = asyncio.create_task(candidate("first").run(server))
        done, _ = await asyncio.wait([server.asking], timeout=1.0)
        server.asking.cancel()
        return bool(done)

    assert asyncio.run(main())
