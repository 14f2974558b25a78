"""Credentials that have to be got again while many requests are under way."""

from __future__ import annotations

import asyncio

import pytest
from kubernetes_asyncio.client import Configuration

from muster.cluster.kubernetes.client import connection
from muster.cluster.kubernetes.client.connection import Connection


class Source:
    """Where tokens come from; it takes a while and may fail."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.fault: Exception | None = None

    async def refresh(self, configuration: Configuration) -> None:
        self.n_asked += 1
        await asyncio.sleep(0.01)
        if self.fault is not None:
            raise self.fault
        configuration.api_key["BearerToken"] = f"Bearer {self.n_asked}"


async def connected(source: Source) -> Connection:
    configuration = Configuration(host="http://127.0.0.1:1")
    configuration.api_key["BearerToken"] = "Bearer 0"
    return Connection(configuration, source.refresh, "a test")


async def ask(made: Connection, n_requests: int, *, renew: bool) -> set[str | None]:
    return set(await asyncio.gather(*(made.authorization(renew=renew) for _ in range(n_requests))))


@pytest.mark.parametrize("renew", [True, False])
def test_many_requests_get_new_credentials_once(renew: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REFRESH_SECONDS", 1000.0 if renew else -1.0)
    source = Source()

    async def main() -> set[str | None]:
        made = await connected(source)
        try:
            return await ask(made, 30, renew=renew)
        finally:
            await made.session.close()

    assert asyncio.run(main()) == {"Bearer 1"}
    assert source.n_asked == 1


def test_credentials_that_cannot_be_got_anew_are_used_on() -> None:
    source = Source()
    source.fault = RuntimeError("the plugin does not answer")

    async def main() -> list[str | None]:
        made = await connected(source)
        try:
            answers = [await made.authorization(renew=True)]
            source.fault = None
            return [*answers, await made.authorization(renew=True)]
        finally:
            await made.session.close()

    assert asyncio.run(main()) == ["Bearer 0", "Bearer 2"]
