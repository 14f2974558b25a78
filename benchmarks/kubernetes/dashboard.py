"""U4: what the dashboard costs the scheduler of a live cluster: K1's pods, without it and with it, in turns.

The dashboard is the part `ui` of the same `muster run`. Whoever looks at it is a process of its own that reads the
stream and asks with every message for what an open page asks for; it belongs to the reader's machine, so it has the
lowest priority here. Judged is the time by the clock; the processor time of every process says where it goes.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.kubernetes.documents import Request, gang, group
from benchmarks.kubernetes.field import PATIENCE_S, Field, Result, Run
from benchmarks.kubernetes.programs import Program, muster, usage
from muster.cli.dashboard.component import give_way
from muster.testing.control_plane import free_ports

_PAIRS: Final = 3
_GANG: Final = 8
_GOAL: Final = 1.05
#: Seconds between attempts to reach a dashboard that is about to start.
_AGAIN_S: Final = 0.2
#: The niceness of who looks.
_LEAST: Final = 19
#: What an open page asks for when there is something new: the map, the line at the foot, who waits first.
_ASKED: Final = ("/api/cluster/state", "/api/cycles", "/api/jobs?state=waiting&limit=5")


@dataclass(frozen=True, slots=True)
class _Taken:
    """What one run of K1 took."""

    seconds: float
    #: Processor seconds by process.
    cpu: dict[str, float]
    #: How often the one who looks was told of something.
    messages: int


async def u4(run: Run) -> Result:
    """First pod created to last pod bound, with the dashboard and somebody who looks at it, and without."""
    n_nodes, n_pods = run.sized(1000), run.sized(5000, _GANG)
    pairs = []
    for number in range(_PAIRS):
        # The first of a pair is not always the same: machines warm up, and others come and go.
        order = (False, True) if number % 2 == 0 else (True, False)
        made = {shown: await _k1(run, n_nodes, n_pods, shown=shown) for shown in order}
        pairs.append((made[False], made[True]))
    ratios = sorted(shown.seconds / alone.seconds for alone, shown in pairs)
    cpu_ratio = statistics.median(shown.cpu["scheduler"] / alone.cpu["scheduler"] for alone, shown in pairs)
    figures = {
        "seconds_ratio": ratios[_PAIRS // 2],
        "least_seconds_ratio": ratios[0],
        "largest_seconds_ratio": ratios[-1],
        "scheduler_cpu_ratio": cpu_ratio,
        "seconds": statistics.median(shown.seconds for _, shown in pairs),
        "seconds_without": statistics.median(alone.seconds for alone, _ in pairs),
        "messages": float(min(shown.messages for _, shown in pairs)),
        **_cpu("", [shown for _, shown in pairs]),
        **_cpu("_without", [alone for alone, _ in pairs]),
    }
    work = f"K1's {n_pods:,} pods with the dashboard open, its reader at lowest priority; median of {_PAIRS} pairs"
    is_met = ratios[_PAIRS // 2] <= _GOAL and cpu_ratio <= _GOAL
    return Result("U4", work, figures, f"{_GOAL} x without", is_met)


def _cpu(suffix: str, runs: list[_Taken]) -> dict[str, float]:
    return {f"{name}_cpu_s{suffix}": statistics.median(each.cpu[name] for each in runs) for name in runs[0].cpu}


async def _k1(run: Run, n_nodes: int, n_pods: int, *, shown: bool) -> _Taken:
    port = free_ports(1)[0]
    options = ("--components", "scheduler,controllers,ui", "--ui-listen", f"127.0.0.1:{port}") if shown else ()
    async with run.field(n_nodes) as there, muster(there.plane, options=options) as program:
        processes = {
            "scheduler": program.pid,
            "api_server": there.plane.api_server.pid,
            "etcd": there.plane.etcd.pid,
            "load": os.getpid(),
        }
        if not shown:
            return await _stream(there, n_pods, processes, None)
        with _reader(there, port) as reader:
            await program.until(lambda: _messages(reader) > 0)
            dashboard = _dashboard_of(program.pid)
            return await _stream(there, n_pods, {**processes, "dashboard": dashboard, "reader": reader.pid}, reader)


async def _stream(there: Field, n_pods: int, processes: dict[str, int], reader: Program | None) -> _Taken:
    names = [f"gang-{number:05d}" for number in range(n_pods // _GANG)]
    await there.load.create([group(name, _GANG) for name in names])
    await there.onlooker.start()
    before = {name: usage(process).cpu_s for name, process in processes.items()}
    began = time.monotonic()
    await there.load.create(_pods(names))
    await there.onlooker.until_bound(n_pods, PATIENCE_S)
    cpu = {name: usage(process).cpu_s - before[name] for name, process in processes.items()}
    return _Taken(max(there.onlooker.bound.values()) - began, cpu, 0 if reader is None else _messages(reader))


def _pods(names: Iterable[str]) -> Iterable[Request]:
    return (pod for name in names for pod in gang(name, _GANG))


def _dashboard_of(process: int) -> int:
    """The dashboard that a `muster run` has started."""
    threads = Path(f"/proc/{process}/task").iterdir()
    children = (int(each) for thread in threads for each in (thread / "children").read_text().split())
    return next(each for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes())


# -- who looks -------------------------------------------------------------------------------------------------------


@contextmanager
def _reader(there: Field, port: int) -> Iterator[Program]:
    """Somebody who has the page open."""
    log = there.plane.work / "reader.log"
    reader = Program("reader", [sys.executable, "-m", __name__, f"http://127.0.0.1:{port}"], log)
    reader.start()
    try:
        yield reader
    finally:
        reader.stop()


def _messages(reader: Program) -> int:
    return reader.log.read_text().count("message\n")


async def _look(address: str) -> None:
    """Read the stream, ask for what a page asks for, and say so, for ever."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{address}/readyz") as answer:
                    if answer.status == 200:
                        break
            await asyncio.sleep(_AGAIN_S)
        give_way(_LEAST)  # not before: to start is no part of what is measured
        async with session.get(f"{address}/api/events") as stream:
            async for line in stream.content:
                if line.startswith(b"data:"):
                    for path in _ASKED:
                        async with session.get(f"{address}{path}") as answer:
                            await answer.read()
                    print("message", flush=True)


if __name__ == "__main__":
    asyncio.run(_look(sys.argv[1]))
