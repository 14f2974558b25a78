"""A scheduler whose statuses nobody reads decides the same, and writes what later cycles decide by."""

from __future__ import annotations

import pytest

from muster.api import PodGroup
from muster.api.names import START_STAMP
from muster.cluster import MemoryCluster
from muster.framework import find_config
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Decision
from muster.testing.builders import node, pod, pod_group, queue


def story(profile: str, *, reports: bool) -> tuple[list[Decision], dict[str, str], list[bool]]:
    """Decisions of ten cycles, phases of PodGroups at the end, and whether each has a stamp."""
    objects = [node("a", gpu=8), node("b", gpu=8), queue("default")]
    for number, gpus in enumerate((4, 8, 8, 2)):
        objects += [pod_group(f"g{number}", minimum=2)]
        objects += [
            pod(f"g{number}-{k}", group=f"g{number}", cpu=1, gpu=gpus, run_seconds=2 + number) for k in range(2)
        ]
    cluster = MemoryCluster(objects, start=1e9)
    scheduler = Scheduler(cluster, find_config(profile), builtin_registry(third_party=False), reports=reports)
    made: list[Decision] = []
    for second in range(12):
        cluster.advance_to(1e9 + second)
        result = scheduler.run_once()
        assert result.error is None
        made += result.decisions
    groups = sorted(cluster.store.all(PodGroup), key=lambda group: group.name)
    stamped = [START_STAMP in group.metadata.annotations for group in groups]
    return made, {group.name: group.status.phase for group in groups}, stamped


@pytest.mark.parametrize("profile", ["muster", "volcano", "kai"])
def test_decisions_phases_and_stamps_are_the_same(profile: str) -> None:
    told, silent = story(profile, reports=True), story(profile, reports=False)
    assert told == silent
    assert any(told[2]), "some gang has started"
