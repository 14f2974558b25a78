"""Leader election by a Lease: at most one scheduler per name acts at any time.

The holder renews; the others watch whether it does. A lease counts as given up when it has not changed for its duration
by the watcher's own clock, so that clocks that disagree, or jump, do no harm; it goes on while the machine sleeps.
The holder stops acting before the others may start: `is_held` turns false by itself a margin before the lease runs out,
whatever the event loop is doing. What it has begun by then is over before the lease is: see `write_seconds`. The lease
itself needs no such care, as every change of it names the version that it is for.
Runs in the API thread; `is_held`, `write_seconds` and `stand_down` are called from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from muster.api import BackendError
from muster.api.definitions import MANAGED_BY
from muster.cluster.kubernetes.client.requests import FORBIDDEN, ApiError, Client

log = logging.getLogger("muster.kubernetes")

_MARGIN: Final = 0.3
#: The part of the margin that is left for requests that are slow to arrive.
_ON_THE_WAY: Final = 0.1
#: Seconds that the right to the lease has to come; it may be given a moment after the process has started.
_PATIENCE_SECONDS: Final = 3.0


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str = ""
    #: Kept as found; ours is among them, so that whoever wants to know who leads finds all leases by it.
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Lease(msgspec.Struct, rename="camel"):
    """A lease as the server has it, as far as candidates and readers look at it."""

    metadata: _Meta
    spec: _Spec
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


_LEASE = msgspec.json.Decoder(Lease)


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Which lease, who we are, and how fast a dead holder is replaced: at most duration + renewal."""

    namespace: str
    name: str
    identity: str
    duration_s: int = 10
    renewal_s: float = 2.0


class Election:
    """One candidate."""

    def __init__(self, options: LeaseOptions) -> None:
        self._options = options
        self._held_until = 0.0
        #: Until when we leave the lease to others.
        self._away_until = 0.0
        #: When we last took the lease, or took it up again, by the event loop's clock; None: never.
        self.taken_at: float | None = None
        #: Set whenever that happens.
        self.taken = asyncio.Event()
        #: The lease as last seen, and when it was seen to change.
        self._seen: tuple[str, float] | None = None
        #: Whether we led when somebody was last told.
        self._was_held = False
        #: Since when we have not been allowed to look at the lease, or to take it.
        self._refused_since: float | None = None

    def is_held(self) -> bool:
        """Whether we may act now."""
        return elapsed_s() < self._held_until

    def write_seconds(self) -> float:
        """How long a change that is sent now may take, so that it is over before others may lead; 0: none may be."""
        if not self.is_held():
            return 0.0
        duration = self._options.duration_s
        return self._held_until + duration * (_MARGIN - _ON_THE_WAY) - elapsed_s()

    def stand_down(self, seconds: float) -> None:
        """Lead no more from now on, and leave the lease to others for so long. `give_up` tells them."""
        self._away_until = elapsed_s() + seconds
        self._held_until = 0.0

    async def run(self, client: Client) -> None:
        """Take the lease when it is free, and keep it; until cancelled. Raises BackendError without the right to it."""
        while True:
            if elapsed_s() >= self._away_until:
                await self.try_once(client)
            # Those who wait look more often: the sooner a renewal is seen, the sooner its absence is.
            await asyncio.sleep(self._options.renewal_s * (1.0 if self.is_held() else 0.5))

    async def try_once(self, client: Client) -> None:
        """Take the lease if it is free, or renew it. Raises BackendError when we never had the right to."""
        try:
            async with self._limit():
                await self._try(client)
        except (ApiError, TimeoutError) as fault:
            log.warning("event=lease-error lease=%s error=%r", self._options.name, str(fault))
            if isinstance(fault, ApiError) and fault.status == FORBIDDEN:
                self._take_refusal(fault)
        else:
            self._refused_since = None
        self._tell()

    def _tell(self) -> None:
        """Log when we begin or cease to lead, in whatever way that came about."""
        if self.is_held() != self._was_held:
            log.info("event=%s lease=%s", "lease-lost" if self._was_held else "lease-taken", self._options.name)
            self._was_held = not self._was_held

    def _take_refusal(self, fault: ApiError) -> None:
        now = elapsed_s()
        if self._refused_since is None:
            self._refused_since = now
        # Who has held it once may get the right back; until then another replica leads, or nobody.
        if self.taken_at is None and now - self._refused_since >= _PATIENCE_SECONDS:
            what = f"the lease {self._options.namespace}/{self._options.name}"
            needed = "get, create and update it, as the Role of deploy/ says"
            raise BackendError(
                f"may not use {what}: the scheduler's account has to be allowed to {needed} ({fault})", retryable=False
            )

    async def release(self, client: Client) -> None:
        """Give the lease up, so that others need not wait for it to run out."""
        if self.is_held():
            await self.give_up(client)

    async def give_up(self, client: Client) -> None:
        """Tell the others that the lease is free, if it is still in our name."""
        self._held_until = 0.0
        try:
            async with self._limit():
                await self._give_up(client)
        except (ApiError, TimeoutError) as fault:
            log.warning("event=lease-error lease=%s error=%r", self._options.name, str(fault))

    async def _give_up(self, client: Client) -> None:
        found = await self._read(client)
        if found is not None and found.spec.holder_identity == self._options.identity:
            found.spec.holder_identity = ""
            found.spec.lease_duration_seconds = 1
            await client.request("PUT", self._path, msgspec.json.encode(found))

    async def _try(self, client: Client) -> None:
        began = elapsed_s()
        found = await self._read(client)
        if found is None:
            wanted = Lease(_Meta(self._options.name, self._options.namespace), _Spec())
        elif self._may_take(found, began):
            wanted = found
        else:
            return
        # Who could not renew in time may have missed more than that, and looks around first, as any new leader does.
        is_ours = wanted.spec.holder_identity == self._options.identity and began < self._held_until
        try:
            await self._write(client, wanted, is_new=found is None)
        except ApiError as fault:
            if fault.status == 409:  # somebody else was faster
                return
            raise
        if began < self._away_until:
            return  # we stood down meanwhile
        if not is_ours:
            self.taken_at = asyncio.get_running_loop().time()
            self.taken.set()
        # Counted from before the request: the others count from when it arrived.
        self._held_until = began + self._options.duration_s * (1 - _MARGIN)

    def _may_take(self, found: Lease, moment: float) -> bool:
        spec = found.spec
        if spec.holder_identity in ("", self._options.identity):
            return True
        version = found.metadata.resource_version
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, moment)
        return moment - self._seen[1] > (spec.lease_duration_seconds or self._options.duration_s)

    async def _write(self, client: Client, lease: Lease, *, is_new: bool) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = lease.spec
        if spec.holder_identity != self._options.identity:
            spec.acquire_time = now
            spec.lease_transitions += 0 if is_new else 1
        spec.holder_identity = self._options.identity
        spec.lease_duration_seconds = self._options.duration_s
        spec.renew_time = now
        lease.metadata.labels.update(MANAGED_BY)
        body = msgspec.json.encode(lease)
        if is_new:
            await client.request("POST", self._collection, body)
        else:
            await client.request("PUT", self._path, body)

    async def _read(self, client: Client) -> Lease | None:
        try:
            return _LEASE.decode(await client.request("GET", self._path))
        except ApiError as fault:
            if fault.status == 404:
                return None
            raise

    def _limit(self) -> asyncio.Timeout:
        # Not `wait_for`: in Python 3.11 it forgets that it was cancelled when the answer comes at the same moment, and
        # whoever ends the scheduler would wait for ever.
        return asyncio.timeout(self._options.renewal_s * 2)

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._options.namespace}/leases"

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._options.name}"


def elapsed_s() -> float:
    """Seconds since some moment, those in which the machine slept included, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()
