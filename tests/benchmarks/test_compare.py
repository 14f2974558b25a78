"""Comparing two commits: pairs alternate, and the interval is that of the median."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from benchmarks.compare import Tree, compare_case, interval


@pytest.mark.parametrize(
    ("count", "expected"),
    # Of 5 the ends hold the median in 93.75 %, the best there is; of 7 in 98 %; of 9 the second from each end in 96 %.
    [(5, (1, 5)), (7, (1, 7)), (9, (2, 8)), (20, (6, 15))],
)
def test_the_interval_holds_the_median_at_95_percent(count: int, expected: tuple[float, float]) -> None:
    assert interval([float(value) for value in range(count, 0, -1)]) == expected


@dataclass
class Clock:
    """Stands for a commit: takes longer with every run, as on a machine that others use more and more."""

    name: str
    seconds_each: float
    runs: list[str] = field(default_factory=list)

    def seconds(self, case: str) -> float:
        self.runs.append(f"{self.name} {case}")
        return self.seconds_each * len(self.runs)


def test_pairs_alternate_and_ratios_are_taken_within_them() -> None:
    runs: list[str] = []
    base, head = Clock("base", 1.0, runs), Clock("head", 2.0, runs)
    result = compare_case("A1", cast("Tree", base), cast("Tree", head), 7)
    assert runs[:4] == ["base A1", "head A1", "head A1", "base A1"]
    assert len(result["ratios"]) == 7
    assert result["ratios"][:2] == [4.0, 1.5]
    assert result["low"] <= result["ratio"] <= result["high"]
