"""Looking only at jobs that changed must say the same as looking at all of them."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from muster.api import Condition, KubeObject, LabelSelector, Pod, SubGroupPolicy
from muster.cluster.memory import MemoryCluster
from muster.framework import Session, default_config
from muster.scheduler import Scheduler, builtin_registry
from muster.scheduler.job_updates import UnchangedJobs, updates_of
from muster.snapshot import JobPhase, Mirror, Snapshot
from muster.testing import gang, node, pod, pod_group, queue


class Watched:
    """A mirror whose updates are asked for twice: by a memory of cycles, and by nobody's."""

    def __init__(self, *objects: KubeObject) -> None:
        self.mirror = Mirror()
        self.unchanged = UnchangedJobs()
        for thing in objects:
            self.mirror.upsert(thing)

    def jobs(self, *changes: KubeObject) -> list[str]:
        for thing in changes:
            self.mirror.upsert(thing)
        config, registry = default_config(), builtin_registry()
        session = Session(self.mirror.snapshot(), config, registry)
        for name in config.actions:
            registry.make_action(name, config.arguments_of(name)).run(session)
        made = updates_of(session, self.unchanged)
        assert made == updates_of(session, UnchangedJobs())
        return [update.job for update in made]


def running(thing: Pod) -> Pod:
    return replace(thing, spec=replace(thing.spec, node_name="n1"), status=replace(thing.status, phase="Running"))


def test_a_job_is_looked_at_again_when_its_pods_or_its_group_change() -> None:
    group = pod_group("g", minimum=1)
    ready = Condition(type="Scheduled", status="True", reason="tasks in gang are ready to be scheduled")
    alive = replace(group, status=replace(group.status, phase="Running", running=1, conditions=[ready]))
    first, second = running(pod("g-0", group="g", cpu=1)), running(pod("g-1", group="g", cpu=1))
    watched = Watched(queue("default"), node("n1", cpu=8), alive, first)
    assert watched.jobs() == []
    assert watched.jobs() == []
    assert watched.jobs(second) == ["default/g"]
    assert watched.jobs(replace(alive, status=replace(alive.status, running=2))) == []
    assert watched.jobs(alive) == ["default/g"]


class Quiet:
    """A mirror of which nothing was to say a moment ago."""

    def __init__(self, *objects: KubeObject) -> None:
        self.mirror = Mirror()
        for thing in objects:
            self.mirror.upsert(thing)
        snapshot = self.mirror.snapshot()
        self._unchanged = UnchangedJobs()
        self._unchanged.remember(snapshot, np.ones(len(snapshot.jobs), np.bool_))

    def is_still(self, snapshot: Snapshot) -> bool:
        return bool(self._unchanged.jobs(snapshot)[snapshot.jobs.index["default/g"]])


def test_a_pod_that_takes_the_place_of_one_in_another_role_is_noticed() -> None:
    one, other, third = (
        running(pod(name, group="g", annotations={"volcano.sh/task-spec": role}))
        for name, role in (("g-0", "a"), ("g-1", "b"), ("g-2", "a"))
    )
    quiet = Quiet(node("n1"), pod_group("g", minimum=2), one, other)
    assert quiet.is_still(quiet.mirror.snapshot())
    quiet.mirror.delete(other)
    quiet.mirror.upsert(third)
    assert not quiet.is_still(quiet.mirror.snapshot())


def test_a_pod_that_takes_the_place_of_one_in_another_sub_group_is_noticed() -> None:
    policy = SubGroupPolicy(name="part", label_selector=LabelSelector(), match_label_keys=["part"])
    group = pod_group("g", minimum=2)
    group = replace(group, spec=replace(group.spec, sub_group_policy=[policy]))
    one, other, third = (
        running(pod(name, group="g", labels={"part": part}))
        for name, part in (("g-0", "a"), ("g-1", "b"), ("g-2", "a"))
    )
    quiet = Quiet(node("n1"), group, one, other)
    quiet.mirror.delete(other)
    quiet.mirror.upsert(third)
    assert not quiet.is_still(quiet.mirror.snapshot())


def test_a_pod_that_joins_a_gang_while_it_runs_is_noticed() -> None:
    """A controller names the gang after the pod was placed by itself: its counters take the place of the lone pod's."""
    alone, member = running(pod("g-0")), running(pod("g-0", group="g"))
    quiet = Quiet(node("n1"), pod_group("g", minimum=1), alone)
    quiet.mirror.upsert(member)
    assert not quiet.is_still(quiet.mirror.snapshot())


def test_a_job_that_may_start_now_is_noticed_although_it_has_no_pods() -> None:
    quiet = Quiet(pod_group("g", minimum=1))
    snapshot = quiet.mirror.snapshot()
    assert quiet.is_still(snapshot)
    snapshot.jobs.phase[snapshot.jobs.index["default/g"]] = JobPhase.INQUEUE
    assert not quiet.is_still(snapshot)


def test_nothing_is_left_to_say_when_a_cluster_has_come_to_rest() -> None:
    objects = [queue("default"), node("n1", cpu=4), *gang("a", 2, cpu=1), *gang("b", 4, cpu=1), *gang("c", 2, cpu=1)]
    cluster = MemoryCluster(objects)
    scheduler = Scheduler(cluster, default_config(), builtin_registry())
    for _ in range(6):
        scheduler.run_once()
        cluster.advance_to(cluster.now() + 5)
    assert scheduler.last_session is not None
    assert updates_of(scheduler.last_session, UnchangedJobs()) == []


def test_a_gang_that_loses_its_last_pod_is_noticed_although_its_rows_go_with_it() -> None:
    last = running(pod("g-0", group="g", cpu=1))
    quiet = Quiet(queue("default"), node("n1", cpu=8), pod_group("g"), last)
    assert quiet.is_still(quiet.mirror.snapshot())
    quiet.mirror.delete(last)
    assert not quiet.is_still(quiet.mirror.snapshot())


def test_nothing_is_taken_for_unchanged_after_rows_have_moved() -> None:
    crowd = [pod(f"p{number}", cpu=1) for number in range(3000)]
    quiet = Quiet(queue("default"), *crowd, pod_group("g"), running(pod("g-0", group="g", cpu=1)))
    assert quiet.is_still(quiet.mirror.snapshot())
    for gone in crowd:
        quiet.mirror.delete(gone)
    moved = quiet.mirror.snapshot()
    assert len(moved.jobs) == 1
    assert not quiet.is_still(moved)
