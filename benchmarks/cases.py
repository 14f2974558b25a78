"""The cases: what is built, and what is timed.

A case is a function that fills a mirror; the timed part is always the same: snapshot, session with the plugins of
docs/performance.md, and the allocate action, on a mirror that is already filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import clusters
from muster.framework import SchedulerConfig, parse_config, profile_yaml
from muster.snapshot import Mirror

CONFIG = """
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 10
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One benchmark."""

    name: str
    work: str
    #: What the project wants to reach, seconds.
    goal: float
    build: Callable[[Mirror], None]
    #: What must come out, so that it is certain that the work was done.
    bound: int = 0
    pipelined: int | None = 0
    #: None: not known beforehand.
    evicted: int | None = 0
    #: Adds the plugins network-topology-aware and propose.
    topology: bool = False
    actions: str = "allocate"
    #: Lines of the section `configurations`.
    options: str = ""
    #: Takes the plugins of a profile instead of those below.
    profile: str = ""


TOPOLOGY_CONFIG = """\
  - name: network-topology-aware
    arguments:
      weight: 10
  - name: propose
"""


def config(case: Case) -> SchedulerConfig:
    """The plugins that the peers were measured with; with topology also the one that proposes domains."""
    if case.profile:
        tiers = profile_yaml(case.profile).partition("tiers:")[2].partition("configurations:")[0]
        return parse_config(f'actions: "{case.actions}"\ntiers:{tiers}' + case.options, "benchmark configuration")
    text = f'actions: "{case.actions}"\n' + CONFIG + (TOPOLOGY_CONFIG if case.topology else "") + case.options
    return parse_config(text, "benchmark configuration")


def _empty(nodes: int, tasks: int, queues: int = 1) -> Callable[[Mirror], None]:
    def build(mirror: Mirror) -> None:
        clusters.add_nodes(mirror, nodes)
        clusters.add_pending(mirror, tasks, clusters.add_queues(mirror, queues))

    return build


def _busy(nodes: int, running: int, tasks: int, classes: int) -> Callable[[Mirror], None]:
    def build(mirror: Mirror) -> None:
        clusters.add_nodes(mirror, nodes)
        queues = clusters.add_queues(mirror, 1)
        clusters.fill(mirror, running, nodes, queues[0])
        clusters.add_pending(mirror, tasks, queues, classes)

    return build


def _topology(nodes: int, tasks: int, tier: int) -> Callable[[Mirror], None]:
    """One gang of whole-node tasks on an empty cluster of racks and spines of 16."""

    def build(mirror: Mirror) -> None:
        clusters.add_nodes(mirror, nodes)
        clusters.add_topology(mirror, nodes)
        queues = clusters.add_queues(mirror, 1)
        clusters.add_gang(mirror, "gang", queues[0], tasks, clusters.requests(8), topology=clusters.hard(tier))

    return build


def _crowded(tasks: int) -> Callable[[Mirror], None]:
    """6,144 nodes under 9,600 HyperNodes, 60 % taken at random: pairs of nodes, racks, rows, halls."""

    def build(mirror: Mirror) -> None:
        nodes = 6144
        clusters.add_nodes(mirror, nodes)
        _deep_tree(mirror, nodes)
        queues = clusters.add_queues(mirror, 1)
        clusters.fill_at_random(mirror, nodes, 0.6, queues[0])
        clusters.add_gang(mirror, "gang", queues[0], tasks, clusters.requests(8), topology=clusters.hard(4))

    return build


def _deep_tree(mirror: Mirror, nodes: int) -> None:
    """HyperNodes of one node, then groups of 2, 8 and 2,048: 6,144 + 3,072 + 384 + 3 = about 9,600."""
    below = [clusters.node_name(i) for i in range(nodes)]
    kind = "Node"
    for tier, size in ((1, 1), (2, 2), (3, 8), (4, 128)):
        names = [f"t{tier}-{k:05d}" for k in range(-(-len(below) // size))]
        for k, name in enumerate(names):
            mirror.upsert(clusters.hyper_node(name, tier, kind, below[k * size : (k + 1) * size]))
        below, kind = names, "HyperNode"


def _partitioned(jobs: int) -> Callable[[Mirror], None]:
    def build(mirror: Mirror) -> None:
        nodes = 5120
        clusters.add_nodes(mirror, nodes)
        clusters.add_topology(mirror, nodes)
        queues = clusters.add_queues(mirror, 1)
        for i in range(jobs):
            clusters.add_gang(
                mirror,
                f"job-{i:03d}",
                queues[0],
                64,
                clusters.requests(8),
                topology=clusters.hard(2),
                partition=8,
            )

    return build


def _parted(free_in_spines: Sequence[Sequence[int]]) -> Callable[[Mirror], None]:
    """40 spines of 50 nodes (three racks of 16, two nodes of their own), 60 % full, and 40 jobs that need one each.

    A job has two partitions of 4 pods, one of 3 and a master, all of whole nodes. `free_in_spines`, for one spine after
    the other and then again: whole nodes free in each rack, and outside of them; the others are half free at best.
    """

    def build(mirror: Mirror) -> None:
        spines, size, rack = 40, 50, 16
        clusters.add_nodes(mirror, spines * size)
        queues = clusters.add_queues(mirror, 1)
        for number in range(spines):
            nodes = [clusters.node_name(number * size + i) for i in range(size)]
            parts = [nodes[:rack], nodes[rack : 2 * rack], nodes[2 * rack : 3 * rack], nodes[3 * rack :]]
            names = [f"rack-{number:02d}-{k}" for k in range(3)]
            for name, members in zip(names, parts, strict=False):
                mirror.upsert(clusters.hyper_node(name, 1, "Node", members))
            mirror.upsert(clusters.spine(f"spine-{number:02d}", names, parts[-1]))
            taken = [
                node
                for part, free in zip(parts, free_in_spines[number % len(free_in_spines)], strict=True)
                for node in part[free:]
            ]
            for k, node in enumerate(taken):
                gpus = clusters.requests(4 if k % 2 else 8)
                clusters.add_gang(mirror, f"busy-{node}", queues[0], 1, gpus, nodes=iter([node]))
        for i in range(40):
            clusters.add_parted_gang(mirror, f"job-{i:03d}", queues[0], {"a": (2, 4), "b": (1, 3)})

    return build


#: In the first of three spines the master, served in order, takes a node that a partition needs.
_TIGHT = ((4, 4, 3, 1), (5, 5, 4, 1), (5, 5, 4, 1))
#: As many free nodes as a job needs, but no rack for the third partition.
_TOO_TIGHT = ((4, 4, 2, 2),)

ALLOCATE_CASES: tuple[Case, ...] = (
    Case("A1", "1,000 nodes, 1,000 one-GPU tasks in gangs of 8", 0.030, _empty(1000, 1000), 1000),
    Case("A2", "1,000 nodes, 10,000 such tasks (8,000 fit)", 0.040, _empty(1000, 10000), 8000),
    Case("A3/1-queue", "5,000 nodes, 1,000 tasks, one queue", 0.060, _empty(5000, 1000), 1000),
    Case("A3/50-queues", "5,000 nodes, 1,000 tasks, 50 queues", 0.060, _empty(5000, 1000, 50), 1000),
    Case("A4", "5,000 nodes, 10,000 tasks", 0.400, _empty(5000, 10000), 10000),
    Case(
        "A5",
        "5,000 nodes, 30,000 running pods, 10,000 pending tasks of 40 classes",
        0.600,
        _busy(5000, 30000, 10000, 40),
        10000,
    ),
    Case(
        "A6",
        "20,000 nodes, 100,000 running pods, 20,000 pending tasks of 40 classes",
        2.000,
        _busy(20000, 100000, 20000, 40),
        20000,
    ),
    Case(
        "A7",
        "nothing fits: 5,000 full nodes, 10,000 pending tasks of 40 classes",
        0.150,
        _busy(5000, 40000, 10000, 40),
        0,
    ),
    Case(
        "A8",
        "100,000 nodes, 500,000 running pods, 20,000 pending tasks of 40 classes",
        1.500,
        _busy(100000, 500000, 20000, 40),
        20000,
    ),
    Case(
        "B1",
        "1,024 nodes, one gang of 1,000 x 8 GPUs, hard tier 3",
        0.040,
        _topology(1024, 1000, 3),
        1000,
        topology=True,
    ),
    Case("B1b", "5,000 nodes, the same gang", 0.080, _topology(5000, 1000, 3), 1000, topology=True),
    Case(
        "B2/1024",
        "1,024 nodes, one gang of 256 x 8 GPUs, hard tier 2",
        0.020,
        _topology(1024, 256, 2),
        256,
        topology=True,
    ),
    Case("B2/5000", "5,000 nodes, the same gang", 0.040, _topology(5000, 256, 2), 256, topology=True),
    Case("B3/fits", "6,144 nodes, 9,600 HyperNodes, 60 % full, 512 x 8 GPUs", 0.100, _crowded(512), 512, topology=True),
    Case("B3/hopeless", "the same with 2,000 x 8 GPUs, which fit nowhere", 0.100, _crowded(2000), 0, topology=True),
    Case(
        "B4",
        "5,120 nodes, 50 jobs of 8 partitions x 8 pods, tiers 2 and 1",
        1.000,
        _partitioned(50),
        3200,
        topology=True,
    ),
    Case(
        "B5",
        "2,000 nodes, 60 % full, 40 jobs of two policies and a master; a third is not found in order",
        0.400,
        _parted(_TIGHT),
        480,
        topology=True,
    ),
    Case("B6", "the same where none fits", 0.400, _parted(_TOO_TIGHT), 0, topology=True),
)
