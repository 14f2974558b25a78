"""Installing custom resource definitions: what is missing is made, what is ours is brought up to date.

A definition that somebody else installed (Volcano's own) is left as it is. Called by `muster crds install`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from muster.api import BackendError
from muster.api.definitions import MANAGED_BY
from muster.cluster.kubernetes.client import ApiError, Client
from muster.cluster.kubernetes.connection import connect

Json = dict[str, Any]  # Any: a document

_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISH_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Installed:
    """What was done about one definition."""

    name: str
    outcome: Literal["created", "updated", "unchanged", "kept"]
    #: The version that a definition of somebody else does not serve, though Muster needs it.
    lacks: str = ""


def install(
    documents: Iterable[Json], kubeconfig: Path | None = None, context: str | None = None, *, dry_run: bool = False
) -> list[Installed]:
    """Install definitions and wait until the server serves them; or only let it check them. Raises MusterError."""

    async def run() -> list[Installed]:
        client = Client(await connect(kubeconfig, context))
        try:
            return [await _install(client, document, dry_run=dry_run) for document in documents]
        finally:
            await client.close()

    return asyncio.run(run())


async def _install(client: Client, document: Json, *, dry_run: bool) -> Installed:
    name = document["metadata"]["name"]
    query = "?dryRun=All" if dry_run else ""
    standing = await _get(client, name)
    if standing is None:
        await client.send("POST", f"{_PATH}{query}", msgspec.json.encode(document))
        if not dry_run:
            await _until_established(client, name)
        return Installed(name, "created")
    if not MANAGED_BY.items() <= standing["metadata"].get("labels", {}).items():
        return Installed(name, "kept", _lacking(document, standing))
    version = standing["metadata"]["resourceVersion"]
    updated = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
    answer = await client.send("PUT", f"{_PATH}/{name}{query}", msgspec.json.encode(updated))
    same = msgspec.json.decode(answer)["metadata"]["resourceVersion"] == version
    return Installed(name, "unchanged" if same else "updated")


def _lacking(wanted: Json, standing: Json) -> str:
    """The version of ours that a definition of somebody else does not serve."""
    served = {known["name"] for known in standing["spec"]["versions"] if known["served"]}
    return next((known["name"] for known in wanted["spec"]["versions"] if known["name"] not in served), "")


async def _get(client: Client, name: str) -> Json | None:
    try:
        return msgspec.json.decode(await client.send("GET", f"{_PATH}/{name}"), type=Json)
    except ApiError as fault:
        if fault.status == 404:
            return None
        raise


async def _until_established(client: Client, name: str) -> None:
    until = time.monotonic() + _ESTABLISH_SECONDS
    while time.monotonic() < until:
        found = await _get(client, name)
        conditions = [] if found is None else found.get("status", {}).get("conditions") or []
        if any(known["type"] == "Established" and known["status"] == "True" for known in conditions):
            return
        await asyncio.sleep(0.1)
    raise BackendError(f"{name} was not served in {_ESTABLISH_SECONDS:.0f} s", retryable=True)
