"""A leader whose requests are slow, and who is cut off meanwhile, changes nothing once another one leads."""

from __future__ import annotations

import time
from pathlib import Path

from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions
from muster.testing.control_plane import ControlPlane
from tests.kubernetes.kubectl import Kubectl, gang, node, queue
from tests.kubernetes.proxy import FaultyProxy
from tests.kubernetes.stage import Stage

DURATION_S = 6


def lease(name: str) -> LeaseOptions:
    return LeaseOptions("default", "fenced", name, duration_s=DURATION_S, renewal_s=1.0)


def test_bindings_that_are_late_are_dropped_before_another_leads(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.create_all([queue("default"), node("n1", gpu=4)])
    with (
        FaultyProxy(control_plane, tmp_path) as proxy,
        KubernetesCluster(proxy.kubeconfig, lease=lease("first")) as first,
        KubernetesCluster(control_plane.kubeconfig, lease=lease("second")) as second,
    ):
        kubectl.wait(first.is_leader, seconds=30)
        # Late enough for the other to lead by then, and nothing is heard of the lease any more.
        proxy.late_s = lambda _method, path: (
            3600.0 if "/leases/" in path else DURATION_S * 2.0 if path.endswith("/binding") else 0.0
        )
        kubectl.create_all(gang("train", 4))
        slow, other = Stage(first, kubectl), Stage(second, kubectl)
        while not second.is_leader():
            if first.is_leader():
                slow.scheduler.run_once()
            assert not (first.is_leader() and second.is_leader())
            time.sleep(0.1)
        leads_since = time.monotonic()
        other.run_until(lambda: all(kubectl.nodes_of_pods().values()))
        time.sleep(DURATION_S * 1.5)  # what was on its way would have come by now
        late = [path for moment, path in proxy.passed if moment >= leads_since and path.endswith("/binding")]
    assert late == []
