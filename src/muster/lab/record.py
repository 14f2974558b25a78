"""What happened in a replay, written down as it happens, in plain columns: cheap to keep, cheap to add up later.

Times are seconds since the beginning of the trace. A run of a job is a row: from when to when its gang held its places,
and how that ended. Waits, utilisation, fairness and lost work all follow from runs; what does not (where gangs lie in
the network, what free GPUs are good for) is sampled from the scheduler's picture.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from muster.lab.trace import TraceJob

#: How a run ended; a run that has not ended goes on at the end of the replay.
FINISHED: Final = 0
BROKEN: Final = 1
OPEN: Final = 2


@dataclass(slots=True)
class Sample:
    """What was to be seen in the scheduler's picture at one moment."""

    time_s: float
    #: GPUs that nobody holds, and those of them on which no task that waits would fit.
    free_gpus: float
    unusable_gpus: float
    waiting_jobs: int
    waiting_gpus: float
    #: By queue: what it holds, and its fair share where somebody says so.
    held: dict[str, float] = field(default_factory=dict)
    share: dict[str, float] = field(default_factory=dict)


class Recorder:
    """Takes down the story of a replay."""

    def __init__(self, jobs: list[TraceJob]) -> None:
        self.jobs = jobs
        #: Per job: when it first began, and when it ended; negative: it has not.
        self.first_start = array("d", [-1.0]) * len(jobs)
        self.end = array("d", [-1.0]) * len(jobs)
        self.came_count = 0
        #: Per run: job, beginning, end, how it ended, work that was lost with it.
        self.run_job = array("l")
        self.run_start = array("d")
        self.run_end = array("d")
        self.run_kind = array("b")
        self.run_lost = array("d")
        self._open: dict[int, int] = {}
        #: Pods that were evicted, by action; jobs that were broken by it.
        self.evictions: Counter[str] = Counter()
        self.evicted_pods = array("l", [0]) * len(jobs)
        self.nodes: dict[int, Counter[str]] = {}
        #: Per job that has begun: nodes it touched at first, and the tier of the smallest domain around them.
        self.n_nodes: dict[int, int] = {}
        self.tier: dict[int, int] = {}
        self.samples: list[Sample] = []
        self.aside: dict[str, str] = {}
        self.cycles = 0

    # -- told by the cluster -------------------------------------------------------------------------------------

    def came(self, job: int) -> None:
        self.came_count = job + 1

    def placed(self, job: int, node: str, _now: float) -> None:
        self.nodes.setdefault(job, Counter())[node] += 1

    def evicted(self, job: int, action: str, node: str, _now: float) -> None:
        self.evictions[action] += 1
        self.evicted_pods[job] += 1
        held = self.nodes.get(job)
        if held is not None:
            held[node] -= 1

    def began(self, job: int, now: float) -> None:
        if self.first_start[job] < 0:
            self.first_start[job] = now
            self.n_nodes[job] = len(self.nodes.get(job, ()))
        self._open[job] = len(self.run_job)
        self.run_job.append(job)
        self.run_start.append(now)
        self.run_end.append(-1.0)
        self.run_kind.append(OPEN)
        self.run_lost.append(0.0)

    def broke(self, job: int, now: float, *, lost_s: float) -> None:
        self._close(job, now, BROKEN, lost_s)

    def ended(self, job: int, now: float) -> None:
        self.end[job] = now
        self._close(job, now, FINISHED, 0.0)
        self.nodes.pop(job, None)

    def _close(self, job: int, now: float, kind: int, lost_s: float) -> None:
        run = self._open.pop(job)
        self.run_end[run], self.run_kind[run], self.run_lost[run] = now, kind, lost_s

    def put_aside(self, what: str, why: str) -> None:
        self.aside[what] = why
