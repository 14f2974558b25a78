from __future__ import annotations

import pytest

from muster.framework import Eviction
from muster.testing.builders import node, pod
from tests.plugins.queue_stage import Stage


@pytest.mark.parametrize(
    ("namespace", "priority_class", "is_evictable"),
    [
        ("default", "", True),
        ("kube-system", "", False),
        ("default", "system-cluster-critical", False),
        ("default", "system-node-critical", False),
        ("kube-system-2", "important", True),
    ],
)
def test_pods_that_the_cluster_needs_are_never_victims(namespace: str, priority_class: str, is_evictable: bool) -> None:
    victim = pod("v", namespace=namespace, priority_class=priority_class, node="n1")
    stage = Stage("conformance", [node("n1"), victim, pod("p")])
    offered = stage.tasks(f"{namespace}/v")
    for kind in Eviction:
        answer = stage.evictable(kind, stage.task("p"), offered)
        assert answer.tolist() == (offered.tolist() if is_evictable else [])
