"""Real parts for the tests of this directory: one control plane per worker, emptied between tests.

Where the parts can neither be found nor built, the tests of this directory are left out, and the summary says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from muster.testing.control_plane import ControlPlane
from muster.testing.real_parts import EXTRA, MissingPartsError, find
from tests.kubernetes.kubectl import Json, Kubectl

if TYPE_CHECKING:
    from muster.cluster.kubernetes import KubernetesCluster
    from tests.kubernetes.plays import Connect, Listener


def _missing() -> str:
    """What the tests of this directory lack, "" if nothing."""
    if find_spec("kubernetes_asyncio") is None:
        return "kubernetes_asyncio is not installed; run `make setup`"
    try:
        find()
    except MissingPartsError as fault:
        return str(fault)
    return ""


MISSING = _missing()
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MISSING:
        terminalreporter.write_line(f"Kubernetes tests left out: {MISSING}", yellow=True)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with KWOK and the definitions of the kinds that Muster works with."""
    from muster.api.definitions import definitions
    from muster.cluster.kubernetes.client.commands import install

    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        install(definitions(), plane.kubeconfig)
        yield plane


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Iterator[Kubectl]:
    """What a user's shell would do; everything made with it is gone afterwards."""
    shell = Kubectl(control_plane)
    yield shell
    try:
        shell.delete_everything()
    finally:
        shell.close()


@pytest.fixture
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    """kube-controller-manager, for tests in which workloads make pods and owners take them along."""
    try:
        find(EXTRA)
    except MissingPartsError as fault:
        pytest.skip(str(fault))
    with control_plane.controllers() as manager:
        yield
        manager.check()


@pytest.fixture
def cluster(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[KubernetesCluster]:
    """Muster's backend, connected; disconnected before the test's objects are deleted."""
    from muster.cluster.kubernetes import KubernetesCluster

    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig) as connected:
        yield connected


@pytest.fixture
def another_cluster(control_plane: ControlPlane, kubectl: Kubectl) -> Iterator[KubernetesCluster]:
    """A second connection, as after a restart."""
    from muster.cluster.kubernetes import KubernetesCluster

    kubectl.close()
    with KubernetesCluster(control_plane.kubeconfig) as connected:
        yield connected


@pytest.fixture
def connect(control_plane: ControlPlane, kubectl: Kubectl) -> Connect:
    """Connects Muster's backend for plays: on a clock that can be moved."""
    from tests.kubernetes.plays import Clock, Listener

    def connect_to(clock: Clock | None = None) -> Listener:
        kubectl.close()
        return Listener(control_plane.kubeconfig, clock or Clock())

    return connect_to


@pytest.fixture
def listener(connect: Connect) -> Iterator[Listener]:
    """One such connection."""
    with connect() as connected:
        yield connected


# -- KAI's own objects -----------------------------------------------------------------------------------------


_CRD = "CustomResourceDefinition"


def _definition(group: str, version: str, kind: str, plural: str, scope: str = "Cluster") -> Json:
    """A definition that takes anything, as far as this is about."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": _CRD,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{**served, "subresources": {"status": {}}}],
        },
    }


_KAI = [
    _definition("scheduling.run.ai", "v2", "Queue", "queues"),
    _definition("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", "Namespaced"),
    _definition("kai.scheduler", "v1alpha1", "Topology", "topologies"),
]


@pytest.fixture
def kai_kinds(kubectl: Kubectl) -> Iterator[None]:
    """A cluster on which KAI was installed."""
    names = [each["metadata"]["name"] for each in _KAI]
    kubectl.create_all(_KAI)
    try:
        kubectl.wait(lambda: all(_is_served(kubectl, name) for name in names))
        yield
    finally:
        for name in names:
            kubectl.delete(_CRD, name)
        # They go when their objects have gone; who comes next would find them still there.
        kubectl.wait(lambda: not any(one["metadata"]["name"] in names for one in kubectl.list(_CRD)))


def _is_served(kubectl: Kubectl, name: str) -> bool:
    conditions = kubectl.get(_CRD, name).get("status", {}).get("conditions") or []
    return any(known["type"] == "Established" and known["status"] == "True" for known in conditions)
