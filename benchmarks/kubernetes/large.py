"""K3 and K4: a large cluster after a restart, and at rest."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.kubernetes import documents
from benchmarks.kubernetes.field import PATIENCE_S, Field, Result, Run
from benchmarks.kubernetes.programs import Program, muster

#: Kubelets report every five minutes that nothing has changed; those that knew no leases did every ten seconds.
_REPORT_S: Final = 300
_OLD_REPORT_S: Final = 10
_SETTLE_S: Final = 15.0
_IDLE_S: Final = 30.0


async def k3_and_k4(run: Run) -> list[Result]:
    """Restart on a full cluster, then rest while heartbeats go on."""
    n_nodes, n_pods = run.sized(5000), run.sized(50_000, 8)
    async with run.field(n_nodes) as there:
        await _fill(there, n_nodes, n_pods)
        await _settle(there)
        await there.load.create([documents.group("waiting", 8), *documents.gang("waiting", 8)])
        await there.onlooker.start("waiting")
        began = time.monotonic()
        async with muster(there.plane, wait=False) as program:
            await there.onlooker.until_bound(1, PATIENCE_S)
            first_s, usage = min(there.onlooker.bound.values()) - began, program.usage()
            await asyncio.sleep(_SETTLE_S)
            idle = await _idle(there, program, n_nodes, _REPORT_S)
            old = await _idle(there, program, n_nodes, _OLD_REPORT_S)
            last = program.usage()
    restart = Result(
        "K3",
        f"restart with {n_nodes:,} nodes and {n_pods:,} running pods: process start to first decision",
        {"seconds": first_s, "peak_mib": usage.peak_mib, "cpu_seconds": usage.cpu_s},
        "8 s, 1.5 GiB",
        first_s <= 8 and usage.peak_mib <= 1536,
    )
    rest = Result(
        "K4",
        f"idle: {n_nodes:,} nodes, {n_pods:,} pods, nodes report every {_REPORT_S} s (old kubelets: {_OLD_REPORT_S} s)",
        {**idle, **{f"old_{name}": value for name, value in old.items()}, "peak_mib": last.peak_mib},
        "10 % of a core",
        idle["part_of_a_core"] <= 0.1,
    )
    return [restart, rest]


async def _fill(there: Field, n_nodes: int, n_pods: int) -> None:
    """Gangs of 8 that run."""
    containers = [documents.container({"cpu": "4", "memory": "16Gi"})]
    names = [f"gang-{number:05d}" for number in range(n_pods // 8)]
    pods = [f"{name}-{member:04d}" for name in names for member in range(8)]
    await there.load.create(documents.group(name, 8) for name in names)
    await there.load.create(
        documents.pod(name, of=name[:-5], containers=containers, nodeName=documents.node_name(number % n_nodes))
        for number, name in enumerate(pods)
    )
    await there.load.patch(documents.running(name) for name in pods)


async def _settle(there: Field) -> None:
    """Let the scheduler that runs before the restart write what it has to say."""
    async with muster(there.plane) as program:
        still = 0
        before = program.usage().cpu_s
        while still < 3:
            await asyncio.sleep(2.0)
            now = program.usage().cpu_s
            still = still + 1 if now - before < 0.4 else 0
            before = now


async def _idle(there: Field, program: Program, n_nodes: int, every_s: float) -> dict[str, float]:
    """The part of a core that the scheduler takes while every node reports every so often."""
    before, began = program.usage().cpu_s, time.monotonic()
    n_beats = 0
    while (passed := time.monotonic() - began) < _IDLE_S:
        due = int(passed * n_nodes / every_s)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        names = (documents.node_name(number % n_nodes) for number in range(n_beats, due))
        await there.load.patch([documents.heartbeat(name, stamp) for name in names])
        n_beats = due
        await asyncio.sleep(0.2)
    passed = time.monotonic() - began
    return {"part_of_a_core": (program.usage().cpu_s - before) / passed, "heartbeats_per_second": n_beats / passed}
