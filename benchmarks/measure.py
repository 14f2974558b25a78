"""Measure one case in this process: medians of several runs, the parts, peak memory and a calibration loop."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.cases import Case, config
from muster.framework import Registry, SchedulerConfig, Session, Verdicts
from muster.scheduler import builtin_registry
from muster.snapshot import Mirror, OperationKind, Snapshot, TaskStatus

RUNS = 7


def measure(case: Case, runs: int = RUNS) -> dict[str, Any]:
    """Build the case, run it once to warm up, then several times; return what results.json holds."""
    mirror = Mirror()
    case.build(mirror)
    registry = builtin_registry()
    known: dict[bytes, Verdicts] = {}
    chosen = config(case)
    _cycle(mirror, chosen, registry, known)
    samples = [_cycle(mirror, chosen, registry, known) for _ in range(runs)]
    done = samples[0]["done"]
    wanted = {"bound": case.bound, "pipelined": case.pipelined, "evicted": case.evicted}
    wrong = any(count is not None and done[what] != count for what, count in wanted.items())
    if wrong or any(sample["done"] != done for sample in samples):
        raise SystemExit(f"{case.name}: expected {wanted}, got {[sample['done'] for sample in samples]}")
    return {
        "case": case.name,
        "work": case.work,
        "seconds": _median(samples, "seconds"),
        "goal_seconds": case.goal,
        "runs": runs,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": done,
        "parts": {part: _median(samples, part) for part in ("snapshot", "session", "actions")},
    }


def _cycle(mirror: Mirror, chosen: SchedulerConfig, registry: Registry, known: dict[bytes, Verdicts]) -> dict[str, Any]:
    begin = time.perf_counter()
    snapshot = mirror.snapshot()
    taken = time.perf_counter()
    session = Session(snapshot, chosen, registry, known_verdicts=known)
    opened = time.perf_counter()
    for name in session.config.actions:
        registry.make_action(name, session.config.arguments_of(name)).run(session)
    end = time.perf_counter()
    kinds = dict.fromkeys(OperationKind, 0)
    for committed in session.committed:
        for operation in committed.operations:
            kinds[operation.kind] += len(operation.tasks)
    return {
        "seconds": end - begin,
        "snapshot": taken - begin,
        "session": opened - taken,
        "actions": end - opened,
        "done": {
            "bound": kinds[OperationKind.ALLOCATE],
            "evicted": kinds[OperationKind.EVICT],
            "pipelined": int((snapshot.tasks.status == TaskStatus.PIPELINED).sum()),
            **_broken(snapshot),
            **_spread(snapshot),
        },
    }


def _broken(snapshot: Snapshot) -> dict[str, int]:
    """Gangs that lost pods, and those of them that keep running below their minimum."""
    counts = snapshot.jobs.counts
    hit = counts[:, TaskStatus.RELEASING] > 0
    if not hit.any():
        return {}
    running = counts[:, TaskStatus.RUNNING]
    return {
        "gangs hit": int(hit.sum()),
        "left below minimum": int((hit & (running > 0) & (running < snapshot.jobs.min_member)).sum()),
    }


def _spread(snapshot: Snapshot) -> dict[str, int]:
    """How many domains of each tier the placed tasks touch."""
    topology = snapshot.topology
    if len(topology) == 1:
        return {}
    placed = np.isin(snapshot.tasks.status, (TaskStatus.ALLOCATED, TaskStatus.PIPELINED))
    nodes = snapshot.tasks.node[placed]
    touched = np.searchsorted(np.unique(nodes), [topology.lo, topology.hi])
    used = topology.tier[touched[1] > touched[0]]
    return {f"tier {tier}": int((used == tier).sum()) for tier in np.unique(topology.tier[1:])}


def _median(samples: list[dict[str, Any]], part: str) -> float:
    median: float = statistics.median(sample[part] for sample in samples)
    return round(median, 6)


def calibrate() -> float:
    """A fixed amount of numpy and Python work, to compare machines; median of three."""

    def once() -> float:
        begin = time.perf_counter()
        values = np.arange(200_000, dtype=np.int64)
        for _ in range(20):
            np.sort((values * 2654435761) % 1_000_003)
        total = 0
        for i in range(300_000):
            total += i * i % 7
        return time.perf_counter() - begin

    return round(statistics.median(once() for _ in range(3)), 6)
