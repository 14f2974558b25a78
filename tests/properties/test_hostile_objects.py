"""Hostile objects among good gangs: the good ones always start, and nothing of the others stays.

One scheduler and its standby live through all of them, as on a cluster where somebody tries. Each case comes before,
between or after the objects of good gangs, in one batch of events; objects are decoded as watches decode them. Every so
often the scheduler is started anew in the middle of it.
"""

from __future__ import annotations

import json
import os
from random import Random
from typing import Final

import pytest

from muster.api import KubeObject, Node, Pod, PodGroup, Queue
from muster.api.kinds import type_of
from muster.cluster import MemoryCluster
from muster.cluster.embedded_server import _without_nonsense
from muster.cluster.kubernetes.client.kinds import ObjectDecoder
from muster.framework import find_config
from muster.scheduler import Scheduler, builtin_registry
from muster.server.metrics import Metrics
from muster.snapshot import Amounts, Intake, Mirror, Snapshot, TaskStatus
from muster.snapshot.messages import Event
from muster.testing import gang, node, queue
from tests.properties.hostile_objects import CROWDED, SCHEDULER, Json, hostile

CASES: Final = 100_000 if os.environ.get("MUSTER_SOAK") else 1_000
#: So many tests share the cases, and run side by side.
PARTS: Final = 4
_RESTART_EVERY: Final = 40
#: Also just before every restart, so that nothing that was left is forgotten before somebody looks.
_CHECK_EVERY: Final = 5
#: Looked up once: finding the installed plugins costs more than a cycle.
_REGISTRY: Final = builtin_registry()


class Stage:
    """A cluster, a scheduler that leads and one that follows."""

    def __init__(self, profile: str) -> None:
        nodes = [node(f"n{number}", cpu=8, gpu=4) for number in range(3)]
        self.cluster = MemoryCluster([*nodes, node(CROWDED), queue("default")], as_is=True)
        self._profile = profile
        self.started: set[str] = set()
        self._restart()

    def _restart(self) -> None:
        """Begin anew with all that there is."""
        config = find_config(self._profile)
        self.scheduler = Scheduler(self.cluster, config, _REGISTRY, scheduler_names=[SCHEDULER])
        self.metrics = Metrics()
        self.standby = Mirror([SCHEDULER])
        self._second = Intake(self.standby)
        self._tee(self.cluster.poll())
        known = [Event("ADDED", thing) for thing in self.objects()]
        self.scheduler.intake.take(known, self.cluster.now())
        self._second.take(known, self.cluster.now())

    def objects(self) -> list[KubeObject]:
        return [thing for things in self.cluster.store._objects.values() for thing in things.values()]

    def _tee(self, events: list[Event]) -> None:
        self._second.take(events, self.cluster.now())
        self._second.snapshot()

    def put(self, things: list[tuple[KubeObject, str]]) -> None:
        for thing, fault in things:
            if fault:
                self.cluster.store.put_unreadable(thing, fault)
            else:
                self.cluster.store.put(_without_nonsense(thing))

    def cycle(self) -> None:
        self.cluster.advance_to(self.cluster.now() + 1.0)
        poll, seen = self.cluster.poll, self.cluster.poll()
        self.cluster.poll = lambda: seen  # type: ignore[method-assign]  # both replicas see the same
        try:
            self._tee(seen)
            result = self.scheduler.run_once()
        finally:
            self.cluster.poll = poll  # type: ignore[method-assign]
        assert result.error is None, result.error
        assert result.faults == (), result.faults
        self.started |= {made.pod for made in result.decisions}
        self.metrics.record_cycle(result, 0.0)
        measure(self.metrics, self.scheduler)

    def remove(self, things: list[KubeObject]) -> None:
        for thing in things:
            present = self.cluster.store.find_same(thing)
            if present is not None:
                self.cluster.store.remove(present)

    def check_clean(self) -> None:
        """Nothing is left of anybody but the nodes and the queue: as if the scheduler had begun just now."""
        fresh = Mirror([SCHEDULER])
        for thing in self.objects():
            fresh.upsert(thing)
        expected = fresh.snapshot()
        for mirror in (self.scheduler.mirror, self.standby):
            assert len(mirror.quarantine) == 0, [str(held) for held in mirror.quarantine]
            found = mirror.snapshot()
            assert facts(found) == facts(expected)
            assert not found.jobs.aside
            assert not found.queues.aside
            assert not any(found.objects.values())
        self._check_metrics()

    def _check_metrics(self) -> None:
        """No series names anybody who is gone, and what is there now is measured as if there had never been more."""
        said = self.metrics.text()
        assert not [line for line in said.splitlines() if "evil" in line or "good-" in line]
        aside = {series: value for series, value in gauges(said).items() if series.startswith("muster_quarantined{")}
        assert aside
        assert set(aside.values()) == {"0"}
        cluster = MemoryCluster(self.objects(), as_is=True)
        fresh = Scheduler(cluster, find_config(self._profile), _REGISTRY, scheduler_names=[SCHEDULER])
        fresh.run_once()
        expected = Metrics()
        measure(expected, fresh)
        assert gauges(said) == gauges(expected.text())


def measure(metrics: Metrics, scheduler: Scheduler) -> None:
    """Note how a scheduler is after a cycle, as the service does."""
    assert scheduler.last_session is not None
    metrics.record_session(scheduler.last_session)
    metrics.record_quarantine(scheduler.mirror.quarantine, scheduler.strikes.count)


def gauges(text: str) -> dict[str, str]:
    """The values of what is measured now, by series; what is counted from the start is left out."""
    lines = [line.rpartition(" ") for line in text.splitlines()]
    families = {head.split()[2] for head, _, kind in lines if head.startswith("# TYPE ") and kind == "gauge"}
    return {series: value for series, _, value in lines if series.partition("{")[0] in families}


def facts(snapshot: Snapshot) -> dict[str, object]:
    """What a snapshot says, by name, of every resource that it has a column for."""
    nodes, tasks = snapshot.nodes, snapshot.tasks

    def amounts(row: Amounts) -> dict[str, int]:
        return dict(zip(snapshot.axis.names, row.tolist(), strict=True))

    return {
        "resources": snapshot.axis.names,
        "nodes": {name: [amounts(plane[row]) for plane in nodes.state] for row, name in enumerate(nodes.names)},
        "ready": dict(zip(nodes.names, nodes.ready.tolist(), strict=True)),
        "tasks": [tasks.ids[row] for row in range(len(tasks)) if tasks.status[row] != TaskStatus.GONE],
        "jobs": sorted(snapshot.jobs.index),
        "queues": {r.name: amounts(snapshot.queues.tree_allocated[k]) for k, r in enumerate(snapshot.queues.records)},
        "domains": snapshot.topology.names,
    }


def decoded(documents: list[Json]) -> list[tuple[KubeObject, str]]:
    """Objects as watches make them, with what is wrong with those that cannot be read."""
    return [ObjectDecoder(type_of(each)).decode_or_stub(json.dumps(each).encode()) for each in documents]


def good(number: int) -> list[tuple[KubeObject, str]]:
    """A gang with a PodGroup of two, as a user writes it."""
    made = gang(f"good-{number}", 2, cpu=1)
    for thing in made:
        thing.metadata.uid = f"{thing.kind}-{thing.name}"
        if isinstance(thing, Pod):
            thing.spec.scheduler_name = SCHEDULER
            thing.status.phase = "Pending"
    return [(thing, "") for thing in made]


@pytest.mark.parametrize("part", range(PARTS))
def test_good_gangs_start_whatever_stands_beside_them(part: int) -> None:
    stage = Stage(("muster", "volcano", "kai", "muster")[part])
    rng = Random(part if not os.environ.get("MUSTER_SOAK") else None)
    before = 0
    for case in range(part, CASES, PARTS):
        seed = rng.randrange(2**63)
        documents = hostile(Random(seed))
        try:
            play(stage, case, decoded(documents))
        except Exception as fault:
            raise AssertionError(f"seed {seed} after {before}: {json.dumps(documents)[:5000]}") from fault
        before = seed


def play(stage: Stage, case: int, bad: list[tuple[KubeObject, str]]) -> None:
    """Put bad objects before, between or after those of a good gang and look at what starts.

    What was there before goes in the same batch of events; where it is to be seen that nothing stays, before the end.
    """
    first, second = good(case), good(case + CASES)
    place = (0, 1, len(first))[case % 3]
    stage.started.clear()
    stage.put([*first[:place], *bad, *first[place:]])
    stage.cycle()
    if case // PARTS % _RESTART_EVERY == 0:
        stage._restart()
    stage.put(second)
    stage.cycle()
    pods = {thing.key for thing, _ in (*first, *second) if isinstance(thing, Pod)}
    assert pods <= stage.started, pods - stage.started
    stage.remove([thing for thing, _ in (*bad, *first, *second)])
    stage.remove([thing for thing in stage.objects() if isinstance(thing, Pod)])
    if case // PARTS % _CHECK_EVERY == _CHECK_EVERY - 1:
        stage.cycle()
        stage.check_clean()


def test_the_same_seed_makes_the_same_objects() -> None:
    assert [hostile(Random(7)) for _ in range(2)] == [hostile(Random(7)) for _ in range(2)]
    kinds = {document["kind"] for seed in range(300) for document in hostile(Random(seed))}
    assert kinds >= {Pod.kind, Node.kind, PodGroup.kind, Queue.kind, "HyperNode", "Topology", "ResourceClaim"}
