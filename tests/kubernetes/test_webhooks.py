"""`muster webhooks serve` as a real API server asks it, with the rights of the manifests and no others."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from muster.api.validate_core import MAX_PODS
from muster.cli.main import run
from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane, free_ports
from tests.deploy.manifests import DEPLOY
from tests.kubernetes.accounts import account
from tests.kubernetes.kubectl import Json, Kubectl, RefusedError, gang, node, pod, queue
from tests.kubernetes.stage import Stage

REGISTRY = "/apis/admissionregistration.k8s.io/v1"
DRY_RUN = "?dryRun=All"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def hyper_node(pattern: str) -> Json:
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "rack-1"}}
    return {**head, "spec": {"tier": 1, "members": [member]}}


def job(**spec: object) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "none"}], "hostNetwork": True}}
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"generateName": "train-"}}
    return {**head, "spec": {"tasks": [{"replicas": 2, "template": template}], **spec}}


def job_flow(**needs: list[str]) -> Json:
    flows = [{"name": name, "dependsOn": {"targets": targets}} for name, targets in needs.items()]
    head = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "pipeline"}}
    return {**head, "spec": {"flows": flows}}


def manifests() -> list[Json]:
    return list(yaml.safe_load_all((DEPLOY / "manifests" / "webhooks.yaml").read_text()))


class Server:
    """The process, which shows the API server's own certificate: it is for the same address."""

    def __init__(self, certificates: Path, kubeconfig: Path, log: Path) -> None:
        self.port = free_ports(1)[0]
        self.certificate = certificates / "apiserver.crt"
        self.log = log
        command = [sys.executable, "-m", "muster", "webhooks", "serve", "--kubeconfig", str(kubeconfig)]
        command += ["--cert", str(self.certificate), "--key", str(certificates / "apiserver.key")]
        command += ["--listen", f"127.0.0.1:{self.port}", "--drain", "0", "--guard-busy-queues"]
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stderr=out, stdout=out, env=os.environ)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        context = ssl.create_default_context(cafile=str(self.certificate))
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5, context=context) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server, with an account that has the rights of the manifests."""
    work, admin = tmp_path_factory.mktemp("webhooks"), Kubectl(control_plane)
    rules = next(each["rules"] for each in manifests() if each["kind"] == "ClusterRole")
    with account(control_plane, admin, work, rules) as limited:
        started = Server(control_plane.work / "certificates", limited.kubeconfig, work / "log")
        try:
            admin.wait(started.is_ready, 60)
            yield started
            assert started.end() == 0, started.log.read_text()
        finally:
            started.process.kill()
    admin.close()


@pytest.fixture
def asked(server: Server, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Iterator[Kubectl]:
    """A cluster whose API server asks us."""
    assert run(["webhooks", "print", "--url", server.url, "--ca-file", str(server.certificate)]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    paths = [f"{REGISTRY}/{document['kind'].lower()}s" for document in documents]
    try:
        for path, document in zip(paths, documents, strict=True):
            kubectl.request("POST", path, document)
        kubectl.create(queue("default"))
        kubectl.wait(lambda: "denied the request" in refusal(kubectl, HYPER_NODES, hyper_node("a(b")))
        yield kubectl
    finally:
        for path in paths:
            kubectl.request("DELETE", f"{path}/muster")


def refusal(kubectl: Kubectl, path: str, document: Json, *, method: str = "POST") -> str:
    """What the server says against an object, or against deleting it, "" if nothing."""
    try:
        kubectl.request(method, path + DRY_RUN, document)
    except RefusedError as refused:
        return str(refused)
    return ""


def test_a_hyper_node_with_a_pattern_that_cannot_be_read_is_refused_with_the_reason(asked: Kubectl) -> None:
    said = refusal(asked, HYPER_NODES, hyper_node("a(b"))
    assert said.startswith("422")
    assert "HyperNode rack-1: spec.members[0].selector.regexMatch.pattern: expected a regular expression" in said
    assert refusal(asked, HYPER_NODES, hyper_node("a(b)")) == ""


def test_a_hyper_node_without_members_is_refused_in_words_that_scripts_look_for(asked: Kubectl) -> None:
    empty = hyper_node("a")
    empty["spec"]["members"] = []
    said = refusal(asked, HYPER_NODES, empty)
    assert said.startswith("422")
    assert "member must have at least one member" in said


def test_job_flows_that_never_end_are_refused(asked: Kubectl) -> None:
    path = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"
    asked.wait(lambda: "denied the request" in refusal(asked, path, job_flow(a=["a"])))
    assert "jobflow Flow is not DAG" in refusal(asked, path, job_flow(a=["b"], b=["a"]))
    assert "vertex is not defined: c" in refusal(asked, path, job_flow(a=["c"]))
    assert refusal(asked, path, job_flow(a=[], b=["a"])) == ""


def test_what_a_job_leaves_open_is_filled_in_and_then_checked(asked: Kubectl) -> None:
    made = asked.request("POST", JOBS + DRY_RUN, job(plugins={"pytorch": []}))["spec"]
    assert (made["queue"], made["schedulerName"], made["minAvailable"], made["maxRetry"]) == (
        "default",
        "volcano",
        2,
        3,
    )
    task = made["tasks"][0]
    assert (task["name"], task["minAvailable"], task["maxRetry"]) == ("default0", 2, 3)
    assert task["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert made["plugins"] == {"pytorch": [], "svc": []}
    assert "spec.plugins.nccl: expected" in refusal(asked, JOBS, job(plugins={"nccl": []}))


def test_a_job_may_follow_its_queue_at_once(asked: Kubectl) -> None:
    for number in range(5):
        asked.create(queue(f"team-{number}"))
        assert refusal(asked, JOBS, job(queue=f"team-{number}")) == ""
    assert "spec.queue: expected the name of a queue" in refusal(asked, JOBS, job(queue="nobody"))


def test_queues_keep_their_order_and_those_that_others_need_stay(asked: Kubectl) -> None:
    asked.create(queue("research", deserved={"cpu": "8"}))
    asked.create(queue("vision", parent="research", deserved={"cpu": "8"}))
    third = queue("speech", parent="research", deserved={"cpu": "1"})
    # The server follows the queues over a watch, and may hear of the second a moment later.
    asked.wait(lambda: "spec.deserved.cpu: expected at most 8" in refusal(asked, QUEUES, third))
    with pytest.raises(RefusedError, match=r"403.*queues below it.*vision"):
        asked.delete("Queue", "research")
    with pytest.raises(RefusedError, match=r"default.*cannot be deleted"):
        asked.delete("Queue", "default")


def test_a_tree_of_queues_is_deleted_from_below_without_a_pause(asked: Kubectl) -> None:
    for number in range(10):
        asked.create(queue(f"above-{number}"))
        asked.create(queue(f"below-{number}", parent=f"above-{number}"))
        with pytest.raises(RefusedError, match=r"queues below it"):
            asked.wait(partial(asked.delete, "Queue", f"above-{number}"))
        asked.delete("Queue", f"below-{number}")
        asked.delete("Queue", f"above-{number}")


def test_a_queue_that_holds_pods_stays_until_they_are_gone(asked: Kubectl, control_plane: ControlPlane) -> None:
    asked.create_all([queue("held"), node("n1"), *gang("train", 2, group={"queue": "held"})])
    with KubernetesCluster(control_plane.kubeconfig) as cluster:
        stage = Stage(cluster, asked)
        stage.run_until(lambda: asked.get("Queue", "held").get("status", {}).get("allocated", {}).get("pods") == "2")
        # The server follows the queues over a watch, and may hear of the pods a moment later.
        asked.wait(lambda: refusal(asked, f"{QUEUES}/held", {}, method="DELETE"))
        with pytest.raises(RefusedError, match=r"403.*cannot be deleted because it has allocated Pods: 2"):
            asked.delete("Queue", "held")
        for name in ("train-0", "train-1"):
            asked.delete("Pod", name, grace=0)
        stage.run_until(lambda: asked.get("Queue", "held")["status"]["allocated"]["pods"] == "0")
    asked.wait(lambda: _is_deleted(asked, "held"))


def _is_deleted(kubectl: Kubectl, name: str) -> bool:
    """Delete a queue, as soon as it is known to have nothing below it."""
    try:
        kubectl.delete("Queue", name)
    except RefusedError:
        return False
    return True


def test_gangs_go_to_the_queue_of_their_namespace(asked: Kubectl) -> None:
    asked.create(queue("team-a"))
    note = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "team-a"}}}
    asked.patch("Namespace", "default", note)
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "train"}}
    try:
        asked.wait(lambda: asked.request("POST", GROUPS + DRY_RUN, group)["spec"]["queue"] == "team-a")
    finally:
        asked.patch("Namespace", "default", {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": None}}})


def test_a_gang_cannot_become_one_that_would_be_put_aside(asked: Kubectl) -> None:
    asked.create_all(gang("train", 0, group={"minTaskMember": {"worker": 2}}))
    huge = {"worker": 2**31 - 1}
    reason = f"spec.minTaskMember: expected at most {MAX_PODS} pods, got {huge['worker']}"
    with pytest.raises(RefusedError, match=rf"422.*PodGroup default/train: {re.escape(reason)}"):
        asked.patch("PodGroup", "train", {"spec": {"minTaskMember": huge}})
    changed = asked.patch("PodGroup", "train", {"spec": {"minTaskMember": {"worker": 3}}})
    assert changed["spec"]["minTaskMember"] == {"worker": 3}


def test_a_pod_at_no_position_of_its_gang_s_sub_groups_is_refused(asked: Kubectl) -> None:
    policy = {"name": "workers", "subGroupSize": 1, "matchLabelKeys": ["index"]}
    lost = pod("lost", group="divided")
    lost["metadata"]["labels"] = {"index": "9999999999"}
    path = "/api/v1/namespaces/default/pods"
    assert refusal(asked, path, lost) == "", "its PodGroup may come next"
    asked.create_all(gang("divided", 0, group={"subGroupPolicy": [policy]}))
    assert "expected a number below 2147483647, or no number, for the position" in refusal(asked, path, lost)
    lost["metadata"]["labels"] = {"index": "7"}
    assert refusal(asked, path, lost) == ""


@pytest.fixture
def deaf(server: Server, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Iterator[Kubectl]:
    """A cluster whose questions about PodGroups reach nobody, so that whatever is asked about is refused."""
    nowhere = f"https://127.0.0.1:{free_ports(1)[0]}"
    assert run(["webhooks", "print", "--url", nowhere, "--ca-file", str(server.certificate)]) == 0
    [document] = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"].startswith("Validating")]
    document["webhooks"] = [each for each in document["webhooks"] if each["name"].startswith("validate-podgroups")]
    path = f"{REGISTRY}/{document['kind'].lower()}s"
    kubectl.create_all([queue("default"), *gang("train", 0)])
    kubectl.request("POST", path, document)
    try:
        kubectl.wait(lambda: "failed calling webhook" in refused_patch(kubectl, {"spec": {"minMember": 7}}))
        yield kubectl
    finally:
        kubectl.request("DELETE", f"{path}/{document['metadata']['name']}")


def refused_patch(kubectl: Kubectl, body: Json, *, status: bool = False) -> str:
    """What the server says against a change of the gang, "" if nothing."""
    try:
        kubectl.patch("PodGroup", "train", body, status=status)
    except RefusedError as refused:
        return str(refused)
    return ""


def test_what_schedulers_write_to_a_gang_reaches_no_webhook(deaf: Kubectl) -> None:
    assert refused_patch(deaf, {"status": {"phase": "Inqueue"}}, status=True) == ""
    assert refused_patch(deaf, {"metadata": {"annotations": {"example.com/note": "read"}}}) == ""
    standing = deaf.get("PodGroup", "train")
    assert (standing["status"]["phase"], standing["metadata"]["annotations"]["example.com/note"]) == ("Inqueue", "read")
    assert "failed calling webhook" in refused_patch(deaf, {"spec": {"minTaskMember": {"worker": 1}}})


def test_only_pods_of_our_scheduler_are_asked_about(asked: Kubectl) -> None:
    wrong = pod("one")
    wrong["metadata"]["annotations"] = {"volcano.sh/jdb-min-available": "101%"}
    path = "/api/v1/namespaces/default/pods"
    assert "from 1% to 99%" in refusal(asked, path, wrong)
    wrong["spec"]["schedulerName"] = "default-scheduler"
    assert refusal(asked, path, wrong) == ""


def test_a_pod_that_asks_for_it_waits_at_the_gate_of_its_queue(asked: Kubectl) -> None:
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    for marks, expected in (({gate: "true"}, [{"name": gate}]), ({"other": "true"}, None), ({}, None)):
        document = pod("one")
        document["metadata"]["annotations"] = marks
        made = asked.request("POST", f"/api/v1/namespaces/default/pods{DRY_RUN}", document)
        assert made["spec"].get("schedulingGates") == expected


def test_a_clock_that_cannot_be_told_is_refused(asked: Kubectl) -> None:
    cron = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "tick"}}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}}
    path = JOBS.replace("/jobs", "/cronjobs")
    assert refusal(asked, path, {**cron, "spec": spec}) == ""
    refused = refusal(asked, path, {**cron, "spec": {**spec, "timeZone": "Atlantis/Centre"}})
    assert "spec.timeZone: expected a time zone" in refused
    assert "invalid timeZone" in refused


def test_the_server_knows_every_field_of_the_manifests(kubectl: Kubectl) -> None:
    places = {"Deployment": "apis/apps/v1", "Service": "api/v1", "PodDisruptionBudget": "apis/policy/v1"}
    checked = [each for each in manifests() if each["kind"] in places]
    for document in checked:
        document["metadata"]["namespace"] = "default"
        path = f"/{places[document['kind']]}/namespaces/default/{document['kind'].lower()}s"
        kubectl.request("POST", f"{path}{DRY_RUN}&fieldValidation=Strict", document)
    assert len(checked) == len(places)
