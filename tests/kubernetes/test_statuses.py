"""What is written to queues and HyperNodes on a real API server, by an account with the rights of deploy/."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cluster.kubernetes import KubernetesCluster
from muster.framework import profile
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import foreign_kinds
from tests.kubernetes.accounts import account, scheduler_rules
from tests.kubernetes.foreign_kinds import KAI_GROUP, KAI_QUEUE
from tests.kubernetes.kubectl import Json, Kubectl, gang, node, pod, queue
from tests.kubernetes.stage import Stage

HYPER_NODES = "hypernodes.topology.volcano.sh"


def status_of(kubectl: Kubectl, kind: str, name: str) -> Json:
    status: Json = kubectl.get(kind, name).get("status", {})
    return status


def rack(name: str = "rack") -> Json:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    return {**head, "spec": {"tier": 1, "members": [member]}}


@contextmanager
def stricter(kubectl: Kubectl, status: Json) -> Iterator[None]:
    """HyperNodes of whose status the server demands more for a while."""
    found = kubectl.get("CustomResourceDefinition", HYPER_NODES)
    versions = copy.deepcopy(found["spec"]["versions"])
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    schema["properties"] |= status
    kubectl.patch("CustomResourceDefinition", HYPER_NODES, {"spec": {"versions": versions}})
    try:
        yield
    finally:
        kubectl.patch("CustomResourceDefinition", HYPER_NODES, {"spec": {"versions": found["spec"]["versions"]}})


def test_queues_say_what_they_hold_and_how_their_gangs_are(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("root"), queue("default"), queue("a"), node("n1")])
    kubectl.create_all([*gang("runs", 2, group={"queue": "a"}), *gang("large", 2, gpu=7, group={"queue": "a"})])
    with (
        account(control_plane, kubectl, tmp_path, scheduler_rules()) as limited,
        KubernetesCluster(limited.kubeconfig) as cluster,
    ):
        stage = Stage(cluster, kubectl)
        wanted = {"cpu": "2", "memory": "0", "nvidia.com/gpu": "2", "pods": "2"}
        stage.run_until(lambda: status_of(kubectl, "Queue", "a").get("allocated") == wanted)
        stage.run_until(lambda: status_of(kubectl, "Queue", "root").get("allocated") == wanted)
        stage.run_until(lambda: status_of(kubectl, "Queue", "a").get("running") == 1)
        assert status_of(kubectl, "Queue", "a")["inqueue"] == 1
        # Whether a queue is open is for others to say, and stays.
        kubectl.patch("Queue", "a", {"status": {"state": "Closing"}}, status=True)
        for name in ("runs-0", "runs-1"):
            kubectl.delete("Pod", name, grace=0)
        nothing = {"cpu": "0", "memory": "0", "pods": "0"}
        stage.run_until(lambda: status_of(kubectl, "Queue", "a").get("allocated") == nothing)
        assert status_of(kubectl, "Queue", "a")["state"] == "Closing"


def test_queues_of_kai_say_what_is_asked_for_and_what_is_below_them(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    limits = {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}
    head = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    with foreign_kinds.installed(kubectl, KAI_QUEUE, KAI_GROUP):
        for name, parent in (("department", ""), ("team", "department")):
            spec = {"parentQueue": parent, "resources": limits}
            kubectl.create({**head, "metadata": {"name": name}, "spec": spec})
        mine = pod("alone", gpu=1)
        mine["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
        kubectl.create_all([node("n1"), mine])
        with KubernetesCluster(control_plane.kubeconfig) as cluster:
            stage = Stage(cluster, kubectl, profile("kai"))
            stage.run_until(
                lambda: status_of(kubectl, "KaiQueue", "department").get("allocated", {}).get("nvidia.com/gpu") == "1"
            )
            said = status_of(kubectl, "KaiQueue", "department")
            assert (said["childQueues"], said["requested"]["nvidia.com/gpu"]) == (["team"], "1")
        kubectl.delete("Pod", "alone", grace=0)


def test_hyper_nodes_have_the_condition_that_volcanos_definition_asks_for(
    cluster: KubernetesCluster, kubectl: Kubectl, caplog: pytest.LogCaptureFixture
) -> None:
    text = {"type": "string"}
    fields = dict.fromkeys(("lastTransitionTime", "message", "reason", "status", "type"), text)
    condition = {"type": "object", "properties": fields, "required": sorted(fields)}
    with stricter(kubectl, {"conditions": {"type": "array", "items": condition}}):
        kubectl.create_all([queue("default"), node("n1"), rack()])
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: status_of(kubectl, "HyperNode", "rack").get("conditions"))
        (said,) = status_of(kubectl, "HyperNode", "rack")["conditions"]
        assert (said["type"], said["status"], said["message"]) == ("Valid", "True", "all of its members were found")
    assert "event=refused" not in caplog.text


def test_conditions_that_others_wrote_on_a_hyper_node_stay_with_all_that_they_say(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    def conditions() -> dict[str, Json]:
        return {said["type"]: said for said in status_of(kubectl, "HyperNode", "rack").get("conditions", [])}

    kubectl.create_all([queue("default"), node("n1"), rack()])
    theirs = {"type": "Cabled", "status": "True", "reason": "Seen", "message": "", "observedGeneration": 7}
    theirs |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    kubectl.patch("HyperNode", "rack", {"status": {"conditions": [theirs]}}, status=True)
    theirs = conditions()["Cabled"]  # what the definition lets through
    with (
        account(control_plane, kubectl, tmp_path, scheduler_rules()) as limited,
        KubernetesCluster(limited.kubeconfig) as cluster,
    ):
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: conditions().get("Valid", {}).get("status") == "True")
        assert conditions()["Cabled"] == theirs
        kubectl.create(rack("another-of-the-same-node"))
        stage.run_until(lambda: conditions()["Valid"]["status"] == "False")
        assert conditions()["Cabled"] == theirs


def test_a_status_that_is_refused_is_said_once_and_rests(
    cluster: KubernetesCluster, kubectl: Kubectl, caplog: pytest.LogCaptureFixture
) -> None:
    with stricter(kubectl, {"nodeCount": {"type": "integer", "maximum": 0}}):
        kubectl.create_all([queue("default"), node("n1"), rack()])
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: cluster.refusals().get("status"))
        for _ in range(100):
            stage.run_once()
        assert cluster.refusals()["status"] == 1
    assert caplog.text.count("event=refused") == 1
