"""The stream: what is new, in few bytes, for as long as somebody may hear it; and feeds under it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request

from muster.api import load_files
from muster.cli.demo.story import OBJECTS, TIMELINE
from muster.cluster import load_timeline
from muster.cluster.kubernetes.client.requests import _SILENCE_SECONDS
from muster.framework import default_config
from muster.ui.access import TokenGate
from muster.ui.app import MAX_STREAMS_EACH, Desk, _news, make_app
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.history import History, Moment, MomentGoneError
from muster.ui.live import SILENT_S
from muster.ui.visibility import EVERYTHING, Reader


def request_of(token: str = "") -> Request:
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
    return Request({"type": "http", "method": "GET", "path": "/api/events", "headers": headers, "client": ("me", 1)})


async def next_of(stream: AsyncIterator[bytes]) -> str:
    return (await asyncio.wait_for(anext(stream), 10)).decode()


def moment(cycle: int) -> Moment:
    return Moment(cycle, float(cycle))


def test_however_much_happens_a_slow_reader_gets_one_message() -> None:
    async def run() -> None:
        feed = Feed(Label("files", "x"), default_config())
        stream = _news(Desk(feed), request_of(), EVERYTHING, "me")
        assert '"cycle":null' in await next_of(stream)
        for cycle in range(1, 1001):
            feed.history.add(moment(cycle))
        told = json.loads((await next_of(stream)).partition("data: ")[2])
        assert (told["cycle"], told["cycles"]) == (1000, 1000)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.2)
        assert not waiting.done(), "nothing new is nothing to tell"
        waiting.cancel()

    asyncio.run(run())


def test_a_stream_tells_nobody_of_what_they_may_not_see() -> None:
    async def run() -> None:
        feed = Feed(Label("files", "x"), default_config())
        feed.history.add(
            Moment(1, 1.0, updates=({"job": "secret/train", "phase": "Pending", "code": "", "message": ""},))
        )
        feed.trouble = "secret/train: 3 of team/eval"
        told = await next_of(_news(Desk(feed), request_of(), Reader("ann", frozenset({"team"})), "me"))
        assert "(hidden): 3 of team/eval" in told
        assert "secret" not in told

    asyncio.run(run())


def test_a_stream_shows_that_it_lives_and_ends_with_the_token() -> None:
    async def run() -> None:
        feed = Feed(Label("files", "x"), default_config())
        gate = TokenGate("a-token-that-is-long-enough")
        desk = Desk(feed, gate=gate, beat_s=0.05)
        stream = _news(desk, request_of("a-token-that-is-long-enough"), EVERYTHING, "me")
        await next_of(stream)
        assert await next_of(stream) == ": still here\n\n"
        desk.gate = TokenGate("another-token-that-is-long")
        assert (await next_of(stream)).startswith("event: refused\n")
        with pytest.raises(StopAsyncIteration):
            await next_of(stream)
        assert desk.streams == {}, "its place is free again"

    asyncio.run(run())


def test_streams_are_limited_and_end_with_the_server(demo: FileFeed) -> None:
    desk = Desk(demo)
    make_app(desk)
    desk.streams["me"] = MAX_STREAMS_EACH
    with pytest.raises(Exception, match="too many streams"):
        desk.admit_stream("me")
    desk.admit_stream("other")

    async def run() -> None:
        stream = _news(desk, request_of(), EVERYTHING, "me")
        await next_of(stream)
        desk.close()
        with pytest.raises(StopAsyncIteration):
            await next_of(stream)

    asyncio.run(run())
    desk.is_closing = False


def test_history_lets_go_of_the_oldest_sessions_and_keeps_what_was_decided(demo: FileFeed) -> None:
    sessions = [each.session for each in demo.history]
    assert sessions[0] is not None
    size = len(sessions[0].snapshot.tasks) + len(sessions[0].snapshot.nodes)
    history = History(max_rows=3 * size + size // 2, max_moments=8)
    for known in demo.history:
        history.add(Moment(known.cycle, known.time, known.decisions, session=known.session))
    kept = [each.cycle for each in history]
    assert kept == list(range(5, 13))
    assert history.first_whole() == 10
    assert history.at(None).cycle == 12
    with pytest.raises(MomentGoneError, match="cycle 5 is kept no more; the first one that is: 10"):
        history.at(5)
    with pytest.raises(MomentGoneError, match=r"there is no cycle 1$"):
        history.at(1)


def test_a_feed_keeps_pace_and_lets_readers_in_while_it_waits() -> None:
    played = Played(load_files([OBJECTS]), default_config(), load_timeline(TIMELINE), speed=1.0)
    feed = FileFeed(Label("files", "slow"), played)
    feed.begin()
    while feed.history.latest is None:
        time.sleep(0.01)
    began = time.monotonic()
    with feed.turns.mine():
        assert len(feed.history) < 12, "ten minutes cannot have passed"
    assert time.monotonic() - began < 5, "a reader waits for no virtual minute"
    feed.stop()
    assert not feed.has_ended


def test_what_breaks_a_feed_is_said() -> None:
    feed = FileFeed(Label("files", "x"), Played(load_files([OBJECTS]), default_config(), registry=None))
    feed._played = None  # type: ignore[assignment]  # whatever it is that breaks
    feed.begin()
    assert feed.wait(20)
    assert "AttributeError" in feed.trouble


def test_a_quiet_cluster_is_no_trouble() -> None:
    """Of kinds that nobody touches a server tells once a minute, and a stream that is dead ends by itself before."""
    assert SILENT_S > _SILENCE_SECONDS > 60
