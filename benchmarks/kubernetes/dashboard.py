"""U4: what the dashboard costs the scheduler of a live cluster: K1's pods, without it and with it, in turns.

The dashboard is the part `ui` of the same `muster run`; a client reads its stream and asks for map and jobs with every
message, as a page does that is open. On a machine with few cores the dashboard takes some of what the API server
and the load would have had; the seconds say that, the CPU time says what the scheduler itself had to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

import aiohttp

from benchmarks.kubernetes.documents import Request, gang, group
from benchmarks.kubernetes.field import PATIENCE_S, Result, Run
from benchmarks.kubernetes.programs import muster
from muster.testing.control_plane import free_ports

_PAIRS: Final = 3
_GANG: Final = 8
_GOAL: Final = 1.05
#: Seconds between attempts to reach a dashboard that is about to start.
_AGAIN_S: Final = 0.2


async def u4(run: Run) -> Result:
    """First pod created to last pod bound, with the dashboard and somebody who looks at it, and without."""
    n_nodes, n_pods = run.sized(1000), run.sized(5000, _GANG)
    pairs = [
        (await _k1(run, n_nodes, n_pods, shown=False), await _k1(run, n_nodes, n_pods, shown=True))
        for _ in range(_PAIRS)
    ]
    seconds = sorted(with_it[0] / alone[0] for alone, with_it in pairs)[_PAIRS // 2]
    cpu = sorted(with_it[1] / alone[1] for alone, with_it in pairs)[_PAIRS // 2]
    figures = {
        "cpu_ratio": cpu,
        "seconds_ratio": seconds,
        "seconds": min(with_it[0] for _, with_it in pairs),
        "seconds_without": min(alone[0] for alone, _ in pairs),
        "cpu_ms_per_pod": 1000 * min(with_it[1] for _, with_it in pairs) / n_pods,
        "cpu_ms_per_pod_without": 1000 * min(alone[1] for alone, _ in pairs) / n_pods,
        "messages": float(min(with_it[2] for _, with_it in pairs)),
    }
    work = f"K1's {n_pods:,} pods with the dashboard open: the scheduler's own CPU; median of {_PAIRS} pairs"
    return Result("U4", work, figures, f"{_GOAL} x without", cpu <= _GOAL)


async def _k1(run: Run, n_nodes: int, n_pods: int, *, shown: bool) -> tuple[float, float, int]:
    """Seconds, CPU seconds of the scheduler's own process, and messages that the one who looks was told."""
    port = free_ports(1)[0]
    options = ("--components", "scheduler,controllers,ui", "--ui-listen", f"127.0.0.1:{port}") if shown else ()
    async with (
        run.field(n_nodes) as there,
        muster(there.plane, options=options) as program,
        _looking(port, shown) as told,
    ):
        names = [f"gang-{number:05d}" for number in range(n_pods // _GANG)]
        await there.load.create([group(name, _GANG) for name in names])
        await there.onlooker.start()
        before, began = program.usage().cpu_s, time.monotonic()
        await there.load.create(_pods(names))
        await there.onlooker.until_bound(n_pods, PATIENCE_S)
        return max(there.onlooker.bound.values()) - began, program.usage().cpu_s - before, len(told)


def _pods(names: Iterable[str]) -> Iterable[Request]:
    return (pod for name in names for pod in gang(name, _GANG))


@asynccontextmanager
async def _looking(port: int, shown: bool) -> AsyncIterator[list[float]]:  # noqa: FBT001  # two ways of one case
    """Somebody who has the page open; the moments at which they were told of something."""
    told: list[float] = []
    if not shown:
        yield told
        return
    ready = asyncio.Event()
    looking = asyncio.create_task(_look(f"http://127.0.0.1:{port}", told, ready))
    try:
        await asyncio.wait_for(ready.wait(), PATIENCE_S)
        yield told
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def _look(address: str, told: list[float], ready: asyncio.Event) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{address}/readyz") as answer:
                    if answer.status == 200:
                        break
            await asyncio.sleep(_AGAIN_S)
        ready.set()
        async with session.get(f"{address}/api/events") as stream:
            async for line in stream.content:
                if line.startswith(b"data:"):
                    told.append(time.monotonic())
                    for path in ("/api/cluster/state", "/api/cycles", "/api/jobs?state=waiting&limit=5"):
                        async with session.get(f"{address}{path}") as answer:
                            await answer.read()
