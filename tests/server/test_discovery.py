"""Questions to a manager of switches, over HTTPS, as whoever a Secret says; the manager is a server of our own."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from aiohttp import web

from muster.api import BackendError
from muster.cluster.kubernetes.client.requests import ApiError, Client
from muster.controllers.contract import Ask
from muster.controllers.hypernodes.controller import HyperNodeController
from muster.controllers.hypernodes.discovery import CONFIG_KEY
from muster.server.discovery import Network, ask_outside

DATA = Path(__file__).parent / "data"
CA = (DATA / "first.crt").read_text()
ANSWER = json.dumps([{"description": "Computer IB Port", "system_name": "n1", "peer_node_name": "leaf-a"}])


class FakeServer:
    """An API server that holds a few objects by their paths."""

    def __init__(self, **secret: str) -> None:
        data = {name.replace("_", "."): base64.b64encode(text.encode()).decode() for name, text in secret.items()}
        self.objects = {"/api/v1/namespaces/network/secrets/ufm": {"data": data}}

    async def send(self, method: str, path: str) -> bytes:
        assert method == "GET"
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        return json.dumps(self.objects[path]).encode()

    @property
    def client(self) -> Client:
        return cast("Client", self)


@asynccontextmanager
async def manager(accepted: str, *, tls: bool = True, answer: str = ANSWER) -> AsyncIterator[str]:
    """A manager of switches that lets in who has the right word."""

    async def ports(request: web.Request) -> web.Response:
        if request.headers.get("Authorization", "") != accepted:
            return web.Response(status=401)
        return web.Response(text=answer, content_type="application/json")

    app = web.Application()
    app.router.add_get("/ports", ports)
    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(DATA / "first.crt", DATA / "first.key")
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://localhost:{port}/ports"
    finally:
        await runner.cleanup()


def asked(server: FakeServer, accepted: str, *, verify: bool = True, secret: str = "network/ufm") -> str:
    async def go() -> str:
        async with manager(accepted) as url:
            return (await ask_outside(server.client, Ask("ufm", url, secret, verify=verify))).decode()

    return asyncio.run(go())


BASIC = "Basic " + base64.b64encode(b"reader:s3cret").decode()


def test_a_manager_is_asked_with_name_and_password_behind_its_own_certificates() -> None:
    assert asked(FakeServer(username="reader", password="s3cret", ca_crt=CA), BASIC) == ANSWER


def test_a_token_will_do_and_a_certificate_need_not_be_looked_at() -> None:
    assert asked(FakeServer(token="word\n"), "Bearer word", verify=False) == ANSWER


def test_whoever_asks_for_nothing_gets_no_credentials() -> None:
    assert asked(FakeServer(), "", verify=False, secret="") == ANSWER


def test_an_unknown_certificate_gets_no_password() -> None:
    with pytest.raises(BackendError, match=r"does not answer: .*certificate"):
        asked(FakeServer(username="reader", password="s3cret"), BASIC)


def test_wrong_credentials_are_told_without_showing_them() -> None:
    with pytest.raises(BackendError, match="answers 401 Unauthorized") as fault:
        asked(FakeServer(username="reader", password="wrong", ca_crt=CA), BASIC)
    assert "wrong" not in str(fault.value)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ({"username": "reader"}, "Secret network/ufm: expected username and password, or token"),
        ({"token": "word", "ca_crt": "nonsense"}, "Secret network/ufm: ca.crt: "),
    ],
)
def test_a_secret_that_lacks_something_is_named(secret: dict[str, str], said: str) -> None:
    with pytest.raises(BackendError, match=said):
        asked(FakeServer(**secret), BASIC)


def test_a_secret_that_is_missing_is_named() -> None:
    with pytest.raises(BackendError, match="Secret network/other is not there"):
        asked(FakeServer(), BASIC, secret="network/other")


def test_nobody_at_the_address_is_a_fault_that_names_it() -> None:
    with pytest.raises(BackendError, match="http://localhost:1/ports does not answer"):
        asyncio.run(ask_outside(FakeServer().client, Ask("ufm", "http://localhost:1/ports")))


def test_the_configuration_is_taken_up_when_it_comes_changes_and_goes() -> None:
    server = FakeServer()
    controller = HyperNodeController("volcano-system/volcano-controller-configmap")
    network = Network(server.client, controller, "volcano-system/volcano-controller-configmap")
    path = "/api/v1/namespaces/volcano-system/configmaps/volcano-controller-configmap"

    def holds(version: str, source: str) -> list[str]:
        text = f"networkTopologyDiscovery: [{source}]"
        metadata = {
            "name": "volcano-controller-configmap",
            "namespace": "volcano-system",
            "resourceVersion": version,
        }
        server.objects[path] = {"metadata": metadata, "data": {CONFIG_KEY: text}}
        asyncio.run(network.look())
        return [kind.kind for kind in network.new_kinds()]

    asyncio.run(network.look())
    assert network.new_kinds() == []
    asking = "{source: http, enabled: true, config: {endpoint: switches}}"
    assert holds("1", asking) == ["HyperNode"]
    assert holds("2", f"{asking}, {{source: label, enabled: true}}") == ["Node"]
    del server.objects[path]
    asyncio.run(network.look())
    assert controller.follows() == ()
