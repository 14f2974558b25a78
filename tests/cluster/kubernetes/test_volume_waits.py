"""Who waits for volumes, who waits for those who do, and when a gang is given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.api import PersistentVolumeClaim
from muster.cluster.kubernetes.sending.assumptions import bound
from muster.cluster.kubernetes.verbs.bindings import VolumeWaits, WaitingPod
from muster.cluster.kubernetes.verbs.volumes import Volumes
from muster.snapshot.messages import Bind, Event
from muster.testing import pod
from tests.cluster.kubernetes.test_volumes import FAST, N1, claim, observe, volume

LIMIT_S = 600.0


class Play:
    """Waits of gangs `g` with some pods, of which each mounts the claim of its own name if there is one."""

    def __init__(self, minimum: int, pods: str, claims: str) -> None:
        self.minimum = minimum
        #: The members that are alive.
        self.members = set(pods)
        self.volumes = Volumes()
        observe(self.volumes, FAST, N1, *(claim(name, "fast", node="n1") for name in claims))
        self.waits = VolumeWaits(self.volumes, LIMIT_S, self.is_whole)
        self.waits.add([self.waiter(name, [f"default/{name}"] if name in claims else []) for name in pods])

    def waiter(self, name: str, claims: list[str]) -> WaitingPod:
        made = Bind(f"default/{name}", "n1", "default/g", "test")
        return WaitingPod(made, pod(name), bound(pod(name), "n1"), claims, 0.0, lambda _: None, is_told=True)

    def is_whole(self, job: str, without: Collection[str]) -> bool:
        return len({f"default/{name}" for name in self.members} - set(without)) >= self.minimum

    def provide(self, name: str) -> None:
        observe(self.volumes, volume(f"v-{name}", class_name="fast"), claim(name, "fast", f"v-{name}", phase="Bound"))

    def lose(self, name: str) -> None:
        found = self.volumes.claim(f"default/{name}")
        assert isinstance(found, PersistentVolumeClaim)
        self.volumes.observe(Event("DELETED", found))

    def take(self, moment: float = 1.0) -> tuple[str, Mapping[str, str]]:
        """Names of those who are ready, and why others are given back."""
        released = self.waits.take(moment, lambda waiter: waiter.pod.name not in self.members)
        return (
            "".join(waiter.pod.name for waiter in released.ready),
            {waiter.pod.name: fault.why for waiter, fault in released.failed},
        )


def test_a_gang_is_ready_when_its_last_claim_is_bound() -> None:
    play = Play(3, "abc", claims="ab")
    play.provide("a")
    assert play.take() == ("", {})
    assert play.waits.pods("default/g") == {"default/a", "default/b", "default/c"}
    play.provide("b")
    assert play.take() == ("abc", {})
    assert play.waits.jobs() == frozenset()


def test_what_a_gang_does_not_need_holds_it_up_neither_late_nor_lost() -> None:
    play = Play(2, "abc", claims="abc")
    play.provide("a")
    play.provide("b")
    assert play.take() == ("ab", {})
    assert play.take(LIMIT_S) == ("", {"c": "claim default/c was not bound within 600 s"})


def test_a_gang_of_which_too_few_would_be_left_is_given_back_whole() -> None:
    play = Play(3, "abc", claims="ab")
    play.provide("a")
    play.lose("b")
    why = "claim default/b is gone or has lost its volume"
    along = f"its gang would be incomplete: {why}"
    assert play.take() == ("", {"b": why, "a": along, "c": along})
    assert play.waits.jobs() == frozenset()


def test_a_gang_that_loses_a_waiting_pod_is_given_back() -> None:
    play = Play(2, "ab", claims="ab")
    play.members.remove("b")
    assert play.take()[1] == {"b": "the pod is gone", "a": "its gang would be incomplete: the pod is gone"}


def test_pods_that_did_not_come_as_a_complete_gang_do_not_wait_for_each_other() -> None:
    play = Play(5, "ab", claims="ab")
    play.provide("a")
    assert play.take() == ("a", {})
    assert play.take(LIMIT_S) == ("", {"b": "claim default/b was not bound within 600 s"})


def test_time_runs_only_for_pods_whose_claims_are_late() -> None:
    play = Play(2, "ab", claims="a")
    assert play.take(LIMIT_S - 1) == ("", {})
    play.provide("a")
    assert play.take(LIMIT_S) == ("ab", {})
