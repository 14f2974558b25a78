"""K1, K1b and K2: pods that come and are bound, beside the same client's own rate and beside kube-scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from benchmarks.kubernetes import documents
from benchmarks.kubernetes.documents import Request
from benchmarks.kubernetes.field import PATIENCE_S, Field, Result, Run
from benchmarks.kubernetes.programs import Program, kube_scheduler, muster

_PAIRS: Final = 3


def _gangs(n_pods: int, size: int = 8, **spec: object) -> tuple[list[Request], Iterable[Request]]:
    names = [f"gang-{number:05d}" for number in range(n_pods // size)]
    groups = [documents.group(name, size) for name in names]
    return groups, (pod for name in names for pod in documents.gang(name, size, **spec))


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
        "1.15 x raw, faster than kube-scheduler",
        seconds <= 1.15 * raw_s and seconds < other_s,
    )


async def _stream(there: Field, program: Program, pods: Iterable[Request], n_pods: int) -> tuple[float, float]:
    """Create pods under a running scheduler; return seconds until the last is bound, and CPU seconds."""
    await there.onlooker.start()
    before = program.usage().cpu_s
    began = time.monotonic()
    await there.load.create(pods)
    await there.onlooker.until_bound(n_pods, PATIENCE_S)
    return max(there.onlooker.bound.values()) - began, program.usage().cpu_s - before


async def k1b(run: Run) -> Result:
    """How fast pods that all wait are bound, beside raw Bindings; median of pairs, as machines have moods."""
    n_nodes, n_pods = run.sized(1000), run.sized(5000, 8)
    pairs = []
    for _ in range(_PAIRS):
        raw_rate = n_pods / (await run.raw_again(n_nodes, n_pods))["bind"]
        rate, cpu = await _bind_rate(run, n_nodes, n_pods)
        pairs.append((rate / raw_rate, rate, raw_rate, cpu))
    parts = sorted(pairs)
    part, rate, raw_rate, cpu = parts[_PAIRS // 2]
    figures = {
        "bindings_per_second": rate,
        "raw_bindings_per_second": raw_rate,
        "part_of_raw": part,
        "least_part_of_raw": parts[0][0],
        "largest_part_of_raw": parts[-1][0],
        "cpu_seconds_with_start": cpu,
    }
    work = f"the same, all pods created before the scheduler starts: {n_pods:,} Bindings; median of {_PAIRS} pairs"
    return Result("K1b", work, figures, "90 % of the raw rate", part >= 0.9)


async def _bind_rate(run: Run, n_nodes: int, n_pods: int) -> tuple[float, float]:
    """Bindings per second from the first to the last, and CPU seconds of the scheduler with its start."""
    async with run.field(n_nodes) as there:
        groups, pods = _gangs(n_pods)
        await there.load.create(groups)
        await there.load.create(pods)
        await there.onlooker.start()
        async with muster(there.plane) as program:
            await there.onlooker.until_bound(n_pods, PATIENCE_S)
            cpu = program.usage().cpu_s
        moments = sorted(there.onlooker.bound.values())
    return n_pods / (moments[-1] - moments[0]), cpu


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
        await there.onlooker.until_bound(n_pods, PATIENCE_S)
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
