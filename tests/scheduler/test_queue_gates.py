"""Pods with the scheduling gate that waits for their queue: it goes when the queue has room, and not before."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, Pod, PodGroup
from muster.api.names import QUEUE_GATE
from muster.api.objects.pod import PodSchedulingGate
from muster.cluster import MemoryCluster
from muster.explain import explain_job
from muster.framework import SchedulerConfig, parse_config
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import gang, node, queue

OTHER = "example.com/other"


def config(share: str) -> SchedulerConfig:
    return parse_config(
        f'actions: "enqueue, allocate, backfill"\ntiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, '
        f"{{name: {share}}}]}}]",
        share,
    )


CONFIGS = [pytest.param(config(share), id=share) for share in ("capacity", "proportion", "fairshare")]


def gated(
    name: str, pods: int, *, cpu: int = 1, minimum: int = 1, gates: tuple[str, ...] = (QUEUE_GATE,)
) -> list[KubeObject]:
    """A gang in the queue `small` whose pods have gates, and the annotation that says so."""
    things = gang(name, pods, cpu=cpu, minimum=minimum, queue="small")
    for thing in things:
        if isinstance(thing, Pod):
            thing.spec.scheduling_gates = [PodSchedulingGate(name=gate) for gate in gates]
            thing.metadata.annotations[QUEUE_GATE] = "true"
    return things


class Play:
    """A queue for two CPUs on a large node."""

    def __init__(self, config: SchedulerConfig, *things: KubeObject) -> None:
        small = queue("small", capability={"cpu": 2}, deserved={"cpu": 2})
        self.cluster = MemoryCluster([node("n1", cpu=16), small, *things], start=100.0)
        self.scheduler = Scheduler(self.cluster, config, builtin_registry())

    def cycles(self, number: int = 4) -> None:
        for _ in range(number):
            assert self.scheduler.run_once().error is None
            self.cluster.advance_to(self.cluster.now() + 2)

    def gated(self) -> list[str]:
        """Pods that have a gate."""
        return sorted(pod.name for pod in self.cluster.store.all(Pod) if pod.spec.scheduling_gates)

    def bound(self) -> list[str]:
        return sorted(pod.name for pod in self.cluster.store.all(Pod) if pod.spec.node_name)


@pytest.mark.parametrize("config", CONFIGS)
def test_gates_go_while_the_queue_has_room_and_the_others_stay(config: SchedulerConfig) -> None:
    play = Play(config, *gated("a", 3))
    play.cycles()
    assert (play.bound(), play.gated()) == (["a-0", "a-1"], ["a-2"])
    first = play.cluster.store.get(Pod, "default/a-0")
    assert first is not None
    play.cluster.delete(first)
    play.cluster.advance_to(play.cluster.now() + 60)
    play.cycles()
    assert (play.bound(), play.gated()) == (["a-1", "a-2"], [])


@pytest.mark.parametrize("config", CONFIGS)
def test_a_pod_that_no_node_will_have_passes_and_keeps_its_place(config: SchedulerConfig) -> None:
    group, member = gated("a", 1, cpu=2)
    assert isinstance(member, Pod)
    member.spec.node_selector = {"such": "nowhere"}
    play = Play(config, group, member, *gated("b", 1, cpu=1))
    play.cycles()
    assert (play.bound(), play.gated()) == ([], ["b-0"])
    play.cluster.delete(member)
    play.cycles()
    assert (play.bound(), play.gated()) == (["b-0"], [])


@pytest.mark.parametrize("config", CONFIGS)
def test_what_a_gang_cannot_start_without_passes_together_or_not_at_all(config: SchedulerConfig) -> None:
    play = Play(config, *gated("a", 3, minimum=3))
    play.cycles()
    assert (play.bound(), play.gated()) == ([], ["a-0", "a-1", "a-2"])
    session = play.scheduler.last_session
    assert session is not None
    assert explain_job(session, session.snapshot.jobs.index["default/a"]).code == "queue-limit"


def test_a_gate_of_somebody_else_keeps_both() -> None:
    play = Play(config("capacity"), *gated("a", 1, gates=(QUEUE_GATE, OTHER)), *gated("b", 1, gates=(OTHER,)))
    play.cycles()
    assert play.gated() == ["a-0", "b-0"]
    pod = play.cluster.store.get(Pod, "default/a-0")
    assert pod is not None
    assert [gate.name for gate in pod.spec.scheduling_gates] == [QUEUE_GATE, OTHER]


def test_a_job_that_is_not_let_in_keeps_its_gates() -> None:
    group, *pods = gated("a", 1)
    assert isinstance(group, PodGroup)
    group.spec.queue = "nowhere"
    play = Play(config("capacity"), group, *pods)
    play.cycles()
    assert play.gated() == ["a-0"]
