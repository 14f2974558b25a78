"""Random clusters through the gang strategy: what must hold whatever it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.api import KubeObject
from muster.engine.evictions.gang.bundles import BundleKind
from muster.engine.evictions.gang.need import needed_tasks
from muster.engine.evictions.gang.strategy import BundleRecords
from muster.engine.evictions.simulation import Simulation
from muster.engine.placing import Scope
from muster.framework import SchedulerConfig, Session
from muster.snapshot import Operation, OperationKind, Rows, TaskStatus
from muster.testing import pod, pod_group, queue
from tests.engine.evictions.eviction_stage import act, configured, evicted, open_session, promised
from tests.snapshot.networks import hard, racks

CLASSES = {"low": 10, "high": 1000}
CONFIGS = {
    "gangpreempt": configured("gangpreempt", share="capacity"),
    "gangreclaim": configured("gangreclaim", share="capacity"),
}


@dataclass(frozen=True)
class Job:
    """A gang: the node of each pod ("": it waits), GPUs per pod, minimum, priority class, queue, tier limit."""

    name: str
    nodes: tuple[str, ...]
    gpu: int
    minimum: int
    priority: str
    queue: str
    tier: int | None = None

    def objects(self) -> list[KubeObject]:
        own = pod_group(
            self.name, minimum=self.minimum, priority_class=self.priority, queue=self.queue, phase="Inqueue"
        )
        own.spec.network_topology = None if self.tier is None else hard(self.tier)
        value = CLASSES[self.priority]
        return [
            own,
            *(
                pod(f"{self.name}-{k}", group=self.name, node=place, gpu=self.gpu, priority=value)
                for k, place in enumerate(self.nodes)
            ),
        ]


@dataclass(frozen=True)
class World:
    """Racks of 8-GPU nodes, two queues, running gangs, and gangs that wait."""

    racks: tuple[int, ...]
    deserved: tuple[int, int]
    jobs: tuple[Job, ...]

    def objects(self) -> list[KubeObject]:
        queues = [queue(f"q{k}", deserved={"gpu": gpu}) for k, gpu in enumerate(self.deserved)]
        return [*racks({"s0": self.racks}), *queues, *(item for job in self.jobs for item in job.objects())]


@st.composite
def worlds(draw: st.DrawFn, waiting: int = 1) -> World:
    sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    nodes = [f"s0-r{rack}-n{k}" for rack, size in enumerate(sizes) for k in range(size)]
    free = dict.fromkeys(nodes, 8)
    jobs = []
    for number in range(draw(st.integers(1, 12))):
        gpu = draw(st.sampled_from([1, 2, 4]))
        places = []
        for _ in range(draw(st.integers(1, 5))):
            fitting = [name for name in nodes if free[name] >= gpu]
            if fitting:
                places.append(draw(st.sampled_from(fitting)))
                free[places[-1]] -= gpu
        if places:
            minimum = draw(st.sampled_from([len(places), len(places), len(places) + 1, 0, len(places) // 2]))
            priority = draw(st.sampled_from(["low", "low", "high"]))
            jobs.append(
                Job(f"old{number}", tuple(places), gpu, minimum, priority, draw(st.sampled_from(["q0", "q1", "q1"])))
            )
    for number in range(draw(st.integers(1, waiting))):
        count = draw(st.integers(1, 4))
        tier = draw(st.sampled_from([None, 1, 2]))
        gpu = draw(st.sampled_from([2, 4, 8]))
        minimum = draw(st.integers(1, count))
        jobs.append(Job(f"new{number}", ("",) * count, gpu, minimum, "high", "q0", tier))
    total = 8 * len(nodes)
    first = draw(st.integers(0, total))
    return World(sizes, (first, total - first), tuple(jobs))


ACTIONS = st.sampled_from(sorted(CONFIGS))


def operations(session: Session, kind: OperationKind) -> list[Operation]:
    return [o for committed in session.committed for o in committed.operations if o.kind is kind]


def reasons(session: Session) -> list[BundleRecords]:
    found = [operation.record for operation in operations(session, OperationKind.EVICT)]
    return [record for record in found if isinstance(record, BundleRecords)]


@given(worlds(waiting=3), ACTIONS)
def test_nobody_is_evicted_without_a_placed_beneficiary(world: World, action: str) -> None:
    session = act(world.objects(), CONFIGS[action])
    for committed in session.committed:
        placed = {
            int(session.snapshot.tasks.job[task])
            for operation in committed.operations
            if operation.kind is OperationKind.PIPELINE
            for task in operation.tasks.tolist()
        }
        for operation in committed.operations:
            if operation.kind is OperationKind.EVICT:
                assert operation.beneficiary in placed
                assert session.job_pipelined_deficit(operation.beneficiary) == 0
    assert (session.snapshot.nodes.future_idle() >= 0).all()


@given(worlds(waiting=3), ACTIONS)
def test_only_those_who_may_be_taken_from_are(world: World, action: str) -> None:
    session = act(world.objects(), CONFIGS[action])
    jobs, tasks = session.snapshot.jobs, session.snapshot.tasks
    for operation in operations(session, OperationKind.EVICT):
        owners = tasks.job[operation.tasks]
        if action == "gangpreempt":
            assert (jobs.queue[owners] == jobs.queue[operation.beneficiary]).all()
            assert (jobs.priority[owners] < jobs.priority[operation.beneficiary]).all()
        else:
            assert (jobs.queue[owners] != jobs.queue[operation.beneficiary]).all()


@given(worlds(waiting=3))
def test_no_reclaim_takes_from_a_queue_that_has_no_more_than_it_deserves(world: World) -> None:
    before = open_session(world.objects(), CONFIGS["gangreclaim"])
    after = act(world.objects(), CONFIGS["gangreclaim"])
    column = before.snapshot.axis.index["nvidia.com/gpu"]
    for name, deserved in zip(("q0", "q1"), world.deserved, strict=True):
        row = before.snapshot.queues.index[name]
        held = int(before.snapshot.queues.own_allocated[row, column])
        if held <= deserved * 1000:
            assert int(after.snapshot.queues.own_allocated[row, column]) >= held


@given(worlds(), ACTIONS)
def test_no_unit_of_the_victims_can_be_given_back(world: World, action: str) -> None:
    done = act(world.objects(), CONFIGS[action])
    for found in reasons(done):
        for unit in _units(found):
            assert _placed_without(world, CONFIGS[action], found, unit) is None


def _units(found: BundleRecords) -> list[Rows]:
    """What goes together: all that a gang loses if it is broken, else every pod by itself."""
    bundles = found.choice.bundles.taken(np.flatnonzero(found.choice.taken))
    broken = set(bundles.job[bundles.kind == BundleKind.WHOLE].tolist())
    owners = bundles.job[bundles.owners()]
    units: list[Rows] = [bundles.tasks[owners == job] for job in sorted(broken)]
    spared = bundles.tasks[~np.isin(owners, sorted(broken))]
    return [*units, *(np.split(spared, len(spared)) if len(spared) else [])]


def _placed_without(world: World, config: SchedulerConfig, found: BundleRecords, unit: Rows) -> list[Operation] | None:
    """The dry run of the same choice with one unit less, in a fresh session."""
    session = open_session(world.objects(), config)
    pending = session.snapshot.pending_tasks()
    mine = session.sort_tasks(pending[session.snapshot.tasks.job[pending] == found.need.job])
    tasks = needed_tasks(session, found.need.job, mine)
    victims = found.choice.victims[~np.isin(found.choice.victims, unit)]
    simulation = Simulation(session, found.need.job, session.statement())
    return simulation.placements(tasks, victims, Scope(found.choice.domain))


@given(worlds(waiting=3), ACTIONS)
def test_no_gang_keeps_running_below_its_minimum_inside_the_domain(world: World, action: str) -> None:
    session = act(world.objects(), CONFIGS[action])
    snapshot = session.snapshot
    for found in reasons(session):
        lo, hi = snapshot.topology.lo[found.choice.domain], snapshot.topology.hi[found.choice.domain]
        bundles = found.choice.bundles
        for job in bundles.job[found.choice.taken & (bundles.kind == BundleKind.WHOLE)].tolist():
            own = snapshot.tasks_of(job)
            inside = own[(snapshot.tasks.node[own] >= lo) & (snapshot.tasks.node[own] < hi)]
            assert (snapshot.tasks.status[inside] == TaskStatus.RELEASING).all()


@given(worlds(waiting=3), ACTIONS, st.integers(0, 2**32))
def test_the_same_cluster_gives_the_same_record_whatever_its_order(world: World, action: str, seed: int) -> None:
    def told(objects: Sequence[KubeObject]) -> list[tuple[str, str]]:
        session = act(objects, CONFIGS[action])
        ids = session.snapshot.tasks.ids
        victims = [(found, task) for found in reasons(session) for task in found.choice.victims.tolist()]
        return [(ids[task], found.of_task(task).text) for found, task in victims]

    objects = world.objects()
    shuffled = list(objects)
    Random(seed).shuffle(shuffled)
    assert told(objects) == told(objects) == told(shuffled)


@given(worlds(waiting=2), ACTIONS)
def test_the_reverse_eviction_is_not_legal_in_the_next_cycle(world: World, action: str) -> None:
    """Victims come back as pending pods, beneficiaries run where they were promised: nobody of those is evicted."""
    config = CONFIGS[action]
    session = act(world.objects(), config)
    gone, places = set(evicted(session)), promised(session)
    if not gone:
        return
    jobs = tuple(
        Job(
            job.name,
            tuple(
                "" if f"{job.name}-{k}" in gone else places.get(f"{job.name}-{k}", place)
                for k, place in enumerate(job.nodes)
            ),
            job.gpu,
            job.minimum,
            job.priority,
            job.queue,
            job.tier,
        )
        for job in world.jobs
    )
    again = act(World(world.racks, world.deserved, jobs).objects(), config)
    assert not set(evicted(again)) & set(places)
