"""Newer definitions of KAI's PodGroups have conditions, no phase and no counts: what is written settles too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from muster.api import KaiPodGroup, KaiPodGroupSpec, ObjectMeta
from muster.api.names import KAI_GROUP_NAME
from muster.api.objects.scheduling import KaiPodGroupStatus
from muster.cluster import MemoryCluster
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Failure, JobUpdate
from muster.testing import node, pod, queue


class NewerDefinitions(MemoryCluster):
    """A server that drops what its definition of PodGroups does not have."""

    def update_jobs(self, updates: Sequence[JobUpdate]) -> list[Failure]:
        failures = super().update_jobs(updates)
        for group in list(self.store.all(KaiPodGroup)):
            known = group.status
            kept = KaiPodGroupStatus(conditions=known.conditions, scheduling_conditions=known.scheduling_conditions)
            if known != kept:
                self.store.put(replace(group, status=kept))
        return failures


def scheduler_of(phase: str, *, on: str) -> Scheduler:
    group = KaiPodGroup(
        metadata=ObjectMeta(name="g", namespace="default"), spec=KaiPodGroupSpec(min_member=2, queue="q")
    )
    marks = {KAI_GROUP_NAME: "g"}
    pods = [pod(f"g-{number}", cpu=3, node=on, phase=phase, annotations=marks) for number in range(2)]
    cluster = NewerDefinitions([queue("q"), node("n1", cpu=8), group, *pods], as_is=True)
    return Scheduler(cluster, profile("kai"), builtin_registry(third_party=False))


@pytest.mark.parametrize(("phase", "on"), [("Running", "n1"), ("", "n1"), ("", "")])
def test_nothing_is_written_again_and_again(phase: str, on: str) -> None:
    scheduler = scheduler_of(phase, on=on)
    told = [len(scheduler.run_once().updates) for _ in range(6)]
    assert sum(told) > 0
    assert told[-2:] == [0, 0]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_gang_that_has_finished_is_put_away(phase: str) -> None:
    scheduler = scheduler_of(phase, on="n1")
    for _ in range(6):
        scheduler.run_once()
    assert len(scheduler.observe().jobs) == 0
