"""What has been read is handed over while more is on its way, pods after the gangs that they belong to."""

from __future__ import annotations

import pytest

from muster.api import KubeObject, Node, ObjectMeta, Pod, PodGroup
from muster.cluster.kubernetes import KubernetesCluster
from muster.cluster.kubernetes.sending.api_thread import ApiThread
from muster.cluster.kubernetes.sending.queues import Inbox
from muster.snapshot.messages import Event


def added(*things: KubeObject) -> list[Event]:
    return [Event("ADDED", thing) for thing in things]


def named(kind: type[KubeObject], name: str) -> KubeObject:
    return kind(metadata=ObjectMeta(name=name))


class Listing:
    """A server that tells things step by step, and in which step the last PodGroup was among them."""

    def __init__(self, steps: list[list[Event]], groups_at: int) -> None:
        self._steps = steps
        self._groups_at = groups_at
        self._n_steps = 0
        self.inboxes: list[Inbox] = []

    def connect(self, monkeypatch: pytest.MonkeyPatch) -> KubernetesCluster:
        take = Inbox.__init__

        def keep(inbox: Inbox) -> None:
            take(inbox)
            self.inboxes.append(inbox)

        monkeypatch.setattr(Inbox, "__init__", keep)
        monkeypatch.setattr(ApiThread, "begin", lambda _: None)
        monkeypatch.setattr(ApiThread, "start", lambda *_: None)
        monkeypatch.setattr(ApiThread, "wait", lambda _, seconds: self.is_over(seconds))
        monkeypatch.setattr(ApiThread, "has_groups", lambda _: self._n_steps > self._groups_at)
        return KubernetesCluster()

    def is_over(self, seconds: float) -> bool:
        assert seconds < 1
        if self._n_steps == len(self._steps):
            return True
        self.inboxes[0].put_events(self._steps[self._n_steps])
        self._n_steps += 1
        return False


def test_pods_come_when_all_gangs_are_known_and_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [named(Pod, name) for name in ("a", "b", "c")]
    node, group = named(Node, "n"), named(PodGroup, "g")
    gone = Event("DELETED", pods[0])
    steps = [[*added(pods[0], node, pods[1]), gone], added(group), added(pods[2])]
    got: list[list[Event]] = []
    Listing(steps, groups_at=1).connect(monkeypatch).start(take=got.append)
    told = [[(event.kind, event.object) for event in part] for part in got]
    first = [("ADDED", pods[0]), ("ADDED", pods[1]), ("DELETED", pods[0])]
    assert told == [[("ADDED", node)], [("ADDED", group), *first], [("ADDED", pods[2])], []]


def test_nothing_that_was_held_back_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [named(Pod, name) for name in ("a", "b")]
    got: list[Event] = []
    Listing([added(pods[0]), added(pods[1])], groups_at=9).connect(monkeypatch).start(take=got.extend)
    assert [event.object for event in got] == pods
