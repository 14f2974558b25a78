import json
from pathlib import Path

import pytest
import yaml

from muster.cli.main import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "whatif"
CLUSTER, JOB = str(EXAMPLE / "cluster.yaml"), str(EXAMPLE / "job.yaml")


def test_both_runs_are_printed_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", CLUSTER, "--submit", JOB]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "With PodGroup product/launch submitted"
    assert "pods evicted 0 2" in lines
    assert "GPU-seconds lost 0 57,600" in lines
    assert any(line.startswith("research/tune research later starts in 1h starts in 2h 30m") for line in lines)


def test_changes_can_be_repeated_and_combined(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--drain", "gpu-1", "--drain", "gpu-2", "--priority", "tune=5", "--queue", "research.weight=2"]
    assert run(["whatif", CLUSTER, *asked, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changes"] == [
        "weight 2 for queue research",
        "node gpu-1 drained",
        "node gpu-2 drained",
        "priority 5 for tune",
    ]


def test_json_and_yaml_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", CLUSTER, "--drain", "gpu-3", "-o", "json"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert run(["whatif", CLUSTER, "--drain", "gpu-3", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == as_json


def test_wide_also_lists_jobs_that_fare_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", CLUSTER, "--queue", "product.weight=3"]) == 0
    assert "No job fares otherwise" in capsys.readouterr().out
    assert run(["whatif", CLUSTER, "--queue", "product.weight=3", "-o", "wide"]) == 0
    assert "research/tune" in capsys.readouterr().out


def test_a_limit_is_said_where_there_would_be_more_to_see(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", CLUSTER, "--queue", "product.weight=3", "--for", "10m"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("ahead; --for looks further")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "expected something to change: --add-nodes"),
        (["--drain", "gpu1"], '--drain gpu1: there is no node "gpu1"; did you mean "gpu-1"?'),
        (["--drain", "gpu-1", "--for", "soon"], "--for: expected a duration"),
        (["--drain", "gpu-1", "--for", "1h", "--cycles", "2"], "--cycles and --for exclude each other"),
        (["--config", "kia"], "--config kia: "),
    ],
)
def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], error: str) -> None:
    assert run(["whatif", CLUSTER, *arguments]) == 2
    said = capsys.readouterr().err
    assert error in said
    assert said.count("\n") == 1
