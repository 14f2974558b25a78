"""Preferred pod affinity and anti-affinity count in every profile, before nodes are filled up or spread over."""

from __future__ import annotations

import pytest

from muster.api import Pod, load_text
from muster.cluster import MemoryCluster
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import node, pod, queue

ASKING = """
apiVersion: v1
kind: Pod
metadata: {{name: asking, namespace: default}}
spec:
  containers: [{{name: c, image: x, resources: {{requests: {{cpu: 1}}}}}}]
  affinity:
    {kind}:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        podAffinityTerm: {{labelSelector: {{matchLabels: {{app: web}}}}, topologyKey: kubernetes.io/hostname}}
"""


@pytest.mark.parametrize("name", ["muster", "kai", "volcano"])
@pytest.mark.parametrize(("kind", "beside"), [("podAffinity", True), ("podAntiAffinity", False)])
def test_a_preference_for_neighbours_decides(name: str, kind: str, *, beside: bool) -> None:
    # By room alone the fuller node of the two is chosen, or the emptier.
    for other in ("web", "filler"):
        labels = {"app": "web"}
        nodes = [node(each, cpu=8, labels={"kubernetes.io/hostname": each}) for each in ("n1", "n2")]
        held = [pod("web", cpu=1 if other == "filler" else 4, node="n1", labels=labels)]
        held += [pod("filler", cpu=4 if other == "filler" else 1, node="n2")]
        cluster = MemoryCluster([queue("default"), *nodes, *held, *load_text(ASKING.format(kind=kind)).objects])
        Scheduler(cluster, profile(name), builtin_registry(third_party=False)).run_once()
        placed = cluster.store.get(Pod, "default/asking")
        assert placed is not None
        assert placed.spec.node_name == ("n1" if beside else "n2")
