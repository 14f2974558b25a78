"""Pods that somebody is about to group wait for it, for a moment."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from muster.api import Pod
from muster.cluster.kubernetes.sending.assumptions import Assumptions
from muster.cluster.kubernetes.verbs.mirror_only import PATIENCE_SECONDS, AwaitedPodGroups
from muster.snapshot.messages import Event
from muster.testing import pod


def lone(scheduler: str) -> Pod:
    made = pod("p", gpu=1)
    return replace(made, metadata=replace(made.metadata, uid="u1"), spec=replace(made.spec, scheduler_name=scheduler))


@pytest.mark.parametrize(("scheduler", "waits"), [("kai-scheduler", True), ("volcano", False)])
def test_lone_pods_for_kai_wait_for_their_podgroup_and_no_others(scheduler: str, *, waits: bool) -> None:
    moment = [0.0]
    awaited = AwaitedPodGroups(Assumptions(), [scheduler], lambda: moment[0])
    awaited.observe(Event("ADDED", lone(scheduler)), owned_only=True)
    assert awaited.jobs() == ({"default/pod/p"} if waits else set())
    moment[0] = PATIENCE_SECONDS
    awaited.end()
    assert awaited.jobs() == set()  # nobody came
    awaited.observe(Event("MODIFIED", lone(scheduler)), owned_only=True)
    assert awaited.jobs() == set()


def test_a_pod_that_has_its_group_waits_no_longer() -> None:
    awaited = AwaitedPodGroups(Assumptions(), ["kai-scheduler"], lambda: 0.0)
    waiting = lone("kai-scheduler")
    awaited.observe(Event("ADDED", waiting), owned_only=True)
    marks = replace(waiting.metadata, annotations={"pod-group-name": "pg-p-u1"})
    awaited.observe(Event("MODIFIED", replace(waiting, metadata=marks)), owned_only=True)
    assert awaited.jobs() == set()
