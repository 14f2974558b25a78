"""Memory follows the present: whatever came and went, a cluster that looks as before takes as much room as before.

Short pods with names, labels, resources, roles, nodes, queues and gangs that nobody has had before come, are placed,
run, finish and go, as on a busy day. `make soak` lets a million through.
"""

from __future__ import annotations

import gc
import os
import sys
import types
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.api import KubeObject, Pod, PodGroup, Quantity
from muster.cluster.written_objects import updated_group
from muster.framework import find_config
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Bind, Event, Failure, JobUpdate
from muster.testing.builders import gang, node, pod, pod_group, queue

#: Cycles from the coming of a pod to its end, and to its going.
_RUNS = 2
_STAYS = 4


class Churn:
    """A cluster in which nothing stays; what is decided happens, and then it ends."""

    def __init__(self, n_lone: int) -> None:
        #: Pods of their own in each cycle.
        self._n_lone = n_lone
        self._events: deque[Event] = deque()
        self._objects: dict[tuple[type[KubeObject], str], KubeObject] = {}
        #: What goes at which cycle.
        self._going: dict[int, list[KubeObject]] = {}
        self._cycle = 0
        self.n_pods = 0
        self.n_bound = 0
        for number in range(8):
            self._put(node(f"n{number}", cpu=4 * n_lone, pods=4 * n_lone))
        self._put(queue("default"))

    # -- the protocol --------------------------------------------------------------------------------------

    def now(self) -> float:
        return 1_700_000_000.0 + self._cycle

    def poll(self) -> list[Event]:
        events = list(self._events)
        self._events.clear()
        return events

    def bind(self, decisions: Sequence[Bind]) -> list[Failure]:
        for made in decisions:
            found = self._objects[Pod, made.pod]
            assert isinstance(found, Pod)
            self.n_bound += 1
            status = replace(found.status, phase="Running")
            self._put(replace(found, spec=replace(found.spec, node_name=made.node), status=status))
        return []

    def update_jobs(self, updates: Sequence[JobUpdate]) -> list[Failure]:
        for made in updates:
            found = self._objects.get((PodGroup, made.job))
            if isinstance(found, PodGroup):
                self._put(updated_group(found, made, datetime.fromtimestamp(self.now(), UTC)))
        return []

    def _ignore(self, _decisions: Sequence[object]) -> list[Failure]:
        return []

    evict = nominate = update_hypernodes = update_queues = ungate = _ignore

    def update_quarantine(self, _updates: Sequence[object]) -> None:
        pass

    # -- what happens --------------------------------------------------------------------------------------

    def turn(self, *, busy: bool = True) -> None:
        """Let one cycle's worth come, end and go."""
        self._cycle += 1
        for thing in self._going.pop(self._cycle, ()):
            self._objects.pop((type(thing), thing.key), None)
            self._events.append(Event("DELETED", thing))
        for found in list(self._objects.values()):
            if isinstance(found, Pod) and found.status.phase == "Running" and self._age(found) >= _RUNS:
                phase = "Failed" if found.name.endswith("7") else "Succeeded"
                self._put(replace(found, status=replace(found.status, phase=phase)))
        if busy:
            for thing in self._newcomers(f"c{self._cycle}"):
                self._put(thing)
                self._going.setdefault(self._cycle + _STAYS, []).append(thing)
                self.n_pods += isinstance(thing, Pod)

    def _age(self, thing: KubeObject) -> int:
        return self._cycle - int(thing.metadata.labels.get("born", "0"))

    def _newcomers(self, mark: str) -> Iterator[KubeObject]:
        """Objects that differ from all before them in whatever can differ."""
        born = {"born": str(self._cycle)}
        for number in range(self._n_lone):
            yield pod(f"{mark}-lone-{number}", cpu=1, labels={**born, f"label-{mark}": mark}, annotations={mark: mark})
        yield _asking(pod(f"{mark}-odd", cpu=1, labels=born), f"example.com/{mark}")
        yield pod(f"{mark}-picky", cpu=1, labels=born, selector={f"key-{mark}": "x"})
        yield pod(f"{mark}-lost", cpu=1, labels=born, node=f"node-{mark}")
        yield pod(f"{mark}-promised", cpu=100, labels=born, nominated=f"node-{mark}")
        foreign = _asking(pod(f"{mark}-foreign", labels=born, node="n0"), f"example.com/foreign-{mark}")
        yield replace(foreign, spec=replace(foreign.spec, scheduler_name="another"))
        yield pod(f"{mark}-absurd", cpu="100P", labels=born)
        yield node(f"node-{mark}-new", cpu=4, others={f"example.com/{mark}": 1})
        yield queue(f"queue-{mark}", capability={f"example.com/queue-{mark}": 5})
        yield pod_group(f"{mark}-nowhere", queue=f"missing-{mark}", min_resources={f"example.com/group-{mark}": 1})
        yield pod(f"{mark}-orphan", group=f"{mark}-no-group", cpu=1, labels=born)
        for member in gang(f"{mark}-gang", 4, cpu=1):
            if isinstance(member, Pod):
                member.metadata.labels.update(born)
                member.metadata.annotations["volcano.sh/task-spec"] = f"role-{mark}-{member.name[-1]}"
            yield member
        # A gang that stays, of which no two pods are alike.
        yield pod(f"{mark}-guest", group="host", role=f"role-{mark}", cpu=1, labels=born)

    def _put(self, thing: KubeObject) -> None:
        place = (type(thing), thing.key)
        self._events.append(Event("MODIFIED" if place in self._objects else "ADDED", thing))
        self._objects[place] = thing


def _asking(thing: Pod, resource: str) -> Pod:
    container = thing.spec.containers[0]
    requests = {**container.resources.requests, resource: Quantity("1")}
    resources = replace(container.resources, requests=requests)
    return replace(thing, spec=replace(thing.spec, containers=[replace(container, resources=resources)]))


# -- what it takes -----------------------------------------------------------------------------------------------

_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType)


def size_of(root: object) -> tuple[int, int]:
    """How many objects can be reached from one, and their bytes; code and classes aside."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    n_bytes = 0
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, _SHARED):
            continue
        seen.add(id(found))
        n_bytes += sys.getsizeof(found)
        waiting.extend(gc.get_referents(found))
        if isinstance(found, dict):
            waiting.extend(found)  # keys that are texts are nobody's referents to the collector
    return len(seen), n_bytes


def test_what_is_reachable_is_counted() -> None:
    """The measure itself: it must see what a leak would leave."""
    before = size_of({"a": 1})
    after = size_of({"a": 1, "b": [object()]})
    assert after[0] == before[0] + 3
    assert after[1] > before[1]


def table_sizes(scheduler: Scheduler) -> dict[str, int]:
    picture = scheduler.observe()
    return {
        "tasks": len(picture.tasks),
        "jobs": len(picture.jobs),
        "roles": len(picture.roles),
        "sub-groups": len(picture.subgroups),
        "classes": len(picture.classes),
        "resources": len(picture.axis),
        "nodes": len(picture.nodes),
        "queues": len(picture.queues),
        "quarantined": len(scheduler.mirror.quarantine),
    }


def settled(scheduler: Scheduler, churn: Churn) -> tuple[dict[str, int], tuple[int, int]]:
    """Let everything go, and measure."""
    for _ in range(_STAYS + 2):
        churn.turn(busy=False)
        result = scheduler.run_once()
        assert result.error is None, result.error
    sizes = table_sizes(scheduler)
    scheduler.last_session = None
    gc.collect()
    return sizes, size_of((scheduler.mirror, scheduler.intake, scheduler._verdicts, scheduler._unchanged))


def churned(n_pods: int, profile: str, n_lone: int = 8) -> None:
    churn = Churn(n_lone)
    churn._put(pod_group("host"))
    churn._put(pod("host-0", group="host", node="n1", cpu=1, labels={"born": "1000000000"}))
    scheduler = Scheduler(churn, find_config(profile), builtin_registry(), scheduler_names=["volcano", ""])
    scheduler.run_once()
    before, _ = settled(scheduler, churn)

    def let_through(count: int) -> tuple[dict[str, int], tuple[int, int]]:
        end = churn.n_pods + count
        while churn.n_pods < end:
            churn.turn()
            result = scheduler.run_once()
            assert result.error is None, result.error
        return settled(scheduler, churn)

    warm = let_through(max(200, n_pods // 100))
    after = let_through(n_pods)
    assert warm[0] == before, "the tables after a little"
    assert after[0] == before, "the tables after a lot"
    n_objects, n_bytes = warm[1]
    assert after[1][0] <= n_objects + 20, f"{after[1][0]} objects where {n_objects} were"
    assert after[1][1] <= n_bytes * 1.01 + 4096, f"{after[1][1]} bytes where {n_bytes} were"
    assert churn.n_bound > n_pods // 4, "the day was busy"


@pytest.mark.parametrize("profile", ["muster", "volcano"])
def test_a_busy_morning_leaves_nothing_behind(profile: str) -> None:
    churned(1000, profile)


@pytest.mark.soak
def test_a_day_of_a_million_pods_leaves_nothing_behind() -> None:
    churned(int(os.environ.get("MUSTER_CHURN", "1000000")), "muster", n_lone=500)
