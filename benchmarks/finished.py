"""What finished pods cost a cycle: a small cluster at work, without any and with 15,000 that nobody has cleaned up.

Half of them were pods of their own, half belong to gangs that are complete. Whole cycles are timed, with the profile
`muster`, as the service runs them; CPU time, because the two are to be compared and machines are shared.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.cases import Case
from benchmarks.measure import calibrate
from muster.api import KubeObject, Pod, PodGroup
from muster.cluster.memory import MemoryCluster
from muster.framework import find_config
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import builders

_N_NODES = 88
_N_RUNNING = 200
_N_FINISHED = 15_000
_GANG = 10
_CYCLES = 60


def result(case: Case) -> dict[str, Any]:
    """Measure both, and return what results.json holds."""
    without, with_finished = _seconds(0), _seconds(_N_FINISHED)
    return {
        "case": case.name,
        "work": case.work,
        "seconds": with_finished,
        "goal_seconds": case.goal,
        "runs": _CYCLES,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": {"ms without finished pods": round(without * 1000, 2)},
        "parts": {"snapshot": 0.0, "session": 0.0, "actions": 0.0},
    }


def _seconds(n_finished: int) -> float:
    cluster = MemoryCluster(_objects(n_finished), as_is=True)
    scheduler = Scheduler(cluster, find_config("muster"), builtin_registry(), scheduler_names=["volcano", ""])
    for _ in range(5):
        error = scheduler.run_once().error
        if error is not None:
            raise error
    samples = []
    for _ in range(_CYCLES):
        begin = time.process_time()
        scheduler.run_once()
        samples.append(time.process_time() - begin)
    return statistics.median(samples)


def _objects(n_finished: int) -> Iterator[KubeObject]:
    for number in range(_N_NODES):
        yield builders.node(f"n{number}", gpu=8)
    yield builders.queue("default")
    for number in range(_N_RUNNING):
        yield builders.pod(f"run-{number}", cpu=1, node=f"n{number % _N_NODES}")
    for number in range(n_finished // 2):
        yield builders.pod(f"done-{number}", cpu=1, node="n0", phase="Succeeded")
    for number in range(n_finished // 2 // _GANG):
        yield from _finished_gang(f"gang-{number}")


def _finished_gang(name: str) -> Iterator[PodGroup | Pod]:
    group = builders.pod_group(name, minimum=_GANG, phase="Completed")
    group.status.succeeded = _GANG
    yield group
    for number in range(_GANG):
        yield builders.pod(f"{name}-{number}", group=name, cpu=1, node="n0", phase="Succeeded")
