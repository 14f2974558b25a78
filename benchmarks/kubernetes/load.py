"""The other side of a benchmark: users, kubelets and somebody who looks on, in one event loop.

All requests go through Muster's own client, so that raw figures and the scheduler's differ by the scheduler alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sized

import msgspec

from benchmarks.kubernetes.documents import PODS, Request
from muster.cluster.kubernetes.client.requests import JSON, STRATEGIC_PATCH, Client
from muster.cluster.kubernetes.sending.api_thread import N_URGENT


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Line(msgspec.Struct):
    type: str
    object: _Pod


class _List(msgspec.Struct):
    metadata: _Meta


_LABELS = re.compile(r'(\w+)="([^"]*)"')
_CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_LINE = msgspec.json.Decoder(_Line)
_LIST = msgspec.json.Decoder(_List)


class Load:
    """Sends many requests, as many at once as the scheduler does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, requests: Iterable[Request]) -> None:
        await self.send("POST", requests)

    async def patch(self, requests: Iterable[Request]) -> None:
        await self.send("PATCH", requests, STRATEGIC_PATCH)

    async def delete_now(self, name: str) -> None:
        """Let a pod be gone, as a kubelet does when its containers have ended."""
        await self.client.send("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    async def send(self, method: str, requests: Iterable[Request], content_type: str = JSON) -> None:
        left = iter(requests)

        async def work() -> None:
            for path, body in left:
                await self.client.send(method, path, body, content_type=content_type)

        await asyncio.gather(*(work() for _ in range(N_URGENT)))

    async def writes(self) -> dict[str, int]:
        """How many changes the API server was asked for so far, by what they are of: "pods", "pods/status"."""
        found: dict[str, int] = {}
        for line in (await self.client.send("GET", "/metrics")).decode().splitlines():
            if not line.startswith("apiserver_request_total{"):
                continue
            labels = dict(_LABELS.findall(line))
            if labels["verb"] in _CHANGES:
                of = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                found[of] = found.get(of, 0) + int(float(line.rpartition(" ")[2]))
        return found


class Onlooker:
    """Notes when pods were seen first, bound, running, asked to leave, and gone."""

    def __init__(self, load: Load, *, is_kubelet: bool = False) -> None:
        self._load = load
        self._is_kubelet = is_kubelet
        self._awaited = ""
        self._kubelets = asyncio.Semaphore(N_URGENT)
        self._watching: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.made: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self.asked: dict[str, float] = {}
        self.gone: dict[str, float] = {}

    async def start(self, awaited: str = "") -> None:
        """Look on from now; bindings count of pods whose names begin as told."""
        self._awaited = awaited
        listed = _LIST.decode(await self._load.client.send("GET", f"{PODS}?limit=1"))
        self._watching = asyncio.create_task(self._watch(listed.metadata.resource_version))

    async def stop(self) -> None:
        tasks = [*self._tasks, self._watching] if self._watching else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def until_made(self, count: int, timeout_s: float) -> None:
        """Wait until there have been so many pods."""
        await self._until(self.made, count, timeout_s)

    async def until_running(self, count: int, timeout_s: float) -> None:
        """Wait until so many pods have run."""
        await self._until(self.running, count, timeout_s)

    async def until_bound(self, count: int, timeout_s: float) -> None:
        """Wait until so many pods have been bound."""
        await self._until(self.bound, count, timeout_s)

    async def until_gone(self, count: int, timeout_s: float) -> None:
        """Wait until so many pods are gone."""
        await self._until(self.gone, count, timeout_s)

    async def _until(self, noted: Sized, count: int, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while len(noted) < count:
                if self._watching is None or self._watching.done():
                    await asyncio.gather(*filter(None, [self._watching]))
                    raise RuntimeError("the watch ended")
                await asyncio.sleep(0.02)  # moments are noted by the watch, not here

    async def _watch(self, version: str) -> None:
        while True:  # the server ends the watch of somebody who falls behind
            async for lines in self._load.client.watch(PODS, version):
                now = time.monotonic()
                for line in lines:
                    version = self._note(_LINE.decode(line), now)

    def _note(self, line: _Line, now: float) -> str:
        name = line.object.metadata.name
        if line.type != "BOOKMARK":
            self.made.setdefault(name, now)
            if line.object.status.phase == "Running":
                self.running.setdefault(name, now)
        if line.type == "DELETED":
            self.gone[name] = now
        elif line.object.metadata.deletion_timestamp and name not in self.asked:
            self.asked[name] = now
            if self._is_kubelet:
                grace = line.object.metadata.deletion_grace_period_seconds
                self._keep(asyncio.create_task(self._end(name, grace)))
        elif line.object.spec.node_name and name.startswith(self._awaited) and line.type != "BOOKMARK":
            self.bound.setdefault(name, now)
        return line.object.metadata.resource_version

    async def _end(self, name: str, grace: float) -> None:
        await asyncio.sleep(grace)
        async with self._kubelets:
            await self._load.delete_now(name)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
