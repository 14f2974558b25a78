"""The figures by which runs are told apart: where each stands in a report, how it is written, and what is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

#: What stands where there is no figure.
NOTHING: Final = "–"


class Figure(NamedTuple):
    """One figure of a report."""

    what: str
    #: Keys of the report, from the outside in.
    keys: tuple[str, ...]
    digits: int
    #: -1: less of it is better; 1: more; 0: neither.
    better: int = 0

    @property
    def path(self) -> str:
        return ".".join(self.keys)

    def of(self, report: Mapping[str, Any]) -> float | None:  # Any: JSON
        """The figure in a report; None: it has none. GPU-seconds are given in hours."""
        value: Any = report
        for key in self.keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            return None
        return float(value) / 3600 if self.keys[-1].endswith("gpu_s") else float(value)

    def text(self, value: float | None) -> str:
        """A value as tables show it."""
        return NOTHING if value is None else f"{value:,.{self.digits}f}"


FIGURES: Final = (
    Figure("jobs that ended", ("finished",), 0, 1),
    Figure("wait, mean (s)", ("wait_s", "mean"), 0, -1),
    Figure("wait, p50 (s)", ("wait_s", "p50"), 0, -1),
    Figure("wait, p90 (s)", ("wait_s", "p90"), 0, -1),
    Figure("wait, p99 (s)", ("wait_s", "p99"), 0, -1),
    Figure("largest 1 %: wait, mean (s)", ("largest", "wait_s", "mean"), 0, -1),
    Figure("largest 1 %: wait, p99 (s)", ("largest", "wait_s", "p99"), 0, -1),
    Figure("completion, mean (s)", ("jct_s", "mean"), 0, -1),
    Figure("slowdown, mean", ("slowdown", "mean"), 2, -1),
    Figure("makespan (s)", ("makespan_s",), 0, -1),
    Figure("utilisation", ("utilisation",), 3, 1),
    Figure("fragmentation", ("fragmentation",), 3, -1),
    Figure("GPU-hours done", ("gpu_s",), 0, 1),
    Figure("GPU-hours lost", ("lost_gpu_s",), 0, -1),
    Figure("pods evicted", ("evictions", "total"), 0, -1),
    Figure("gangs broken", ("gangs_broken",), 0, -1),
    Figure("fairness, Jain", ("fairness", "jain"), 3, 1),
    Figure("nodes of gangs, over fewest", ("topology", "nodes"), 2, -1),
    Figure("cycles", ("cycles",), 0),
)
