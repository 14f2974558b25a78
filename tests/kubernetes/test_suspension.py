"""A leader that is stopped in the middle of something, and goes on when another one leads."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from muster.testing.control_plane import ControlPlane
from tests.kubernetes import invariants
from tests.kubernetes.kubectl import Kubectl, gang, node, pod, queue
from tests.kubernetes.proxy import FaultyProxy
from tests.kubernetes.replicas import LEASE, Process, replica


class Recorder:
    """A rule that notes what was written, leases aside, and puts bindings off until it is told otherwise."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.lets_bind = False

    def __call__(self, method: str, path: str) -> int:
        if method == "GET" or "/leases" in path:
            return 0
        self.written.append(path)
        return 0 if self.lets_bind or not path.endswith("/binding") else 429

    def has_tried_to_bind(self) -> bool:
        return any(path.endswith("/binding") for path in self.written)


def node_of_last_bind(process: Process) -> str:
    found = re.findall(r"event=bind .*node=(\S+)", process.log.read_text())
    assert found
    return str(found[-1])


def is_on(kubectl: Kubectl, where: str, *names: str) -> bool:
    placed = kubectl.nodes_of_pods()
    return {placed.get(name) for name in names} == {where}


def test_a_leader_that_was_suspended_does_nothing_that_it_had_decided_before(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    rule = Recorder()
    kubectl.create_all([queue("default"), node("n1", gpu=2), node("n2", gpu=2)])
    with (
        FaultyProxy(control_plane, tmp_path, rule) as proxy,
        replica(control_plane, tmp_path / "first", "--kubeconfig", str(proxy.kubeconfig)) as first,
    ):
        kubectl.wait(lambda: first.has_logged("event=lease-taken"), seconds=60)
        with replica(control_plane, tmp_path / "second") as second:
            kubectl.wait(lambda: second.has_logged("event=ready"), seconds=60)
            kubectl.create_all(gang("train", 2))
            kubectl.wait(rule.has_tried_to_bind)
            first.process.send_signal(signal.SIGSTOP)
            wanted = node_of_last_bind(first)
            kubectl.create(pod("other", gpu=2, schedulerName="default-scheduler", nodeName=wanted))
            left = "n1" if wanted == "n2" else "n2"
            kubectl.wait(lambda: is_on(kubectl, left, "train-0", "train-1"), seconds=30)

            rule.lets_bind, n_written = True, len(rule.written)
            first.process.send_signal(signal.SIGCONT)
            kubectl.wait(lambda: first.has_logged("event=lease-lost"))
            kubectl.create_all([node("n3", gpu=2), *gang("later", 2)])
            kubectl.wait(lambda: is_on(kubectl, "n3", "later-0", "later-1"))
            time.sleep(2)  # as long as what it had begun would be tried again
            assert rule.written[n_written:] == []
            assert kubectl.request("GET", LEASE)["spec"]["leaseTransitions"] == 1
            second.end()
        kubectl.create_all([node("n4", gpu=2), *gang("last", 2)])
        kubectl.wait(lambda: is_on(kubectl, "n4", "last-0", "last-1"))  # by the first one, which leads again
    invariants.check(kubectl)
