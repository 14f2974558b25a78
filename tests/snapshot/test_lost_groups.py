"""Pods whose PodGroup was deleted while they run keep the rank that it gave them."""

from __future__ import annotations

import pytest

from muster.api import KaiPodGroup, KaiPodGroupSpec, KubeObject, ObjectMeta
from muster.api.names import KAI_GROUP_NAME
from muster.snapshot import Mirror
from muster.testing import node, pod, pod_group, priority_class, queue


def kai_group() -> KaiPodGroup:
    spec = KaiPodGroupSpec(min_member=1, queue="q", priority_class_name="build")
    return KaiPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec)


@pytest.mark.parametrize(
    ("group", "preemptible"),
    [(kai_group(), False), (pod_group("g", minimum=1, queue="q", priority_class="build"), True)],
    ids=["kai", "volcano"],
)
def test_priority_and_protection_outlive_the_group(group: KubeObject, *, preemptible: bool) -> None:
    mirror = Mirror()
    marks = {KAI_GROUP_NAME: "g"}
    member = pod("p", node="n", annotations=marks) if isinstance(group, KaiPodGroup) else pod("p", node="n", group="g")
    for thing in (queue("q"), priority_class("build", 100), node("n", cpu=8), group, member):
        mirror.upsert(thing)
    before = mirror.snapshot().jobs
    assert (int(before.priority[0]), bool(before.preemptible[0])) == (100, preemptible)
    mirror.delete(group)
    jobs = mirror.snapshot().jobs
    assert (int(jobs.priority[0]), bool(jobs.preemptible[0]), bool(jobs.has_group[0])) == (100, preemptible, False)
    assert jobs.records[0].queue == "q"
