"""The command `muster replay`: files in, a report and a page out."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]  # it has no types

from muster.api import UserError
from muster.cli.main import run
from muster.lab.report import KEYS, Report
from muster.lab.writing import write_parquet

ROWS = "job_id,submit_s,duration_s,num_tasks,gpus_per_task,queue,user\n" + "".join(
    f"j{k},{k * 3},{20 + k},{1 + k % 2},{2 ** (k % 4)},q{k % 2},u{k % 3}\n" for k in range(20)
)


def test_a_report_has_the_documented_keys_and_a_page_that_needs_no_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(ROWS)
    out = tmp_path / "out"
    assert run(["replay", str(jobs), "--nodes", "2x8", "--out", str(out)]) == 0
    assert "20 jobs on 2 nodes" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    documented = {key.partition(".")[0] for key in KEYS}
    assert set(report) == documented
    assert report["wait_s"]["mean"] >= 0
    assert report["largest"]["wait_s"]["p99"] >= 0
    assert report["gpu_s"] == sum((20 + k) * (1 + k % 2) * 2 ** (k % 4) for k in range(20))
    page = (out / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=|https?://|@import|url\(""", page)
    assert '"held_gpus"' in page
    assert len((out / "jobs.csv").read_text().splitlines()) == 21


def test_jobs_are_written_as_parquet_with_the_rows_of_the_table(tmp_path: Path) -> None:
    """The library for it is an extra of users, and among the tools of tests."""
    jobs, out = tmp_path / "jobs.csv", tmp_path / "out"
    jobs.write_text(ROWS)
    assert run(["replay", str(jobs), "--nodes", "2x8", "--out", str(out)]) == 0
    table = parquet.read_table(out / "jobs.parquet").to_pydict()
    with (out / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(table) == list(rows[0])
    assert table["job"] == [row["job"] for row in rows]
    assert table["start_s"] == [float(row["start_s"]) for row in rows]
    assert table["tasks"] == [int(row["tasks"]) for row in rows]


def test_without_the_library_for_parquet_there_is_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, out = tmp_path / "jobs.csv", tmp_path / "out"
    jobs.write_text(ROWS)
    monkeypatch.setattr("muster.lab.writing.find_spec", lambda _: None)
    assert run(["replay", str(jobs), "--nodes", "2x8", "--out", str(out)]) == 0
    assert (out / "jobs.csv").exists()
    assert not (out / "jobs.parquet").exists()
    with pytest.raises(UserError, match=r"Parquet needs the package pyarrow: pip install 'muster\[lab\]'"):
        write_parquet(Report({}, {}), out / "jobs.parquet")


def test_objects_with_run_times_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = "\n".join(
        f"""---
apiVersion: v1
kind: Pod
metadata: {{name: p{k}, annotations: {{muster.sh/run-seconds: "{10 * (k + 1)}"}}}}
spec: {{containers: [{{name: main, resources: {{requests: {{nvidia.com/gpu: 8}}}}}}]}}"""
        for k in range(3)
    )
    file = tmp_path / "pods.yaml"
    file.write_text(pods)
    assert run(["replay", str(file), "--nodes", "1x8", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["finished"], report["gpu_s"], report["makespan_s"]) == (3, 480.0, 60.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nodes", "2x8", "--estimates", "wild"], "--estimates: expected exact, none, or a factor"),
        (["--nodes", "2x8", "--column", "gpus"], "--column: expected MEANING=COLUMN"),
        ([], "expected at least one node"),
        (["--nodes", "2x8", "--resume"], "--resume goes on with what --out DIR holds"),
    ],
)
def test_wrong_options_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(ROWS)
    assert run(["replay", str(jobs), *options]) == 2
    assert said in capsys.readouterr().err
