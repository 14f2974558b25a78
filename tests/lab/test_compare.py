"""Comparisons: runs over configurations, clusters and seeds, what is said of the difference, and the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.main import run
from muster.lab.compare.seeds import Variation
from muster.lab.compare.verdicts import KEYS, Interval, Verdict, _verdict
from muster.lab.trace import Trace, TraceJob

ROWS = "job_id,submit_s,duration_s,num_tasks,gpus_per_task,queue,user\n" + "".join(
    f"j{k},{k * 3},{20 + 7 * (k % 5)},{1 + k % 3},{2 ** (k % 4)},q{k % 2},u{k % 3}\n" for k in range(24)
)
GPU = (("nvidia.com/gpu", "1"),)


def trace(n: int) -> Trace:
    return Trace([TraceJob(f"j{k:02d}", 10.0 * k, 5.0, 1, GPU) for k in range(n)], "made")


# -- seeds ---------------------------------------------------------------------------------------------------------


@given(seed=st.integers(1, 50), word=st.sampled_from(["jitter:30s", "sample:0.5", "none"]))
def test_a_seed_gives_the_same_trace_each_time_and_keeps_what_jobs_are(seed: int, word: str) -> None:
    given_, variation = trace(30), Variation.read(word)
    found = variation.varied(given_, seed)
    assert found == variation.varied(given_, seed)
    before = {job.name: job for job in given_.jobs}
    assert all(before[job.name].run_s == job.run_s for job in found.jobs)
    if word == "jitter:30s":
        assert {job.name for job in found.jobs} == set(before)
        assert all(abs(before[job.name].submit_s - job.submit_s) <= 30 for job in found.jobs)


def test_seed_zero_is_the_trace_as_it_was_written_and_others_differ() -> None:
    for word in ("jitter:30s", "sample:0.5"):
        variation = Variation.read(word)
        assert variation.varied(trace(30), 0) == trace(30)
        assert variation.varied(trace(30), 1) != variation.varied(trace(30), 2)


# -- verdicts ------------------------------------------------------------------------------------------------------


def test_the_interval_is_that_of_students_distribution() -> None:
    found = Interval.over([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert Interval.over([5.0]).half is None


@pytest.mark.parametrize(
    ("values", "others", "better", "said"),
    [
        ([10.0, 11.0, 12.0], [20.0, 21.0, 22.0], -1, Verdict.BETTER),
        ([10.0, 11.0, 12.0], [20.0, 21.0, 22.0], 1, Verdict.WORSE),
        ([10.0, 30.0, 12.0], [20.0, 21.0, 22.0], -1, Verdict.UNCLEAR),
        ([10.0, 11.0], [10.0, 11.0], -1, Verdict.SAME),
        ([10.0], [11.0], -1, Verdict.ONE_SEED),
    ],
)
def test_what_is_judged_are_the_differences_on_each_seed(
    values: list[float], others: list[float], better: int, said: Verdict
) -> None:
    assert _verdict(values, others, better) is said
    # A day that is hard for both says nothing about either.
    assert _verdict([value + 1000 * k for k, value in enumerate(values)], _moved(others), better) is said


def _moved(values: list[float]) -> list[float]:
    return [value + 1000 * k for k, value in enumerate(values)]


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(ROWS)
    return path


def compared(jobs: Path, *options: str) -> int:
    return run(["compare", str(jobs), "--nodes", "2x8", "--workers", "1", *options])


def test_every_configuration_is_judged_on_every_cluster(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = ["--config", "policy:fifo", "--config", "policy:skip", "--config", "policy:srtf"]
    assert compared(jobs, *configs, "--nodes", "3x8", "--seeds", "2", "--checkpoint", "0", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == [0, 1]
    assert found["baseline"] == "fifo"
    assert list(found["cases"]) == ["jobs on 2x8", "jobs on 3x8"]
    waits = found["cases"]["jobs on 2x8"]["figures"]["wait_s.mean"]
    assert list(waits) == ["fifo", "skip", "srtf"]
    assert waits["fifo"]["verdict"] is None
    assert waits["skip"]["mean"] == pytest.approx(sum(waits["skip"]["values"]) / 2, abs=1e-5)
    assert waits["skip"]["ratio"] == pytest.approx(waits["skip"]["mean"] / waits["fifo"]["mean"], rel=1e-4)
    assert waits["skip"]["low"] <= waits["skip"]["mean"] <= waits["skip"]["high"]
    assert {key.partition(".")[0] for key in KEYS} == set(found)


def test_the_first_seed_is_what_a_replay_of_the_trace_says(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(jobs, "--config", "policy:skip", "--seeds", "2", "-o", "json") == 0
    values = json.loads(capsys.readouterr().out)["cases"]["jobs on 2x8"]["figures"]["wait_s.mean"]["skip"]["values"]
    assert run(["replay", str(jobs), "--nodes", "2x8", "--config", "policy:skip", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["wait_s"]["mean"] == values[0]


def test_processes_find_what_one_process_finds(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for workers in ("1", "2"):
        options = ["--config", "policy:skip", "--config", "policy:easy", "--seeds", "1", "-o", "json"]
        assert run(["compare", str(jobs), "--nodes", "2x8", "--workers", workers, *options]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]


def test_what_was_done_is_kept_and_taken_again(
    jobs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    options = ["--config", "policy:skip", "--config", "muster", "--seeds", "1", "--out", str(out)]
    assert compared(jobs, *options) == 0
    table = capsys.readouterr().out
    assert "jobs on 2x8: 24 jobs, 1 seed, beside skip" in table
    assert len(list((out / "runs").iterdir())) == 2
    case = json.loads((out / "compare.json").read_text())["cases"]["jobs on 2x8"]
    for name, keys in case["runs"].items():
        for seed, key in enumerate(keys):
            report = json.loads((out / "runs" / f"{key}.json").read_text())
            assert (report["name"], report["seed"]) == (name, seed)
            assert report["wait_s"]["mean"] == pytest.approx(case["figures"]["wait_s.mean"][name]["values"][seed])
    page = (out / "compare.html").read_text()
    assert "jobs on 2x8" in page
    assert page.count('"held_gpus":') == 2
    monkeypatch.setattr("muster.cli.lab.comparisons.done_here", _refuse)
    assert compared(jobs, *options, "--resume") == 0
    assert capsys.readouterr().out == table


def _refuse(*_: object) -> None:
    raise AssertionError("everything has been done")


def test_estimates_make_rows_for_those_who_ask_for_run_times(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--estimates", "exact", "--estimates", "factor:5"]
    assert compared(jobs, "--config", "policy:skip", "--config", "policy:sjf", *told, "--seeds", "1", "-o", "json") == 0
    waits = json.loads(capsys.readouterr().out)["cases"]["jobs on 2x8"]["figures"]["wait_s.mean"]
    assert list(waits) == ["skip", "sjf exact", "sjf factor:5"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--vary", "wild"], "--vary: expected none, jitter:TIME"),
        (["--vary", "sample:2"], "--vary: expected none, jitter:TIME"),
        (["--config", "policy:best"], "there is no policy 'best'"),
        (["--config", "a=muster", "--config", "a=kai"], "expected a name of its own for each"),
        (["--resume"], "--resume takes runs from where --out DIR has them"),
        (["--dask", "tcp://nowhere:1"], "--dask needs the package distributed: pip install 'muster[dask]'"),
    ],
)
def test_wrong_options_are_named(
    jobs: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.lab.compare.workers.find_spec", lambda _: None)
    assert compared(jobs, *options) == 2
    assert said in capsys.readouterr().err


class _Client:
    """Stands for Dask's client: does at once what it is asked for."""

    versions: ClassVar[dict[str, str]] = {}

    def __init__(self, address: str, timeout: float) -> None:
        if "nowhere" in address:
            raise OSError("timed out")

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, what: Any) -> dict[str, str]:
        return self.versions or {"worker-1": what()}

    def scatter(self, thing: object, *, broadcast: bool) -> object:
        assert broadcast
        return thing

    def submit(self, what: Any, *about: object, pure: bool) -> Any:
        assert not pure
        return _Done(what(*about))

    def cancel(self, futures: list[object]) -> None:
        pass


class _Done:
    def __init__(self, value: object) -> None:
        self._value = value

    def result(self) -> object:
        return self._value


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> type[_Client]:
    module = ModuleType("distributed")
    module.Client = _Client  # type: ignore[attr-defined]  # a stand-in
    module.as_completed = list  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "distributed", module)
    monkeypatch.setattr("muster.lab.compare.workers.find_spec", lambda _: object())
    monkeypatch.setattr(_Client, "versions", {})
    return _Client


def test_a_dask_cluster_does_the_runs(
    jobs: Path, capsys: pytest.CaptureFixture[str], dask: type[_Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--config", "policy:skip", "--seeds", "2", "-o", "json"]
    assert compared(jobs, *options) == 0
    here = capsys.readouterr().out
    assert compared(jobs, *options, "--dask", "tcp://there:8786") == 0
    assert capsys.readouterr().out == here
    assert compared(jobs, *options, "--dask", "tcp://nowhere:8786") == 1
    assert "no scheduler answers at tcp://nowhere:8786: timed out" in capsys.readouterr().err
    monkeypatch.setattr(dask, "versions", {"worker-1": "0.0.1"})
    assert compared(jobs, *options, "--dask", "tcp://there:8786") == 2
    assert "on all workers, got 0.0.1 on worker-1" in capsys.readouterr().err
