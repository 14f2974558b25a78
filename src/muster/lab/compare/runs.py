"""The runs of a comparison: each a replay of its own, which any process on any machine can do."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.api import KubeObject
from muster.framework import SchedulerConfig
from muster.lab.compare.seeds import Variation
from muster.lab.replay import Replay, ReplayOptions
from muster.lab.report import make_report
from muster.lab.sources.inputs import node_gpus
from muster.lab.trace import Estimates, Trace
from muster.simulate.run import quietly


@dataclass(frozen=True, slots=True)
class Inputs:
    """A trace on a cluster."""

    trace_name: str
    cluster_name: str
    trace: Trace
    objects: Sequence[KubeObject]

    @property
    def name(self) -> str:
        return f"{self.trace_name} on {self.cluster_name}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration, and what it is told about run times."""

    name: str
    config: SchedulerConfig
    estimates: Estimates


@dataclass(frozen=True, slots=True)
class Run:
    """One replay of a comparison; `place` says of which inputs."""

    place: int
    candidate: Candidate
    variation: Variation
    options: ReplayOptions

    @property
    def seed(self) -> int:
        return self.options.seed

    def fingerprint(self, inputs: Inputs) -> str:
        """The same for runs that do the same."""
        told = repr((self.candidate, self.variation, self.options, inputs.name, inputs.trace.source))
        jobs = json.dumps([(job.name, job.submit_s, job.run_s) for job in inputs.trace.jobs])
        return hashlib.sha256(f"{told}{len(inputs.objects)}{jobs}".encode()).hexdigest()[:32]


def do(run: Run, inputs: Inputs) -> dict[str, Any]:  # Any: JSON, as documented in muster.lab.report
    """Replay, and return the figures of the report."""
    trace = run.variation.varied(inputs.trace, run.seed)
    told = replace(trace, jobs=run.candidate.estimates.told(trace.jobs, run.seed))
    began = time.process_time()
    replay = Replay(told, inputs.objects, run.candidate.config, run.options)
    with quietly():
        replay.run()
    gpus = node_gpus(inputs.objects)
    facts = {"trace": trace.source, "seed": run.seed, "left_out": dict(trace.left_out)}
    return make_report(
        replay.recorder,
        name=run.candidate.name,
        n_gpus=sum(gpus),
        n_nodes=len(gpus),
        now_s=replay.now_s,
        facts={**facts, "cpu_s": round(time.process_time() - began, 2)},
        node_gpus=max(gpus, default=0.0),
    ).figures
