"""The lab's cases: a cycle in which one job arrives (R0), and whole traces under the default profile (R1 to R3).

Traces are read from `../shared/traces`; CPU seconds, because machines are shared.
"""

from __future__ import annotations

import resource
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.cases import Case
from benchmarks.measure import calibrate
from muster.framework import find_config
from muster.lab.replay import Replay, ReplayOptions
from muster.lab.report import make_report
from muster.lab.sources.tables import JobFilter, read_jobs, uniform_nodes
from muster.lab.trace import Trace, TraceJob

TRACES: Final = Path(__file__).parents[1].parent / "shared" / "traces"
_ARRIVALS: Final = 400


def _case(name: str, work: str, goal: float) -> Case:
    return Case(name, work, goal, lambda _mirror: None)


REPLAY_CASES: Final = (
    _case("R0", "88 nodes, 200 jobs that run, one arrives: a whole cycle of a replay", 0.0006),
    _case("R0/old", "the same after 100,000 pods have finished", 0.0006),
    _case("R1", "Venus on 88 nodes, 10,796 GPU jobs", 25.0),
    _case("R2", "Philly, October and November, on 72 nodes of 8 GPUs, 68,510 jobs", 240.0),
    _case("R3", "ITP pooled on 160 nodes, 69,351 jobs, 10 queues", 360.0),
)
#: File, what counts of it, nodes, CPUs of each.
_INPUTS: Final = {
    "R1": ("helios_venus", JobFilter(gpu_only=True, one_queue="default"), 88, 48),
    "R2": ("philly", JobFilter(since_s=2_294_959, until_s=7_565_359, one_queue="default"), 72, None),
    "R3": ("msitp", JobFilter(), 160, None),
}


def replay_result(case: Case) -> dict[str, Any]:
    """Measure one case, and return what results.json holds."""
    is_cycle = case.name.startswith("R0")
    seconds, done = _arrivals(1000 if case.name == "R0/old" else 0) if is_cycle else _whole(case.name)
    return {
        "case": case.name,
        "work": case.work,
        "seconds": seconds,
        "goal_seconds": case.goal,
        "runs": _ARRIVALS if is_cycle else 1,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calibration_seconds": calibrate(),
        "done": done,
        "parts": {"snapshot": 0.0, "session": 0.0, "actions": 0.0},
    }


def _arrivals(gangs_before: int) -> tuple[float, dict[str, Any]]:
    """The median cycle in which one job of one GPU arrives beside two hundred that run, and nobody waits.

    Before that, so many gangs of a hundred small pods have run and ended. What a cycle leaves to be drawn is not a part
    of it: nothing is sampled.
    """
    gpu = (("nvidia.com/gpu", "1"),)
    there = [TraceJob(f"there-{k:03d}", 0.0, None, 1, gpu) for k in range(200)]
    old = [TraceJob(f"old-{k:04d}", 10.0 * (k + 1), 5.0, 100, (("cpu", "10m"),)) for k in range(gangs_before)]
    first = 10.0 * (gangs_before + 1)
    coming = [TraceJob(f"job-{k:04d}", first + 10.0 * k, 5.0, 1, gpu) for k in range(_ARRIVALS)]
    nodes = uniform_nodes(88, 8, 48)
    replay = Replay(Trace([*there, *old, *coming]), nodes, find_config("muster"), ReplayOptions(n_samples=1))
    marks = [time.process_time()]
    cycles = [0]

    def mark() -> bool:
        if replay.recorder.cycles != cycles[-1]:
            cycles.append(replay.recorder.cycles)
            marks.append(time.process_time())
        return False

    replay.run(pause=mark)
    # The first half warms up: kernels are loaded and classes looked at.
    took = [later - earlier for earlier, later in pairwise(marks)][-_ARRIVALS // 2 :]
    return statistics.median(took), {"cycles": replay.recorder.cycles, "smallest ms": round(min(took) * 1000, 3)}


def _whole(name: str) -> tuple[float, dict[str, Any]]:
    file, wanted, nodes, cpus = _INPUTS[name]
    trace = read_jobs(TRACES / f"{file}_jobs.csv.gz", wanted)
    replay = Replay(trace, uniform_nodes(nodes, 8, cpus), find_config("muster"))
    began = time.process_time()
    replay.run()
    seconds = time.process_time() - began
    figures = make_report(replay.recorder, name=name, n_gpus=8.0 * nodes, n_nodes=nodes, now_s=replay.now_s).figures
    return seconds, {
        "cycles": figures["cycles"],
        "mean wait s": figures["wait_s"]["mean"],
        "p99 wait s": figures["wait_s"]["p99"],
        "evictions": figures["evictions"]["total"],
    }
