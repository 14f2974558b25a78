"""Traces: which jobs came when, what they asked for, and how long they ran.

A trace is a list of jobs in the order of their coming. Rows of a table say requests and a number of pods; jobs that
come from Kubernetes objects carry these instead. What the scheduler is told about run times is the trace's business
too: it may know them, know them badly, or not at all (`Estimates`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from muster.api import Pod, PodGroup, Quantity, UserError

#: What --estimates may be.
EXACT: Final = "exact"
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job: so many equal pods that start together, or the objects that it was made of."""

    name: str
    #: Seconds since the beginning of the trace.
    submit_s: float
    #: How long it runs once it has started; None: for ever.
    run_s: float | None
    n_tasks: int = 1
    #: Requests of one pod, as people write them.
    requests: tuple[tuple[str, str], ...] = ()
    queue: str = "default"
    user: str = ""
    namespace: str = "default"
    priority: int | None = None
    #: What the scheduler is told about its run time; None: nothing.
    expected_s: float | None = None
    #: Kubernetes objects that stand for it, in the place of what is said above.
    group: PodGroup | None = None
    pods: tuple[Pod, ...] = ()

    @property
    def gpus(self) -> float:
        """GPUs of all its pods."""
        each = dict(self.requests).get("nvidia.com/gpu")
        return 0.0 if each is None else self.n_tasks * float(Quantity(each).value)


@dataclass(frozen=True, slots=True)
class Estimates:
    """What the scheduler is told about run times: `exact`, `none`, or `factor:F`, wrong by up to that factor.

    A factor is drawn for every job: evenly from 1 to F, and the job is said to run so many times longer.
    """

    kind: str = EXACT
    factor: float = 1.0

    @classmethod
    def read(cls, text: str) -> Estimates:
        """Read the option. Raises UserError."""
        kind, _, number = text.partition(":")
        if text in (EXACT, NONE):
            return cls(text)
        try:
            factor = float(number)
        except ValueError:
            factor = 0.0
        if kind != "factor" or not 1 <= factor < 1e6:
            raise UserError(f'--estimates: expected exact, none, or a factor such as factor:5, got "{text}"')
        return cls(kind, factor)

    def told(self, jobs: Iterable[TraceJob], seed: int) -> list[TraceJob]:
        """The jobs with what the scheduler is told about them; the same seed tells the same."""
        draw = random.Random(seed)  # noqa: S311 - reproducible choices, not secrets
        return [self._tell(job, draw) for job in jobs]

    def _tell(self, job: TraceJob, draw: random.Random) -> TraceJob:
        if self.kind == NONE or job.run_s is None:
            return replace(job, expected_s=None)
        wrong = draw.uniform(1.0, self.factor) if self.kind == "factor" else 1.0
        return replace(job, expected_s=job.run_s * wrong)


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their coming, and where they were read."""

    jobs: Sequence[TraceJob]
    source: str = ""
    #: What was left out of the source, and why, by reason.
    left_out: dict[str, int] = field(default_factory=dict)
    #: What a reader of the figures has to know of the source besides.
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        assert all(one.submit_s <= other.submit_s for one, other in zip(self.jobs, self.jobs[1:], strict=False))

    def __len__(self) -> int:
        return len(self.jobs)
