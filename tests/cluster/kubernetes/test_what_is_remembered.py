"""The backend remembers nothing of objects that are gone, however many have come and gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.api import PersistentVolumeClaim, Pod, PodDisruptionBudget, PodGroup
from muster.api.objects.meta import ObjectMeta
from muster.cluster.kubernetes.client.requests import ApiError
from muster.cluster.kubernetes.client.shards import Shard, ShardView
from muster.cluster.kubernetes.sending import events
from muster.cluster.kubernetes.sending.assumptions import Assumptions, bound, leaving, nominated, told_to_wait
from muster.cluster.kubernetes.verbs.evictions import DisruptionBudgets
from muster.cluster.kubernetes.verbs.mirror_only import LONGEST_SECONDS, RefusalBackoff, VolumeRefusals
from muster.cluster.kubernetes.verbs.volumes import Volumes
from muster.snapshot.messages import Event
from muster.testing import pod, pod_group
from tests.cluster.kubernetes.test_event_sender import Server, about, played, until_quiet
from tests.properties.test_churn import size_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Day:
    """What the backend keeps of a cluster, fed with pods, gangs, claims and budgets that come and go."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.assumptions = Assumptions()
        self.backoff = RefusalBackoff(self.assumptions, clock)
        self.refusals = VolumeRefusals(rest_s=0.0)
        self.budgets = DisruptionBudgets()
        self.view = ShardView(Shard(node_selector="pool=a"))
        self.volumes = Volumes()

    def observe(self, event: Event) -> None:
        for part in (self.backoff, self.refusals, self.budgets, self.volumes):
            part.observe(event)
        list(self.view.observe(event))
        self.assumptions.observe(event)
        self.assumptions.drain()

    def kept(self) -> tuple[int, int]:
        return size_of([self.assumptions, self.refusals, self.budgets, self.view, self.volumes, self.backoff])


def one_life(day: Day, number: int, tick: Callable[[], None]) -> None:
    name = f"p{number}"
    group: PodGroup = pod_group(f"g{number}")
    one: Pod = pod(name, group=group.name, cpu=1, labels={"number": name})
    one.metadata.uid = group.metadata.uid = name
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="default", uid=name))
    budget = PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace=f"ns-{number}"))
    for thing in (group, one, claim, budget):
        day.observe(Event("ADDED", thing))
    for assumed in (
        nominated(one, f"node-{number}", "waits", NOW),
        told_to_wait(one, "Unschedulable", "waits", NOW),
        bound(one, f"node-{number}"),
        leaving(one, NOW),
    ):
        day.assumptions.hold(assumed)
    for _ in range(3):  # refused again and again
        day.backoff.note(group.key, one)
        tick()
        day.backoff.end()
    day.refusals.note(claim.key, f"node-{number}", 0.0, 0.0)
    day.refusals.drain(lambda _: claim, float(number))
    running = replace(one, spec=replace(one.spec, node_name=f"node-{number}"))
    day.observe(Event("MODIFIED", running))
    for thing in (running, group, claim, budget):
        day.observe(Event("DELETED", thing))


def test_a_day_leaves_nothing_in_the_backend() -> None:
    now = [0.0]

    def tick() -> None:
        now[0] += LONGEST_SECONDS + 1

    day = Day(lambda: now[0])
    for number in range(20):
        one_life(day, number, tick)
    before = day.kept()
    for number in range(20, 520):
        one_life(day, number, tick)
    after = day.kept()
    assert after[0] <= before[0] + 5, (before, after)
    assert after[1] <= before[1] + 4096, (before, after)


def test_namespaces_that_took_no_events_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_CLOSED_S", 0.0)
    monkeypatch.setattr(events, "_BURST", 1000.0)
    server = Server(ApiError(403, "Forbidden", "not here"))
    left: list[int] = []

    async def play(sender: events.EventSender) -> None:
        for number in range(50):
            told = about(f"p{number}")
            told.regarding.metadata.namespace = f"ns-{number}"
            sender.tell([told])
        await asyncio.sleep(0)
        await until_quiet(server)
        left.append(len(sender._closed))

    played(server, play)
    assert len(server.requests) == 50
    assert left == [1]
