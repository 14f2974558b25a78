"""The verbs of `muster job` and `muster queue`, as far as they need no cluster; the rest is tried on a real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from muster.api import KubeObject, PodGroup, UserError
from muster.cli.main import run
from muster.cli.workloads.jobs import NewJob, command_job, view_job
from muster.cli.workloads.queues import command_queue
from muster.cli.workloads.requests import Server


def test_a_job_of_a_few_options() -> None:
    wanted = NewJob("hello", "team", "busybox", 3, 2, "cpu=1,memory=1Gi", "", "research", "volcano")
    document = wanted.document()
    assert document["metadata"] == {"name": "hello", "namespace": "team"}
    spec = document["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["schedulerName"]) == (2, "research", "volcano")
    (task,) = spec["tasks"]
    assert (task["name"], task["replicas"]) == ("hello", 3)
    (container,) = task["template"]["spec"]["containers"]
    amounts = {"cpu": "1", "memory": "1Gi"}
    assert container == {"name": "hello", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["job", "run"], "expected --name, or a Job in a file"),
        (["job", "run", "--name", "a", "--requests", "cpu"], '--requests: expected amounts such as "cpu=1,memory=1Gi"'),
        (["job", "run", "--name", "a", "--requests", "cpu=much"], 'got "cpu=much"'),
        (["job", "run", "--name", "a", "--replicas", "2", "--min", "3"], "expected at most the number of replicas, 2"),
        (["job", "run", "-f", "nothing-here.yaml"], "nothing-here.yaml: cannot read the file: No such file"),
        (["job", "run", "-f", "/"], "/: cannot read the file: Is a directory"),
        (["queue", "create", "a", "--capability", "=3"], "--capability: expected amounts"),
    ],
)
def test_what_cannot_be_is_said_before_anybody_is_asked(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--kubeconfig", "/nowhere"]) == 2
    assert words in capsys.readouterr().err


def test_a_file_with_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.yaml"
    file.write_bytes(b"\xff\xfe")
    assert run(["job", "run", "-f", str(file)]) == 2
    assert "expected text in UTF-8" in capsys.readouterr().err
    file.write_text("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}}")
    assert run(["job", "run", "-f", str(file)]) == 2
    assert "expected Jobs of batch.volcano.sh/v1alpha1 alone" in capsys.readouterr().err


@dataclass(frozen=True)
class Answers(Server):
    """A server with one Job and its PodGroup."""

    phase: str = ""
    why: str = ""
    told: list[str] = field(default_factory=list)

    def get(self, kind: type[KubeObject], key: str) -> dict[str, Any]:
        del key
        if kind is PodGroup:
            return {"status": {"conditions": [{"type": "Unschedulable", "message": self.why}]}}
        metadata = {"name": "j", "namespace": "a", "uid": "u"}
        state = {"phase": self.phase, "lastTransitionTime": "2026-01-02T03:04:05.678901Z"}
        return {"metadata": metadata, "spec": {"minAvailable": 1, "tasks": []}, "status": {"state": state}}

    def list(self, path: str) -> list[dict[str, Any]]:
        del path
        return []

    def tell(self, target: dict[str, Any], namespace: str, action: str) -> None:
        self.told.append(f"{action} {namespace}/{target['metadata']['name']}")


def test_a_job_that_has_ended_takes_no_command() -> None:
    ended, running = Answers(phase="Completed"), Answers(phase="Running")
    with pytest.raises(UserError, match=r"^Job a/j: is Completed; it cannot be suspended any more$"):
        command_job(ended, "a/j", "AbortJob", "suspended")
    command_job(running, "a/j", "AbortJob", "suspended")
    assert (ended.told, running.told) == ([], ["AbortJob a/j"])


def test_the_root_of_queues_is_not_closed() -> None:
    server = Answers()
    with pytest.raises(UserError, match=r"^Queue root: cannot be closed"):
        command_queue(server, "root", "CloseQueue", "closes")
    assert server.told == []


def test_a_long_reason_stays_in_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    view_job(Answers(phase="Pending", why="insufficient-resources: " + "no node has room " * 12), "a/j", "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  phase     Pending since 2026-01-02T03:04:05Z"
    assert lines[2].startswith("  waits     insufficient-resources: no node")
    assert lines[3].startswith("            ")
    assert lines[3].strip()
