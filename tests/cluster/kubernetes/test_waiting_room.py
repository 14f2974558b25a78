"""Who waits for volumes, who waits for those who do, and when a gang is given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.api import PersistentVolumeClaim
from muster.cluster.kubernetes.assumptions import bound
from muster.cluster.kubernetes.volumes import Volumes
from muster.cluster.kubernetes.waiting_room import Guest, WaitingRoom
from muster.snapshot.messages import Bind, Event
from muster.testing import pod
from tests.cluster.kubernetes.test_volumes import FAST, N1, claim, observe, volume

LIMIT_S = 600.0


class Room:
    """A waiting room for gangs `g` with some pods, of which each mounts the claim of its own name if there is one."""

    def __init__(self, minimum: int, pods: str, claims: str) -> None:
        self.minimum = minimum
        #: The members that are alive.
        self.members = set(pods)
        self.volumes = Volumes()
        observe(self.volumes, FAST, N1, *(claim(name, "fast", node="n1") for name in claims))
        self.room = WaitingRoom(self.volumes, LIMIT_S, self.is_whole)
        self.room.admit([self.guest(name, [f"default/{name}"] if name in claims else []) for name in pods])

    def guest(self, name: str, claims: list[str]) -> Guest:
        made = Bind(f"default/{name}", "n1", "default/g", "test")
        return Guest(made, pod(name), bound(pod(name), "n1"), claims, 0.0, lambda _: None, is_told=True)

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
        leaving = self.room.take(moment, lambda guest: guest.pod.name not in self.members)
        return (
            "".join(guest.pod.name for guest in leaving.ready),
            {guest.pod.name: fault.why for guest, fault in leaving.failed},
        )


def test_a_gang_is_ready_when_its_last_claim_is_bound() -> None:
    room = Room(3, "abc", claims="ab")
    room.provide("a")
    assert room.take() == ("", {})
    assert room.room.pods("default/g") == {"default/a", "default/b", "default/c"}
    room.provide("b")
    assert room.take() == ("abc", {})
    assert room.room.jobs() == frozenset()


def test_what_a_gang_does_not_need_holds_it_up_neither_late_nor_lost() -> None:
    room = Room(2, "abc", claims="abc")
    room.provide("a")
    room.provide("b")
    assert room.take() == ("ab", {})
    assert room.take(LIMIT_S) == ("", {"c": "claim default/c was not bound within 600 s"})


def test_a_gang_of_which_too_few_would_be_left_is_given_back_whole() -> None:
    room = Room(3, "abc", claims="ab")
    room.provide("a")
    room.lose("b")
    why = "claim default/b is gone or has lost its volume"
    along = f"its gang would be incomplete: {why}"
    assert room.take() == ("", {"b": why, "a": along, "c": along})
    assert room.room.jobs() == frozenset()


def test_a_gang_that_loses_a_waiting_pod_is_given_back() -> None:
    room = Room(2, "ab", claims="ab")
    room.members.remove("b")
    assert room.take()[1] == {"b": "the pod is gone", "a": "its gang would be incomplete: the pod is gone"}


def test_pods_that_did_not_come_as_a_complete_gang_do_not_wait_for_each_other() -> None:
    room = Room(5, "ab", claims="ab")
    room.provide("a")
    assert room.take() == ("a", {})
    assert room.take(LIMIT_S) == ("", {"b": "claim default/b was not bound within 600 s"})


def test_time_runs_only_for_pods_whose_claims_are_late() -> None:
    room = Room(2, "ab", claims="a")
    assert room.take(LIMIT_S - 1) == ("", {})
    room.provide("a")
    assert room.take(LIMIT_S) == ("ab", {})
