"""The cases K1 to K5: what is set up, what happens, between which moments time is taken.

Every measurement has a control plane of its own, so that none profits or suffers from what the one before left behind.
No kubelets run unless a case says so: binding is the end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.kubernetes import documents
from benchmarks.kubernetes.documents import Request
from benchmarks.kubernetes.load import Load, Onlooker
from benchmarks.kubernetes.programs import Program, kube_scheduler, muster
from muster.api.definitions import definitions
from muster.cluster.kubernetes.client import Client
from muster.cluster.kubernetes.connection import connect
from muster.cluster.kubernetes.install import install
from muster.testing.control_plane import ControlPlane

_PATIENCE_S = 900.0
#: Kubelets report every five minutes that nothing has changed.
_HEARTBEAT_S = 300.0
_IDLE_SETTLE_S = 15.0
_IDLE_S = 60.0
_GRACE_S = 5

_PREEMPTING = """
actions: "enqueue, allocate, gangpreempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


@dataclass(slots=True)
class Result:
    """What a case came to."""

    case: str
    work: str
    #: Names of figures say their units.
    figures: dict[str, float]
    goal: str
    is_met: bool


@dataclass(slots=True)
class Field:
    """A control plane with somebody at work on it."""

    plane: ControlPlane
    load: Load
    onlooker: Onlooker


@dataclass(slots=True)
class Run:
    """One run of the benchmarks: its scale, and what cases share."""

    work: Path
    scale: float = 1.0
    _n_fields: int = 0
    _raw: dict[int, dict[str, float]] = field(default_factory=dict)

    def sized(self, count: int, step: int = 1) -> int:
        """A number of the full case, scaled, in whole steps."""
        return max(step, round(count * self.scale / step) * step)

    @asynccontextmanager
    async def field(self, n_nodes: int, *, is_kubelet: bool = False) -> AsyncIterator[Field]:
        """A new control plane with nodes and a queue."""
        self._n_fields += 1
        with ControlPlane(self.work / str(self._n_fields), kwok=False) as plane:
            await asyncio.to_thread(install, definitions(), plane.kubeconfig)
            load = Load(Client(await connect(plane.kubeconfig)))
            onlooker = Onlooker(load, is_kubelet=is_kubelet)
            try:
                await load.create([documents.queue(), *documents.nodes(n_nodes)])
                yield Field(plane, load, onlooker)
            finally:
                await onlooker.stop()
                await load.client.close()

    async def raw(self, n_nodes: int, n_pods: int) -> dict[str, float]:
        """Seconds to create pods, and to post a Binding for each, with no scheduler; measured once per number."""
        if n_pods not in self._raw:
            names = [f"raw-{number:05d}" for number in range(n_pods)]
            async with self.field(n_nodes) as there:
                await there.onlooker.start()  # somebody looks on here too
                began = time.monotonic()
                await there.load.create(documents.pod(name) for name in names)
                created = time.monotonic()
                await there.load.create(
                    documents.binding(name, documents.node_name(number % n_nodes)) for number, name in enumerate(names)
                )
                bound = time.monotonic()
            self._raw[n_pods] = {"create": created - began, "bind": bound - created}
        return self._raw[n_pods]


def _gangs(n_pods: int, size: int = 8, **spec: object) -> tuple[list[Request], Iterable[Request]]:
    names = [f"gang-{number:05d}" for number in range(n_pods // size)]
    groups = [documents.group(name, size) for name in names]
    return groups, (pod for name in names for pod in documents.gang(name, size, **spec))


# -- K1: a stream of gangs -------------------------------------------------------------------------------------


async def k1(run: Run) -> Result:
    """First pod created to last pod bound, beside the raw time and kube-scheduler."""
    n_nodes, n_pods = run.sized(1000), run.sized(5000, 8)
    raw = await run.raw(n_nodes, n_pods)
    raw_s = raw["create"] + raw["bind"]
    async with run.field(n_nodes) as there, muster(there.plane) as program:
        groups, pods = _gangs(n_pods)
        await there.load.create(groups)
        seconds, cpu = await _stream(there, program, pods, n_pods)
    async with run.field(n_nodes) as there, kube_scheduler(there.plane) as other:
        alone = (documents.pod(f"alone-{number:05d}", schedulerName="default-scheduler") for number in range(n_pods))
        other_s, other_cpu = await _stream(there, other, alone, n_pods)
    figures = {
        "seconds": seconds,
        "raw_seconds": raw_s,
        "ratio_to_raw": seconds / raw_s,
        "kube_scheduler_seconds": other_s,
        "cpu_ms_per_pod": 1000 * cpu / n_pods,
        "kube_scheduler_cpu_ms_per_pod": 1000 * other_cpu / n_pods,
    }
    return Result(
        "K1",
        f"{n_nodes:,} nodes, {n_pods:,} pods in gangs of 8: first created to last bound",
        figures,
        "1.5 x raw, faster than kube-scheduler",
        seconds <= 1.5 * raw_s and seconds < other_s,
    )


async def _stream(there: Field, program: Program, pods: Iterable[Request], n_pods: int) -> tuple[float, float]:
    """Create pods under a running scheduler; return seconds until the last is bound, and CPU seconds."""
    await there.onlooker.start()
    before = program.usage().cpu_s
    began = time.monotonic()
    await there.load.create(pods)
    await there.onlooker.until_bound(n_pods, _PATIENCE_S)
    return max(there.onlooker.bound.values()) - began, program.usage().cpu_s - before


async def k1b(run: Run) -> Result:
    """How fast pods that all wait are bound, beside raw Bindings."""
    n_nodes, n_pods = run.sized(1000), run.sized(5000, 8)
    raw_rate = n_pods / (await run.raw(n_nodes, n_pods))["bind"]
    async with run.field(n_nodes) as there:
        groups, pods = _gangs(n_pods)
        await there.load.create(groups)
        await there.load.create(pods)
        await there.onlooker.start()
        async with muster(there.plane) as program:
            await there.onlooker.until_bound(n_pods, _PATIENCE_S)
            cpu = program.usage().cpu_s
        moments = sorted(there.onlooker.bound.values())
    rate = n_pods / (moments[-1] - moments[0])
    figures = {
        "bindings_per_second": rate,
        "raw_bindings_per_second": raw_rate,
        "part_of_raw": rate / raw_rate,
        "cpu_seconds_with_start": cpu,
    }
    work = f"the same, all pods created before the scheduler starts: {n_pods:,} Bindings"
    return Result("K1b", work, figures, "80 % of the raw rate", rate >= 0.8 * raw_rate)


# -- K2: one large gang ----------------------------------------------------------------------------------------


async def k2(run: Run) -> Result:
    """Last pod of a gang created to last pod bound."""
    n_nodes, n_pods = run.sized(1000), run.sized(1000, 8)
    raw_s = (await run.raw(n_nodes, n_pods))["bind"]
    async with run.field(n_nodes) as there, muster(there.plane) as program:
        await there.load.create([documents.group("large", n_pods)])
        await there.onlooker.start()
        before = program.usage().cpu_s
        await there.load.create(documents.gang("large", n_pods))
        created = time.monotonic()
        await there.onlooker.until_bound(n_pods, _PATIENCE_S)
        moments = sorted(there.onlooker.bound.values())
        cpu = program.usage().cpu_s - before
    seconds, goal_s = moments[-1] - created, 1.3 * raw_s + 0.3
    figures = {
        "seconds": seconds,
        "first_bound_seconds": moments[0] - created,
        "raw_bindings_seconds": raw_s,
        "goal_seconds": goal_s,
        "cpu_ms_per_pod": 1000 * cpu / n_pods,
    }
    work = f"one gang of {n_pods:,} pods on {n_nodes:,} nodes: last created to last bound"
    return Result("K2", work, figures, "1.3 x raw Bindings + 0.3 s", seconds <= goal_s)


# -- K3 and K4: a large cluster --------------------------------------------------------------------------------


async def k3_and_k4(run: Run) -> list[Result]:
    """Restart on a full cluster, then rest while heartbeats go on."""
    n_nodes, n_pods = run.sized(5000), run.sized(50_000, 8)
    async with run.field(n_nodes) as there:
        await _fill(there, n_nodes, n_pods)
        await _settle(there)
        await there.load.create([documents.group("waiting", 8), *documents.gang("waiting", 8)])
        await there.onlooker.start()
        began = time.monotonic()
        async with muster(there.plane, wait=False) as program:
            await there.onlooker.until_bound(1, _PATIENCE_S)
            first_s, usage = min(there.onlooker.bound.values()) - began, program.usage()
            await asyncio.sleep(_IDLE_SETTLE_S)
            idle = await _idle(there, program, n_nodes)
            last = program.usage()
    restart = Result(
        "K3",
        f"restart with {n_nodes:,} nodes and {n_pods:,} running pods: process start to first decision",
        {"seconds": first_s, "peak_mib": usage.peak_mib, "cpu_seconds": usage.cpu_s},
        "20 s, 1.5 GiB",
        first_s <= 20 and usage.peak_mib <= 1536,
    )
    rest = Result(
        "K4",
        f"idle: {n_nodes:,} nodes, {n_pods:,} pods, every node reports every {_HEARTBEAT_S:.0f} s",
        {**idle, "peak_mib": last.peak_mib},
        "10 % of a core",
        idle["part_of_a_core"] <= 0.1,
    )
    return [restart, rest]


async def _fill(there: Field, n_nodes: int, n_pods: int) -> None:
    """Gangs of 8 that run."""
    amounts = {"cpu": "4", "memory": "16Gi"}
    names = [f"gang-{number:05d}" for number in range(n_pods // 8)]
    pods = [f"{name}-{member:04d}" for name in names for member in range(8)]
    await there.load.create(documents.group(name, 8) for name in names)
    await there.load.create(
        documents.pod(name, of=name[:-5], amounts=amounts, nodeName=documents.node_name(number % n_nodes))
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


async def _idle(there: Field, program: Program, n_nodes: int) -> dict[str, float]:
    before, began = program.usage().cpu_s, time.monotonic()
    n_beats = 0
    while (passed := time.monotonic() - began) < _IDLE_S:
        due = int(passed * n_nodes / _HEARTBEAT_S)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        names = (documents.node_name(number % n_nodes) for number in range(n_beats, due))
        await there.load.patch([documents.heartbeat(name, stamp) for name in names])
        n_beats = due
        await asyncio.sleep(0.2)
    passed = time.monotonic() - began
    return {"part_of_a_core": (program.usage().cpu_s - before) / passed, "heartbeats_per_second": n_beats / passed}


# -- K5: preemption --------------------------------------------------------------------------------------------


async def k5(run: Run) -> Result:
    """A gang that takes the place of gangs of lower priority."""
    n_pods = run.sized(512, 8)
    async with run.field(n_pods // 8, is_kubelet=True) as there:
        await there.load.create([documents.priority_class("low", 10), documents.priority_class("high", 1000)])
        await _occupy(there, n_pods)
        async with muster(there.plane, _PREEMPTING):
            await asyncio.sleep(3.0)  # statuses of what runs
            await there.load.create([documents.group("urgent", n_pods, priorityClassName="high")])
            await there.onlooker.start()
            await there.load.create(documents.gang("urgent", n_pods, priorityClassName="high"))
            created = time.monotonic()
            await there.onlooker.until_bound(n_pods, _PATIENCE_S)
        seen = there.onlooker
        last = max(moment for name, moment in seen.bound.items() if name.startswith("urgent"))
    figures = {
        "seconds": last - created,
        "grace_seconds": _GRACE_S,
        "evictions_seconds": max(seen.asked.values()) - min(seen.asked.values()),
        "last_eviction_seconds": max(seen.asked.values()) - created,
        "last_victim_gone_seconds": max(seen.gone.values()) - created,
        "after_grace_seconds": last - max(seen.asked.values()) - _GRACE_S,
    }
    work = f"gang of {n_pods} preempts {n_pods} pods: end of the last victim's grace period to last bound"
    return Result("K5", work, figures, "1 s", figures["after_grace_seconds"] <= 1)


async def _occupy(there: Field, n_pods: int) -> None:
    names = [f"low-{number:03d}" for number in range(n_pods // 8)]
    await there.load.create(documents.group(name, 8, priorityClassName="low") for name in names)
    spec: dict[str, Any] = {"priorityClassName": "low", "terminationGracePeriodSeconds": _GRACE_S}
    await there.load.create(
        pod
        for number, name in enumerate(names)
        for pod in documents.gang(name, 8, nodeName=documents.node_name(number), **spec)
    )
    await there.load.patch(documents.running(f"{name}-{member:04d}") for name in names for member in range(8))


Case = Callable[[Run], Awaitable[Result | list[Result]]]
CASES: dict[tuple[str, ...], Case] = {
    ("K1",): k1,
    ("K1b",): k1b,
    ("K2",): k2,
    ("K3", "K4"): k3_and_k4,
    ("K5",): k5,
}


def load_average() -> float:
    """How busy the machine is besides."""
    return os.getloadavg()[0]
