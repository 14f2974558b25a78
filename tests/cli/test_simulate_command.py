import io
import json
import re
from pathlib import Path

import pytest
import yaml

from muster.cli.demo.story import OBJECTS
from muster.cli.main import run

DEMO = str(OBJECTS)
SMALL = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return str(path)


def test_json_is_the_documented_document(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", small, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["decisions", "jobs", "nodes", "cycles"]
    [bind] = document["decisions"]
    assert {key: bind[key] for key in ("cycle", "time", "kind", "pod", "node", "job", "beneficiary")} == {
        "cycle": 1,
        "time": 0.0,
        "kind": "bind",
        "pod": "default/web",
        "node": "n1",
        "job": "default/pod/web",
        "beneficiary": "",
    }
    job = document["jobs"]["default/pod/web"]
    assert (job["phase"], job["running"], job["pending"], job["reason"]) == ("Running", 1, 0, "")
    assert document["nodes"]["n1"]["pods"] == ["default/web"]


def test_yaml_holds_the_same_as_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", small, "--output", "json"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert run(["simulate", small, "--output", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == as_json


def test_the_same_input_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", DEMO, "--output", "json", "--seed", "7"]) == 0
    first = capsys.readouterr().out
    assert run(["simulate", DEMO, "--output", "json", "--seed", "7"]) == 0
    assert capsys.readouterr().out == first


def test_the_table_shows_decisions_jobs_and_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", DEMO]) == 0
    shown = capsys.readouterr().out
    for part in ("decisions in", "research/train", "2 pods", "Jobs", "Completed", "Cluster", "· free"):
        assert part in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_standard_input_is_a_file_named_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert run(["simulate", "-", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] >= 1


@pytest.mark.parametrize("limit", ["60", "60s", "1m"])
def test_until_takes_seconds_and_durations(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", DEMO, "--until", limit, "--output", "json"]) == 0
    decisions = json.loads(capsys.readouterr().out)["decisions"]
    assert decisions
    assert all(decision["time"] <= 60 for decision in decisions)


def test_cycles_limits_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", DEMO, "--cycles", "2", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] == 2


@pytest.mark.parametrize("limit", ["soon", "-5m", "", "10 minutes", "1e3", "nan"])
def test_a_limit_that_is_no_time_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", DEMO, f"--until={limit}"]) == 2
    assert capsys.readouterr().err.startswith("error: --until: expected a ")


def test_a_timeline_adds_what_comes_later(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = SMALL.split("---")[1].replace("web", "late")
    (tmp_path / "later.txt").write_text(later)
    (tmp_path / "late.yaml").write_text(later)
    timeline = tmp_path / "timeline"
    timeline.write_text("- at: 5m\n  add: [late.yaml]\n")
    assert run(["simulate", small, "--timeline", str(timeline), "--output", "json"]) == 0
    decisions = json.loads(capsys.readouterr().out)["decisions"]
    assert [(entry["pod"], entry["time"] >= 300) for entry in decisions] == [
        ("default/web", False),
        ("default/late", True),
    ]


def test_a_configuration_is_used(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text('actions: "enqueue"\ntiers: []\n')
    assert run(["simulate", small, "--config", str(config), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == []


def test_what_was_left_out_is_said_beside_the_output(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = tmp_path / "beside.yaml"
    beside.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n")
    assert run(["simulate", small, str(beside), "--output", "json"]) == 0
    captured = capsys.readouterr()
    assert "note: 1 ConfigMap of v1 left out: a kind that muster does not read" in captured.err
    json.loads(captured.out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "not YAML"),
        ("- 1\n- 2\n", "expected a mapping"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "metadata.name"),
        ("apiVersion: v9\nkind: Pod\nmetadata: {name: x}\n", 'expected "v1"'),
        (
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {minMember: x}}",
            "spec.minMember",
        ),
    ],
)
def test_wrong_input_names_the_file_and_exits_with_2(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    assert run(["simulate", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}")
    assert words in error
    assert "Traceback" not in error


@pytest.mark.parametrize("option", ["", "--config", "--timeline"])
def test_a_file_that_is_not_there(option: str, small: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", small, option, "missing.yaml"] if option else ["simulate", "missing.yaml"]
    assert run(arguments) == 2
    assert "missing.yaml: cannot read the" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "expected nodes, queues and pods, got no object at all"),
        ("# nothing\n---\n", "expected nodes, queues and pods, got no object at all"),
        ("a:\n\tb: c\n", "not YAML: a tab stands where YAML wants spaces"),
    ],
)
def test_input_without_objects_is_an_error(
    content: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(content)
    code = run(["simulate", str(file)])
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: {file}")
    assert line in said


def test_an_empty_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", ""]) == 2
    assert capsys.readouterr().err == 'error: expected the name of a file or a directory, got ""\n'


def test_a_scheduler_that_no_pod_asks_for_is_noted(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", small, "--scheduler-name", "vulcano"]) == 0
    assert "note: --scheduler-name: no pod asks for vulcano, pods ask for " in capsys.readouterr().err


def test_unknown_fields_are_errors_or_with_an_option_notes(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.yaml"
    file.write_text("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {wieght: 2}\n")
    line = f"{file}: document 1 (Queue q): spec.wieght: unknown field; did you mean weight?\n"
    assert run(["simulate", small, str(file)]) == 2
    assert capsys.readouterr().err == f"error: {line}"
    assert run(["simulate", small, str(file), "--allow-unknown"]) == 0
    assert f"note: {line}" in capsys.readouterr().err


def test_names_of_jobs_stay_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Who reads a table wants to find the name again; sentences can break."""
    for file in OBJECTS.glob("*.yaml"):
        (tmp_path / file.name).write_text(re.sub(r"\bserve\b", "serve-ranker-canary-eu-west-1", file.read_text()))
    assert run(["simulate", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    decisions = told.partition("Jobs")[0]
    assert "product/serve-ranker-canary-eu-west-1 " in decisions
    assert max(map(len, told.splitlines())) <= 100
