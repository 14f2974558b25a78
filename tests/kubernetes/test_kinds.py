"""What Muster finds on a server: kinds of other projects."""

from __future__ import annotations

from muster.cluster.kubernetes import KubernetesCluster
from muster.testing.control_plane import ControlPlane
from tests.kubernetes import foreign_kinds
from tests.kubernetes.foreign_kinds import KAI_GROUP, KAI_QUEUE, KUEUE_TOPOLOGY
from tests.kubernetes.kubectl import Kubectl


def test_kinds_of_other_projects_are_read_in_the_version_that_is_there(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    with foreign_kinds.installed(kubectl, KAI_GROUP, KAI_QUEUE, KUEUE_TOPOLOGY):
        foreign_kinds.make(kubectl, KUEUE_TOPOLOGY, "racks", {"levels": [{"nodeLabel": "rack"}]})
        foreign_kinds.make(kubectl, KAI_QUEUE, "team", {})
        foreign_kinds.make(kubectl, KAI_GROUP, "gang", {"minMember": 2, "queue": "team"})
        with KubernetesCluster(control_plane.kubeconfig) as cluster:
            found = {(event.object.kind, event.object.name) for event in cluster.poll()}
    assert found >= {("Topology", "racks"), ("Queue", "team"), ("PodGroup", "gang")}
