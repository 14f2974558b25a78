"""PodGroups carry when their gang last became complete and since when it is broken."""

from datetime import UTC, datetime

import pytest

from muster.api import KaiPodGroup, KaiPodGroupSpec, KaiSubGroup, KubeObject, ObjectMeta, Pod
from muster.api.names import KAI_STALE_STAMP, KAI_SUBGROUP, STALE_STAMP, START_STAMP
from muster.cluster import MemoryCluster
from muster.framework import SchedulerConfig, parse_config
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Evict
from muster.testing import gang, node, pod, pod_group
from tests.engine.evictions.solver import solver_stage

ALLOCATE = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]', "t")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


class World:
    """A cluster whose pods start at once, and its scheduler."""

    def __init__(self, *objects: KubeObject, config: SchedulerConfig = ALLOCATE) -> None:
        self.cluster = MemoryCluster(objects, start=NOON, delay=lambda _: 0.0)
        self.scheduler = Scheduler(self.cluster, config, builtin_registry())

    def cycle(self, after: float = 0.0) -> dict[str, str]:
        """Let time pass, run a cycle, and return the annotations of the PodGroup."""
        self.cluster.advance_to(self.cluster.now() + after)
        result = self.scheduler.run_once()
        assert (result.error, result.failures) == (None, ())
        return self.annotations()

    def annotations(self) -> dict[str, str]:
        group = self.cluster.store.find("PodGroup", "default/g")
        assert group is not None
        return group.metadata.annotations

    def evict(self, *pods: str) -> None:
        self.cluster.evict([Evict(f"default/{name}", "n", "default/g", "", "test") for name in pods])


def kai_gang(minimum: int, pods: int) -> list[KubeObject]:
    spec = KaiPodGroupSpec(queue="default", min_member=minimum)
    group = KaiPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec)
    return [group, *(pod(f"g-{index}", group="g", gpu=1) for index in range(pods))]


@pytest.mark.parametrize("members", [gang("g", 2, gpu=1), kai_gang(2, 2)], ids=["volcano", "kai"])
def test_a_gang_is_stamped_in_the_cycle_that_binds_it_and_not_again(members: list[KubeObject]) -> None:
    world = World(node("n", gpu=2), *members)
    assert world.cycle(after=5) == {START_STAMP: "2026-01-01T12:00:05Z"}
    assert world.cycle(after=60) == {START_STAMP: "2026-01-01T12:00:05Z"}


def test_a_gang_that_does_not_fit_has_no_stamp() -> None:
    assert World(node("n", gpu=1), *gang("g", 2, gpu=1)).cycle() == {}


def test_a_gang_that_waits_for_others_to_leave_has_no_stamp() -> None:
    leaving = pod("other", gpu=2, node="n")
    world = World(node("n", gpu=2), leaving, *gang("g", 2, gpu=1))
    world.cluster.delete(leaving)
    assert world.cycle(after=1) == {}
    assert world.cycle(after=60) == {START_STAMP: "2026-01-01T12:01:01Z"}


def test_growth_is_no_new_start() -> None:
    world = World(node("n", gpu=1), *gang("g", 2, minimum=1, gpu=1))
    assert world.cycle() == {START_STAMP: "2026-01-01T12:00:00Z"}
    world.cluster.add([node("n2", gpu=1)])
    assert world.cycle(after=9) == {START_STAMP: "2026-01-01T12:00:00Z"}
    assert [made.spec.node_name for made in world.cluster.store.all(Pod)] == ["n", "n2"]


def test_a_gang_has_started_although_the_bind_of_a_pod_beyond_its_minimum_was_taken_back() -> None:
    world = World(
        *solver_stage.CLASSES,
        solver_stage.kai_queue("q"),
        node("n", gpu=4),
        *solver_stage.gang("old", on=["n"], gpu=2, priority="low", created=1),
        *solver_stage.gang("g", pending=2, minimum=1, priority="low", created=2),
        *solver_stage.gang("new", pending=1, gpu=3, priority="high"),
        config=solver_stage.kai("allocate", "preempt"),
    )
    assert world.cycle() == {START_STAMP: "2026-01-01T12:00:00Z"}
    assert {made.metadata.name for made in world.cluster.store.all(Pod) if made.spec.node_name} == {"g-0", "old-0"}


def test_a_gang_that_was_evicted_whole_starts_anew() -> None:
    world = World(node("n", gpu=2), *gang("g", 2, gpu=1))
    world.cycle()
    world.evict("g-0", "g-1")
    assert world.cycle(after=10) == {START_STAMP: "2026-01-01T12:00:00Z"}
    assert world.cycle(after=30) == {START_STAMP: "2026-01-01T12:00:40Z"}


@pytest.mark.parametrize("members", [gang("g", 2, gpu=1), kai_gang(2, 2)], ids=["volcano", "kai"])
def test_a_broken_gang_is_stamped_until_it_is_whole_again(members: list[KubeObject]) -> None:
    world = World(node("n", gpu=2), *members)
    world.cycle()
    assert STALE_STAMP not in world.cycle(after=1)
    world.evict("g-0")
    assert world.cycle(after=1)[STALE_STAMP] == "2026-01-01T12:00:02Z"
    assert world.cycle(after=1)[STALE_STAMP] == "2026-01-01T12:00:02Z"
    # The old pod is gone after its thirty seconds, and the new one takes its place.
    assert world.cycle(after=30) == {START_STAMP: "2026-01-01T12:00:00Z"}


def test_only_changes_are_written() -> None:
    world = World(node("n", gpu=2), *gang("g", 2, gpu=1))
    world.cycle()
    world.cycle(after=1)
    world.evict("g-0")
    world.cycle(after=1)
    assert world.scheduler.run_once().updates == ()


def test_the_surplus_of_a_gang_may_go() -> None:
    world = World(node("n", gpu=2), *gang("g", 2, minimum=1, gpu=1))
    world.cycle()
    world.evict("g-0")
    assert STALE_STAMP not in world.cycle(after=1)


def test_a_gang_of_which_a_pod_succeeded_is_not_broken() -> None:
    done = pod("g-0", group="g", gpu=1, node="n", phase="Succeeded")
    world = World(node("n", gpu=2), pod_group("g", minimum=2), done, pod("g-1", group="g", gpu=1, node="n"))
    assert STALE_STAMP not in world.cycle()


def test_a_pod_set_below_its_minimum_breaks_the_gang() -> None:
    sub_groups = [KaiSubGroup(name="a", min_member=1), KaiSubGroup(name="b", min_member=1)]
    spec = KaiPodGroupSpec(queue="default", sub_groups=sub_groups)
    group = KaiPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec)
    both_in_a = [pod(f"g-{index}", group="g", gpu=1, node="n", labels={KAI_SUBGROUP: "a"}) for index in range(2)]
    assert STALE_STAMP in World(node("n", gpu=2), group, *both_in_a).cycle()


def test_the_stamp_of_kai_goes_with_ours() -> None:
    group = pod_group("g", minimum=1)
    group.metadata.annotations = {KAI_STALE_STAMP: "2026-01-01T11:00:00Z", "other": "kept"}
    world = World(node("n", gpu=1), group, pod("g-0", group="g", gpu=1, node="n"))
    assert world.cycle() == {"other": "kept"}


def test_a_stamp_that_stands_is_not_renewed() -> None:
    group = pod_group("g", minimum=2)
    group.metadata.annotations = {KAI_STALE_STAMP: "2026-01-01T11:00:00Z"}
    world = World(node("n", gpu=1), group, pod("g-0", group="g", gpu=1, node="n"))
    assert world.cycle() == {KAI_STALE_STAMP: "2026-01-01T11:00:00Z"}


def test_lone_pods_have_no_stamps() -> None:
    cluster = MemoryCluster([node("n", gpu=1), pod("p", gpu=1)], start=NOON)
    assert Scheduler(cluster, ALLOCATE, builtin_registry()).run_once().updates == ()
