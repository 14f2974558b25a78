"""A scheduler whose statuses nobody reads decides the same, and writes what later cycles decide by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import KubeObject, PodGroup
from muster.api.names import START_STAMP
from muster.cluster import MemoryCluster
from muster.framework import find_config
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Decision
from muster.testing.builders import node, pod, pod_group, queue


def gangs() -> list[KubeObject]:
    """Four gangs of two."""
    objects: list[KubeObject] = [node("a", gpu=8), node("b", gpu=8), queue("default")]
    for number, gpus in enumerate((4, 8, 8, 2)):
        objects += [pod_group(f"g{number}", minimum=2)]
        objects += [
            pod(f"g{number}-{k}", group=f"g{number}", cpu=1, gpu=gpus, run_seconds=2 + number) for k in range(2)
        ]
    return objects


def story(
    profile: str, objects: list[KubeObject], *, reports: bool
) -> tuple[list[Decision], dict[str, str], list[bool]]:
    """Decisions of ten cycles, phases of PodGroups at the end, and whether each has a stamp."""
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
    told, silent = story(profile, gangs(), reports=True), story(profile, gangs(), reports=False)
    assert told == silent
    assert any(told[2]), "some gang has started"


#: Of each job: its queue, GPUs of a task, tasks, its minimum, seconds that it runs.
CROWD = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9)
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=15, deadline=None)
@given(rows=CROWD, profile=st.sampled_from(["muster", "volcano", "kai"]), n_queues=st.integers(1, 3))
def test_so_they_are_in_a_crowd(rows: list[tuple[int, int, int, int, int]], profile: str, n_queues: int) -> None:
    """Where nobody reads why jobs wait, those without room are counted out, at first and as room becomes less."""
    objects: list[KubeObject] = [node("a", gpu=8), node("b", gpu=4)]
    objects += [queue(f"q{number}") for number in range(n_queues)]
    for number, (home, gpus, tasks, minimum, seconds) in enumerate(rows):
        name = f"g{number}"
        objects += [pod_group(name, minimum=min(minimum, tasks), queue=f"q{home % n_queues}")]
        objects += [pod(f"{name}-{k}", group=name, cpu=1, gpu=gpus, run_seconds=seconds) for k in range(tasks)]
    assert story(profile, objects, reports=True)[0] == story(profile, objects, reports=False)[0]
