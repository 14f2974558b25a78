"""What queues say of themselves: what they hold, with those below them, and their gangs by phase."""

from __future__ import annotations

import pytest

from muster.api import KaiPodGroup, KaiQueue, Pod, PodGroup, Queue, decode
from muster.cluster import MemoryCluster
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.testing import gang, node, pod, pod_group, queue


def kai_queue(name: str, parent: str = "") -> KaiQueue:
    limits = {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}
    spec = {"parentQueue": parent, "resources": limits}
    made = decode({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
    assert isinstance(made, KaiQueue)
    return made


def amounts(found: Queue | KaiQueue | None) -> dict[str, str]:
    assert found is not None
    return {name: str(amount.text) for name, amount in found.status.allocated.items()}


class Play:
    def __init__(self, config: str, *things: object) -> None:
        self.cluster = MemoryCluster(things, start=100.0)  # type: ignore[arg-type]
        self.scheduler = Scheduler(self.cluster, profile(config), builtin_registry())

    def cycles(self, number: int = 4) -> None:
        for _ in range(number):
            result = self.scheduler.run_once()
            assert (result.error, result.failures) == (None, ())
            self.cluster.advance_to(self.cluster.now() + 2)

    def queue(self, name: str) -> Queue:
        found = self.cluster.store.get(Queue, name)
        assert found is not None
        return found


@pytest.mark.parametrize("config", ["muster", "volcano"])
def test_queues_say_what_they_hold_and_how_their_gangs_are(config: str) -> None:
    things = [queue("a", weight=1), *gang("runs", 2, cpu=1, gpu=1, queue="a"), *gang("waits", 2, gpu=8, queue="a")]
    empty = pod_group("empty", minimum=1, queue="a")
    play = Play(config, node("n1", cpu=8, gpu=8), *things, empty, pod("alone", cpu=1))
    play.cycles()
    found = play.queue("a")
    assert amounts(found) == {"cpu": "2", "memory": "0", "nvidia.com/gpu": "2", "pods": "2"}
    status = found.status
    assert (status.running, status.inqueue, status.pending, status.unknown, status.completed) == (1, 2, 0, 0, 0)
    assert amounts(play.queue("default"))["pods"] == "1"
    assert amounts(play.queue("root")) == {"cpu": "3", "memory": "0", "nvidia.com/gpu": "2", "pods": "3"}
    assert play.scheduler.run_once().queues == ()
    for number in range(2):
        gone = play.cluster.store.get(Pod, f"default/runs-{number}")
        assert gone is not None
        play.cluster.delete(gone)
    play.cluster.advance_to(play.cluster.now() + 60)
    play.cycles()
    assert amounts(play.queue("a")) == {"cpu": "0", "memory": "0", "pods": "0"}


def test_queues_of_kai_say_what_is_asked_for_and_what_is_below_them() -> None:
    spec = {"minMember": 1, "queue": "team", "preemptibility": "non-preemptible"}
    head = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    made = decode({**head, "spec": spec})
    assert isinstance(made, KaiPodGroup)
    pods = [pod(f"g-{number}", group="g", gpu=4) for number in range(3)]
    play = Play("kai", node("n1", cpu=8, gpu=8), kai_queue("department"), kai_queue("team", "department"), made, *pods)
    play.cycles()
    for name in ("team", "department"):
        found = play.cluster.store.get(KaiQueue, name)
        assert found is not None
        said = found.status
        assert amounts(found)["nvidia.com/gpu"] == "8"
        assert said.requested["nvidia.com/gpu"].text == "12"
        assert said.allocated_non_preemptible["nvidia.com/gpu"].text == "8"
        assert list(said.child_queues) == (["team"] if name == "department" else [])
    assert play.scheduler.run_once().queues == ()


def test_gangs_that_are_over_stay_counted_when_they_are_out_of_the_picture() -> None:
    play = Play("muster", node("n1", cpu=8), queue("a"), *gang("ends", 2, cpu=1, queue="a", run_seconds=3))
    play.cycles(10)
    assert play.cluster.store.get(PodGroup, "default/ends") is not None
    session = play.scheduler.last_session
    assert session is not None
    assert "default/ends" not in session.snapshot.jobs.index
    status = play.queue("a").status
    assert (status.completed, status.running, amounts(play.queue("a"))["pods"]) == (1, 0, "0")
    assert play.scheduler.run_once().queues == ()


def test_a_status_that_cannot_be_made_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    play = Play("muster", node("n1", cpu=8), *gang("g", 2, cpu=1))

    def broken(*_: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(play.scheduler._queues, "updates", broken)
    monkeypatch.setattr(play.scheduler._hyper_nodes, "updates", broken)
    result = play.scheduler.run_once()
    assert (result.error, len(result.decisions), len(result.updates)) == (None, 2, 1)
    assert "what=queues" in caplog.text
