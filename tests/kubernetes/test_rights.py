"""A scheduler that may not read everything: what it cannot do without is an error, what it can is left out."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from muster.api import BackendError
from muster.cluster.kubernetes import KubernetesCluster, LeaseOptions, Shard
from muster.server import Service, ServiceOptions
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import foreign_kinds
from tests.kubernetes.accounts import account, scheduler_rules, without
from tests.kubernetes.foreign_kinds import NODE_SHARD
from tests.kubernetes.kubectl import Kubectl, gang, node, priority_class, queue
from tests.kubernetes.stage import Stage


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "event=right-" in each.getMessage()]


def fault_of(cluster: KubernetesCluster) -> str:
    """What ends a service on the cluster within ten seconds."""
    until = time.monotonic() + 10
    try:
        with cluster:
            service = Service(cluster, ServiceOptions())
            while time.monotonic() < until:
                service.turn()
    except BackendError as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize(
    ("verb", "resource", "named"),
    [
        ("list", "pods", "may not list pods: "),
        ("watch", "nodes", "may not watch nodes: "),
        ("list", "nodeshards", "may not list nodeshards.shard.volcano.sh: "),
    ],
)
def test_what_nothing_can_be_decided_without_is_an_error_that_names_the_right(
    verb: str, resource: str, named: str, control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    with (
        foreign_kinds.installed(kubectl, NODE_SHARD),
        account(control_plane, kubectl, tmp_path, without(scheduler_rules(), verb, resource)) as limited,
    ):
        fault = fault_of(KubernetesCluster(limited.kubeconfig, shard=Shard(node_shard="ours")))
    assert fault.startswith(named)
    assert "the ClusterRole of deploy/" in fault


def test_a_lease_that_may_not_be_taken_is_an_error(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    lease = LeaseOptions("default", "muster", "this-one", renewal_s=0.4)
    with account(control_plane, kubectl, tmp_path, scheduler_rules()) as limited:
        fault = fault_of(KubernetesCluster(limited.kubeconfig, lease=lease))
    assert fault.startswith("may not use the lease default/muster: ")


def test_a_kind_that_may_not_be_listed_is_left_out_until_it_may(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "muster.kubernetes")
    kubectl.create_all([queue("default"), node("n1", gpu=2), priority_class("high", 9)])
    kubectl.create_all([*gang("plain", 1), *gang("ranked", 1, group={"priorityClassName": "high"})])
    limits = without(scheduler_rules(), "list", "priorityclasses")
    with (
        account(control_plane, kubectl, tmp_path, limits) as limited,
        KubernetesCluster(limited.kubeconfig) as cluster,
    ):
        stage = Stage(cluster, kubectl)

        def priority() -> int:
            jobs = stage.scheduler.observe().jobs
            return int(jobs.priority[jobs.index["default/ranked"]])

        stage.run_until(lambda: stage.is_bound("plain-0", "ranked-0"))
        assert priority() == 0
        limited.allow(scheduler_rules())
        kubectl.wait(lambda: priority() == 9, 30)
        kubectl.wait(lambda: len(warnings_of(caplog)) == 2)
    missing, given = warnings_of(caplog)
    assert missing.startswith(
        "event=right-missing verb=list resource=priorityclasses.scheduling.k8s.io effect='left out'"
    )
    assert given == "event=right-given resource=priorityclasses.scheduling.k8s.io"


def test_a_new_leader_does_not_wait_for_what_may_not_be_listed_or_watched(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Gangs are read anew as often as somebody must know them, and now and then."""
    kubectl.create_all([queue("default"), node("n1", gpu=4), *gang("train", 2)])
    rules = without(without(scheduler_rules(), "watch", "podgroups"), "list", "hypernodes")
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    lease = LeaseOptions("default", "muster", "this-one", duration_s=3, renewal_s=0.4)
    with (
        account(control_plane, kubectl, tmp_path, [*rules, leases]) as limited,
        KubernetesCluster(limited.kubeconfig, lease=lease) as cluster,
    ):
        kubectl.wait(cluster.is_leader)
        stage = Stage(cluster, kubectl)
        stage.run_until(lambda: stage.is_bound("train-0", "train-1"))
        kubectl.create_all(gang("later", 2))
        stage.run_until(lambda: stage.is_bound("later-0", "later-1"), 30)
    assert {text.split("effect")[0].strip() for text in warnings_of(caplog)} == {
        "event=right-missing verb=list resource=hypernodes.topology.volcano.sh",
        "event=right-missing verb=watch resource=podgroups.scheduling.volcano.sh",
    }
