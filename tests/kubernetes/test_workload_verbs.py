"""`muster job` and `muster queue` on a real cluster that is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.cli.main import run
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Kubectl, queue
from tests.kubernetes.replicas import replica
from tests.kubernetes.test_volcano_jobs import KIND, job, phase, pods_of


def test_a_job_from_its_making_to_its_end(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create(queue("default"))
    where = ["--kubeconfig", str(control_plane.kubeconfig)]

    def muster(*arguments: str) -> str:
        assert run([*arguments, *where]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(job("second", 1)))
    with replica(control_plane, tmp_path / "log"):
        assert muster("job", "run", "--name", "first", "--replicas", "2") == "Job default/first is made\n"
        assert muster("job", "run", "-f", str(file)) == "Job default/second is made\n"
        kubectl.wait(lambda: len(pods_of(kubectl, "first")) == 2, seconds=60)
        kubectl.wait(lambda: "waits" in muster("job", "view", "first"))
        shown = muster("job", "view", "first")
        assert "phase     Pending since" in shown
        assert "pods      2 pending" in shown
        assert "first-first-1" in shown
        assert json.loads(muster("job", "view", "first", "-o", "json"))["job"]["metadata"]["name"] == "first"
        muster("job", "suspend", "first")
        kubectl.wait(lambda: phase(kubectl, "first") == "Aborted")
        assert "because   command first-abortjob-" in muster("job", "view", "first")
        muster("job", "resume", "first")
        kubectl.wait(lambda: len(pods_of(kubectl, "first")) == 2)
        muster("job", "delete", "first")
        assert [each["metadata"]["name"] for each in kubectl.list(KIND)] == ["second"]


def test_a_queue_from_its_making_to_its_end(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--kubeconfig", str(control_plane.kubeconfig)]

    def muster(*arguments: str) -> str:
        assert run([*arguments, *where]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    def state() -> str:
        found: str = kubectl.get("Queue", "research").get("status", {}).get("state", "")
        return found

    with replica(control_plane, tmp_path / "log"):
        muster("queue", "create", "research", "--weight", "3", "--capability", "cpu=8")
        shown = muster("queue", "get", "research")
        assert "weight      3" in shown
        assert "capability  8 cpu" in shown
        kubectl.create(job("train", 1, queue="research"))
        kubectl.wait(lambda: len(pods_of(kubectl, "train")) == 1, seconds=60)
        muster("queue", "close", "research")
        kubectl.wait(lambda: state() == "Closing")
        kubectl.delete(KIND, "train")
        for group in kubectl.list("PodGroup"):  # nobody collects garbage here
            kubectl.delete("PodGroup", group["metadata"]["name"])
        kubectl.wait(lambda: state() == "Closed")
        muster("queue", "open", "research")
        kubectl.wait(lambda: state() == "Open")
        muster("queue", "delete", "research")
    assert "research" not in [each["metadata"]["name"] for each in kubectl.list("Queue")]


def test_what_is_not_there_is_said(
    control_plane: ControlPlane, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    del kubectl
    assert run(["job", "suspend", "nobody", "--kubeconfig", str(control_plane.kubeconfig)]) == 2
    assert "Job default/nobody: there is none on the cluster" in capsys.readouterr().err
