"""The page of the comparison: new rows come to those that stand there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import comparison
from benchmarks.comparison import TRIALS

THERE = """<!-- venus -->
`an old command`: not run.

| policy | wait: mean | p99 | largest 1 %: mean | p99 | GPU-hours lost |
|---|---:|---:|---:|---:|---:|
| skip | 2,000 (×1.000) | 5 | 6 | 7 | 0 |
| easy | 1,500 (×0.750) | 5 | 6 | 7 | 0 |
| easy, estimates none | 1,600 (×0.800) | 5 | 6 | 7 | 0 |
<!-- end of venus -->
"""


def test_rows_that_were_run_elsewhere_stay_and_new_ones_find_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "OUT", tmp_path)
    monkeypatch.setattr(comparison, "TRIALS", {"venus": TRIALS["venus"]})
    assert comparison._with_tables(THERE) == THERE, "nothing was run here"
    (tmp_path / "venus-exact").mkdir()
    figures = {"jobs": 10, "wait_s.mean": {"fifo": {"mean": 3000.0}, "easy": {"mean": 1000.0}}}
    (tmp_path / "venus-exact" / "figures.json").write_text(json.dumps(figures))
    lines = comparison._with_tables(THERE).splitlines()
    assert lines[1].endswith("10 jobs:")
    assert [line.split(" | ")[:2] for line in lines[5:9]] == [
        ["| skip", "2,000 (×1.000)"],
        ["| fifo", "3,000 (×1.500)"],
        ["| easy", "1,000 (×0.500)"],
        ["| easy, estimates none", "1,600 (×0.800)"],
    ]
