"""`muster jobs`, `muster queues`, `muster nodes`: what people and programs see, and how it is looked at again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from muster.cli.main import run
from tests.explain.clusters import gang, group, node, pod, queue

URGENT = """---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 100
"""


def _file(folder: Path, *documents: str) -> str:
    path = folder / "cluster.yaml"
    path.write_text("---".join(documents))
    return str(path)


@pytest.fixture
def busy(tmp_path: Path) -> str:
    """A node that is full for ten seconds, and three gangs that wait, one of them urgent."""
    held = pod("held", 8, on="n1", notes='muster.sh/run-seconds: "10"')
    later = [*gang("second", 1, 8, queue="a"), *gang("first", 1, 8, queue="a")]
    hot = [group("hot", 1, "a", extra=", priorityClassName: urgent"), pod("hot-0", 8, group="hot")]
    return _file(tmp_path, node("n1"), node("n2", gpus=0), queue("a"), URGENT.removeprefix("---"), held, *later, *hot)


def _document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    assert run([*arguments, "--output", "json"]) == 0
    found: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def test_jobs_stand_in_line_and_say_why(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = _document(capsys, "jobs", busy)["jobs"]
    line = [(row["job"], row["line"]) for row in rows if row["line"]]
    assert line == [
        ("team/hot", {"overall": 1, "inQueue": 1, "why": "first of its queue"}),
        ("team/second", {"overall": 2, "inQueue": 2, "why": "behind team/hot by priority"}),
        ("team/first", {"overall": 3, "inQueue": 3, "why": "behind team/second by age"}),
    ]
    held = rows[-1]
    assert (held["job"], held["state"], held["nodes"]) == ("team/pod/held", "running", ["n1"])
    assert {row["reason"] for row in rows[:3]} == {"insufficient-resources: no node has room for 1 of 1 pod"}


def test_a_start_that_is_known_is_said_and_one_that_is_not_is_not(
    busy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = {row["job"]: row["startsInSeconds"] for row in _document(capsys, "jobs", busy)["jobs"]}
    first = starts["team/hot"]
    assert isinstance(first, float)
    assert 9 <= first <= 12
    assert starts["team/second"] is None, "nobody knows when hot ends"
    unknown = {row["job"]: row["startsInSeconds"] for row in _document(capsys, "jobs", busy, "--no-forecast")["jobs"]}
    assert unknown["team/hot"] is None


def test_jobs_of_one_queue_and_of_none(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert {row["queue"] for row in _document(capsys, "jobs", busy, "-q", "a")["jobs"]} == {"a"}
    assert run(["jobs", busy, "--queue", "b"]) == 2
    assert capsys.readouterr().err == 'error: --queue: there is no queue "b"; there are a, default, root\n'
    assert run(["jobs", busy, "--queue", "defualt"]) == 2
    assert capsys.readouterr().err == 'error: --queue: there is no queue "defualt"; did you mean "default"?\n'


def test_the_table_of_jobs(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["job", "list", busy]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 jobs: 1 running and 3 waiting"
    assert lines[1].split() == ["#", "job", "queue", "state", "pods", "prio", "age", "start", "why", "or", "where"]
    assert lines[2].split()[:7] == ["1", "team/hot", "a", "waiting", "0/1", "100", "0s"]
    assert run(["jobs", busy, "-o", "wide"]) == 0
    wide = capsys.readouterr().out.splitlines()
    assert "behind team/hot by priority" in wide[3]
    assert len(wide) == 6, "nothing is broken into several lines"


def test_pods_without_their_group_have_an_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = _file(tmp_path, node("n1"), pod("lost", 1, group="gone"))
    [row] = _document(capsys, "jobs", cluster, "--until", "1m")["jobs"]
    assert (row["state"], row["reason"]) == ("waiting", "podgroup-missing: its PodGroup does not exist (team/gone)")
    assert isinstance(row["ageSeconds"], float)
    assert round(row["ageSeconds"]) == 60


def test_later_moments_can_be_asked_for(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["job"]: row for row in _document(capsys, "jobs", busy, "--until", "1m")["jobs"]}
    assert (rows["team/hot"]["state"], rows["team/pod/held"]["state"]) == ("running", "finished")
    running = rows["team/hot"]["runningSeconds"]
    assert isinstance(running, float)
    assert 40 < running < 52


def test_the_list_of_queues(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    queues = {row["name"]: row for row in _document(capsys, "queues", busy)["queues"]}
    assert queues["a"]["jobs"] == {"running": 0, "waiting": 3, "pendingPods": 3}
    assert run(["queue", "list", busy]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("queues: 3 jobs wait")
    assert next(line for line in lines if line.startswith("a ")).split()[:5] == ["a", "open", "1", "0", "3"]


def test_the_list_of_nodes(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = {row["name"]: row for row in _document(capsys, "nodes", busy)["nodes"]}
    assert (nodes["n1"]["free"], nodes["n1"]["jobs"]) == (
        {"cpu": "63", "memory": "256Gi", "nvidia.com/gpu": "0", "pods": "109"},
        ["team/pod/held"],
    )
    assert run(["node", "list", busy, "--resource", "nvidia.com/gpu"]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "2 nodes: 2 ready",
        "node  state  GPU used/all  pods  jobs",
        "n1    ready           8/8     1  team/pod/held",
        "n2    ready             -     0",
    ]
    assert run(["nodes", busy, "--resource", "gold"]) == 2
    assert 'no node has "gold"; there is nvidia.com/gpu, cpu, memory' in capsys.readouterr().err


@pytest.mark.parametrize("command", ["jobs", "queues", "nodes"])
def test_yaml_says_what_json_says(command: str, busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = _document(capsys, command, busy)
    assert run([command, busy, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_the_old_spelling_of_the_tree_is_known(busy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["queues", "show", busy]) == 0
    old = capsys.readouterr().out
    assert run(["queue", "show", busy]) == 0
    assert capsys.readouterr().out == old


def test_what_is_watched_is_printed_again_when_it_has_changed(
    busy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            Path(busy).write_text(Path(busy).read_text() + "---" + node("n3"))
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("muster.cli.screen.time.sleep", sleep)
    assert run(["nodes", busy, "--watch", "--interval", "7"]) == 130
    assert looks == [7.0, 7.0, 7.0]
    headings = [line for line in capsys.readouterr().out.splitlines() if ":" in line]
    assert headings == ["2 nodes: 2 ready", "3 nodes: 3 ready"], "once each, not three times"


def test_on_a_terminal_what_is_watched_takes_the_place_of_the_last(
    busy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.cli.screen.time.sleep", stop)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run(["explain", "hot", busy, "--watch"]) == 130
    assert capsys.readouterr().out.startswith("\x1b[H\x1b[2J\x1b[3J")


def test_when_jobs_start_follows_from_what_others_say_of_their_run_times(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "whatif" / "cluster.yaml"
    assert run(["jobs", str(example), "--output", "json"]) == 0
    jobs = {row["job"]: row for row in json.loads(capsys.readouterr().out)["jobs"]}
    assert jobs["research/tune"]["startsInSeconds"] == 3600
