"""Asking pods to leave: what the answers mean, how long to ask again, and what disruption budgets have to say.

A disruption budget may refuse now and allow it a moment later, so a refusal is not final at once.
Where a budget may keep one of the pods that have to leave for one plan, the others must not leave for nothing: all go,
or none, and before anybody else does. So the server is asked first, by dry runs, whether each of them could go and,
since a dry run uses nothing up, whether budgets that guard several of them allow as many. Then they go, one at a time
under each budget, because the server lets those who count down the same budget at the same time wait. Budgets that
change in between can still keep a pod back.
Made in the scheduler's thread, carried out in the API thread, where nobody who waits takes up a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from muster.api import Pod
from muster.cluster.kubernetes.client.requests import ApiError, Backoff, Client
from muster.cluster.kubernetes.sending import calls
from muster.cluster.kubernetes.sending.queues import Later, Send

#: How long an eviction that a disruption budget refuses is tried again before the plan is dropped.
EVICTION_PATIENCE_S: Final = 10.0
NOT_NEEDED: Final = "nobody needs the room any more"
ANOTHER_STAYS: Final = "another pod that would have to leave as well may not"
#: Requests at once, of all plans together.
_N_REQUESTS: Final = 8
#: What a server answers when one of its webhooks cannot judge without acting.
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409

#: Whether the room that a pod would make is still needed; asked before every attempt.
IsNeeded = Callable[[], bool]


def always() -> bool:
    """The room is needed for no beneficiary's sake."""
    return True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod may not leave."""

    error: str
    may_pass: bool
    status: int = 0


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


class EvictionRequest:
    """The leaving of one pod, as a request sends it."""

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


class GuardedEvictions:
    """The evictions of one plan that budgets have a say in.

    Those of earlier cycles for the same job that are not answered yet count too: the scheduler takes it that those pods
    leave.
    """

    def __init__(
        self,
        client: Client,
        locks: BudgetLocks,
        patience_s: float,
        promised: Callable[[], Awaitable[str]] | None = None,
        earlier: GuardedEvictions | None = None,
        is_needed: IsNeeded = always,
    ) -> None:
        self._client = client
        self._locks = locks
        self._patience = Patience(patience_s)
        #: What is wrong with the nominations that stand before all of them, once these are answered.
        self._promised = promised
        self._earlier = earlier
        self._is_needed = is_needed
        #: Pods by the budgets that guard them.
        self._guarded: dict[tuple[str, ...], list[Pod]] = {}
        self._task: asyncio.Task[dict[str, str]] | None = None

    def guard(self, pod: Pod, budgets: Sequence[str]) -> Send:
        """Count a pod in; returns the sending that tells what became of it."""
        self._guarded.setdefault(tuple(budgets), []).append(pod)

        async def send() -> str | Later:
            task = self._begun()
            return task.result()[pod.key] if task.done() else Later(lambda: task)

        return send

    def before(self, send: Send) -> Send:
        """Return the eviction that waits for them, and is dropped when one of them was refused."""

        async def evict() -> str | Later:
            if not self.is_settled():
                return Later(self.error)
            return await self.error() or await send()

        return evict

    async def error(self) -> str:
        """What is wrong, "" if none of them was refused, once all are answered."""
        if error := await self._earlier_error():
            return error
        return ANOTHER_STAYS if self._guarded and any((await self._begun()).values()) else ""

    def is_settled(self) -> bool:
        """Whether nothing has to be waited for."""
        is_mine = not self._guarded or (self._task is not None and self._task.done())
        return is_mine and (self._earlier is None or self._earlier.is_settled())

    def _begun(self) -> asyncio.Task[dict[str, str]]:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._evict_guarded())
        return self._task

    async def _evict_guarded(self) -> dict[str, str]:
        """See to all of them; what is wrong, by pod."""
        pods = [pod for members in self._guarded.values() for pod in members]
        if error := await self._not_yet():
            return dict.fromkeys((pod.key for pod in pods), error)
        while True:
            async with self._locks.of(key for budgets in self._guarded for key in budgets):
                refused = await self._first_refusal(pods) if len(pods) > 1 else None
                if refused is None:
                    return await self._evict_all()
            wait = self._patience.wait_s(refused[1])
            if wait is None:
                return {pod.key: refused[1].error if pod is refused[0] else ANOTHER_STAYS for pod in pods}
            await asyncio.sleep(wait)  # others have their turn meanwhile

    async def _not_yet(self) -> str:
        if self._promised is not None and (error := await self._promised()):
            return error
        return await self._earlier_error()

    async def _earlier_error(self) -> str:
        """What is wrong with those of earlier cycles; if nothing is, they are forgotten, lest the chain only grow."""
        if self._earlier is not None and (error := await self._earlier.error()):
            return error
        self._earlier = None
        return ""

    async def _send(self, pod: Pod, *, dry_run: bool) -> Refusal | None:
        async with self._locks.sending:
            return await ask_to_leave(self._client, pod, dry_run=dry_run, is_needed=self._is_needed)

    # -- asking --------------------------------------------------------------------------------------------

    async def _first_refusal(self, pods: Sequence[Pod]) -> tuple[Pod, Refusal] | None:
        """Ask for all of them without evicting anybody."""
        if short := await self._short_budget():
            return short
        answers = await asyncio.gather(*(self._ask(pod) for pod in pods))
        return next(((pod, no) for pod, no in zip(pods, answers, strict=True) if no is not None), None)

    async def _ask(self, pod: Pod) -> Refusal | None:
        refusal = await self._send(pod, dry_run=True)
        return None if refusal is not None and refusal.status == _BAD_REQUEST else refusal

    async def _short_budget(self) -> tuple[Pod, Refusal] | None:
        """The last pod under a budget that allows fewer disruptions than it guards pods of this plan."""
        counts = {key: count for key, count in self._ready_by_budget().items() if count > 1}
        for namespace in sorted({key.partition("/")[0] for key in counts}):
            allowed = await self._allowed(namespace)
            for key in sorted(counts):
                if allowed.get(key, counts[key]) < counts[key]:
                    pod = next(members[-1] for budgets, members in self._guarded.items() if key in budgets)
                    error = f"the disruption budget {key} allows {allowed[key]} disruptions, {counts[key]} are needed"
                    return pod, Refusal(error, may_pass=True)
        return None

    def _ready_by_budget(self) -> Counter[str]:
        """Pods of each budget that it counts; of those that are not ready it decides one by one."""
        return Counter(
            key for budgets, members in self._guarded.items() for key in budgets for pod in members if _is_ready(pod)
        )

    async def _allowed(self, namespace: str) -> dict[str, int]:
        """What the budgets of a namespace allow at this moment; those that cannot be read are left to dry runs."""
        found: dict[str, int] = {}
        try:
            async for page in self._client.pages(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"):
                budgets = map(_BUDGET.decode, page.items)
                found |= {f"{namespace}/{each.metadata.name}": each.status.disruptions_allowed for each in budgets}
        except ApiError:
            return {}
        return found

    # -- evicting ------------------------------------------------------------------------------------------

    async def _evict_all(self) -> dict[str, str]:
        answers: dict[str, str] = {}

        async def one_by_one(members: Sequence[Pod]) -> None:
            for pod in members:
                answers[pod.key] = ANOTHER_STAYS if any(answers.values()) else await self._evict(pod)

        await asyncio.gather(*(one_by_one(members) for members in self._guarded.values()))
        return answers

    async def _evict(self, pod: Pod) -> str:
        while True:
            refusal = await self._send(pod, dry_run=False)
            if refusal is None:
                return ""
            wait = self._patience.wait_s(refusal)
            if wait is None:
                return refusal.error
            await asyncio.sleep(wait)


class BudgetLocks:
    """Whose turn it is to use a budget up, and to send."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.sending = asyncio.Semaphore(_N_REQUESTS)

    @asynccontextmanager
    async def of(self, budgets: Iterable[str]) -> AsyncIterator[None]:
        """Have all these budgets to oneself."""
        async with AsyncExitStack() as held:
            for key in sorted(set(budgets)):  # in one order for all, or two would wait for each other
                await held.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield


def _is_ready(pod: Pod) -> bool:
    return any(known.type == "Ready" and known.status == "True" for known in pod.status.conditions)


class _Meta(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    disruptions_allowed: int = msgspec.field(default=0, name="disruptionsAllowed")


class _Budget(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


_BUDGET = msgspec.json.Decoder(_Budget)
