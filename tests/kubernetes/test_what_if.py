"""Asking a live cluster "what if": rights to list are enough, and nothing is written, whatever is asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from muster.cli.main import run
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.requests import FORBIDDEN, ApiError, Client
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.accounts import account
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, priority_class, queue

#: Nothing but lists: no single object, no watch, and nothing that changes anything.
LIST_ONLY: Final[list[Json]] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]
KINDS: Final = ("Pod", "Node", "PodGroup", "Queue", "PriorityClass")


def _versions(kubectl: Kubectl) -> dict[tuple[str, str], str]:
    """Every object with its version, which any write would change."""
    return {
        (kind, thing["metadata"]["name"]): thing["metadata"]["resourceVersion"]
        for kind in KINDS
        for thing in kubectl.list(kind)
        if kind != "Node"  # kubelets go on reporting
    } | {("Node", each["metadata"]["name"]): json.dumps(each["spec"]) for each in kubectl.list("Node")}


async def _write(kubeconfig: Path) -> int:
    client = Client(await connect(kubeconfig, None))
    try:
        await client.request("DELETE", "/api/v1/nodes/n1")
    except ApiError as fault:
        return fault.status
    finally:
        await client.close()
    return 0


def test_rights_to_list_are_enough_and_nothing_is_written(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all([queue("default"), queue("research"), priority_class("urgent", 1000)])
    kubectl.create_all([node("n1", gpu=4), node("n2", gpu=4), *gang("train", 4), *gang("sweep", 6)])
    submitted = tmp_path / "job.yaml"
    submitted.write_text(yaml.safe_dump_all(gang("more", 2)))
    before = _versions(kubectl)
    asked = [
        *("--add-nodes", "2xn1", "--drain", "n2", "--submit", str(submitted), "--delete", "train"),
        *("--queue", "research.quota.gpu=4", "--priority", "sweep=urgent", "--config", "kai"),
    ]
    with account(control_plane, kubectl, tmp_path, LIST_ONLY) as limited:
        # The account is what it is taken for: a write is refused.
        assert asyncio.run(_write(limited.kubeconfig)) == FORBIDDEN
        assert run(["whatif", "--cluster", "--kubeconfig", str(limited.kubeconfig), *asked, "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert run(["explain", "sweep", "--cluster", "--kubeconfig", str(limited.kubeconfig)]) == 0
    assert len(document["changes"]) == 7
    differences = {each["job"]: each["difference"] for each in document["jobs"]}
    assert differences["default/more"] == "new"
    assert differences["default/train"] == "gone"
    assert _versions(kubectl) == before


def test_a_saved_cluster_answers_as_the_live_one(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 4), *gang("sweep", 4)])
    reached, saved = ["--kubeconfig", str(control_plane.kubeconfig)], tmp_path / "now.jsonl.gz"
    assert run(["snapshot", "save", str(saved), *reached]) == 0
    assert run(["whatif", "--cluster", *reached, "--add-nodes", "n1", "-o", "json"]) == 0
    live = json.loads(capsys.readouterr().out)
    assert run(["whatif", str(saved), "--add-nodes", "n1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == live["jobs"]
    assert [job["difference"] for job in live["jobs"]].count("starts") == 1
