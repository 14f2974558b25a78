"""Asking pods to leave: one request, what its answer means, and for how long to ask again.

A disruption budget may refuse now and allow it a moment later, so a refusal is not final at once. Nobody who waits here
takes up a worker. Used by errands, inside the backend's event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from muster.api import Pod
from muster.cluster.kubernetes import calls
from muster.cluster.kubernetes.backoff import Backoff
from muster.cluster.kubernetes.beneficiaries import NOT_NEEDED
from muster.cluster.kubernetes.client import ApiError, Client
from muster.cluster.kubernetes.lanes import Later

#: How long an eviction that a disruption budget refuses is tried again before the plan is dropped.
EVICTION_PATIENCE_S: Final = 10.0
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409

#: Whether the room that a pod would make is still needed; asked before every attempt.
IsNeeded = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod may not leave."""

    error: str
    may_pass: bool
    status: int = 0


class Patience:
    """For how long to ask again; it begins with the first refusal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._backoff = Backoff(first_s=0.25, limit_s=2.0)

    def wait_s(self, refusal: Refusal) -> float | None:
        """Seconds until asking again; None when it would be of no use or too late."""
        moment = time.monotonic()
        if self._until is None:
            self._until = moment + self._seconds
        wait = self._backoff.next_s()
        return wait if refusal.may_pass and moment + wait <= self._until else None


def always() -> bool:
    """The room is needed for no beneficiary's sake."""
    return True


async def ask_to_leave(
    client: Client, pod: Pod, *, dry_run: bool = False, is_needed: IsNeeded = always
) -> Refusal | None:
    """Evict a pod, or ask whether it could be evicted; None when it leaves or is gone already."""
    if not is_needed():
        return Refusal(NOT_NEEDED, may_pass=False)
    call = calls.evict(pod, dry_run=dry_run)
    try:
        await client.send(call.method, call.path, call.body, attempts=1)
    except ApiError as fault:
        if fault.status in (_NOT_FOUND, _CONFLICT):
            return None  # gone, or another pod has taken its name
        return Refusal(str(fault), fault.retryable, fault.status)
    return None


class Departure:
    """The leaving of one pod, as an errand sends it."""

    def __init__(self, client: Client, pod: Pod, patience_s: float, is_needed: IsNeeded = always) -> None:
        self._client = client
        self._pod = pod
        self._is_needed = is_needed
        self._patience = Patience(patience_s)

    async def send(self) -> str | Later:
        """Ask once."""
        refusal = await ask_to_leave(self._client, self._pod, is_needed=self._is_needed)
        if refusal is None:
            return ""
        wait = self._patience.wait_s(refusal)
        return refusal.error if wait is None else Later(partial(asyncio.sleep, wait))
