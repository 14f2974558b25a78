"""The report of a replay: everything that is asked of a scheduler, from what the recorder took down.

`Report.to_json` is `DIR/report.json`; `KEYS` says what each key means, and the reference page is made from it. Seconds
are seconds of the trace, GPUs are whole GPUs (parts count as parts). Work counts in GPU-seconds, so jobs that ask for
no GPU wait like others but weigh nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from muster.lab.record import BROKEN, Recorder, Sample

Floats = NDArray[np.float64]
#: Jobs by the GPUs of all their pods: up to so many.
SIZES: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128)
_POINTS: Final = 400
_LONGEST: Final = 20
_LARGEST: Final = 0.01

#: What the keys of report.json mean; `*` stands for any name.
KEYS: Final[Mapping[str, str]] = {
    "name": "what the run is called: the configuration, unless told otherwise",
    "trace": "where the jobs were read",
    "seed": "the seed of the run",
    "nodes": "how many nodes there were",
    "gpus": "how many GPUs there were",
    "jobs": "jobs of the trace",
    "finished": "jobs that ended",
    "unfinished": "jobs that had come and not ended",
    "cycles": "scheduling cycles that were run",
    "cpu_s": "CPU seconds that the replay took; differs from run to run",
    "makespan_s": "from the first job that came to the last that ended",
    "wait_s": "from coming to the first start, of jobs that started: `mean`, `p50`, `p90`, `p99`, `max`",
    "jct_s": "from coming to the end, of jobs that ended, as `wait_s`",
    "slowdown": "completion time over run time, runs below ten seconds counted as ten, as `wait_s`",
    "largest": "`wait_s` and `jct_s` of the largest 1 % of jobs by GPUs; `gpus`: of the smallest of them; `jobs`",
    "by_size.*": "`jobs`, `wait_s` and `jct_s` of jobs of so many GPUs",
    "by_queue.*": "the same by queue, with `gpu_s`",
    "by_user.*": "the same of the twenty users with most work",
    "gpu_s": "GPU-seconds of work that was done and kept",
    "lost_gpu_s": "GPU-seconds of work that evictions undid",
    "held_gpu_s": "GPU-seconds that jobs held: done and lost, and what is under way",
    "utilisation": "held GPU-seconds over those of the cluster while jobs were there to come: until the last came",
    "evictions.*": "pods that were evicted, by action; `total`",
    "gangs_broken": "how often a gang fell below its minimum",
    "fragmentation": "of the free GPUs, the part on which tasks that waited did not fit: mean over the samples",
    "fairness.jain": "Jain's index over queues of what each held against its share: mean over samples with two or more",
    "fairness.*": "by queue: mean of GPUs held, and of its fair share where the configuration has one",
    "topology.nodes": "gangs of several pods: mean of nodes used over fewest possible",
    "topology.tiers.*": "gangs by the tier of the smallest domain around them",
    "starving": "the twenty longest waits: job, queue, user, gpus, wait_s",
    "series": "over time, for pictures: `time_s`, `held_gpus`, `waiting_gpus`, `queues.*`, and what was `sampled`",
    "left_out": "rows of the trace that were left out, by reason",
    "put_aside": "objects that could not be used, and why",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What a replay led to."""

    figures: dict[str, Any]  # Any: JSON, as documented in KEYS
    #: One row for each job, in columns.
    jobs: dict[str, list[Any]] = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.figures["name"])

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return self.figures


def make_report(
    recorder: Recorder,
    *,
    name: str,
    n_gpus: float,
    n_nodes: int,
    now_s: float,
    facts: Mapping[str, Any] | None = None,
    node_gpus: float = 8.0,
) -> Report:
    """Add everything up. `now_s`: when the replay ended; `facts` go into the report as they are."""
    table = _Jobs(recorder, now_s)
    runs = _Runs(recorder, table, now_s)
    last = float(table.submit.max(initial=0.0))
    first = float(table.submit.min(initial=0.0))
    figures: dict[str, Any] = {
        "name": name,
        **(facts or {}),
        "nodes": n_nodes,
        "gpus": n_gpus,
        "jobs": len(table.submit),
        "finished": int(table.ended.sum()),
        "unfinished": int((table.came & ~table.ended).sum()),
        "cycles": recorder.cycles,
        "makespan_s": _rounded(float(table.end[table.ended].max(initial=first)) - first),
        **table.spans(np.ones(len(table.submit), np.bool_), slowdown=True),
        "largest": table.largest(),
        "by_size": table.by_size(),
        "by_queue": table.by("queue", runs.done),
        "by_user": table.by("user", runs.done, most=_LONGEST),
        "gpu_s": _rounded(float(runs.done.sum())),
        "lost_gpu_s": _rounded(float(runs.lost.sum())),
        "held_gpu_s": _rounded(float(runs.held.sum())),
        "utilisation": _rounded(runs.held_between(first, last) / max(1e-9, n_gpus * (last - first)), 4),
        "evictions": {**dict(sorted(recorder.evictions.items())), "total": sum(recorder.evictions.values())},
        "gangs_broken": int((runs.kind == BROKEN).sum()),
        "fragmentation": _fragmentation(recorder.samples),
        "fairness": _fairness(recorder.samples),
        "topology": _topology(recorder, table, node_gpus),
        "starving": table.starving(),
        "series": _series(recorder, runs, table, first, max(last, now_s)),
        "put_aside": dict(recorder.aside),
    }
    return Report(figures, table.rows(recorder, runs))


class _Jobs:
    """The jobs of a trace as columns."""

    def __init__(self, recorder: Recorder, now_s: float) -> None:
        jobs = self.jobs = recorder.jobs
        self.submit: Floats = np.array([job.submit_s for job in jobs], np.float64)
        self.run: Floats = np.array([np.inf if job.run_s is None else job.run_s for job in jobs], np.float64)
        self.gpus: Floats = np.array([job.gpus for job in jobs], np.float64)
        self.start: Floats = np.array(recorder.first_start, np.float64)
        self.end: Floats = np.array(recorder.end, np.float64)
        self.started = self.start >= 0
        self.ended = self.end >= 0
        self.came = np.arange(len(jobs)) < recorder.came_count
        #: Jobs that still wait have waited until now.
        self.wait: Floats = np.where(self.started, self.start, now_s) - self.submit

    def spans(self, chosen: NDArray[np.bool_], *, slowdown: bool = False) -> dict[str, Any]:
        """Waits and completion times of some jobs."""
        ended = chosen & self.ended
        took = self.end[ended] - self.submit[ended]
        found = {"wait_s": spread(self.wait[chosen & self.came]), "jct_s": spread(took)}
        if slowdown:
            run = np.maximum(self.run[ended], 10.0)
            found["slowdown"] = spread(np.maximum(took, run) / run, digits=3)
        return found

    def largest(self) -> dict[str, Any]:
        """Of the largest jobs by GPUs, all of the size of the smallest among them."""
        if len(self.gpus) == 0:
            return {"jobs": 0}
        count = max(1, round(len(self.gpus) * _LARGEST))
        least = float(np.sort(self.gpus)[-count])
        chosen = self.gpus >= least
        return {"gpus": least, "jobs": int(chosen.sum()), **self.spans(chosen)}

    def by_size(self) -> dict[str, Any]:
        found = {}
        for low, high in zip((-1.0, *SIZES), (*SIZES, np.inf), strict=True):
            chosen = (self.gpus > low) & (self.gpus <= high)
            if chosen.any():
                name = f">{SIZES[-1]}" if high == np.inf else str(high) if high <= 2 else f"{int(low) + 1}-{high}"
                found[name] = {"jobs": int(chosen.sum()), **self.spans(chosen)}
        return found

    def by(self, what: str, done: Floats, most: int | None = None) -> dict[str, Any]:
        """By queue or user, those with most work first where only some are wanted."""
        names = np.array([getattr(job, what) for job in self.jobs], object)
        work = {name: float(done[names == name].sum()) for name in sorted({*names.tolist()} - {""})}
        chosen = sorted(work, key=lambda name: (-work[name], name))[:most]
        return {
            name: {"jobs": int((names == name).sum()), "gpu_s": _rounded(work[name]), **self.spans(names == name)}
            for name in sorted(chosen)
        }

    def starving(self) -> list[dict[str, Any]]:
        order = sorted(np.flatnonzero(self.came).tolist(), key=lambda row: (-self.wait[row], self.jobs[row].name))
        return [
            {
                "job": self.jobs[row].name,
                "queue": self.jobs[row].queue,
                "user": self.jobs[row].user,
                "gpus": self.gpus[row].item(),
                "wait_s": _rounded(self.wait[row].item()),
            }
            for row in order[:_LONGEST]
        ]

    def rows(self, recorder: Recorder, runs: _Runs) -> dict[str, list[Any]]:
        """The jobs for other programs."""
        return {
            "job": [job.name for job in self.jobs],
            "queue": [job.queue for job in self.jobs],
            "user": [job.user for job in self.jobs],
            "gpus": self.gpus.tolist(),
            "tasks": [job.n_tasks for job in self.jobs],
            "submit_s": self.submit.tolist(),
            "run_s": [job.run_s for job in self.jobs],
            "start_s": [value if value >= 0 else None for value in self.start.tolist()],
            "end_s": [value if value >= 0 else None for value in self.end.tolist()],
            "evicted_pods": list(recorder.evicted_pods),
            "lost_gpu_s": runs.lost.tolist(),
            "tier": [recorder.tier.get(number) for number in range(len(self.jobs))],
        }


class _Runs:
    """The runs as columns, and what they add up to."""

    def __init__(self, recorder: Recorder, table: _Jobs, now_s: float) -> None:
        self.job = np.array(recorder.run_job, np.intp)
        self.kind = np.array(recorder.run_kind, np.int8)
        self.start: Floats = np.array(recorder.run_start, np.float64)
        ends = np.array(recorder.run_end, np.float64)
        self.end: Floats = np.where(ends < 0, now_s, ends)
        self.gpus: Floats = table.gpus[self.job] if len(self.job) else np.zeros(0)
        self.held: Floats = np.zeros(len(table.gpus))
        np.add.at(self.held, self.job, (self.end - self.start) * self.gpus)
        self.lost: Floats = np.zeros(len(table.gpus))
        np.add.at(self.lost, self.job, np.array(recorder.run_lost, np.float64) * self.gpus)
        self.done: Floats = np.where(table.ended, np.where(np.isinf(table.run), 0.0, table.run) * table.gpus, 0.0)

    def held_between(self, first: float, last: float) -> float:
        """GPU-seconds that jobs held in a part of the time."""
        spans = np.minimum(self.end, last) - np.maximum(self.start, first)
        return float((np.maximum(spans, 0.0) * self.gpus).sum())

    def over(self, grid: Floats, chosen: NDArray[np.bool_] | None = None) -> Floats:
        """GPUs held on average between each two moments of a grid."""
        return _mean_level(grid, self.start, self.end, self.gpus if chosen is None else self.gpus * chosen)


def _mean_level(grid: Floats, start: Floats, end: Floats, weight: Floats) -> Floats:
    """The mean of a sum of steps in each part of a grid: each step weighs so much from its start to its end."""
    at = np.concatenate((start, end))
    change = np.concatenate((weight, -weight))
    order = np.argsort(at, kind="stable")
    at, level = at[order], np.cumsum(change[order])
    # The area under the steps up to each moment, read off at the grid.
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(at)))) if len(at) else np.zeros(0)
    if len(at) == 0:
        return np.zeros(len(grid) - 1)
    read = np.interp(grid, at, area)
    return np.maximum(np.diff(read) / np.maximum(np.diff(grid), 1e-9), 0.0)


def spread(values: Floats, digits: int = 1) -> dict[str, float]:
    """Mean, percentiles and the largest of some values; nothing of no values."""
    if len(values) == 0:
        return {}
    p50, p90, p99 = np.percentile(values, [50, 90, 99]).tolist()
    named = {"mean": float(values.mean()), "p50": p50, "p90": p90, "p99": p99, "max": float(values.max())}
    return {name: _rounded(value, digits) for name, value in named.items()}


def _rounded(value: float, digits: int = 1) -> float:
    return round(value, digits)


def _fragmentation(samples: Sequence[Sample]) -> float:
    parts = [sample.unusable_gpus / sample.free_gpus for sample in samples if sample.free_gpus and sample.waiting_gpus]
    return _rounded(float(np.mean(parts)), 4) if parts else 0.0


def _fairness(samples: Sequence[Sample]) -> dict[str, Any]:
    names = sorted({name for sample in samples for name in (*sample.held, *sample.share)})
    found: dict[str, Any] = {}
    indices = []
    for sample in samples:
        served = [sample.held.get(name, 0.0) / share for name, share in sample.share.items() if share > 0]
        if len(served) > 1 and any(served):
            indices.append(sum(served) ** 2 / (len(served) * sum(part * part for part in served)))
    found["jain"] = _rounded(float(np.mean(indices)), 4) if indices else None
    for name in names:
        found[name] = {
            "held": _rounded(float(np.mean([sample.held.get(name, 0.0) for sample in samples])), 2),
            "share": _rounded(float(np.mean([sample.share.get(name, 0.0) for sample in samples])), 2),
        }
    return found


def _topology(recorder: Recorder, table: _Jobs, node_gpus: float) -> dict[str, Any]:
    used = []
    for number, count in recorder.n_nodes.items():
        if recorder.jobs[number].n_tasks > 1 and node_gpus:
            used.append(count / max(1.0, np.ceil(table.gpus[number] / node_gpus)))
    tiers: dict[str, int] = {}
    for tier in recorder.tier.values():
        tiers[str(tier)] = tiers.get(str(tier), 0) + 1
    return {"nodes": _rounded(float(np.mean(used)), 3) if used else None, "tiers": dict(sorted(tiers.items()))}


def _series(recorder: Recorder, runs: _Runs, table: _Jobs, first: float, last: float) -> dict[str, Any]:
    grid = np.linspace(first, max(last, first + 1.0), _POINTS + 1)
    waiting = np.where(table.came, table.gpus, 0.0)
    until = np.where(table.started, table.start, last)
    queues = np.array([job.queue for job in table.jobs], object)
    of_run = queues[runs.job] if len(runs.job) else np.zeros(0, object)
    busiest = sorted({*of_run.tolist()}, key=lambda name: (-float((runs.gpus * (of_run == name)).sum()), name))
    return {
        "time_s": [_rounded(moment) for moment in grid[:-1].tolist()],
        "held_gpus": _rounded_all(runs.over(grid)),
        "waiting_gpus": _rounded_all(_mean_level(grid, table.submit, until, waiting)),
        "queues": {name: _rounded_all(runs.over(grid, of_run == name)) for name in busiest[:12]},
        "sampled": {
            "time_s": [_rounded(sample.time_s) for sample in recorder.samples],
            "free_gpus": [_rounded(sample.free_gpus, 2) for sample in recorder.samples],
            "unusable_gpus": [_rounded(sample.unusable_gpus, 2) for sample in recorder.samples],
            "waiting_jobs": [sample.waiting_jobs for sample in recorder.samples],
        },
    }


def _rounded_all(values: Floats) -> list[float]:
    return [_rounded(value, 2) for value in values.tolist()]
