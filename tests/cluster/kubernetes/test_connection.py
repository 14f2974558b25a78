"""Where a server is and who we are to it; credentials that have to be got again while requests are under way."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.api import UserError
from muster.cluster.kubernetes.client import connection
from muster.cluster.kubernetes.client.connection import Connection, connect
from muster.cluster.kubernetes.client.kubeconfig import Access, read_kubeconfig


class Source:
    """Where tokens come from; it takes a while and may fail."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.fault: Exception | None = None

    async def authorize(self) -> str:
        self.n_asked += 1
        await asyncio.sleep(0.01)
        if self.fault is not None:
            raise self.fault
        return f"Bearer {self.n_asked}"


async def connected(source: Source) -> Connection:
    return Connection(Access("http://127.0.0.1:1", token="0"), source.authorize, "a test")


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


# -- what a kubeconfig says -------------------------------------------------------------------------------------


def kubeconfig(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
    """A kubeconfig with one context."""
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    return path


def authorizations(path: Path, *, between: Any = None) -> list[str | None]:  # Any: does something
    """Those of a connection: the first one, and that after credentials were read anew."""

    async def main() -> list[str | None]:
        made = await connect(path)
        try:
            first = await made.authorization()
            if between is not None:
                between()
            return [first, await made.authorization(renew=True)]
        finally:
            await made.session.close()

    return asyncio.run(main())


def test_a_token_in_a_file_beside_the_kubeconfig_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    path = kubeconfig(tmp_path, {"tokenFile": "token", "token": "older"})
    told = authorizations(path, between=lambda: token.write_text("second"))
    assert told == ["Bearer first", "Bearer second"]


def test_a_program_is_asked_for_the_token(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-a-program"},
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(answer))})"],
        "interactiveMode": "Never",
    }
    assert authorizations(kubeconfig(tmp_path, {"exec": plugin})) == ["Bearer of-a-program"] * 2


def test_paths_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "mine.crt").write_text("-----BEGIN CERTIFICATE-----")
    (second / "mine.key").write_text("-----BEGIN PRIVATE KEY-----")
    (first / "config").write_text(json.dumps({"current-context": "here"}))
    user = {"client-certificate": "mine.crt", "client-key": "mine.key"}
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "inside", "proxy-url": "http://proxy:1"}
    kubeconfig(second, user, cluster)
    access = read_kubeconfig(f"{first / 'config'}:{second / 'config'}", None)
    assert access == Access(
        "http://127.0.0.1:1",
        certificate="-----BEGIN CERTIFICATE-----",
        key="-----BEGIN PRIVATE KEY-----",
        is_verified=False,
        tls_name="inside",
        proxy="http://proxy:1",
    )


def test_certificates_may_stand_in_the_kubeconfig_itself(tmp_path: Path) -> None:
    parts = {
        "client-certificate-data": "-----BEGIN CERTIFICATE-----A",
        "client-key-data": "-----BEGIN PRIVATE KEY-----B",
    }
    path = kubeconfig(tmp_path, {name: base64.b64encode(text.encode()).decode() for name, text in parts.items()})
    access = read_kubeconfig(str(path), None)
    assert access is not None
    assert (access.certificate, access.key) == tuple(parts.values())


def test_the_account_of_a_pod_is_used_inside_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(connection, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(connection, "_tls", lambda _: True)
    with pytest.raises(UserError, match=r"ca\.crt"):
        asyncio.run(connect())
    (tmp_path / "ca.crt").write_text("certificates")
    (tmp_path / "token").write_text("of-the-pod\n")

    async def main() -> tuple[str, str | None]:
        made = await connect()
        try:
            return made.server, await made.authorization()
        finally:
            await made.session.close()

    assert asyncio.run(main()) == ("https://[fd00::1]:443", "Bearer of-the-pod")


def test_no_class_for_every_kind_is_loaded_for_a_plain_kubeconfig(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "plain"})
    program = f"""
import asyncio, sys
from muster.cluster.kubernetes.client.connection import connect
async def main():
    made = await connect({str(path)!r})
    await made.session.close()
    return await made.authorization()
print(asyncio.run(main()), "kubernetes_asyncio" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["Bearer", "plain", "False"]
