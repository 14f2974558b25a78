"""Commands on a live cluster, and on what was saved of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.api import load_files
from muster.cli.main import run
from muster.cluster.kubernetes import KubernetesCluster
from muster.snapshot.messages import Bind
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, queue
from tests.kubernetes.stage import Stage


@pytest.fixture
def reached(control_plane: ControlPlane) -> list[str]:
    return ["--kubeconfig", str(control_plane.kubeconfig)]


def crowd() -> list[Json]:
    """More than fits: two gangs of four and a pod for six GPUs, on which another scheduler's pod sits already."""
    other = pod("other", gpu=1, schedulerName="default-scheduler", nodeName="n1")
    strays = pod("not-ours", gpu=1, schedulerName="default-scheduler")
    nodes = [node("n1", gpu=4), node("n2", gpu=2)]
    return [queue("default"), *nodes, other, strays, *gang("train", 4), *gang("sweep", 4), pod("notebook")]


def test_a_saved_snapshot_decides_as_the_scheduler_did(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    reached: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kubectl.create_all(crowd())
    saved = tmp_path / "now.jsonl.gz"
    assert run(["snapshot", "save", str(saved), *reached]) == 0
    assert run(["simulate", str(saved), "--cycles", "1", "--output", "json"]) == 0
    replayed = json.loads(capsys.readouterr().out)["decisions"]
    with KubernetesCluster(control_plane.kubeconfig) as cluster:
        result = Stage(cluster, kubectl).run_once()
    made = [(decision.pod, decision.node) for decision in result.decisions if isinstance(decision, Bind)]
    assert [(decision["pod"], decision["node"]) for decision in replayed] == made
    assert len(made) == 5


def test_what_a_live_cluster_would_do_is_told_and_not_done(
    kubectl: Kubectl, reached: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all(crowd())
    assert run(["simulate", "--cluster", *reached, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["decisions"]) == 5
    assert "default/pod/not-ours" not in document["jobs"]
    assert set(kubectl.nodes_of_pods().values()) == {"", "n1"}


def test_a_job_of_a_live_cluster_is_explained(
    kubectl: Kubectl, reached: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 5)])
    assert run(["explain", "train", "--cluster", *reached]) == 0
    assert capsys.readouterr().out.startswith("default/train waits: ")


def test_queues_and_topology_of_a_live_cluster_are_shown(
    kubectl: Kubectl, reached: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all([queue("default"), queue("research", weight=3), node("n1", gpu=4)])
    assert run(["queues", "show", "--cluster", *reached, "--output", "json"]) == 0
    assert "research" in capsys.readouterr().out
    assert run(["topology", "show", "--cluster", *reached]) == 0
    assert "n1" in capsys.readouterr().out
    assert run(["topology", "check", "--cluster", *reached]) == 0


def test_jobs_queues_and_nodes_of_a_live_cluster_are_listed(
    kubectl: Kubectl, reached: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all(crowd())
    found: dict[str, list[Json]] = {}
    for command in ("jobs", "queues", "nodes"):
        assert run([command, "--cluster", *reached, "--output", "json"]) == 0
        found |= json.loads(capsys.readouterr().out)
    states = {row["job"]: row["state"] for row in found["jobs"]}
    assert sorted(states) == ["default/pod/notebook", "default/sweep", "default/train"]
    assert sorted(states.values()) == ["starting", "starting", "waiting"]
    assert [row["line"]["overall"] for row in found["jobs"] if row["state"] == "waiting"] == [1]
    assert {row["name"]: row["used"]["nvidia.com/gpu"] for row in found["nodes"]}.keys() == {"n1", "n2"}
    assert "default" in {row["name"] for row in found["queues"]}
    assert set(kubectl.nodes_of_pods().values()) == {"", "n1"}, "nothing was changed"


def test_a_snapshot_holds_nothing_private(kubectl: Kubectl, reached: list[str], tmp_path: Path) -> None:
    secret = "correct-horse"
    private = pod("notebook")
    private["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": secret,
        "example.com/token": secret,
        "token": secret,
    }
    container = private["spec"]["containers"][0]
    container |= {"env": [{"name": "TOKEN", "value": secret}], "args": [secret], "command": [secret], "image": secret}
    kubectl.create_all([queue("default"), node("n1"), private])
    saved = tmp_path / "now.yaml"
    assert run(["snapshot", "save", str(saved), *reached]) == 0
    assert secret not in saved.read_text()
    assert "default/notebook" in {thing.key for thing in load_files([saved]).objects}
