"""The cases: what is built, and what is timed.

A case is a function that fills a mirror; the timed part is always the same: snapshot, session with the plugins of
docs/performance.md, and the allocate action, on a mirror that is already filled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import clusters
from muster.framework import SchedulerConfig, parse_config
from muster.snapshot import Mirror

CONFIG = """
actions: "allocate"
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
    bound: int


def config() -> SchedulerConfig:
    """The plugins that the peers were measured with."""
    return parse_config(CONFIG, "benchmark configuration")


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


CASES: tuple[Case, ...] = (
    Case("A1", "1,000 nodes, 1,000 one-GPU tasks in gangs of 8", 0.030, _empty(1000, 1000), 1000),
    Case("A2", "1,000 nodes, 10,000 such tasks (8,000 fit)", 0.250, _empty(1000, 10000), 8000),
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
)
