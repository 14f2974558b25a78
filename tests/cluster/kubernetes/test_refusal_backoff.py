from __future__ import annotations

from muster.api import ObjectMeta, Pod, PodSpec
from muster.cluster.kubernetes.sending.assumptions import Assumptions
from muster.cluster.kubernetes.verbs.mirror_only import FIRST_SECONDS, LONGEST_SECONDS, RefusalBackoff
from muster.snapshot.messages import Event, EventKind

JOB = "ns/train"


class Scene:
    """One pod, its rests, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.assumptions = Assumptions()
        self.backoff = RefusalBackoff(self.assumptions, lambda: self.now)
        self.see(pod())

    def see(self, seen: Pod, kind: EventKind = "MODIFIED") -> None:
        self.backoff.observe(Event(kind, seen))
        self.assumptions.observe(Event(kind, seen))

    def refuse(self) -> None:
        self.backoff.note(JOB, pod())

    def is_gated(self) -> bool:
        found = self.assumptions.find_assumed(Pod, "ns/p")
        return found is not None and bool(found.spec.scheduling_gates)

    def rest_s(self) -> float:
        """How long the pod rests from now on."""
        began = self.now
        while self.is_gated():
            self.now += 0.25
            self.backoff.end()
        return self.now - began


def pod(uid: str = "u", node: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="ns", uid=uid), spec=PodSpec(node_name=node))


def test_the_first_refusal_costs_nothing() -> None:
    scene = Scene()
    scene.refuse()
    assert not scene.is_gated()
    assert scene.backoff.jobs() == frozenset()


def test_who_is_refused_again_and_again_rests_longer_each_time_up_to_a_limit() -> None:
    scene = Scene()
    scene.refuse()
    backoff = []
    for _ in range(7):
        scene.now += 1.0
        scene.refuse()
        assert scene.backoff.jobs() == {JOB}
        backoff.append(scene.rest_s())
    assert backoff == [FIRST_SECONDS, 1.0, 2.0, 4.0, 8.0, LONGEST_SECONDS, LONGEST_SECONDS]


def test_refusals_that_come_together_count_once() -> None:
    scene = Scene()
    for _ in range(8):
        scene.refuse()
    assert not scene.is_gated()
    scene.now += 1.0
    for _ in range(8):
        scene.refuse()
    assert scene.rest_s() == FIRST_SECONDS


def test_the_scheduler_is_told_of_the_beginning_and_of_the_end() -> None:
    scene = Scene()
    for _ in range(2):
        scene.refuse()
        scene.now += 1.0
    told = [bool(event.object.spec.scheduling_gates) for event in scene.assumptions.drain()]  # type: ignore[attr-defined]  # all are pods
    assert told == [True]
    scene.rest_s()
    assert len(scene.assumptions.drain()) == 1


def test_a_pod_that_was_bound_is_gone_or_was_replaced_is_forgotten() -> None:
    for seen, kind in ((pod(node="n1"), "MODIFIED"), (pod(), "DELETED"), (pod("another"), "MODIFIED")):
        scene = Scene()
        for _ in range(2):
            scene.refuse()
            scene.now += 1.0
        assert scene.is_gated()
        scene.see(seen, kind)  # type: ignore[arg-type]  # one of the kinds
        assert not scene.is_gated()
        assert not scene.backoff._records


def test_an_answer_that_comes_after_its_pod_is_gone_leaves_nothing_behind() -> None:
    scene = Scene()
    scene.see(pod(), "DELETED")
    assert not scene.backoff.note(JOB, pod())
    scene.see(pod("another"), "ADDED")
    assert not scene.backoff.note(JOB, pod())
    assert not scene.backoff._records
