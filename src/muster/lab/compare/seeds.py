"""What differs from one seed to the next: when jobs come, or which of them.

One replay of a trace says what happened on one day; whether another configuration is better or had luck is said by
several, each a little different. Seed 0 is the trace as it was written.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster.api import UserError
from muster.api.errors import seconds_of
from muster.lab.trace import Trace, TraceJob

#: What --vary may be.
WORDS: Final = "none, jitter:TIME such as jitter:10m, or sample:PART such as sample:0.9"


@dataclass(frozen=True, slots=True)
class Variation:
    """How seeds differ.

    jitter: every job comes up to so many seconds earlier or later, evenly drawn for each. sample: every job is there
    with this probability, drawn for each. none: only what is random besides, as the errors of estimates.
    """

    kind: str = "jitter"
    amount: float = 600.0

    @classmethod
    def read(cls, text: str) -> Variation:
        """Read the option. Raises UserError."""
        kind, _, amount = text.partition(":")
        if text == "none":
            return cls("none", 0.0)
        if kind == "jitter" and amount:
            return cls(kind, seconds_of("--vary jitter", amount))
        if kind == "sample":
            try:
                part = float(amount)
            except ValueError:
                part = 0.0
            if 0 < part <= 1:
                return cls(kind, part)
        raise UserError(f'--vary: expected {WORDS}, got "{text}"')

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.amount:g}{'s' * (self.kind == 'jitter')}"

    def varied(self, trace: Trace, seed: int) -> Trace:
        """The trace of a seed; the same seed gives the same trace."""
        if seed == 0 or self.kind == "none":
            return trace
        draw = random.Random(seed)  # noqa: S311 - reproducible choices, not secrets
        if self.kind == "sample":
            kept = [job for job in trace.jobs if draw.random() < self.amount]
            return replace(trace, jobs=kept or trace.jobs[:1])
        moved = [replace(job, submit_s=_moved(job, draw.uniform(-self.amount, self.amount))) for job in trace.jobs]
        return replace(trace, jobs=_in_order(moved))


def _moved(job: TraceJob, by: float) -> float:
    # Whole seconds stay whole: cycles happen at those.
    return max(0.0, job.submit_s + round(by))


def _in_order(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    return sorted(jobs, key=lambda job: (job.submit_s, job.name))
