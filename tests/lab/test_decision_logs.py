"""What a scheduler logs can be replayed: who came when, asked for what, and ran for how long."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path

import pytest

from muster.api import UserError
from muster.cli.main import run
from muster.framework import find_config
from muster.lab.replay import Replay
from muster.lab.sources.decision_logs import read_log
from muster.lab.sources.tables import uniform_nodes
from muster.lab.trace import Trace, TraceJob
from muster.scheduler import Scheduler, builtin_registry

REGISTRY = builtin_registry(third_party=False)
JOBS = [
    TraceJob("one", 0, 40, 1, (("cpu", "2"), ("nvidia.com/gpu", "8")), "research", "ann"),
    TraceJob("gang", 10, 90, 2, (("nvidia.com/gpu", "4"),), "product", "bob"),
    TraceJob("last", 20, 60, 1, (("nvidia.com/gpu", "500m"),), "product", "bob"),
    *(TraceJob(f"tick-{k:02d}", 30 + 5 * k, 1, 1, (("cpu", "1"),), "product", "eve") for k in range(40)),
]


@pytest.fixture
def logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """The log of a scheduler that ran the jobs; short ones see to it that it looks."""
    replay = Replay(Trace(JOBS), uniform_nodes(2, 8, 64), find_config("muster"), registry=REGISTRY)
    replay._scheduler = Scheduler(replay.cluster, find_config("muster"), REGISTRY)  # one that reports
    with caplog.at_level(logging.INFO, "muster.scheduler"):
        replay.run()
    path = tmp_path / "muster.log"
    path.write_text("\n".join(f"time=2026-01-01T00:00:00.000Z level=INFO {line}" for line in caplog.messages))
    return path


def test_the_log_tells_what_jobs_asked_for_when_they_came_and_how_long_they_ran(logged: Path) -> None:
    assert "event=bind" in logged.read_text(), "decisions stand there as well"
    found = {job.name: job for job in read_log(logged).jobs}
    one, gang, last = (found[f"default-{name}"] for name in ("one", "gang", "last"))
    assert dict(one.requests) == {"cpu": "2", "nvidia.com/gpu": "8"}
    assert (gang.n_tasks, dict(gang.requests)) == (2, {"nvidia.com/gpu": "4"})
    assert dict(last.requests) == {"nvidia.com/gpu": "500m"}
    assert (one.queue, one.user, gang.user) == ("research", "ann", "bob")
    assert (one.submit_s, gang.submit_s, last.submit_s) == (0, 10, 20)
    for job, ran in ((one, 40), (gang, 90), (last, 60)):
        assert job.run_s == pytest.approx(ran, abs=6), "who has ended is looked at every few seconds"


def test_a_log_can_be_replayed_on_other_nodes(logged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = logged.with_suffix(".log.gz")
    packed.write_bytes(gzip.compress(logged.read_bytes()))
    assert run(["replay", str(packed), "--nodes", "1x8x64", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["finished"] == report["jobs"] >= 40
    assert set(report["left_out"]) <= {"had not ended when the log did"}


def test_jobs_that_ran_before_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    start = "event=job-start job=a/{} queue=q owner=o created={} pods=1 asks=nvidia.com/gpu=1"
    lines = [
        "event=job-end job=a/old seconds=5",
        start.format("x", 100),
        "event=job-end job=a/x seconds=7",
        start.format("x", 150),
        "event=job-end job=a/x seconds=8",
        start.format("open", 160),
    ]
    path.write_text("\n".join(lines))
    trace = read_log(path)
    assert [(job.name, job.submit_s, job.run_s) for job in trace.jobs] == [("a-x", 0, 7), ("a-x-run-2", 50, 8)]
    assert trace.left_out == {"began before the log did": 1, "had not ended when the log did": 1}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("event=job-start job=a/x created=1 pods=1", "job-start does not say asks="),
        ("event=job-start job=a/x created=soon pods=1 asks=cpu=1", 'created: expected a number from 0 on, got "soon"'),
        (
            "event=job-start job=a/x created=1 pods=1 asks=cpu=much",
            'asks: expected amounts such as nvidia.com/gpu=8, got "much"',
        ),
        ("event=bind job=a/x", "expected lines with event=job-start and event=job-end"),
    ],
)
def test_what_is_wrong_with_a_log_is_said_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(line)
    with pytest.raises(UserError, match=said) as raised:
        read_log(path)
    assert str(path) in str(raised.value)
