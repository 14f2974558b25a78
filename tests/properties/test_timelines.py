"""Timelines in every profile: gangs arrive, pods end, nodes go away and come back; what holds after every cycle.

Judged from the objects in the cluster alone: what pods ask for, what nodes offer, what gangs demand as plain data. No
node is overfull, now or once promises are kept; what is bound of a gang is bound at or above all its minimums and
within its levels, in the first cycle and in later ones; and the order in which objects are listed decides nothing.
"""

from __future__ import annotations

import copy
import os
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from muster.api import KaiPodGroup, KubeObject, Node, Pod, PodGroup
from muster.api.names import RUN_SECONDS
from muster.cluster import MemoryCluster
from muster.framework import profile
from muster.scheduler import Scheduler, builtin_registry
from muster.snapshot.messages import Bind, Evict
from muster.testing import priority_class
from muster.testing.builders import moment
from tests.properties.oracle_gangs import KINDS, Gang, Network, gangs, networks
from tests.properties.oracle_worlds import PRIORITIES
from tests.properties.told import told
from tests.reference.exact_starts import Amounts, breaches

REGISTRY = builtin_registry(third_party=False)
START = 1_000_000.0
CYCLES = 20
#: Few, since each is played twice, cycle by cycle.
_OFTEN = settings(derandomize=os.environ.get("MUSTER_SOAK") != "1")
STEADY = settings(_OFTEN, max_examples=max(1, _OFTEN.max_examples // 12))


@dataclass
class Timeline:
    """A cluster, gangs by the second at which they arrive, and when nodes are away."""

    network: Network
    gangs: list[tuple[int, Gang]]
    #: Name, from, until.
    away: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def objects(self) -> list[KubeObject]:
        """All that is there at some time."""
        later = [thing for _, gang in self.gangs for thing in gang.objects]
        return [*(priority_class(*known) for known in PRIORITIES.items()), *self.network.objects, *later]


@st.composite
def timelines(draw: st.DrawFn, kind: str) -> Timeline:
    network = draw(networks(labelled=kind == "nested"))
    beside = ["nested"] if kind == "nested" else [other for other in KINDS if other != "nested"]
    made = []
    for number, name in enumerate("abcd"[: draw(st.integers(2, 4))]):
        gang = draw(gangs(name, kind if number == 0 else draw(st.sampled_from(beside)), network))
        priority = draw(st.sampled_from(sorted(PRIORITIES)))
        for thing in gang.objects:
            assert isinstance(thing, Pod | PodGroup | KaiPodGroup)
            thing.spec.priority_class_name = priority
            if isinstance(thing, Pod):
                thing.spec.termination_grace_period_seconds = draw(st.sampled_from([0, 1, 3]))
                seconds = draw(st.sampled_from([None, None, 4, 9]))
                thing.metadata.annotations |= {} if seconds is None else {RUN_SECONDS: str(seconds)}
        arrival = draw(st.integers(0, 8)) if number else 0
        for thing in gang.objects:  # else the embedded cluster tells their ages by the order in which they are listed
            thing.metadata.creation_timestamp = moment(START + arrival)
        made.append((arrival, gang))
    away = []
    for name in draw(st.lists(st.sampled_from(sorted(network.nodes)), max_size=2, unique=True)):
        since = draw(st.integers(1, 12))
        away.append((name, since, since + draw(st.integers(1, 10))))
    return Timeline(network, made, away)


@dataclass
class Play:
    """A timeline as it is played."""

    timeline: Timeline
    cluster: MemoryCluster
    scheduler: Scheduler
    #: What was decided, cycle by cycle, in words.
    story: list[list[str]] = field(default_factory=list)

    def step(self, second: int) -> tuple[dict[str, str], int]:
        """Let happen what happens in this second, run a cycle; the binds, and how many pods were evicted."""
        nodes = {thing.name: thing for thing in self.timeline.network.objects if isinstance(thing, Node)}
        for name, since, until in self.timeline.away:
            if second == since and (found := self.cluster.find(Node, name)) is not None:
                self.cluster.delete(found)
            if second == until:
                self.cluster.add([copy.deepcopy(nodes[name])])
        for arrival, gang in self.timeline.gangs:
            if arrival == second:
                self.cluster.add(copy.deepcopy(gang.objects))
        result = self.scheduler.run_once()
        assert result.error is None
        assert result.failures == ()
        decided = result.decisions
        self.story.append([f"{type(made).__name__} {made.pod} {getattr(made, 'node', '')}" for made in decided])
        binds = {made.pod.removeprefix("default/"): made.node for made in decided if isinstance(made, Bind)}
        return binds, sum(isinstance(made, Evict) for made in decided)


def play(timeline: Timeline, profile_name: str, *, seed: int | None = None) -> Play:
    """A timeline at its beginning; `seed`: with the objects listed in another order."""
    objects = [*(priority_class(*known) for known in PRIORITIES.items()), *copy.deepcopy(timeline.network.objects)]
    if seed is not None:
        Random(seed).shuffle(objects)
        gangs = [(arrival, copy.deepcopy(gang)) for arrival, gang in timeline.gangs]
        for _, gang in gangs:
            Random(seed).shuffle(gang.objects)
        timeline = Timeline(timeline.network, gangs, timeline.away)
    cluster = MemoryCluster(objects, start=START)
    return Play(timeline, cluster, Scheduler(cluster, profile(profile_name), REGISTRY))


def check_nodes(done: Play, asked: dict[str, Amounts]) -> None:
    """No node has more pods on it than it can hold, nor will have once promises are kept."""
    now: defaultdict[str, list[str]] = defaultdict(list)
    later: defaultdict[str, list[str]] = defaultdict(list)
    for pod in done.cluster.store.all(Pod):
        if pod.spec.node_name and pod.status.phase in ("Pending", "Running"):
            now[pod.spec.node_name].append(pod.name)
            if pod.metadata.deletion_timestamp is None:
                later[pod.spec.node_name].append(pod.name)
        elif not pod.spec.node_name and pod.status.nominated_node_name:
            later[pod.status.nominated_node_name].append(pod.name)
    for picture in (now, later):
        for name, pods in picture.items():
            used = [sum(amounts) for amounts in zip(*(asked[pod] for pod in pods), strict=True)]
            room = done.timeline.network.nodes[name]
            assert all(have <= most for have, most in zip(used, room, strict=True)), f"{name} holds {sorted(pods)}"


def check_gang(done: Play, gang: Gang, bound: dict[str, str]) -> None:
    """A gang of which pods were just bound has its minimums, and keeps its levels."""
    new = {pod for pod in bound if pod in gang.demand.pods}
    if not new:
        return
    pods = [pod for pod in done.cluster.store.all(Pod) if pod.name in gang.demand.pods]
    there = {pod.name: pod.spec.node_name for pod in pods if pod.metadata.deletion_timestamp is None}
    present = {name: node for name, node in there.items() if node}
    ended = {pod.name for pod in pods if pod.status.phase in ("Succeeded", "Failed")}
    running = {name: node for name, node in present.items() if name not in ended}
    levels = [wrong for wrong in breaches(gang.demand, done.timeline.network.nodes, running) if "pods" not in wrong]
    assert not any("spread" in wrong or "may not" in wrong for wrong in levels), f"{gang.name} {running}: {levels}"
    ready = []
    for number, part in enumerate(gang.demand.parts):
        own = part.pods & present.keys()
        ready.append(len(own) >= max(1, part.minimum))
        if own & new or not part.may_stay_out:
            assert len(own) >= part.minimum, f"part {number} of {gang.name} has {sorted(own)} of {part.minimum}"
    for numbers, least in gang.demand.at_least:
        assert sum(ready[number] for number in numbers) >= least, f"{gang.name} has too few of its sub-groups"


def check_timeline(timeline: Timeline, profile_name: str) -> None:
    first, other = play(timeline, profile_name), play(timeline, profile_name, seed=1)
    asked = {pod: amounts for _, gang in timeline.gangs for pod, amounts in gang.demand.pods.items()}
    n_bound = n_evicted = 0
    for second in range(CYCLES):
        bound, evicted = first.step(second)
        n_bound, n_evicted = n_bound + len(bound), n_evicted + evicted
        check_nodes(first, asked)
        for _, gang in timeline.gangs:
            check_gang(first, gang, bound)
        other.step(second)
        assert sorted(first.story[-1]) == sorted(other.story[-1]), "the order of objects decided something"
        for run in (first, other):
            run.cluster.advance_to(START + second + 1)
    event(f"bound {n_bound > 0}, evicted {n_evicted > 0}")


@pytest.mark.parametrize("profile_name", ["muster", "volcano", "kai"])
@pytest.mark.parametrize("kind", KINDS)
@STEADY
@given(data=st.data())
def test_what_is_bound_keeps_the_rules_whatever_happens(kind: str, profile_name: str, data: st.DataObject) -> None:
    timeline = data.draw(timelines(kind))
    with told(timeline.objects, profile_name):
        check_timeline(timeline, profile_name)
