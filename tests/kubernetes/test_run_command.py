"""`muster run` as a process of its own: serving, failing over, reloading, ending."""

from __future__ import annotations

import re
import signal
import socket
import time
from pathlib import Path

import yaml

from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Kubectl, gang, node, queue
from tests.kubernetes.replicas import LEASE, Process, replica


def test_it_serves_tells_how_it_is_and_ends_cleanly(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1"), *gang("train", 4)])
    with replica(control_plane, tmp_path / "log") as process:
        kubectl.wait(lambda: all(kubectl.nodes_of_pods().values()), seconds=60)
        assert process.get("/healthz") == "ok\n"
        assert process.get("/readyz") == "ok\n"
        metrics = process.get("/metrics")
        assert 'muster_decisions_total{kind="bind"} 4' in metrics
        posts = re.search(r'muster_api_request_seconds_count\{method="POST"\} (\d+)', metrics)
        assert posts is not None
        assert int(posts[1]) >= 4, "each binding is one"
        assert "\nvolcano_unschedule_job_count 0" in metrics  # the name that dashboards for Volcano ask for
        assert process.end() == 0
        lines = process.log.read_text().splitlines()
    assert sum("event=bind " in line for line in lines) == 4
    assert kubectl.request("GET", LEASE)["spec"].get("holderIdentity", "") == ""


def test_another_replica_takes_over_within_fifteen_seconds(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1")])
    with replica(control_plane, tmp_path / "first") as first:
        kubectl.wait(lambda: first.has_logged("event=lease-taken"), seconds=60)
        with replica(control_plane, tmp_path / "second") as second:
            kubectl.wait(lambda: second.has_logged("event=ready"), seconds=60)
            first.end(signal.SIGKILL)
            began = time.monotonic()
            kubectl.create_all(gang("train", 2))
            kubectl.wait(lambda: all(kubectl.nodes_of_pods().values()), seconds=30)
            assert time.monotonic() - began < 15


def test_a_changed_configuration_is_taken_up_and_a_wrong_one_is_not(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text('actions: "enqueue"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n')
    kubectl.create_all([queue("default"), node("n1"), *gang("train", 2)])
    with replica(control_plane, tmp_path / "log", "--config", str(config), "--no-leader-elect") as process:
        kubectl.wait(lambda: kubectl.get("PodGroup", "train").get("status", {}).get("phase") == "Inqueue", seconds=60)
        config.write_text("actions: no-such-action\n")
        kubectl.wait(lambda: process.has_logged("event=config-refused"))
        assert set(kubectl.nodes_of_pods().values()) == {""}
        config.write_text('actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n')
        kubectl.wait(lambda: all(kubectl.nodes_of_pods().values()))
        assert 'muster_config_reloads_total{result="failed"} 1' in process.get("/metrics")


def test_it_ends_at_once_while_it_waits_for_a_server_that_does_not_answer(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = yaml.safe_load(control_plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": address}
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        process = Process(kubeconfig, tmp_path / "log")
        try:
            silent.accept()[0].close()
            began = time.monotonic()
            assert process.end() == 0
            assert time.monotonic() - began < 10
        finally:
            process.end(signal.SIGKILL)
