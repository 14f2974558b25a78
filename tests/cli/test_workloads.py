"""The verbs of `muster job` and `muster queue`, as far as they need no cluster; the rest is tried on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.main import run
from muster.cli.workloads.jobs import NewJob


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
