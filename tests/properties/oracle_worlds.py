"""Tiny random clusters for the oracle: a network that is partly full, gangs that wait, and others that run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from muster.api import KaiPodGroup, KubeObject, Pod, PodGroup
from muster.api.names import PREEMPTABLE
from muster.testing import pod, pod_group, priority_class
from tests.properties.oracle_gangs import KINDS, Gang, Network, gangs, networks
from tests.reference.exact_starts import Amounts, Held, places

PRIORITIES = {"low": 10, "middle": 50, "high": 90}


def less(free: Mapping[str, Amounts], taken: Iterable[tuple[str, Amounts]]) -> dict[str, Amounts]:
    """What is free once so much more is taken of nodes."""
    left = dict(free)
    for name, asked in taken:
        left[name] = tuple(have - want for have, want in zip(left[name], asked, strict=True))
    return left


@dataclass
class World:
    """A cluster with pods that run for good, and gangs of which pods wait."""

    network: Network
    free: dict[str, Amounts]
    gangs: list[Gang]
    fillers: list[KubeObject] = field(repr=False)
    #: Where pods of the gangs run from the beginning; `free` is what they leave.
    held: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What the solver reads: objects as well would bury it."""
        gangs = "".join(f"\n  {gang.name}, {gang.kind}, soft {gang.soft}: {gang.demand}" for gang in self.gangs)
        return f"nodes {self.network.nodes}\ndomains {self.network.domains}\nfree {self.free}\nheld {self.held}{gangs}"

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def objects(self) -> list[KubeObject]:
        return [*self.network.objects, *self.fillers, *(thing for gang in self.gangs for thing in gang.objects)]

    def hold(self, gang: Gang, where: Mapping[str, str]) -> None:
        """Let pods of a gang run from the beginning."""
        self.free = less(self.free, ((name, gang.demand.pods[pod]) for pod, name in where.items()))
        self.held |= where
        for thing in gang.objects:
            if isinstance(thing, Pod) and thing.metadata.name in where:
                thing.spec.node_name = where[thing.metadata.name]
                thing.status.phase = "Running"
            elif isinstance(thing, PodGroup | KaiPodGroup) and where:
                thing.status.phase = "Running"


@dataclass
class Crowd:
    """A world whose gangs are more important than others that run: by pod, their node and what they ask for."""

    world: World
    others: dict[str, tuple[str, Amounts]]
    running: list[KubeObject] = field(repr=False)

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def free(self) -> dict[str, Amounts]:
        """What is left beside the others."""
        return less(self.world.free, self.others.values())

    @property
    def objects(self) -> list[KubeObject]:
        classes = [priority_class(name, value) for name, value in PRIORITIES.items()]
        return [*classes, *self.world.objects, *self.running]


@st.composite
def crowds(draw: st.DrawFn, kind: str, *, most_gangs: int = 1) -> Crowd:
    """A world with gangs, the first of a kind, and lone pods or pairs that would have to go for them."""
    world = draw(worlds(kind, most_gangs=most_gangs))
    for gang in world.gangs:
        priority = "high" if gang is world.gangs[0] else draw(st.sampled_from(["high", "middle"]))
        for thing in gang.objects:
            assert isinstance(thing, Pod | PodGroup | KaiPodGroup)
            thing.spec.priority_class_name = priority
    for thing in world.fillers:
        thing.metadata.annotations[PREEMPTABLE] = "false"
    crowd = Crowd(world, {}, [])
    for name in sorted(world.network.nodes):
        for number in range(draw(st.integers(1, 4))):
            asked, left = (*draw(st.sampled_from([(1, 1), (2, 2), (4, 2), (2, 0)])), 1), crowd.free[name]
            if any(want > have for want, have in zip(asked, left, strict=True)):
                continue
            job = f"other-{name}-{number}" if draw(st.booleans()) else f"pair-{number}"
            pod_name = f"{job}-{name}"
            crowd.others[pod_name] = (name, asked)
            if not any(thing.metadata.name == job for thing in crowd.running):
                crowd.running.append(pod_group(job, minimum=1, priority_class="low", phase="Running"))
            made = pod(pod_name, group=job, cpu=asked[0], gpu=asked[1], node=name, grace_seconds=1)
            made.spec.priority_class_name = "low"
            crowd.running.append(made)
    return crowd


@st.composite
def worlds(draw: st.DrawFn, kind: str, *, others: Sequence[str] = KINDS, most_gangs: int = 1) -> World:
    """A cluster, partly full, with one gang of the kind; with more gangs, the others are of any kind that fits it."""
    network = draw(networks(labelled=kind == "nested"))
    free = dict(network.nodes)
    fillers: list[KubeObject] = []
    for name in sorted(network.nodes):
        cpu, gpu = draw(st.sampled_from([(0, 0), (0, 0), (1, 1), (2, 2), (4, 2)]))
        if (cpu or gpu) and cpu <= free[name][0] and gpu <= free[name][1]:
            free = less(free, [(name, (cpu, gpu, 1))])
            fillers.append(pod(f"filler-{name}", cpu=cpu, gpu=gpu, node=name))
    beside = [kind] if kind == "nested" else [other for other in others if other != "nested"]
    more = "bc"[: draw(st.integers(0, most_gangs - 1))]
    made = [draw(gangs(name, draw(st.sampled_from(beside)), network)) for name in more]
    return World(network, free, [draw(gangs("a", kind, network)), *made], fillers)


@st.composite
def started_worlds(draw: st.DrawFn, kind: str) -> World:
    """A world whose gang has started, and has lost some of its pods since or has more that wait."""
    world = draw(worlds(kind))
    [gang] = world.gangs
    whole = places(gang.demand, Held(world.free), at_least=draw(st.integers(0, len(gang.demand.pods))))
    if whole:
        lost = draw(st.sets(st.sampled_from(sorted(whole)), max_size=2))
        world.hold(gang, {pod: name for pod, name in whole.items() if pod not in lost})
    return world
