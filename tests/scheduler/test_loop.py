import logging
from typing import Any, ClassVar

import numpy as np
import pytest

from muster.actions import BUILTIN as ACTIONS
from muster.api import (
    Condition,
    InternalError,
    KaiQueue,
    KubeObject,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    Quantity,
    Queue,
    UserError,
)
from muster.cluster import MemoryCluster
from muster.framework import Plugin, Registry, SchedulerConfig, Session, default_config, parse_config, points
from muster.framework.registry import Action
from muster.plugins import BUILTIN as PLUGINS
from muster.scheduler import Scheduler, builtin_registry, job_updates
from muster.scheduler.decisions import decisions_of
from muster.snapshot import TaskStatus
from muster.snapshot.messages import Bind, Evict, JobUpdate, Nominate
from muster.testing import gang, node, pod, pod_group, priority_class, queue

FULL = parse_config(
    'actions: "enqueue, allocate, backfill"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]', "t"
)


def scheduler_of(*objects: KubeObject, registry: Registry | None = None, config: SchedulerConfig = FULL) -> Scheduler:
    cluster = MemoryCluster(objects, start=100.0, delay=lambda _: 0.5)
    return Scheduler(cluster, config, registry or builtin_registry())


def later(scheduler: Scheduler, seconds: float) -> None:
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    cluster.advance_to(cluster.now() + seconds)


def phase(scheduler: Scheduler, job: str) -> str:
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    group = cluster.store.get(PodGroup, job)
    assert group is not None
    return group.status.phase


def test_a_cycle_binds_a_gang_and_the_phase_follows() -> None:
    scheduler = scheduler_of(node("n1", gpu=8), *gang("g", 2, gpu=4))
    first = scheduler.run_once()
    assert [(made.pod, made.node) for made in first.decisions] == [("default/g-0", "n1"), ("default/g-1", "n1")]
    assert (first.number, first.time, first.error, first.failures) == (1, 100.0, None, ())
    assert phase(scheduler, "default/g") == "Inqueue"
    later(scheduler, 1)
    second = scheduler.run_once()
    assert second.decisions == ()
    assert [(update.phase, update.running) for update in second.updates] == [("Running", 2)]
    assert phase(scheduler, "default/g") == "Running"
    assert scheduler.run_once().is_quiet


def test_only_what_changed_is_written() -> None:
    scheduler = scheduler_of(node("n1", gpu=1), *gang("waits", 2, gpu=1))
    first = scheduler.run_once()
    assert [(update.job, update.unschedulable) for update in first.updates] == [
        ("default/waits", "insufficient-resources")
    ]
    assert scheduler.run_once().updates == ()


def test_a_gang_that_loses_a_member_is_unknown_and_then_recovers() -> None:
    scheduler = scheduler_of(node("n1", gpu=1), node("n2", gpu=1), *gang("g", 2, gpu=1))
    scheduler.run_once()
    later(scheduler, 1)
    scheduler.run_once()
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    lost = cluster.store.find("Node", "n2")
    assert lost is not None
    cluster.delete(lost)
    scheduler.run_once()
    assert phase(scheduler, "default/g") == "Unknown"
    cluster.add([node("n3", gpu=1)])
    scheduler.run_once()
    later(scheduler, 1)
    scheduler.run_once()
    assert phase(scheduler, "default/g") == "Running"


def test_an_unknown_plugin_is_a_user_error_at_once() -> None:
    config = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: magic}]}]', "t.yaml")
    with pytest.raises(UserError, match="magic"):
        scheduler_of(config=config)


class Fuse(Plugin):
    """Breaks when asked about a job named "bad"."""

    name: ClassVar[str] = "fuse"

    def job_valid(self, job: int) -> None:
        if self.session.snapshot.jobs.records[job].name == "bad":
            raise KeyError("blown")


class Blast(Action):
    name: ClassVar[str] = "blast"

    def run(self, session: Session) -> None:
        statement = session.statement()
        statement.place(int(session.snapshot.pending_tasks()[0]), 0)
        raise ZeroDivisionError("boom")


def test_a_plugin_that_fails_on_a_job_is_named_and_costs_that_job_alone(caplog: pytest.LogCaptureFixture) -> None:
    config = parse_config('actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: fuse}]}]', "t")
    registry = Registry.of([*PLUGINS, Fuse], ACTIONS)
    scheduler = scheduler_of(
        node("n1"), *gang("bad", 1, cpu=1), *gang("good", 1, cpu=1), registry=registry, config=config
    )
    result = scheduler.run_once()
    assert result.error is None
    assert [str(fault) for fault in result.faults] == [
        "cycle 1: plugin fuse.job_valid in action allocate failed: KeyError: 'blown'"
    ]
    assert isinstance(result.faults[0], InternalError)
    assert [made.pod for made in result.decisions] == ["default/good-0"]
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert [str(held) for held in scheduler.mirror.quarantine] == [
        "PodGroup default/bad: plugin fuse.job_valid failed: KeyError: 'blown'; the contract is "
        + points.JOB_VALID.contract
    ]
    waits = next(update for update in result.updates if update.job == "default/bad")
    assert "plugin fuse.job_valid failed" in waits.message
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    bad = cluster.store.get(PodGroup, "default/bad")
    assert bad is not None
    assert scheduler.run_once().faults == ()  # it is aside, and nobody asks about it
    cluster.delete(bad)
    scheduler.run_once()
    assert len(scheduler.mirror.quarantine) == 0


def test_what_was_committed_before_a_break_is_carried_out_and_the_rest_dropped() -> None:
    config = parse_config('actions: "enqueue, allocate, blast"\ntiers: [{plugins: [{name: gang}]}]', "t")
    registry = Registry.of(PLUGINS, [*ACTIONS, Blast])
    objects = [node("n1", gpu=1), *gang("fits", 1, gpu=1), *gang("waits", 2, gpu=1)]
    scheduler = scheduler_of(*objects, registry=registry, config=config)
    result = scheduler.run_once()
    assert "action blast failed: ZeroDivisionError: boom" in str(result.error)
    assert [made.pod for made in result.decisions] == ["default/fits-0"]
    assert result.updates == ()


class Stale(Action):
    """Binds everything to one node, whatever the kubelet thinks of it."""

    name: ClassVar[str] = "stale"

    def run(self, session: Session) -> None:
        statement = session.statement(self.name)
        for task in session.snapshot.pending_tasks():
            statement.place(int(task), 0)
        statement.commit()


def test_a_refused_bind_is_reported_and_is_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster.scheduler")
    config = parse_config('actions: "stale"\ntiers: []', "t")
    registry = Registry.of(PLUGINS, [*ACTIONS, Stale])
    scheduler = scheduler_of(node("n1", gpu=1), pod("a", gpu=1), pod("b", gpu=1), registry=registry, config=config)
    result = scheduler.run_once()
    assert len(result.decisions) == len(result.failures) == 1
    assert "lacks 1 nvidia.com/gpu" in result.failures[0].error
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("event=bind cycle=1 job=default/pod/") for line in lines) == 1
    assert sum(line.startswith("event=refused cycle=1 job=default/pod/") for line in lines) == 1


class Swap(Action):
    """Evicts everything and promises the room to the waiting job."""

    name: ClassVar[str] = "swap"

    def run(self, session: Session) -> None:
        tasks = session.snapshot.tasks
        waiting = session.snapshot.pending_tasks()
        running = np.flatnonzero(tasks.status == TaskStatus.RUNNING).astype(np.intp)
        if len(running) and len(waiting):
            statement = session.statement(self.name)
            statement.evict(running, beneficiary=int(tasks.job[waiting[0]]), note="swapped out")
            statement.place(int(waiting[0]), 0, mode=1)
            statement.commit()


def test_evictions_name_the_beneficiary_and_nominations_are_made_once() -> None:
    text = 'actions: "enqueue, swap, allocate"\ntiers: [{plugins: [{name: priority}, {name: gang}]}]'
    config = parse_config(text, "t")
    registry = Registry.of(PLUGINS, [*ACTIONS, Swap])
    objects = [
        node("n1", gpu=1),
        pod_group("old", phase="Running"),
        pod("old-0", group="old", gpu=1, node="n1", grace_seconds=5),
        priority_class("high", 9),
        *gang("new", 1, gpu=1, priority_class="high"),
    ]
    scheduler = scheduler_of(*objects, registry=registry, config=config)
    evicted, promised = scheduler.run_once().decisions
    assert evicted == Evict("default/old-0", "n1", "default/old", "default/new", "swap: swapped out")
    assert isinstance(promised, Nominate)
    assert (promised.pod, promised.node, promised.job) == ("default/new-0", "n1", "default/new")
    assert promised.why == "swap: waits for evicted pods to leave the node"
    assert promised.says.startswith("promised: ")
    later(scheduler, 1)
    assert scheduler.run_once().decisions == ()
    later(scheduler, 5)
    decisions = scheduler.run_once().decisions
    assert isinstance(decisions[0], Bind)
    assert (decisions[0].pod, decisions[0].node) == ("default/new-0", "n1")


def test_pods_of_other_schedulers_are_left_alone() -> None:
    theirs = pod("theirs", cpu=1)
    theirs.spec.scheduler_name = "default-scheduler"
    ours = pod("ours", cpu=1)
    ours.spec.scheduler_name = "muster"
    cluster = MemoryCluster([node("n1"), theirs, ours])
    scheduler = Scheduler(cluster, FULL, builtin_registry(), scheduler_names=["muster"])
    assert [made.pod for made in scheduler.run_once().decisions] == ["default/ours"]


def test_decisions_keep_the_order_of_commits_and_say_why() -> None:
    scheduler = scheduler_of(node("n1", gpu=8), *gang("g", 3, minimum=2, gpu=1), config=default_config())
    scheduler.run_once()
    assert scheduler.last_session is not None
    why = {made.why for made in decisions_of(scheduler.last_session)}
    assert why == {"allocate: 3 of 3 tasks placed, 2 needed"}


def test_the_default_registry_has_what_the_default_configuration_names() -> None:
    builtin_registry().check(default_config())


def test_a_report_that_cannot_be_made_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = job_updates._update

    def broken_for_one(job: str, *told: Any) -> JobUpdate:
        if job == "default/odd":
            raise ValueError("no such thing")
        return made(job, *told)

    monkeypatch.setattr(job_updates, "_update", broken_for_one)
    scheduler = scheduler_of(node("n1", gpu=2), *gang("odd", 1, gpu=1), *gang("plain", 1, gpu=1))
    result = scheduler.run_once()
    assert (result.error, [each.job for each in result.updates]) == (None, ["default/plain"])
    assert len(result.decisions) == 2
    assert "job=default/odd" in caplog.text


def test_an_object_that_breaks_the_mirror_does_not_hide_what_comes_after_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = scheduler_of(node("odd"), node("n1", gpu=1), *gang("plain", 1, gpu=1))
    taken = scheduler.mirror.upsert

    def broken_for_one(item: KubeObject) -> None:
        if item.name == "odd":
            raise ValueError("no such thing")
        taken(item)

    monkeypatch.setattr(scheduler.mirror, "upsert", broken_for_one)
    assert [(made.pod, made.node) for made in scheduler.run_once().decisions] == [("default/plain-0", "n1")]
    assert "kind=Node name=odd" in caplog.text


def test_a_plugin_that_fails_at_the_end_costs_no_report() -> None:
    class Broken(Plugin):
        name: ClassVar[str] = "broken"

        def close(self) -> None:
            raise ValueError("no such thing")

    registry = Registry.of([*PLUGINS, Broken], ACTIONS)
    config = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: broken}]}]', "t")
    result = scheduler_of(node("n1", gpu=1), *gang("g", 1, gpu=1), registry=registry, config=config).run_once()
    assert [each.job for each in result.updates] == ["default/g"]
    assert "closing the session failed" in str(result.error)


def test_a_queue_of_kai_that_cannot_be_used_says_so_until_it_can() -> None:
    scheduler = scheduler_of(node("n1"), queue("team"))
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    cluster.store.put(KaiQueue(metadata=ObjectMeta(name="team")))

    def said() -> list[tuple[str, str]]:
        found = cluster.store.get(KaiQueue, "team")
        assert found is not None
        return [(known.type, known.status) for known in found.status.conditions]

    scheduler.run_once()
    assert said() == [("muster.sh/Usable", "False")]
    assert scheduler.run_once().is_quiet
    standing = cluster.store.get(Queue, "team")
    assert standing is not None
    cluster.store.remove(standing)
    scheduler.run_once()
    assert said() == [("muster.sh/Usable", "True")]


def test_what_cannot_be_used_says_so_once_and_takes_it_back() -> None:
    """A condition on nodes, pods and PodGroups; corrected, a node says that it is usable and the gang starts."""
    bad = node("odd", gpu=1)
    bad.status.allocatable["cpu"] = Quantity("10E")
    group = pod_group("g", minimum=1)
    huge = pod("g-0", group="g", gpu=1)
    huge.spec.containers[0].resources.requests["cpu"] = Quantity("1e17")
    scheduler = scheduler_of(node("n1", gpu=1), bad, group, huge, *gang("plain", 1, gpu=1))
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)

    def said(thing: Node | Pod | None) -> list[tuple[str, str, str]]:
        assert thing is not None
        return [(known.type, known.status, known.message) for known in thing.status.conditions if known.type != "Ready"]

    assert [made.pod for made in scheduler.run_once().decisions] == ["default/plain-0"]
    [(kind, status, message)] = said(cluster.store.get(Node, "odd"))
    assert (kind, status) == ("muster.sh/Usable", "False")
    assert "status.allocatable.cpu" in message
    assert "quarantined: spec.containers[0]" in said(cluster.store.get(Pod, "default/g-0"))[0][2]
    waits = cluster.store.get(PodGroup, "default/g")
    assert waits is not None
    assert "Pod default/g-0" in waits.status.conditions[0].message
    for _ in range(3):
        scheduler.run_once()
    assert not cluster.store.has_events

    cluster.replace_object(node("odd", gpu=1))
    cluster.replace_object(pod("g-0", group="g", gpu=1))
    assert [(made.pod, made.node) for made in scheduler.run_once().decisions] == [("default/g-0", "odd")]
    assert ("muster.sh/Usable", "True", "can be used") in said(cluster.store.get(Node, "odd"))
    assert len(scheduler.mirror.quarantine) == 0


@pytest.mark.parametrize("thing", [node("corrected"), KaiQueue(metadata=ObjectMeta(name="corrected"))])
def test_what_was_corrected_while_no_scheduler_ran_says_that_it_can_be_used(thing: Node | KaiQueue) -> None:
    thing.status.conditions = [Condition(type="muster.sh/Usable", status="False", message="status.allocatable.cpu: …")]
    scheduler = scheduler_of(thing)
    cluster = scheduler.cluster
    assert isinstance(cluster, MemoryCluster)
    for _ in range(2):
        scheduler.run_once()
        found = cluster.store.get(type(thing), "corrected")
        assert found is not None
        [said] = [known for known in found.status.conditions if known.type == "muster.sh/Usable"]
        assert (said.status, said.message) == ("True", "can be used")
    assert not cluster.store.has_events
