"""`muster topology`: what a user at a terminal and a script in a pipe see."""

import io
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from muster.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "topology"
NODES, HYPER_NODES, JOBS = (str(EXAMPLE / name) for name in ("nodes.yaml", "hypernodes.yaml", "jobs.yaml"))
LABELS = "example.com/rack,example.com/spine"


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main.run(["topology", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code < 2 else captured.err


@pytest.fixture
def broken(tmp_path: Path) -> str:
    path = tmp_path / "broken.yaml"
    path.write_text(
        "apiVersion: topology.volcano.sh/v1alpha1\n"
        "kind: HyperNode\n"
        "metadata: {name: rack-9}\n"
        "spec:\n"
        "  tier: 1\n"
        "  members:\n"
        "  - {type: Node, selector: {exactMatch: {name: node-15}}}\n"
        "  - {type: HyperNode, selector: {exactMatch: {name: nowhere}}}\n"
    )
    return str(path)


def test_help_is_shown_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys)
    assert "Usage: muster topology" in shown
    assert all(command in shown for command in ("show", "generate", "check"))


def test_show_draws_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "show", NODES, HYPER_NODES, JOBS).splitlines()
    assert lines[0] == "<cluster-top-hypernode>  ■□□□□□□□  16 nodes, 116 of 128 GPUs free"
    assert "│   ├── rack-0  ■□□□□□□□  tier 1, rack, 4 nodes, 28 of 32 GPUs free" in lines
    assert len(lines) == 1 + 2 + 4 + 16


def test_show_down_to_a_tier(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, "show", str(EXAMPLE), "--tier", "2").splitlines()) == 3


def test_show_after_a_run_of_the_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "show", str(EXAMPLE), "--run")
    assert shown.splitlines()[0].endswith("36 of 128 GPUs free")


def test_show_another_resource(capsys: pytest.CaptureFixture[str]) -> None:
    assert "1536 of 1536 CPUs free" in run(capsys, "show", str(EXAMPLE), "--resource", "cpu")
    error = run(capsys, "show", str(EXAMPLE), "--resource", "tpu", code=2)
    assert error.startswith('error: --resource: no node has "tpu"; there is cpu, memory')


def test_show_as_json_dot_and_svg(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "show", str(EXAMPLE), "--output", "json"))
    assert [domain["name"] for domain in document["root"]["domains"]] == ["spine-0", "spine-1"]
    assert run(capsys, "show", str(EXAMPLE), "--output", "dot").startswith("digraph topology {")
    assert ET.fromstring(run(capsys, "show", str(EXAMPLE), "--output", "svg")).tag.endswith("svg")


def test_show_faults_in_place(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "show", NODES, HYPER_NODES, broken).splitlines()
    place = next(i for i, line in enumerate(lines) if "rack-9" in line)
    assert lines[place + 1].endswith("! member HyperNode 'nowhere' does not exist")
    assert lines[place + 2].endswith("! node 'node-15' is in 'rack-3' too")


def test_show_on_a_terminal_is_coloured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = run(capsys, "show", str(EXAMPLE))
    assert "\x1b[" in shown
    assert "rack-3" in shown


def test_show_without_files_at_a_terminal_says_what_it_wants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert "expected files with nodes and HyperNodes" in run(capsys, "show", code=2)


def test_the_hypernodes_of_the_example_are_what_generate_writes(capsys: pytest.CaptureFixture[str]) -> None:
    written = Path(HYPER_NODES).read_text(encoding="utf-8")
    assert written.partition("\n")[2] == run(capsys, "generate", "--from-labels", LABELS, NODES)


@pytest.mark.parametrize("selector", ["name", "label"])
def test_what_is_generated_is_clean(selector: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made.yaml"
    made.write_text(run(capsys, "generate", "--from-labels", LABELS, "--selector", selector, NODES))
    assert run(capsys, "check", NODES, JOBS, str(made)) == "nothing wrong\n"


def test_generate_into_show_through_a_pipe() -> None:
    """Two processes, as a user would type it."""
    muster = [sys.executable, "-m", "muster", "topology"]
    made = subprocess.run(
        [*muster, "generate", "--from-labels", LABELS, NODES], check=True, capture_output=True, text=True
    )
    shown = subprocess.run([*muster, "show", NODES, "-"], check=True, capture_output=True, text=True, input=made.stdout)
    assert "├── spine-0" in shown.stdout
    assert shown.stderr == ""


def test_show_reads_standard_input_without_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(NODES).read_bytes())))
    assert "16 nodes, 128 of 128 GPUs free" in run(capsys, "show")


def test_nodes_that_lack_a_label_are_named_on_the_error_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = tmp_path / "extra.yaml"
    extra.write_text("{apiVersion: v1, kind: Node, metadata: {name: spare}}")
    assert main.run(["topology", "generate", "--from-labels", LABELS, NODES, str(extra)]) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "note: 1 of 17 nodes without label example.com/rack: spare",
        "note: 1 of 17 nodes without label example.com/spine: spare",
    ]
    assert "spare" not in captured.out


def test_generate_refuses_what_makes_no_tree(capsys: pytest.CaptureFixture[str]) -> None:
    backwards = ",".join(reversed(LABELS.split(",")))
    error = run(capsys, "generate", "--from-labels", backwards, NODES, code=2)
    assert 'example.com/spine "spine-0" is in two places: example.com/rack "rack-0"' in error
    assert "no node has any of the labels zone" in run(capsys, "generate", "--from-labels", "zone", NODES, code=2)
    assert "there is no node" in run(capsys, "generate", "--from-labels", "zone", JOBS, code=2)


def test_check_exits_with_0_when_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", str(EXAMPLE)) == "nothing wrong\n"


def test_check_exits_with_1_when_there_are_errors(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "check", NODES, HYPER_NODES, broken, code=1).splitlines()
    assert lines == [
        f"error: {HYPER_NODES}:77: HyperNode rack-3: node 'node-15' is in 'rack-9' too",
        f"error: {broken}:1: HyperNode rack-9: member HyperNode 'nowhere' does not exist",
        f"error: {broken}:1: HyperNode rack-9: node 'node-15' is in 'rack-3' too",
        "3 errors, 0 warnings, 0 notes",
    ]


def test_warnings_alone_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text(
        "{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: r}, spec: {tier: 1}}"
    )
    assert "1 warning" in run(capsys, "check", str(empty))


def test_check_exits_with_2_when_the_input_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read the file" in run(capsys, "check", str(tmp_path / "absent.yaml"), code=2)
    nonsense = tmp_path / "nonsense.yaml"
    nonsense.write_text("kind: [")
    assert "not YAML" in run(capsys, "check", str(nonsense), code=2)


def test_check_as_json(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "check", NODES, HYPER_NODES, broken, "--output", "json", code=1))
    assert (document["errors"], document["warnings"], document["notes"]) == (3, 0, 0)
    assert document["findings"][0]["code"] == "fault"


def test_check_tells_of_a_pattern_that_the_loader_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pattern.yaml"
    path.write_text(
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: r}\n"
        'spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "a(b"}}}]}\n'
    )
    assert "expected a regular expression in Go's syntax" in run(capsys, "check", str(path), code=1)
    assert "expected a regular expression in Go's syntax" in run(capsys, "show", str(path), code=2)
